"""Handles, which are tensors with a shape but no data: shape inference, and the encoding of torch calls as frames.

Imports `torchnp.rpc.client.transports` (only types) and `torchnp.rpc.wire`.
"""
