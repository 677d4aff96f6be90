"""Every change of torch itself that handles need, made once for the process when its first engine is made."""

from __future__ import annotations

from torchnp.rpc.client.patches.composite_overrides import take_composite_routes
from torchnp.rpc.client.patches.distributions import take_distribution_routes
from torchnp.rpc.client.patches.grad_scaler import take_scaler_route


def install() -> None:
    """Replace fused operators, distributions and GradScaler's steps for handles; plain tensors keep torch's own."""
    take_composite_routes()
    take_scaler_route()
    take_distribution_routes()
