"""One session: it decodes frames, checks arguments, runs kernels, stores objects and sends replies.

Imports `torchnp.rpc.wire`, `torchnp.rpc.server.privacy`, `torchnp.rpc.server.config` and `torchnp.rpc.server.monitoring`. No torch.
"""
