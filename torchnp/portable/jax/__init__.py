"""Rows in JAX's own words."""
