"""Operators of aten on shares. Importing the package registers them in `torchnp.mpc.operators.registry.OPS`."""
