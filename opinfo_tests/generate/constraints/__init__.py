"""What each operator asks of its arguments, as data: shapes, index ranges, dtypes.

May import `opinfo_tests.case` and `opinfo_tests.schemas`.
"""
