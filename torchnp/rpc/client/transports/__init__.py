"""How a client's frames reach a server: in process, TCP, TLS or gRPC, with reconnection.

May import `torchnp.rpc.wire` and `torchnp.rpc.exceptions`; never torch.
"""
