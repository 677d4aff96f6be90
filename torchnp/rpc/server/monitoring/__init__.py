"""Monitoring of a server: event log, counters, metrics, and limits on the resources of its processes.

Imports `torchnp.rpc.server.privacy`, and no torch.
"""
