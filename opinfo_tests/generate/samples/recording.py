"""The recorder: captures every aten and prims call below autograd, with its inputs before the call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ...backends.torch_backend import DTYPE_NAMES, overload_of, raw
from ...case import Array, Case, Named, Seeded
from ...namespaces import why_undrawn
from ...schema_facts import all_schemas, blank_written, siblings
from ..mutations.layout_variants import KINDS, enlarged, relaid
from ..mutations.special_values import KINDS as VALUES
from ..mutations.special_values import planted

NAMED = {torch.dtype: "dtype", torch.layout: "layout", torch.memory_format: "memory_format", torch.device: "device"}
MAX_DIMS = 64  # maximum number of dimensions of an ndarray
TRANSFERS = 9  # calls of a sibling for each task: one for each kind in `OUTS`
PLANTED = 2  # for each task, number of calls of an overload that are repeated with special values
MANY = 1  # for each task, number of calls of an overload that are repeated with many elements


class OutOfContractError(Exception):
    """Raised for an argument that cannot be recorded: not strided, not on the CPU, or of a dtype that is not judged."""


class Freezer:
    """Converts torch arguments to a Case: each storage is copied once, and each tensor becomes a window on the copy."""

    def __init__(self) -> None:
        self.buffers: list[np.ndarray] = []
        self.index: dict[int, int] = {}
        self.kept: list[torch.Tensor] = []

    def array(self, t: torch.Tensor) -> Array:
        if t.layout is not torch.strided or t.device.type != "cpu" or t.dtype not in DTYPE_NAMES:
            raise OutOfContractError(f"{t.layout} {t.device} {t.dtype}")
        if t._is_zerotensor():
            raise OutOfContractError("a zero tensor without memory")
        if t.ndim > MAX_DIMS:
            raise OutOfContractError(f"more than {MAX_DIMS} dimensions")
        reach = t.storage_offset() + sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True)) + 1
        if t.numel() and reach * t.element_size() > t.untyped_storage().nbytes():
            raise OutOfContractError("a tensor that a failed call left larger than its memory")
        if t.is_conj() or t.is_neg():
            t = t.resolve_conj().resolve_neg()
            self.kept.append(t)  # keep the storage alive, because its address is a key
        key = t.untyped_storage()._cdata
        if key not in self.index:
            self.index[key] = len(self.buffers)
            self.buffers.append(raw(t.detach()).copy())
        size = t.element_size()
        strides = tuple(s * size for s in t.stride())
        return Array(self.index[key], DTYPE_NAMES[t.dtype], tuple(t.shape), strides, int(t.storage_offset()) * size)

    def tree(self, x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return self.array(x)
        if isinstance(x, (list, tuple)):
            return [self.tree(item) for item in x]
        if isinstance(x, dict):
            return {k: self.tree(v) for k, v in x.items()}
        if isinstance(x, torch.device) and x.type == "meta":
            raise OutOfContractError("a result on the meta device")
        kind = NAMED.get(type(x))
        if kind:
            return Named(kind, str(x).removeprefix("torch."))
        if isinstance(x, torch.Generator):
            return Seeded(x.initial_seed() % 2**31)
        if isinstance(x, (torch.SymInt, torch.SymFloat, torch.SymBool, np.generic)):
            raise OutOfContractError(f"a {type(x).__name__} argument")
        if x is None or isinstance(x, (bool, int, float, complex, str)):
            return x
        raise OutOfContractError(f"a {type(x).__name__} argument")


def freeze(op: str, args: tuple, kwargs: dict[str, Any], source: str, sample_dtype: str) -> Case:
    """Return the Case for a call of ``op`` with torch arguments."""
    f = Freezer()
    with torch.no_grad():
        frozen = tuple(f.tree(list(args)))
        named = f.tree(kwargs)
    blank_written(op, frozen, named, f.buffers)
    return Case(op, frozen, named, f.buffers, source, sample_dtype)


class Recorder(TorchDispatchMode):
    """Dispatch mode that passes each wanted call to ``sink`` as a Case, optionally also variants of it.

    Parameters
    ----------
    wanted : callable
        Returns whether calls of an overload are recorded.
    sink : callable
        Receives the cases.
    relay : bool, optional
        Whether each call is repeated in one of the layouts in `KINDS`, in rotation, and some calls with special values
        (NaN, infinities, limits of the dtype) or many elements.
    """

    def __init__(self, wanted: Callable[[str], bool], sink: Callable[[Case], None], relay: bool = False) -> None:
        super().__init__()
        self.wanted, self.sink, self.relay = wanted, sink, relay
        self.relaid: Counter[str] = Counter()
        self.planted: Counter[str] = Counter()
        self.enlarged: Counter[str] = Counter()
        self.source = self.sample_dtype = ""
        self.calls: Counter[str] = Counter()
        self.left_out: Counter[str] = Counter()
        self.transferred: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        name = func.name()
        if name.startswith(("aten::", "prims::")) or name in all_schemas():
            self.see(name, args, kwargs)
        return func(*args, **kwargs)

    def looks_at(self, name: str) -> bool:
        """Return whether calls of an overload are recorded, as themselves or as calls of a sibling."""
        return self.wanted(name) or any(map(self.wanted, siblings()[name]))

    def see(self, name: str, args: tuple, kwargs: dict[str, Any]) -> None:
        """Record a call, and the same call for the overload's siblings (in-place, ``out=``, view or copy)."""
        self.calls[name] += 1
        if self.wanted(name):
            self.offer(name, args, kwargs)
        for other in siblings()[name]:
            if self.wanted(other) and self.transferred[other] < TRANSFERS:
                transfer(self, name, other, args, kwargs)

    def offer(self, name: str, args: tuple, kwargs: dict[str, Any], source: str = "") -> None:
        """Record one call, if its arguments can be recorded."""
        try:
            case = freeze(name, args, kwargs, source or self.source, self.sample_dtype)
        except OutOfContractError as e:
            self.left_out[str(e)] += 1
            return
        self.sink(case)
        if self.relay:
            self.repeat(case)

    def repeat(self, case: Case) -> None:
        """Record a call in the next layout that changes it, and sometimes with many elements or special values."""
        for _ in KINDS:
            self.relaid[case.op] += 1
            other = relaid(case, KINDS[self.relaid[case.op] % len(KINDS)])
            if other is not None:
                self.sink(other)
                break
        if self.enlarged[case.op] < MANY:
            other = enlarged(case)
            if other is not None:
                self.enlarged[case.op] += 1
                self.sink(other)
        if self.planted[case.op] < PLANTED and not why_undrawn(case.op):
            other = planted(case, VALUES[int(case.digest[:6], 16) % len(VALUES)])
            if other is not None:
                self.planted[case.op] += 1
                self.sink(other)


