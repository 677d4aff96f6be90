"""Remote programs: a function that works on handles is recorded, stored on the server, and called by its hash.

Imports `torchnp.rpc.wire`, `torchnp.rpc.client.transports` and `torchnp.rpc.client.tensor`.
"""
