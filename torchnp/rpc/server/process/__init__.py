"""Processes of a server: one for each session, the fork server that starts them, counters, metrics and the event log.

May import `torchnp.rpc.server.session` and `torchnp.rpc.server.config`; never torch.
"""
