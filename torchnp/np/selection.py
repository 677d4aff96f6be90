"""Choosing, taking and putting elements, counting and locating them."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from torchnp.np import elementwise as el
from torchnp.np.axes import normal_axis
from torchnp.np.dtypes import (
    as_tensor,
    can_cast,
    carried,
    cast,
    is_weak,
    kind,
    number,
    numpy_dtype,
    operand_key,
    result_dtype,
    uncarried,
    values_are_here,
)
from torchnp.np.indexing import check_indices
from torchnp.np.reductions import NO_VALUE
from torchnp.np.shapes import common_shape, sizes
from torchnp.np.table import row
from torchnp.np.ufunc import saved, write


def _index(indices: Any, like: Tensor) -> Tensor:
    """Return indices as integers; raise NumPy's TypeError for other dtypes."""
    found = as_tensor(indices, like=like)
    if found.numel() == 0 and not isinstance(indices, Tensor):
        return found.to(torch.int64)
    if not can_cast(found.dtype, torch.int64, "same_kind"):
        raise TypeError(
            f"Cannot cast array data from {numpy_dtype(found.dtype)!r} to dtype('int64') according to the rule 'safe'"
        )
    return carried(found).to(torch.int64)


def _moded(index: Tensor, size: int, mode: str, axis: int = 0) -> Tensor:
    """Bring indices into range: check, wrap or clip them, by ``mode``."""
    if mode == "wrap":
        return torch.remainder(index, max(size, 1))
    if mode == "clip":
        return torch.clamp(index, 0, max(size - 1, 0))
    if mode != "raise":
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got '{mode}')")
    if values_are_here(index):
        check_indices(index, size, axis)
    return torch.where(index < 0, index + size, index)


@row("take", "embedding-matrix no-mixed-dtypes take-along-wraps")
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Tensor:
    """`numpy.take` on tensors: along an axis, or of the flattened tensor; ``mode`` is raise, wrap or clip."""
    x = as_tensor(a)
    x, place = (x.reshape(-1), 0) if axis is None else (x.reshape(1) if x.dim() == 0 else x, axis)
    place = normal_axis(place, x.dim())
    index = _index(indices, x)
    if x.shape[place] == 0 and index.numel():
        raise IndexError("cannot do a non-empty take from an empty axes.")
    flat = _moded(index, x.shape[place], mode, place).reshape(-1)
    found = uncarried(torch.index_select(carried(x), place, flat), x.dtype)
    found = found.reshape((*x.shape[:place], *index.shape, *x.shape[place + 1 :]))
    return found if out is None else write(out, found)


