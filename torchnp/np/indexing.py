"""NumPy's indexing: views and copies, negative steps, several arrays, masks, assignment with casts."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchnp.np.dtypes import WIDE_UNSIGNED, as_tensor, carried, cast, uncarried, values_are_here


def _parts(x: Tensor, index: Any) -> list[Any]:
    """Return the entries of an index, with lists and arrays as tensors; a list is one array, not several entries."""
    entries = list(index) if isinstance(index, tuple) else [index]
    return [_entry(x, e) for e in entries]


def _entry(x: Tensor, e: Any) -> Any:
    if e is None or e is Ellipsis:
        return e
    if isinstance(e, slice):
        return slice(*(None if v is None else _integer(v) for v in (e.start, e.stop, e.step)))
    if isinstance(e, (bool, np.bool)):
        return torch.tensor(bool(e), device=x.device)
    if isinstance(e, (int, np.integer)):
        return int(e)
    if isinstance(e, list) and not e:
        return torch.empty(0, dtype=torch.int64, device=x.device)
    if isinstance(e, (list, tuple, np.ndarray, Tensor)):
        found = as_tensor(e, like=x)
        if found.dtype != torch.bool and (found.is_floating_point() or found.is_complex()):
            raise IndexError("arrays used as indices must be of integer (or boolean) type")
        if found.dtype == torch.bool:
            return found
        return _wide_index(found)
    if hasattr(e, "__index__"):
        return e.__index__()
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are valid indices"
    )


def _wide_index(found: Tensor) -> Tensor:
    return carried(found).to(torch.int64)  # NumPy does not treat uint8 as a mask


def _integer(v: Any) -> int:
    return v.__index__() if hasattr(v, "__index__") else int(v)


def expanded(x: Tensor, index: Any) -> list[Any]:
    """Return an index with one entry for each dimension, without Ellipsis; raise NumPy's error for too many."""
    parts = _parts(x, index)
    taken = sum(
        0 if p is None or p is Ellipsis else (p.dim() if isinstance(p, Tensor) and p.dtype == torch.bool else 1)
        for p in parts
    )
    if sum(p is Ellipsis for p in parts) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if taken > x.dim():
        raise IndexError(f"too many indices for array: array is {x.dim()}-dimensional, but {taken} were indexed")
    if not any(p is Ellipsis for p in parts):
        parts.append(Ellipsis)
    at = next(i for i, p in enumerate(parts) if p is Ellipsis)
    return [*parts[:at], *(slice(None),) * (x.dim() - taken), *parts[at + 1 :]]


def _together(parts: list[Any]) -> tuple[int, ...]:
    """Return the shape to which integer index arrays broadcast; () if they don't, or if there are also masks."""
    indices = [p for p in parts if isinstance(p, Tensor)]
    if any(p.dtype == torch.bool for p in indices):
        return ()
    try:
        return tuple(torch.broadcast_shapes(*(p.shape for p in indices)))
    except RuntimeError:
        return ()


def _check_bounds(x: Tensor, parts: list[Any]) -> list[Any]:
    """Check integers and masks against the sizes of their dimensions, with NumPy's words."""
    dim = 0
    found: list[Any] = []
    shape = _together(parts)
    for p in parts:
        if p is None:
            found.append(p)
            continue
        if 0 in shape and isinstance(p, Tensor) and p.dtype != torch.bool:
            found.append(p.expand(shape))  # NumPy does not check indices that are broadcast to an empty shape
            dim += 1
            continue
        if isinstance(p, Tensor) and p.dtype == torch.bool:
            for i, n in enumerate(p.shape):
                if n != x.shape[dim + i]:
                    raise IndexError(
                        f"boolean index did not match indexed array along axis {dim + i}; size of axis is {x.shape[dim + i]} but "
                        f"size of corresponding boolean axis is {n}"
                    )
            dim += p.dim()
            found.append(p)
            continue
        size = x.shape[dim]
        if isinstance(p, int) and not -size <= p < size:
            raise IndexError(f"index {p} is out of bounds for axis {dim} with size {size}")
        if isinstance(p, Tensor) and p.numel() and values_are_here(p):
            check_indices(p, size, dim)
        found.append(p)
        dim += 1
    return found


def check_indices(index: Tensor, size: int, axis: int) -> None:
    """Raise NumPy's IndexError for the first index out of bounds."""
    bad = (index < -size) | (index >= size)
    if bool(bad.any()):
        first = int(index[bad].reshape(-1)[0])
        raise IndexError(f"index {first} is out of bounds for axis {axis} with size {size}")


def index_of(x: Tensor, index: Any) -> Tensor:
    """Return ``x[index]``: a view for integers and slices of positive steps, else a copy.

    Raises
    ------
    IndexError
        NumPy's own, for indices out of bounds, of other dtypes, or too many.
    """
    parts = _check_bounds(x, expanded(x, index))
    x, parts = _reversed(x, parts)
    if not any(isinstance(p, Tensor) for p in parts):
        return x[tuple(parts)]
    _check_together(parts)
    if x.dtype in WIDE_UNSIGNED:
        return uncarried(carried(x)[_placed(parts)], x.dtype)
    return x[_placed(parts)]


