"""GradScaler over handles: whether a step is skipped is itself a handle, and the engine selects the new state.

torch's scaler reads whether a gradient is infinite, and then skips the step. Here every step runs, and a select
restores the old parameters and state if the step should have been skipped. So the client never reads or waits for a
value.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from torchnp.engine.tensor.handles import BaseHandleTensor
from torchnp.interop._private import lookup, make_state
from torchnp.rpc.exceptions import HandleError

# Optimizers whose update does not use the step count, or takes it as a tensor, because here the count depends on
# values.
_SELECTABLE = ("Adadelta", "Adam", "AdamW", "Muon", "RMSprop", "Rprop", "SGD")
# Options for updates that do not read numbers on the client; fused updates would write the plain counters.
_BY_TENSORS = {"differentiable": True, "foreach": False, "fused": None}
_taken: list[type] = []


def take_scaler_route() -> None:
    """Patch torch's scaler, once per process; gradients that are not handles are treated as before."""
    scaler: Any = lookup("amp.GradScaler")
    if not _taken and all(hasattr(scaler, name) for name in ("_unscale_grads_", "_maybe_opt_step", "step")):
        scaler._unscale_grads_ = _unscaling(scaler._unscale_grads_)
        scaler._maybe_opt_step = _stepping(scaler._maybe_opt_step)
        scaler.step = _unfused(scaler.step)
        _taken.append(scaler)


def _handle_of(optimizer: torch.optim.Optimizer) -> BaseHandleTensor | None:
    """Return the first gradient that is a handle, or None."""
    gradients = (p.grad for group in optimizer.param_groups for p in group["params"])
    return next((g for g in gradients if isinstance(g, BaseHandleTensor)), None)


def _unscaling(theirs: Callable[..., Any]) -> Callable[..., Any]:
    def _unscale_grads_(self: Any, optimizer: Any, inv_scale: Any, found_inf: Any, allow_fp16: bool) -> Any:
        handle = _handle_of(optimizer)
        if handle is not None:
            session = handle._session
            if not isinstance(found_inf, BaseHandleTensor):
                found_inf = handle.new_zeros(found_inf.shape, dtype=found_inf.dtype)  # its values are zeros anyway
            if not isinstance(self._scale, BaseHandleTensor):  # from now on the scale depends on gradients
                self._scale, self._growth_tracker = session.send((self._scale, self._growth_tracker))
        return theirs(self, optimizer, inv_scale, found_inf, allow_fp16)

    return _unscale_grads_


def _stepping(theirs: Callable[..., Any]) -> Callable[..., Any]:
    def _maybe_opt_step(self: Any, optimizer: Any, optimizer_state: Any, *args: Any, **kwargs: Any) -> Any:
        found = sum(optimizer_state["found_inf_per_device"].values())
        if not isinstance(found, BaseHandleTensor):
            return theirs(self, optimizer, optimizer_state, *args, **kwargs)
        return _selected(optimizer, found == 0, *args, **kwargs)

    return _maybe_opt_step


def _unfused(theirs: Callable[..., Any]) -> Callable[..., Any]:
    def step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Run torch's step; for handles, undo a fused optimizer's step with a select, like that of other optimizers."""
        if not getattr(optimizer, "_step_supports_amp_scaling", False) or _handle_of(optimizer) is None:
            return theirs(self, optimizer, *args, **kwargs)
        optimizer._step_supports_amp_scaling = False
        try:
            return theirs(self, optimizer, *args, **kwargs)
        finally:
            optimizer._step_supports_amp_scaling = True

    return step


def _check(optimizer: torch.optim.Optimizer) -> None:
    """Raise HandleError for optimizers whose skipped step the engine could not undo."""
    name = type(optimizer).__name__
    known = getattr(torch.optim, name, None) is type(optimizer) and name in _SELECTABLE
    if not known or any(group.get("momentum") and group.get("dampening") for group in optimizer.param_groups):
        raise HandleError(
            f"a GradScaler over handles has the engine choose whether {name} makes a step, which can be with torch's "
            f"{', '.join(_SELECTABLE)} without dampening: take one of those, or autocast to bfloat16, which needs no scaler, "
            "or make the scaler with enabled=False"
        )


def _selected(optimizer: Any, keep: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """Run a step, and undo it on the engine unless the bool handle ``keep`` is true."""
    _check(optimizer)
    for group in optimizer.param_groups:  # state that the step would create must exist before, to be restored
        make_state(optimizer, group)
    stepped = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    with torch.no_grad():
        before = [
            (p, p.clone(), _tensors(optimizer.state.get(p, {})), _tensors(optimizer.state.get(p, {}), copied=False))
            for p in stepped
        ]
        with _by_tensors(optimizer, stepped):
            result = optimizer.step(*args, **kwargs)
        for p, was, state, places in before:
            p.copy_(torch.where(keep, p, was))
            for name, now in _tensors(optimizer.state.get(p, {}), copied=False).items():
                old = state.get(
                    name, torch.zeros_like(now)
                )  # a first momentum buffer is the gradient; starting from zeros gives the same
                chosen, place = torch.where(keep, now.to(old.dtype), old), places.get(name)
                optimizer.state[p][name] = place.copy_(chosen) if isinstance(place, BaseHandleTensor) else chosen
    return result


def _tensors(state: dict[str, Any], copied: bool = True) -> dict[str, torch.Tensor]:
    return {name: x.clone() if copied else x for name, x in state.items() if isinstance(x, torch.Tensor)}


@contextlib.contextmanager
def _by_tensors(optimizer: Any, stepped: list[torch.Tensor]) -> Iterator[None]:
    """Make an optimizer compute with its counters as tensors; they are float64, like the client's Python numbers."""
    saved = [{name: group[name] for name in _BY_TENSORS if name in group} for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group.update({name: value for name, value in _BY_TENSORS.items() if name in group})
    for p in stepped:
        state = optimizer.state.get(p, {})
        if isinstance(state.get("step"), torch.Tensor):
            state["step"] = state["step"].double()
    try:
        yield
    finally:
        for group, options in zip(optimizer.param_groups, saved, strict=True):
            group.update(options)
