"""Constraints on each operator's arguments, as data: shapes, index ranges, dtypes."""
