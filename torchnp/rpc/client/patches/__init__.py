"""Patches to torch for handles: fused operators, distributions, optimizers, GradScaler.

Imports `torchnp.rpc.client.tensor`.
"""
