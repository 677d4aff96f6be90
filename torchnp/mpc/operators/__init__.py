"""Operators of aten on shares. Importing the modules registers them in `torchnp.mpc.operators.registry.OPS`."""
