"""A client's session: connecting, batching and numbering frames, errors, and published results.

May import the other rooms of `torchnp.rpc.client`.
"""
