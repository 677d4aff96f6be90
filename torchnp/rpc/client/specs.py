"""Shapes without data: what an operator's results look like, from a cache or from torch's meta device."""

from __future__ import annotations

from typing import Any

import torch

from torchnp.registry import FAILURES
from torchnp.rpc import wire
from torchnp.rpc.client.plan import Plan

MAX_CACHED = 1 << 14
MAX_ZEROS = 1 << 20  # elements


class Spec:
    """Sizes, strides, storage offset and dtype of a tensor; one object per combination, so identity is equality."""

    __slots__ = ("_meta", "contiguous", "dtype", "offset", "size", "stride")

    def __init__(self, size: tuple, stride: tuple, offset: int, dtype: torch.dtype) -> None:
        self.size, self.stride, self.offset, self.dtype = size, stride, offset, dtype
        self._meta: torch.Tensor | None = None
        self.contiguous = self.fresh().is_contiguous()

    @property
    def meta(self) -> torch.Tensor:
        """A meta tensor of this spec, which must not be changed."""
        if self._meta is None:
            self._meta = self.fresh()
        return self._meta

    def fresh(self) -> torch.Tensor:
        """A new meta tensor of this spec."""
        if not self.offset:
            return torch.empty_strided(self.size, self.stride, dtype=self.dtype, device="meta")
        extent = self.offset + 1 + sum((n - 1) * s for n, s in zip(self.size, self.stride, strict=True) if n)
        return torch.empty(extent, dtype=self.dtype, device="meta").as_strided(self.size, self.stride, self.offset)


_SPECS: dict[tuple, Spec] = {}


def spec_of(tensor: torch.Tensor) -> Spec:
    """The spec of a tensor's metadata."""
    key = (tensor.size(), tensor.stride(), int(tensor.storage_offset()), tensor.dtype)
    spec = _SPECS.get(key)
    if spec is None:
        if len(_SPECS) > MAX_CACHED:
            _SPECS.clear()
        spec = _SPECS[key] = Spec(*key)
    return spec


class Outcome:
    """The results of an operator, flat: a spec for each tensor, None where there is none, and how they are grouped.

    ``groups`` has an entry per result of the schema: a length for a list, -1 for a tensor; ``expected`` is what the
    wire says of strides and holes, empty where all results are in C order.
    """

    __slots__ = ("count", "expected", "groups", "specs")

    def __init__(self, plan: Plan, out: Any) -> None:
        self.specs: list[Spec | None] = []
        self.groups: list[int] = []
        results = (out,) if plan.single else () if out is None else tuple(out)
        views = []
        for result, kind in zip(results, plan.returns, strict=True):
            if kind not in ("view", "new"):
                continue
            listed = isinstance(result, (list, tuple))
            self.groups.append(len(result) if listed else -1)
            for tensor in result if listed else (result,):
                self.specs.append(None if tensor is None else spec_of(tensor))
                views.append(kind == "view")
        self.count = sum(s is not None for s in self.specs)
        self.expected: list[Any] = [
            wire.HOLE if s is None else None if view or s.contiguous else list(s.stride)
            for s, view in zip(self.specs, views, strict=True)
        ]
        if all(e is None for e in self.expected):
            self.expected = []


_OUTCOMES: dict[tuple, Outcome] = {}


def cached(key: tuple) -> Outcome | None:
    return _OUTCOMES.get(key)


def infer(key: tuple, plan: Plan, args: tuple, kwargs: dict[str, Any]) -> Outcome:
    """Run an operator on the meta device; torch's own error where the arguments do not fit."""
    try:
        out = plan.func(*args, **kwargs)
    except NotImplementedError:
        if not plan.only_writes:
            raise
        # Nothing but written arguments comes out, and those keep their shape.
        outcome = Outcome.__new__(Outcome)
        outcome.specs, outcome.groups, outcome.count, outcome.expected = [], [], 0, []
    except (*FAILURES, AssertionError):
        _raise_in_torchs_words(plan, args, kwargs)
        raise
    else:
        outcome = Outcome(plan, out)
    if len(_OUTCOMES) > MAX_CACHED:
        _OUTCOMES.clear()
    _OUTCOMES[key] = outcome
    return outcome


def _raise_in_torchs_words(plan: Plan, args: tuple, kwargs: dict[str, Any]) -> None:
    """The meta device has words of its own for some errors: raise the CPU's, if the CPU refuses zeros as well."""
    total = 0

    def zeros(a: Any) -> Any:
        nonlocal total
        if isinstance(a, torch.Tensor):
            total += a.numel()
            if total > MAX_ZEROS:
                raise OverflowError
            return torch.zeros_like(a, device="cpu")
        if isinstance(a, (list, tuple)):
            return type(a)(map(zeros, a))
        return torch.device("cpu") if isinstance(a, torch.device) else a

    try:
        values, named = zeros(args), {k: zeros(v) for k, v in kwargs.items()}
    except OverflowError:
        return
    plan.func(*values, **named)
