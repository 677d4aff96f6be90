"""What each operator asks of its arguments, as data: shapes, index ranges, dtypes."""
