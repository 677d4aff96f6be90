"""`unique` and `put_along_axis`: for these, NumPy's own code needs record dtypes and flat iterators."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from torchnp.np import elementwise as el
from torchnp.np.axes import normal_axis
from torchnp.np.dtypes import as_tensor, carried, uncarried
from torchnp.np.rebind_numpy_functions import by_numpys_code
from torchnp.np.selection import put
from torchnp.np.sorting import lexsort
from torchnp.np.table import row

_distinct = by_numpys_code("unique")
_put_along = by_numpys_code("put_along_axis")


@row("unique", "unique-results unique-nan")
def unique(
    ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: Any = None,
    **kwargs: Any,
) -> Any:  # fmt: skip
    """`numpy.unique` on tensors: sorted distinct elements, or slices along ``axis``, and their indices."""
    x = as_tensor(ar)
    if axis is None or x.dim() == 1:
        return _distinct(x, return_index, return_inverse, return_counts, axis, **kwargs)
    place = normal_axis(axis, x.dim())
    moved = x.movedim(place, 0)
    n, rest = moved.shape[0], tuple(moved.shape[1:])
    flat = carried(moved).reshape(n, math.prod(rest))
    order = lexsort(flat.flip(1).unbind(1)) if flat.shape[1] else torch.arange(n, device=x.device)
    ordered = flat[order]
    first = torch.ones(n, dtype=torch.bool, device=x.device)
    first[1:] = el.not_equal(ordered[1:], ordered[:-1]).any(1)
    starts = torch.nonzero(first)[:, 0]
    found = uncarried(ordered[starts].reshape((starts.shape[0], *rest)), x.dtype).movedim(0, place)
    results = [found]
    if return_index:
        results.append(order[starts])
    if return_inverse:
        group = torch.cumsum(first.to(torch.int64), 0) - 1
        inverse = torch.empty_like(order).index_put((order,), group)
        results.append(inverse)
    if return_counts:
        ends = torch.cat([starts[1:], torch.tensor([n], device=x.device)])
        results.append(ends - starts)
    return tuple(results) if len(results) > 1 else found


@row("put_along_axis", "index-copy-long")
def put_along_axis(arr: Tensor, indices: Any, values: Any, axis: Any) -> None:
    """`numpy.put_along_axis` on tensors, in place; with ``axis=None``, into the flattened tensor."""
    if axis is not None:
        _put_along(arr, indices, values, axis)
        return
    if as_tensor(indices).dim() != 1:
        raise ValueError("when axis=None, `indices` must have a single dimension.")
    put(arr, indices, values)
