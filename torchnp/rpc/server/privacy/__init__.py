"""Private data: row labels and the kernels that keep them, noised releases, the ledger, and the timing of replies.

Imports `torchnp.rpc.wire` and `torchnp.rpc.server.session.object_store`, and no torch.
"""
