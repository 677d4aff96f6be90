"""Handles: tensors with a shape and no data. From a torch call to a frame, and shape inference.

Imports `torchnp.rpc.client.transports` (types alone) and `torchnp.rpc.wire`.
"""
