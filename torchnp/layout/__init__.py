"""Memory layout: the strides of results, by rule and by row, and which arrays overlap.

Imports `torchnp.core`.
"""
