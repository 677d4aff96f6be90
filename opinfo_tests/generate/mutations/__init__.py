"""Calls derived from valid calls: with wrong arguments, other layouts, special values, or other dtypes."""
