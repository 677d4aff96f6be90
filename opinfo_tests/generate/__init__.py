"""Sources of calls: torch's OpInfo samples, our own rows, calls that models make, and calls drawn from schemas."""