@row("put", "put-as-many no-mixed-writes")
def put(a: Tensor, ind: Any, v: Any, mode: str = "raise") -> None:
    """`numpy.put` on tensors: writes in place; values repeat as needed."""
    if not isinstance(a, Tensor):
        raise TypeError(f"argument 1 must be numpy.ndarray, not {type(a).__name__}")
    index = _index(ind, a).reshape(-1)
    values = cast(as_tensor(v, like=a), a.dtype).reshape(-1)
    if index.numel() and a.numel() == 0 and mode != "raise":
        raise IndexError("cannot replace elements of an empty array")
    index = _moded(index, a.numel(), mode)
    if not values.numel() or not index.numel():
        return
    values = values.repeat(-(-index.numel() // values.numel()))[: index.numel()]
    _last_wins(a, index, values)


def _last_wins(a: Tensor, index: Tensor, values: Tensor) -> None:
    """Write in the order of the indices; if an index occurs several times, its last value remains."""
    count = torch.arange(index.numel(), device=a.device)
    last = torch.full((a.numel(),), -1, dtype=torch.int64, device=a.device).scatter_reduce(0, index, count, "amax")
    flat = carried(a.reshape(-1))
    new = torch.where(last >= 0, carried(values)[torch.clamp(last, min=0)], flat)
    a.copy_(uncarried(new, a.dtype).reshape(a.shape))


@row("putmask", "masks-broadcast")
def putmask(a: Tensor, mask: Any, values: Any) -> None:
    """`numpy.putmask` on tensors: writes in place where ``mask`` is true, each element's value by its position."""
    chosen = cast(as_tensor(mask, like=a), torch.bool)
    if chosen.numel() != a.numel():
        raise ValueError("putmask: mask and data must be the same size")
    given = cast(as_tensor(values, like=a), a.dtype).reshape(-1)
    if not given.numel():
        return
    repeated = given.repeat(-(-a.numel() // given.numel()))[: a.numel()].reshape(a.shape)
    a.copy_(torch.where(chosen.reshape(a.shape), repeated, a))


@row("place", "masked-scatter-enough")
def place(arr: Tensor, mask: Any, vals: Any) -> None:
    """`numpy.place` on tensors: writes the next value at each true element in place; values repeat as needed."""
    if not isinstance(arr, Tensor):
        raise TypeError(f"argument 1 must be numpy.ndarray, not {type(arr).__name__}")
    chosen = cast(as_tensor(mask, like=arr), torch.bool)
    if chosen.numel() != arr.numel():
        raise ValueError("place: mask and data must be the same size")
    values = cast(as_tensor(vals, like=arr), arr.dtype).reshape(-1)
    flat = chosen.reshape(-1)
    if not values.numel():
        if values_are_here(flat) and bool(flat.any()):
            raise ValueError("Cannot insert from an empty array!")
        return
    turn = torch.remainder(torch.cumsum(flat.to(torch.int64), 0) - 1, values.numel())
    picked = uncarried(carried(values)[turn], arr.dtype)
    arr.copy_(torch.where(flat, picked, arr.reshape(-1)).reshape(arr.shape))


@row("where", "where-number where-needs-bool fill-0d masked-fill-truncates int-float-promotion")
def where(condition: Any, x: Any = NO_VALUE, y: Any = NO_VALUE, /) -> Any:
    """`numpy.where` on tensors; with only a condition, `nonzero`."""
    if x is NO_VALUE and y is NO_VALUE:
        return nonzero(condition)
    if x is NO_VALUE or y is NO_VALUE:
        raise ValueError("either both or neither of x and y should be given")
    like = next((v for v in (condition, x, y) if isinstance(v, Tensor)), None)
    mask = cast(as_tensor(condition, like=like), torch.bool)
    pair = [v if is_weak(v) else as_tensor(v, like=like) for v in (x, y)]
    common = result_dtype(*map(operand_key, pair))
    first, second = (number(v, common, like) if is_weak(v) else cast(v, common) for v in pair)
    _broadcastable(mask, first, second)
    return torch.where(mask, first, second)


def _broadcastable(*parts: Tensor) -> None:
    try:
        torch.broadcast_shapes(*(p.shape for p in parts))
    except RuntimeError:
        words = " ".join(str(tuple(p.shape)).replace(" ", "") for p in parts)
        raise ValueError(f"operands could not be broadcast together with shapes {words} ") from None


@row("nonzero", "nonzero-rows nonzero-0d")
def nonzero(a: Any) -> tuple[Tensor, ...]:
    """`numpy.nonzero` on tensors: a tuple of indices, one tensor for each axis."""
    x = as_tensor(a)
    if x.dim() == 0:
        raise ValueError("Calling nonzero on 0d arrays is not allowed. Use np.atleast_1d(scalar).nonzero() instead.\n"
                         "If the context of this error is of the form `arr[nonzero(cond)]`, just use `arr[cond]`.")  # fmt: skip
    return tuple(torch.nonzero(cast(x, torch.bool)).unbind(1))


@row("compress", "narrow-bounds unsafe-index-integers")
def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Tensor:
    """`numpy.compress` on tensors: slices where a 1-d condition is true."""
    x, mask = as_tensor(a), cast(as_tensor(condition), torch.bool)
    if mask.dim() != 1:
        raise ValueError("condition must be a 1-d array")
    return take(x, torch.nonzero(mask)[:, 0], axis, out)


@row("choose")
def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Tensor:
    """`numpy.choose` on tensors: takes each element from the choice whose number is in ``a``."""
    parts = [as_tensor(c) for c in (choices.unbind() if isinstance(choices, Tensor) else choices)]
    index = _index(a, parts[0])
    common = result_dtype(*(p.dtype for p in parts))
    shape = common_shape(index.shape, *(p.shape for p in parts))
    if mode == "raise" and values_are_here(index) and bool(((index < 0) | (index >= len(parts))).any()):
        raise ValueError("invalid entry in choice array")
    places = _moded(index, len(parts), mode if mode != "raise" else "clip").expand(shape)
    stacked = torch.stack([carried(cast(p, common)).expand(shape) for p in parts])
    found = uncarried(torch.gather(stacked, 0, places[None])[0], common)
    return found if out is None else write(out, found)


@row("clip", "clamp-needs-bound clamp-zero-sign saturates-matrices number-wraps")
def clip(
    a: Any, a_min: Any = NO_VALUE, a_max: Any = NO_VALUE, out: Any = None, *, min: Any = NO_VALUE, max: Any = NO_VALUE,
    **kwargs: Any,
) -> Tensor:  # fmt: skip
    """`numpy.clip` on tensors; bounds may be None."""
    if a_min is NO_VALUE and a_max is NO_VALUE:
        a_min, a_max = (None if v is NO_VALUE else v for v in (min, max))
    elif a_min is NO_VALUE or a_max is NO_VALUE:
        missing = "a_min" if a_min is NO_VALUE else "a_max"
        raise TypeError(f"clip() missing 1 required positional argument: '{missing}'")
    elif min is not NO_VALUE or max is not NO_VALUE:
        raise ValueError("Passing `min` or `max` keyword argument when `a_min` and `a_max` are provided is forbidden.")
    x = as_tensor(a) if out is None else saved(as_tensor(a))
    if kind(x.dtype) in "iu":
        bounds = torch.iinfo(x.dtype)
        a_min = None if type(a_min) is int and a_min <= bounds.min else a_min
        a_max = None if type(a_max) is int and a_max >= bounds.max else a_max
    if a_min is None and a_max is None:
        return el.UFUNCS["positive"](x, out=out, **kwargs)
    if a_min is None:
        return el.minimum(x, a_max, out=out, **kwargs)
    if a_max is None:
        return el.maximum(x, a_min, out=out, **kwargs)
    bounded = [v if is_weak(v) else as_tensor(v, like=x) for v in (a_min, a_max)]
    common = result_dtype(x.dtype, *map(operand_key, bounded))
    low, high = (number(v, common, x) if is_weak(v) else cast(v, common) for v in bounded)
    return cast(
        el.minimum(el.maximum(cast(x, common), low), high, out=out, **kwargs), common if out is None else out.dtype
    )


@row("round around", "round-decimals-of-integers no-bool-rounding")
def round(a: Any, decimals: int = 0, out: Any = None) -> Tensor:
    """`numpy.round` on tensors: halves to even; negative ``decimals`` round integers to tens, hundreds, and so on."""
    x = as_tensor(a)
    if x.is_complex():
        found = torch.complex(round(x.real, decimals), round(x.imag, decimals))
    elif decimals >= 0:
        if kind(x.dtype) in "iu":
            found = x.clone()
        elif decimals == 0:
            found = el.rint(x)
        else:
            found = el.divide(el.rint(el.multiply(x, float(10**decimals))), float(10**decimals))
    else:
        scaled = el.multiply(el.rint(el.divide(x, float(10**-decimals))), float(10**-decimals))
        found = cast(scaled, x.dtype) if kind(x.dtype) in "iu" else scaled
    return found if out is None else write(out, found)


@row("bincount", "bincount-weights")
def bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Tensor:
    """`numpy.bincount` on tensors; sums of weights are float64."""
    index = as_tensor(x)
    if isinstance(x, (list, tuple)) and not x:
        index = index.to(torch.int64)
    if index.dim() != 1:
        raise ValueError(
            "object too deep for desired array" if index.dim() else "object of too small depth for desired array"
        )
    if not can_cast(index.dtype, torch.int64, "safe"):
        raise TypeError(
            f"Cannot cast array data from {numpy_dtype(index.dtype)!r} to dtype('int64') according to the rule 'safe'"
        )
    if minlength < 0:
        raise ValueError("'minlength' must not be negative")
    index = carried(index).to(torch.int64)
    if index.numel() and bool((index < 0).any()):
        raise ValueError("'list' argument must have no negative elements")
    if weights is None:
        return torch.bincount(index, minlength=minlength)
    given = as_tensor(weights, like=index)
    if given.is_complex():
        raise TypeError(
            "Cannot cast array data from dtype('complex128') to dtype('float64') according to the rule 'safe'"
        )
    if given.shape != index.shape:
        raise ValueError("The weights and list don't have the same length.")
    return torch.bincount(index, cast(given, torch.float64), minlength)


@row("unravel_index")
def unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Tensor, ...]:
    """`numpy.unravel_index` on tensors: a tuple of coordinates."""
    given, lengths = as_tensor(indices), sizes(shape)
    _integral(given, indices)
    if not lengths and given.dim():
        raise ValueError("multiple indices are not supported for 0d array")
    index, total = carried(given).to(torch.int64), math.prod(lengths)
    if values_are_here(index) and bool(((index < 0) | (index >= total)).any()):
        bad = int(index[(index < 0) | (index >= total)].reshape(-1)[0])
        raise ValueError(f"index {bad} is out of bounds for array with size {total}")
    found: dict[int, Tensor] = {}
    for i in reversed(range(len(lengths))) if order == "C" else range(len(lengths)):
        found[i] = torch.remainder(index, lengths[i])
        index = torch.div(index, lengths[i], rounding_mode="floor")
    return tuple(found[i] for i in range(len(lengths)))


def _integral(index: Tensor, given: Any) -> None:
    if kind(index.dtype) in "iu":
        return
    if index.numel() == 0 and not isinstance(given, Tensor):
        raise TypeError(
            "indices must be integral: the provided empty sequence was inferred as float. Wrap it with 'np.array(indices, "
            "dtype=np.intp)'"
        )
    raise TypeError("only int indices permitted")


@row("ravel_multi_index")
def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Tensor:
    """`numpy.ravel_multi_index` on tensors: indices into the flattened tensor."""
    lengths = sizes(dims)
    parts = list(multi_index.unbind() if isinstance(multi_index, Tensor) else multi_index)
    if len(parts) != len(lengths):
        raise ValueError(f"parameter multi_index must be a sequence of length {len(lengths)}")
    modes = mode if isinstance(mode, tuple) else (mode,) * len(lengths)
    if math.prod(lengths) > torch.iinfo(torch.int64).max:
        raise ValueError("invalid dims: array size defined by dims is larger than the maximum possible size.")
    total, step = torch.zeros((), dtype=torch.int64), 1
    for i in reversed(range(len(lengths))) if order == "C" else range(len(lengths)):
        part = as_tensor(parts[i])
        _integral(part, parts[i])
        part = carried(part).to(torch.int64)
        if lengths[i] == 0 and part.numel():
            raise ValueError("cannot unravel if shape has zero entries")
        if modes[i] == "raise" and values_are_here(part) and bool(((part < 0) | (part >= lengths[i])).any()):
            raise ValueError("invalid entry in coordinates array")
        part = part if modes[i] == "raise" else _moded(part, lengths[i], modes[i])
        total, step = total + part * step, step * lengths[i]
    return total


@row("packbits")
def packbits(a: Any, /, axis: Any = None, bitorder: str = "big") -> Tensor:
    """`numpy.packbits` on tensors: packs eight truth values into a uint8."""
    x = as_tensor(a)
    if kind(x.dtype) not in "biu":
        raise TypeError("Expected an input array of integer or boolean data type")
    x, place = (x.reshape(-1), 0) if axis is None or x.dim() == 0 else (x, normal_axis(axis, x.dim()))
    bits = cast(x, torch.bool).to(torch.int64).movedim(place, -1)
    short = -bits.shape[-1] % 8
    padded = torch.nn.functional.pad(bits, (0, short)).reshape((*bits.shape[:-1], (bits.shape[-1] + short) // 8, 8))
    weights = torch.tensor([1 << (7 - i if bitorder == "big" else i) for i in range(8)], device=x.device)
    return (padded * weights).sum(-1).to(torch.uint8).movedim(-1, place)


@row("unpackbits")
def unpackbits(a: Any, /, axis: Any = None, count: Any = None, bitorder: str = "big") -> Tensor:
    """`numpy.unpackbits` on tensors of uint8: unpacks each byte into eight bits."""
    x = as_tensor(a)
    if x.dtype != torch.uint8:
        raise TypeError("Expected an input array of unsigned byte data type")
    x, place = (x.reshape(-1), 0) if axis is None or x.dim() == 0 else (x, normal_axis(axis, x.dim()))
    steps = torch.tensor([7 - i if bitorder == "big" else i for i in range(8)], dtype=torch.uint8, device=x.device)
    moved = x.movedim(place, -1)
    bits = torch.bitwise_and(torch.bitwise_right_shift(moved[..., None], steps), 1)
    bits = bits.reshape((*moved.shape[:-1], moved.shape[-1] * 8))
    if count is not None:
        n = bits.shape[-1]
        if count < -n:
            raise ValueError(f"-ve count should be less than the number of elements ({-count} > {n})")
        bits = bits[..., :count] if count <= n else torch.nn.functional.pad(bits, (0, count - n))
    return bits.movedim(-1, place)


@row("real")
def real(val: Any) -> Tensor:
    """`numpy.real` of a tensor: a view of the real parts; the tensor itself if it is real."""
    x = as_tensor(val)
    return torch.real(x) if x.is_complex() else x


@row("imag", "imag-of-real")
def imag(val: Any) -> Tensor:
    """`numpy.imag` of a tensor; zeros for a real tensor."""
    x = as_tensor(val)
    return torch.imag(x) if x.is_complex() else torch.zeros_like(x)


def interp_1d(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None) -> Tensor:
    """Interpolate between points in increasing order, as `numpy.interp` does without a period."""
    at, places = cast(as_tensor(x), torch.float64), cast(as_tensor(xp), torch.float64)
    heights = as_tensor(fp)
    heights = cast(heights, torch.complex128 if heights.is_complex() else torch.float64)
    if places.dim() != 1 or heights.dim() != 1 or not places.numel():
        raise ValueError(
            "array of sample points is empty" if places.dim() == 1 else "object too deep for desired array"
        )
    if places.shape != heights.shape:
        raise ValueError("fp and xp are not of the same length.")
    n = places.shape[0]
    low = heights[0] if left is None else as_tensor(left, heights.dtype, heights)
    high = heights[-1] if right is None else as_tensor(right, heights.dtype, heights)
    j = torch.clamp(torch.searchsorted(places, at.contiguous(), right=True) - 1, 0, max(n - 2, 0))
    following = torch.clamp(j + 1, max=n - 1)
    slope = (heights[following] - heights[j]) / (places[following] - places[j])
    found = slope * (at - places[j]) + heights[j]
    # If an infinity made the value nan, interpolate from the other end; if both heights are equal, take that height.
    other = slope * (at - places[following]) + heights[following]
    flat = heights[j] == heights[following]
    found = torch.where(torch.isnan(found), torch.where(torch.isnan(other) & flat, heights[j], other), found)
    found = torch.where(at == places[j], heights[j], found)
    found = torch.where(at == places[-1], heights[-1], found)
    found = torch.where(at < places[0], low, torch.where(at > places[-1], high, found))
    return torch.where(torch.isnan(at), cast(at, heights.dtype), found)


def monotonicity(x: Any) -> int:
    """Return 1 if bins increase, -1 if they decrease, else 0; `numpy.digitize` uses this."""
    bins = as_tensor(x)
    steps = el.greater_equal(bins[1:], bins[:-1]), el.less_equal(bins[1:], bins[:-1])
    return 1 if bool(steps[0].all()) else -1 if bool(steps[1].all()) else 0
