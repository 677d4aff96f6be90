"""Processes of a server: one worker for each session, and the fork server that starts them.

Imports `torchnp.rpc.wire`, `torchnp.rpc.server.config`, `torchnp.rpc.server.monitoring` and `torchnp.rpc.server.session`. No torch.
"""
