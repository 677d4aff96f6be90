"""Sources of calls: torch's OpInfo samples, our own samples, calls of models, and random calls from schemas."""
