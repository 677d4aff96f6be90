"""The proof of the differences: compare torch with NumPy's natural calls, and account for each disagreement."""
