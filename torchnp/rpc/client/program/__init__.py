"""Remote programs: a function of handles is recorded once, stored on the server, and called by its hash.

May import the other rooms of `torchnp.rpc.client`.
"""
