"""Sources of calls: torch's OpInfo samples, the rows of `samples.extra`, calls of models, calls drawn from schemas."""
