"""Patches to torch for handles: fused operators, distributions, GradScaler.

Imports `torchnp.engine.tensor`.
"""
