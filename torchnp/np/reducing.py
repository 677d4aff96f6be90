"""The methods of ufuncs on tensors: reduce, accumulate, reduceat, at."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchnp.np.axes import merged_last, normal_axis, reduced_axes, restored
from torchnp.np.dtypes import (
    HALVES,
    as_tensor,
    carried,
    carried_ordered,
    cast,
    kind,
    loop_dtypes,
    torch_dtype,
    uncarried,
    uncarried_ordered,
)
from torchnp.np.indexing import assign, index_of

_WIDENING = ("add", "multiply")  # they reduce narrow integers in 64 bits
_LOGICAL = ("logical_and", "logical_or", "logical_xor")
# Ufuncs that may reduce several axes, because the order of the elements does not matter.
_REORDERABLE = (
    "add", "multiply", "maximum", "minimum", "fmax", "fmin", "bitwise_and", "bitwise_or", "bitwise_xor", "hypot", "gcd", "lcm",
    "logaddexp", "logaddexp2", *_LOGICAL,
)  # fmt: skip


def _dtypes(ufunc: Any, x: Tensor, dtype: Any, out: Tensor | None) -> tuple[torch.dtype, torch.dtype]:
    """Return the dtype in which a reduction computes, and the dtype of its result."""
    if ufunc.nin != 2:
        raise ValueError("reduce only supported for binary functions")
    if ufunc.nout != 1:
        raise ValueError("reduce only supported for functions returning a single value")
    wanted = None if dtype is None else torch_dtype(dtype)
    letter = kind(x.dtype)
    if wanted is None and out is None and ufunc.__name__ in _WIDENING and letter in "biu":
        wanted = torch.uint64 if letter == "u" else torch.int64
    target = None if out is None else out.dtype
    if ufunc.__name__ in _LOGICAL:
        return torch.bool, wanted or torch.bool
    found = loop_dtypes(ufunc.__name__, (target, x.dtype), (None,), wanted, "unsafe", True)
    return found[1], found[2]


def reduce_ufunc(
    ufunc: Any, array: Any, axis: Any, dtype: Any, out: Any, keepdims: bool, initial: Any, where: Any
) -> Tensor:
    """`numpy.ufunc.reduce` of a ufunc of two operands."""
    x = as_tensor(array)
    target = out[0] if isinstance(out, tuple) else out
    axes = reduced_axes(axis, x.dim())
    inner, result = _dtypes(ufunc, x, dtype, target)
    if len(axes) > 1 and ufunc.__name__ not in _REORDERABLE:
        raise ValueError(
            f"reduction operation '{ufunc.__name__}' is not reorderable, so at most one axis may be specified"
        )
    values = cast(x, inner)
    if where is not True:
        values = _masked(ufunc, values, where, initial)
        axes = reduced_axes(axis, values.dim())
    reduced = _reduce(ufunc, values, axes, bool(keepdims), initial is not None)
    if initial is not None:
        reduced = ufunc(reduced, as_tensor(initial, inner, reduced), dtype=None if inner == torch.bool else inner)
    reduced = cast(reduced, result)
    if target is None:
        return reduced
    return _into(target, reduced)


def _into(target: Tensor, value: Tensor) -> Tensor:
    if target.shape != value.shape:
        if target.dim() != value.dim():
            raise ValueError(
                f"output parameter for reduction operation has the wrong number of dimensions: Found {target.dim()} but expected "
                f"{value.dim()} (must match the operand's when keepdims=True)"
            )
        given, needed = (str(tuple(n)).replace(" ", "") for n in (target.shape, value.shape))
        raise ValueError(
            f"non-broadcastable output operand with shape {given} doesn't match the broadcast shape {needed}"
        )
    return target.copy_(cast(value, target.dtype))


def _masked(ufunc: Any, x: Tensor, where: Any, initial: Any) -> Tensor:
    mask = as_tensor(where, like=x)
    if mask.dtype != torch.bool:
        raise TypeError("Cannot cast array data to dtype('bool') according to the rule 'safe'")
    neutral = ufunc.identity if initial is None else initial
    if neutral is None:
        raise ValueError(
            f"reduction operation '{ufunc.__name__}' does not have an identity, so to use a where mask one has to specify 'initial'"
        )
    fill = as_tensor(ufunc.identity if ufunc.identity is not None else initial, x.dtype, x)
    return torch.where(mask, x, fill)


def _reduce(ufunc: Any, x: Tensor, axes: tuple[int, ...], keepdims: bool, started: bool) -> Tensor:
    """Reduce a tensor of the loop's dtype; if ``started``, a ufunc without an identity accepts zero elements."""
    if not axes:
        return x.clone()
    count = 1
    for a in axes:
        count *= x.shape[a]
    if count == 0:
        # The identity of logaddexp would be -inf, but NumPy refuses to reduce zero elements with it.
        if ufunc.identity is None and not started:
            raise ValueError(f"zero-size array to reduction operation {ufunc.__name__} which has no identity")
        fill = ufunc.identity if ufunc.identity is not None else 0
        shape = tuple(n for i, n in enumerate(x.shape) if i not in axes)
        return restored(as_tensor(fill, x.dtype, x).expand(shape).clone(), x, axes, keepdims)
    if ufunc._reduce is None:
        return restored(_one_by_one(ufunc, merged_last(x, axes)), x, axes, keepdims)
    carry, back = (carried_ordered, uncarried_ordered) if ufunc._ordered else (carried, uncarried)
    wide = x.float() if x.dtype in HALVES else x
    return back(ufunc._reduce(carry(wide), axes, keepdims), x.dtype).to(x.dtype)


