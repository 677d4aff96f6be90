"""How clients reach a server: listening, TLS, framing, gRPC, and limits on strangers.

May import the other rooms of `torchnp.rpc.server`; never torch.
"""
