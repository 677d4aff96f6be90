"""Server side of remote tensors. It uses NumPy and no torch."""
