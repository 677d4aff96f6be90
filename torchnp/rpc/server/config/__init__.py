"""What the owner of a server configures: settings, datasets, tokens and the ``torchnp owner`` commands.

May import `torchnp.rpc.server.privacy` for the ledger; never torch.
"""
