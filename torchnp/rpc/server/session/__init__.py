"""One session: frames in, arguments checked, kernels run, objects stored, replies out.

Imports `torchnp.rpc.wire`, `torchnp.rpc.server.privacy`, `torchnp.rpc.server.config` and `torchnp.rpc.server.monitoring`. No torch.
"""
