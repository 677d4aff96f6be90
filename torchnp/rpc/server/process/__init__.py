"""The processes of a server: a worker for each session, and the fork server that starts workers.

Imports `torchnp.rpc.wire`, `torchnp.rpc.server.config`, `torchnp.rpc.server.monitoring` and `torchnp.rpc.server.session`. No torch.
"""
