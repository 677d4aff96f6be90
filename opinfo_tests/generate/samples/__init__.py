"""Samples: torch's OpInfo, calls that models make, other libraries' samples, and the rows of `extra`."""
