"""The proof of the differences: compares torch with equivalent NumPy calls, and explains each disagreement."""
