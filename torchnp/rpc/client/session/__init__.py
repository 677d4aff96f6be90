"""Client sessions: connecting, batching and numbering frames, and matching replies.

Imports `torchnp.rpc.wire`, the other packages of `torchnp.rpc.client` and, for in-process sessions,
`torchnp.rpc.server.config` and `torchnp.rpc.server.session`.
"""
