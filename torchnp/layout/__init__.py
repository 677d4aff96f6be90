"""Memory layout: the strides of results, by rule and by row, and overlap checks.

Imports `torchnp.core`.
"""
