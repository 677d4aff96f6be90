"""Samples: torch's OpInfo, calls that models make, samples of other libraries, and our own samples (`extra`)."""
