"""What the owner of a server decides: settings, limits, datasets, tokens.

Imports `torchnp.rpc.wire` and `torchnp.rpc.server.privacy`. No torch.
"""
