"""The transports of a server: listening, TLS, gRPC, and limits on unauthenticated clients.

Imports `torchnp.rpc.wire` and the other subpackages of `torchnp.rpc.server`, and no torch.
"""
