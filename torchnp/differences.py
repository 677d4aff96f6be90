"""Each difference between NumPy and torch once, runnable."""

CATALOGUE = {}
