"""Calls made of good calls: invalid ones, other layouts, special values, pairs of dtypes.

May import the other rooms of `opinfo_tests.generate`.
"""
