"""What a server tells of itself: the event log, counters, metrics, and bounds on its memory.

Imports `torchnp.rpc.server.privacy`. No torch.
"""
