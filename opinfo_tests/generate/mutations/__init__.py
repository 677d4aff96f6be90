"""Calls derived from valid calls: invalid ones, other layouts, special values, pairs of dtypes."""
