"""Transports of a server: listening, TLS, gRPC, and limits on unauthenticated clients.

Imports `torchnp.rpc.wire` and the other rooms of `torchnp.rpc.server`. No torch.
"""
