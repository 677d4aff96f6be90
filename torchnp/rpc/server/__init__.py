"""What stands on the server: NumPy and no torch."""
