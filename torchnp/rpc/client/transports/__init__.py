"""How frames reach a server and replies come back: in process, TCP, TLS or gRPC, with reconnection.

Imports `torchnp.rpc.wire`.
"""
