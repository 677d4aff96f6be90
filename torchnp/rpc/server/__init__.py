"""The server side of remote tensors, which uses NumPy and no torch."""
