"""Optimizers that keep their step counters on the server, with the rest of their state."""

from __future__ import annotations

from typing import Any

import torch

from torchnp.engine.tensor.handles import BaseHandleTensor
from torchnp.rpc.exceptions import HandleError

_COUNTS = ("Adadelta", "RMSprop", "Rprop")  # their updates do not depend on the step count


def keep_counters(session: Any, optimizer: torch.optim.Optimizer) -> None:
    """Send an optimizer's plain step counters to the server, now and after each step that creates new ones."""
    name = type(optimizer).__name__
    for group in optimizer.param_groups:
        if not group.get("fused") and name not in (*_COUNTS, "SGD"):
            hint = (
                "make it with fused=True" if "fused" in optimizer.defaults else "take one that has fused=True, as Adam"
            )
            raise HandleError(f"{name} reads the number of its step here, so that it cannot be on a server: {hint}")

    def send(optimizer: Any, *_: Any) -> None:
        for state in optimizer.state.values():
            step = state.get("step")
            if isinstance(step, torch.Tensor) and not isinstance(step, BaseHandleTensor):
                state["step"] = session.send(step)

    send(optimizer)
    optimizer.register_step_post_hook(send)
