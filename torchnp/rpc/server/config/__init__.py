"""Configuration that the server's owner gives: settings, limits, datasets, tokens.

Imports `torchnp.rpc.wire` and `torchnp.rpc.server.privacy`, and no torch.
"""
