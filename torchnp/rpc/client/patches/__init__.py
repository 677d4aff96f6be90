"""What of torch is replaced while there are handles: fused operators, distributions, optimizers, GradScaler.

Imports `torchnp.rpc.client.tensor`.
"""
