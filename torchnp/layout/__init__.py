"""Memory layout: the strides of results, by rule and by row, and which arrays overlap.

May import `torchnp.core` and top-level modules; never torch.
"""
