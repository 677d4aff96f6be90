"""The processes of a server: a worker for each session, and the fork server that starts workers.

Imports `torchnp.rpc.wire` and the packages `config`, `monitoring` and `session` of `torchnp.rpc.server`, and no torch.
"""
