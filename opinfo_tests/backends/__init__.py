"""Backends under test: torchnp's table, torch devices, compilers, array API libraries; and loading them by name."""
