"""Rows that are specific to JAX."""
