"""Where calls come from: torch's OpInfo samples, rows of our own, what models call, and calls drawn from the schemas."""
