"""Handles: tensors with a shape and no data. From a torch call to a call of the engine, and shape inference.

Imports `torchnp.rpc.wire`.
"""
