"""One session on the server: frames in, arguments checked, kernels run, objects stored, replies out.

May import `torchnp.rpc.server.privacy`, `torchnp.rpc.wire` and `torchnp.core`; never torch.
"""
