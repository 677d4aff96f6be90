"""Server side of remote tensors: NumPy only, no torch."""
