"""The proof of the differences: NumPy's counterparts, called as a porter would, against torch, each disagreement accounted for."""
