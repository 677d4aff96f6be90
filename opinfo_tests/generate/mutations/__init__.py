"""Calls made of good calls: invalid ones, other layouts, special values, pairs of dtypes."""
