"""Handles: tensors with a shape and no data. From a torch call to a frame, and shape inference.

May import `torchnp.rpc.wire`, `torchnp.interop` and the session that a handle belongs to.
"""
