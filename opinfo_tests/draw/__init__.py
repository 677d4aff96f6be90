"""Where calls come from: torch's OpInfo samples, rows of our own, and calls drawn from the schemas."""
