"""The op table and what it is made of: schemas, the registry of kernels, checks and error messages.

May import `torchnp.layout`, `torchnp.derived` and top-level modules such as `torchnp.dtypes`; never torch.
"""