def _one_by_one(ufunc: Any, x: Tensor) -> Tensor:
    """Apply a ufunc along the last dimension, element by element."""
    total, dtypes = x[..., 0], (x.dtype, x.dtype, x.dtype)
    for i in range(1, x.shape[-1]):
        total = ufunc.compute([total, x[..., i]], dtypes)[0]
    return total


def accumulate_ufunc(ufunc: Any, array: Any, axis: Any, dtype: Any, out: Any) -> Tensor:
    """`numpy.ufunc.accumulate` along one axis."""
    x = as_tensor(array)
    if x.dim() == 0:
        raise TypeError("cannot accumulate on a scalar")
    place = normal_axis(axis, x.dim())
    target = out[0] if isinstance(out, tuple) else out
    inner, result = _dtypes(ufunc, x, dtype, target)
    values = cast(x if target is None else x.clone(), inner)  # ``out=`` may be the operand
    if ufunc._accumulate is not None:
        carry, back = (carried_ordered, uncarried_ordered) if ufunc._ordered else (carried, uncarried)
        found = back(ufunc._accumulate(carry(values), place), inner).to(inner)
    else:
        steps = [values.select(place, 0)] if values.shape[place] else []
        for i in range(1, values.shape[place]):
            steps.append(ufunc.compute([steps[-1], values.select(place, i)], (inner,) * 3)[0])
        found = torch.stack(steps, place) if steps else values
    found = cast(found, result)
    return found if target is None else _into(target, found)


def reduceat_ufunc(ufunc: Any, array: Any, indices: Any, axis: Any, dtype: Any, out: Any) -> Tensor:
    """`numpy.ufunc.reduceat`: reduce from each index to the next, or one element if the next is not larger."""
    x = as_tensor(array)
    place = normal_axis(axis, x.dim())
    starts = [int(i) for i in (indices.tolist() if isinstance(indices, Tensor) else list(indices))]
    n = x.shape[place]
    for i in starts:
        if not 0 <= i < n:
            raise IndexError(f"index {i} out-of-bounds in {ufunc.__name__}.reduceat [0, {n})")
    ends = [*starts[1:], n]
    parts = [
        reduce_ufunc(ufunc, x.narrow(place, s, max(e - s, 1)), place, dtype, None, False, None, True)
        for s, e in zip(starts, ends, strict=True)
    ]
    inner = _dtypes(ufunc, x, dtype, None)[1]
    empty = tuple(0 if i == place else n for i, n in enumerate(x.shape))
    found = torch.stack(parts, place) if parts else torch.empty(empty, dtype=inner, device=x.device)
    return found if out is None else _into(out, found)


def update_at(ufunc: Any, array: Tensor, indices: Any, b: Any) -> None:
    """`numpy.ufunc.at`: update in place, one step for each index; ``add`` is done in one call."""
    if not isinstance(array, Tensor):
        raise TypeError("first operand must be array")
    places = torch.arange(array.numel(), device=array.device).reshape(array.shape)
    flat = index_of(places, indices).reshape(-1)
    if ufunc.nin == 1:
        values = array.reshape(-1)
        for place in flat.tolist():
            values[place] = ufunc(values[place])
        assign(array, ..., values.reshape(array.shape))
        return
    shape = index_of(places, indices).shape
    dtypes = ufunc.resolve([array, as_tensor(b)], (array,), None, "unsafe")
    operand = cast(as_tensor(b, like=array), dtypes[1]).broadcast_to(shape).reshape(-1)
    values = cast(array.reshape(-1), dtypes[0])
    if ufunc.__name__ == "add":
        carry = carried(values)
        found = uncarried(carry.index_add(0, flat, carried(operand)), dtypes[0])
    else:
        steps = list(values.unbind())
        for place, step in zip(flat.tolist(), operand.unbind(), strict=True):
            steps[place] = ufunc.compute([steps[place], step], dtypes)[0]
        found = torch.stack(steps)
    array.copy_(cast(found, array.dtype).reshape(array.shape))
