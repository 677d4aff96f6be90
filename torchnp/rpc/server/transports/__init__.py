"""How clients reach a server: listening, TLS, gRPC, and limits on strangers.

Imports `torchnp.rpc.wire` and the other rooms of `torchnp.rpc.server`. No torch.
"""
