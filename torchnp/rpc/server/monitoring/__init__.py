"""Monitoring of a server: event log, counters, metrics, and resource limits of its processes.

Imports `torchnp.rpc.server.privacy`. No torch.
"""
