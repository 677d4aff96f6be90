"""Memory layout: rules for the strides of results, each row's rules, and overlap checks.

Imports `torchnp.core`.
"""
