"""The operator table and its parts: schemas, the kernel registry, argument checks, torch's error messages.

Imports `torchnp.layout`, `torchnp.derived` and, when the table is first read, `torchnp.kernels`.
"""
