"""Constraints on each operator's arguments in random calls, as data: shapes, index ranges, dtypes."""
