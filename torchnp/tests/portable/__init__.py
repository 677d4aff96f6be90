"""Tests of programs on other array libraries."""
