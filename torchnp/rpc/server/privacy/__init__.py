"""Private data: row labels and the kernels that keep them, noised releases, the ledger, and reply timing.

May import `torchnp.rpc.wire`, `torchnp.core` and `torchnp.kernels`; never torch.
"""