def _check_together(parts: list[Any]) -> None:
    shapes = [tuple(p.shape) for p in parts if isinstance(p, Tensor) and p.dtype != torch.bool]
    try:
        torch.broadcast_shapes(*shapes)
    except RuntimeError:
        words = " ".join(str(s).replace(" ", "") for s in shapes)
        raise IndexError(
            f"shape mismatch: indexing arrays could not be broadcast together with shapes {words} "
        ) from None


def _placed(parts: list[Any]) -> tuple[Any, ...]:
    """Return an index for torch. Integers become arrays too, so that the result's dimensions have NumPy's order."""
    arrays = [p for p in parts if isinstance(p, Tensor)]
    ndim = max(1 if p.dtype == torch.bool else p.dim() for p in arrays)
    shape = (1,) * ndim  # torch would take a 0-d tensor for an integer
    return tuple(torch.full(shape, p, device=arrays[0].device) if isinstance(p, int) else p for p in parts)


def _reversed(x: Tensor, parts: list[Any]) -> tuple[Tensor, list[Any]]:
    """Replace slices with negative steps by slices with positive steps of a flipped copy; torch has no such strides."""
    dim, found, flipped = 0, [], []
    for p in parts:
        if isinstance(p, slice) and p.step is not None and p.step < 0:
            picked = range(x.shape[dim])[p]
            flipped.append(dim)
            start = x.shape[dim] - 1 - (picked[0] if picked else x.shape[dim] - 1)
            stop = start + (len(picked) - 1) * -p.step + 1 if picked else start
            p = slice(start, stop, -p.step)
        elif isinstance(p, slice) and p.step == 0:
            raise ValueError("slice step cannot be zero")
        dim += 0 if p is None else (p.dim() if isinstance(p, Tensor) and p.dtype == torch.bool else 1)
        found.append(p)
    if not flipped:
        return x, found
    turned = torch.flip(carried(x), flipped)
    return uncarried(turned, x.dtype), found


def assign(x: Tensor, index: Any, value: Any) -> None:
    """Do ``x[index] = value`` in place; the value is cast as in C, and an array of too many elements is an error."""
    from torchnp.np.dtypes import is_weak, number

    if is_weak(value):
        if type(value) is complex and not x.is_complex():
            raise TypeError(
                f"{'float' if x.is_floating_point() else 'int'}() argument must be a string or a real number, not 'complex'"
            )
        # A float is truncated; an integer out of range is an error.
        whole = type(value) is float and not (x.is_floating_point() or x.is_complex()) and x.dtype != torch.bool
        value = number(int(value) if whole else value, x.dtype, x)
    given = cast(as_tensor(value, like=x), x.dtype)
    parts = _check_bounds(x, expanded(x, index))
    whole = any(p is Ellipsis for p in (index if isinstance(index, tuple) else (index,)))
    if given.dim() and not whole and all(type(p) is int for p in parts):
        raise ValueError("setting an array element with a sequence.")
    negative = any(isinstance(p, slice) and (p.step or 1) < 0 for p in parts)
    arrays = any(isinstance(p, Tensor) for p in parts)
    if not given.dim() and (mask := _leading_mask(parts)) is not None and not values_are_here(mask):
        x.copy_(torch.where(mask.reshape(*mask.shape, *[1] * (x.dim() - mask.dim())), given, x))
        return
    if not negative and not arrays:
        target = x[tuple(parts)]
        target.copy_(_fitted(given, target.shape))
        return
    places = torch.arange(x.numel(), device=x.device).reshape(x.shape)
    chosen = index_of(places, tuple(parts))
    _put_flat(x, chosen, _fitted(given, chosen.shape))


def _leading_mask(parts: list[Any]) -> Tensor | None:
    """Return the mask of an index that consists of one mask, on the first dimensions; else None."""
    first = parts[0] if parts else None
    alone = isinstance(first, Tensor) and first.dtype == torch.bool
    return first if alone and all(isinstance(p, slice) and p == slice(None) for p in parts[1:]) else None


def _put_flat(x: Tensor, places: Tensor, value: Tensor) -> None:
    flat = carried(x).reshape(-1).clone() if x.dtype in WIDE_UNSIGNED or not x.is_contiguous() else None
    if flat is None:
        x.view(-1).index_put_((places.reshape(-1),), value.reshape(-1))
        return
    put = flat.index_put((places.reshape(-1),), carried(value).reshape(-1))
    x.copy_(uncarried(put, x.dtype).reshape(x.shape))


def _fitted(value: Tensor, shape: Any) -> Tensor:
    """Broadcast a value to the shape of its target; leading dimensions of size 1 are dropped, as NumPy does."""
    while value.dim() > len(shape) and value.shape[0] == 1:
        value = value[0]
    try:
        return value.broadcast_to(shape)
    except RuntimeError:
        given, wanted = (str(tuple(s)).replace(" ", "") for s in (value.shape, shape))
        raise ValueError(f"could not broadcast input array from shape {given} into shape {wanted}") from None
