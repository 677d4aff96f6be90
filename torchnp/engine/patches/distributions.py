"""Patches that let torch's distributions take handles; values are checked only if ``validate_args`` requests it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.distributions import Distribution

from torchnp.engine.tensor.handles import BaseHandleTensor
from torchnp.interop._private import lookup

# A round of von Mises rejection accepts at least about two thirds of the draws, so after this many rounds less than one
# draw in 1e18 is left.
_ROUNDS = 40
_taken: list[str] = []


def take_distribution_routes() -> None:
    """Patch torch's distributions, once per process; those of plain tensors behave as before."""
    if _taken:
        return
    _taken.append("distributions")
    plain: Any = Distribution
    plain.__init__ = _made(plain.__init__)
    if hasattr(plain, "_validate_sample"):
        plain._validate_sample = _validating(plain._validate_sample)
    home: Any = lookup("distributions.von_mises")
    if hasattr(home, "_rejection_sample"):
        home._rejection_sample = _rejecting(home._rejection_sample)


def _has_handles(distribution: Distribution) -> bool:
    return any(
        isinstance(x, BaseHandleTensor) or (isinstance(x, Distribution) and _has_handles(x))
        for x in vars(distribution).values()
    )


def _made(theirs: Callable[..., None]) -> Callable[..., None]:
    def __init__(
        self: Any, batch_shape: Any = torch.Size(), event_shape: Any = torch.Size(), validate_args: bool | None = None
    ) -> None:
        if validate_args is None and _has_handles(self):
            validate_args = False
        theirs(self, batch_shape, event_shape, validate_args=validate_args)

    return __init__


def _validating(theirs: Callable[..., None]) -> Callable[..., None]:
    def _validate_sample(self: Any, value: Any) -> None:
        """Check only a handle's shape; check that values are in the support only if validate_args requests it."""
        if not isinstance(value, BaseHandleTensor) or vars(self).get("_validate_args"):
            theirs(self, value)
            return
        shape = self.batch_shape + self.event_shape
        event = len(value.shape) - len(self.event_shape)
        if value.shape[event:] != self.event_shape:
            raise ValueError(f"the right-most size of a value has to be {self.event_shape}, not {tuple(value.shape)}")
        try:
            torch.broadcast_shapes(value.shape, shape)
        except RuntimeError:
            raise ValueError(f"a value of shape {tuple(value.shape)} does not broadcast with {tuple(shape)}") from None

    return _validate_sample


def _rejecting(theirs: Callable[..., Any]) -> Callable[..., Any]:
    def _rejection_sample(loc: Any, concentration: Any, proposal_r: Any, x: Any) -> Any:
        """Draw with Best and Fisher's method, like torch, but in a fixed number of rounds."""
        if not any(isinstance(a, BaseHandleTensor) for a in (loc, concentration)):
            return theirs(loc, concentration, proposal_r, x)
        like = next(a for a in (concentration, loc) if isinstance(a, BaseHandleTensor))
        done = like.new_zeros(x.shape, dtype=torch.bool)
        found = like.new_zeros(x.shape, dtype=loc.dtype)
        for _ in range(_ROUNDS):
            u1, u2, u3 = torch.rand_like(found.expand((3, *x.shape))).unbind()
            z = torch.cos(math.pi * u1)
            f = (1 + proposal_r * z) / (proposal_r + z)
            c = concentration * (proposal_r - f)
            accept = ((c * (2 - c) - u2) > 0) | ((c / u2).log() + 1 - c >= 0)
            found = torch.where(accept & ~done, (u3 - 0.5).sign() * f.acos(), found)
            done = done | accept
        return (found + math.pi + loc) % (2 * math.pi) - math.pi

    return _rejection_sample
