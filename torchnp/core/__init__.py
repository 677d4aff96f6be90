"""The table of operators and what it is made of: schemas, the registry of kernels, checks, torch's error messages.

Imports `torchnp.layout`, `torchnp.derived` and, when the table is first read, `torchnp.kernels`.
"""
