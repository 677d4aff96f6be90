"""What of torch itself is replaced while there are handles: fused operators, distributions, optimizers, tracing.

May import `torchnp.rpc.client.tensor`.
"""
