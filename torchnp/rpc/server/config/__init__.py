"""Server configuration by its owner: settings, limits, datasets, tokens.

Imports `torchnp.rpc.wire` and `torchnp.rpc.server.privacy`. No torch.
"""
