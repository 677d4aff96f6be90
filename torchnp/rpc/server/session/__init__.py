"""One session: it decodes frames, checks arguments, runs kernels, stores objects and sends replies.

Imports `torchnp.rpc.wire` and the packages `privacy`, `config` and `monitoring` of `torchnp.rpc.server`, and no torch.
"""