# Kinds of ``out=``: correct, empty, with a wider dtype, strided, expanded, column-major, with another shape, with an
# integer dtype, and in the memory of an input, shifted by one element.
OUTS = ("right", "empty", "wider", "stepped", "expanded", "column-major", "shape", "integer", "shared")
# For these, torch writes to ``out=`` as if it had the input's dtype, and beyond its end if its dtype is narrower.
BLIND_TO_DTYPE = frozenset(["aten::_logcumsumexp.out"])
# torch reads the positions to write from row numbers that it may already have overwritten, and so writes beyond
# ``out=``.
BLIND_TO_SHARING = frozenset(["aten::_convert_indices_from_csr_to_coo.out"])


def transfer(recorder: Recorder, name: str, other: str, args: tuple, kwargs: dict[str, Any]) -> None:
    """Record a call of ``name`` as a call of its sibling ``other``."""
    declared = all_schemas()
    turn = recorder.transferred[other]
    names = {a.name for a in declared[other].args if not a.is_out}
    plain = {k: v for k, v in kwargs.items() if k in names}
    if not declared[other].is_out:
        recorder.transferred[other] += 1
        recorder.offer(other, args, plain)
        return
    if declared[name].mutates:
        return
    try:
        with torch.no_grad():
            results = overload_of(name)(*args, **kwargs)
    except Exception:
        return
    results = [r for r in tree_leaves(results) if r is None or isinstance(r, torch.Tensor)]
    outs = [a for a in declared[other].args if a.is_out]
    if outs[0].type == "Tensor":
        results = results[: len(outs)]  # the other results are written arguments of the out= form
    kind = OUTS[turn % len(OUTS)]
    if other in BLIND_TO_DTYPE and kind in ("wider", "integer"):
        kind = "right"
    if kind == "column-major" and "nondeterministic_seeded" not in declared[other].tags:
        kind = "right"  # the order in memory matters for random numbers; some other operators of torch crash
    targets = [torch.zeros(0) if r is None else out_like(r, kind) for r in results]
    if kind == "shared" and targets and other not in BLIND_TO_SHARING:
        args, targets[0] = sharing(args, targets[0])
    given: list[Any] = [targets] if len(outs) == 1 and outs[0].type == "Tensor[]" else targets
    if len(given) == len(outs):
        recorder.transferred[other] += 1
        recorder.offer(other, args, {**plain, **{a.name: g for a, g in zip(outs, given, strict=True)}})


def out_like(r: torch.Tensor, kind: str) -> torch.Tensor:
    """Return an ``out=`` tensor of a kind in `OUTS` for a result ``r``."""
    if kind == "empty":
        return torch.zeros(0, dtype=r.dtype)
    if kind in ("expanded", "stepped") and r.numel() == 1:
        kind = "right"  # torch crashes when it joins tensors into an out= with other strides
    if kind == "shape":
        return torch.zeros((*r.shape, 2), dtype=r.dtype)
    if kind == "expanded" and r.ndim and r.numel():
        # Allocate more memory than needed, because some of torch's kernels write any out= as if it were contiguous.
        size = next((n for n in r.shape if n > 1), 1)
        strides = [0 if n == size else s for n, s in zip(r.shape, r.contiguous().stride(), strict=True)]
        return torch.zeros(r.numel(), dtype=r.dtype).as_strided(r.shape, strides)
    if kind == "column-major":
        return torch.zeros(r.shape[::-1], dtype=r.dtype).permute(tuple(reversed(range(r.ndim))))
    if kind == "stepped":
        return torch.zeros((*r.shape, 2), dtype=r.dtype)[..., 0]
    if kind == "wider":
        return torch.zeros(r.shape, dtype=torch.complex128 if r.is_complex() else torch.float64)
    return torch.zeros(r.shape, dtype=torch.int64 if kind == "integer" else r.dtype)


def sharing(args: tuple, out: torch.Tensor) -> tuple[tuple, torch.Tensor]:
    """Move ``out`` into the memory of the first argument with the same dtype, shifted by one element; return both."""
    source = next((t for t in args if isinstance(t, torch.Tensor) and t.dtype == out.dtype and t.numel() > 1), None)
    if source is None:
        return args, out
    with torch.no_grad():
        memory = torch.zeros(1 + max(source.numel(), out.numel()), dtype=out.dtype)
        twin = memory[: source.numel()].view(source.shape).copy_(source)
    return tuple(twin if t is source else t for t in args), memory[1 : 1 + out.numel()].view(out.shape)
