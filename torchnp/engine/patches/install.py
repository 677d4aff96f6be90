"""Install all torch patches that handles need, once per process, when the first engine is made."""

from __future__ import annotations

from torchnp.engine.patches.composite_overrides import take_composite_routes
from torchnp.engine.patches.distributions import take_distribution_routes
from torchnp.engine.patches.grad_scaler import take_scaler_route


def install() -> None:
    """Patch composite operators, GradScaler and distributions for handles; plain tensors keep torch's behavior."""
    take_composite_routes()
    take_scaler_route()
    take_distribution_routes()
