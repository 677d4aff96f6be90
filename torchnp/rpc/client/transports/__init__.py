"""Client transports, which carry frames and replies: in process, TCP, TLS or gRPC, with reconnection.

Imports `torchnp.rpc.wire`.
"""
