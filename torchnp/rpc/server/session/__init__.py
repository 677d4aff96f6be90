"""One session: decode frames, check arguments, run kernels, store objects, send replies.

Imports `torchnp.rpc.wire`, `torchnp.rpc.server.privacy`, `torchnp.rpc.server.config` and `torchnp.rpc.server.monitoring`. No torch.
"""
