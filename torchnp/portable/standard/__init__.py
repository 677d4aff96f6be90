"""Rows written with the array API standard; they run on every library that follows it."""
