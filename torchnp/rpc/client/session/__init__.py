"""Client sessions: connecting, batching and numbering frames, and matching replies.

Imports `torchnp.rpc.wire`, the other rooms of `torchnp.rpc.client`, and for sessions in process
`torchnp.rpc.server.config` and `torchnp.rpc.server.session`.
"""
