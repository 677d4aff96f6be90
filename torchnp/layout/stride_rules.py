"""torch's stride rules, which compute the strides of a new result from its shape and the operands' strides.

Strides are in elements, as in torch, and a layout is a pair ``(shape, strides)``. torch's iterator orders dimensions by
the operands' strides with an insertion sort. The first operand with different strides decides the order of two
dimensions; an operand that is broadcast along one of them is skipped. Ties keep row-major order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import local
from typing import Any

import numpy as np

ndarray = np.ndarray
Shape = tuple[int, ...]
Strides = tuple[int, ...]
Layout = tuple[Shape, Strides]

CHANNELS_LAST = {4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}  # dimensions from the outermost in memory to the innermost

_FORMATS = (("contiguous_format", 0), ("preserve_format", 1), ("channels_last", 2), ("channels_last_3d", 3))
_FORMAT = {key: name for name, code in _FORMATS for key in (name, code, f"torch.{name}")}


def format_name(memory_format: Any) -> str:
    """Return the name of a memory format that is given as a name, as torch's number or as torch's object."""
    return _FORMAT.get(memory_format) or _FORMAT[str(memory_format)]


def layout_of(x: ndarray) -> Layout:
    """Return an array's shape, and its strides in elements."""
    size = x.itemsize
    return x.shape, tuple(s // size for s in x.strides)


class _Written(local):
    """The ``out=`` target of the running kernel, per thread; torch visits elements in the target's memory order.

    It is not a context variable, because fast paths run in the quiet context instead of the caller's context.
    """

    target: Any = None
    inplace: Any = None  # the target of an in-place call if it is not row-major
    onto: Any = None  # the target of an in-place call that `copy_to_write` returns instead of a copy


WRITTEN = _Written()

# ---------------------------------------------------------------- dense strides


def contiguous(shape: Sequence[int]) -> Strides:
    """Return row-major strides; a size of zero counts as one."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(strides[::-1])


def in_order(shape: Sequence[int], order: Sequence[int], empty: bool = False) -> Strides:
    """Return dense strides with the dimensions in the given memory order, outermost first.

    With ``empty``, strides are computed as in torch's iterator, where every dimension outside one of size zero has
    stride zero.
    """
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= shape[axis] if empty else max(shape[axis], 1)
    return tuple(strides)


def columns(shape: Sequence[int]) -> Strides:
    """Return dense strides with each matrix column-major, as LAPACK returns it."""
    n = len(shape)
    return contiguous(shape) if n < 2 else in_order(shape, [*range(n - 2), n - 1, n - 2])


def in_format(shape: Sequence[int], memory_format: str | None) -> Strides:
    """Return the strides of a new tensor in a named memory format."""
    if memory_format in ("channels_last", "channels_last_3d"):
        return in_order(shape, CHANNELS_LAST[len(shape)], empty=True)
    return contiguous(shape)


# ---------------------------------------------------------------- classifying strides


def is_contiguous(shape: Shape, strides: Strides) -> bool:
    """Return whether a tensor is dense in row-major order; this is true of every empty tensor."""
    return 0 in shape or all(n == 1 or a == b for n, a, b in zip(shape, strides, contiguous(shape)))


def is_channels_last(shape: Shape, strides: Strides) -> bool:
    """Return whether an image (or volume) is dense with its channels innermost."""
    order = CHANNELS_LAST.get(len(shape))
    return order is not None and all(
        n == 1 or a == b for n, a, b in zip(shape, strides, in_order(shape, order, empty=True))
    )


def is_dense(shape: Shape, strides: Strides) -> bool:
    """Return whether a tensor's elements fill one block of memory without gaps or overlap, in any order."""
    if 0 in shape:
        return True
    step = 1
    for s, n in sorted((s, n) for s, n in zip(strides, shape) if n > 1):
        if s != step:
            return False
        step *= n
    return True


def looks_channels_last(shape: Shape, strides: Strides) -> bool:
    """Return whether torch treats the strides as channels-last, even if not dense; ambiguous strides are row-major."""
    order = CHANNELS_LAST.get(len(shape))
    if order is None or strides[1] == 0:
        return False
    least = 0
    for axis in reversed(order):
        if shape[axis] == 0 or strides[axis] < least or (axis == 0 and least == strides[1]):
            return False
        least = strides[axis] * max(shape[axis], 1)
    return True


def suggested(shape: Shape, strides: Strides) -> str:
    """Return the memory format that torch's ``suggest_memory_format`` returns."""
    if looks_channels_last(shape, strides):
        return "channels_last" if len(shape) == 4 else "channels_last_3d"
    return "contiguous_format"


def suggested_beside(others: Sequence[Layout], shape: Shape, strides: Strides) -> str:
    """Return the memory format of a dense tensor that is used together with other dense tensors.

    The format is row-major if the tensor is also dense in that order, whatever its dimensions of size 1 suggest.
    """
    if others and all(is_contiguous(*x) or is_channels_last(*x) for x in ((shape, strides), *others)):
        if is_contiguous(shape, strides):
            return "contiguous_format"
        return "channels_last" if len(shape) == 4 else "channels_last_3d"
    return suggested(shape, strides)


def joined(layouts: Sequence[Layout]) -> str:
    """Return the memory format of ``cat``: the one that all tensors suggest, or row-major if they differ."""
    found = {suggested(*x) for x in layouts}
    return found.pop() if len(found) == 1 else "contiguous_format"


def as_image(sizes: Shape, strides: Strides) -> Layout:
    """Return the layout of a batch of rows that is viewed as images with one row by ``unsqueeze(2)``."""
    return (*sizes[:2], 1, sizes[2]), (*strides[:2], sizes[2] * strides[2], strides[2])


def stacked(layouts: Sequence[Layout], dim: int) -> Strides:
    """Return the strides of ``stack``, which is ``cat`` along the dimension with that dimension split afterwards."""
    sizes = layouts[0][0]
    split = (*sizes[:dim], len(layouts), *sizes[dim:])
    if dim == len(sizes):  # the last dimension is not split: torch unsqueezes each tensor
        return in_format(split, joined([((*shape, 1), (*strides, 1)) for shape, strides in layouts]))
    merged = (*sizes[:dim], sizes[dim] * len(layouts), *sizes[dim + 1 :])
    return viewed(merged, in_format(merged, joined(layouts)), split) or contiguous(split)


# ---------------------------------------------------------------- arrays


def place(x: ndarray, strides: Strides) -> ndarray:
    """Copy an array to the given strides, in elements; return it unchanged if it already has them."""
    if layout_of(x)[1] == strides:
        return x
    out = empty(x.shape, x.dtype, strides)
    out[...] = x
    return out


def empty(shape: Sequence[int], dtype: np.dtype, strides: Strides) -> ndarray:
    """Return a new array with strides given in elements; a row-major array owns its memory."""
    if strides == contiguous(shape) and 0 not in shape:
        return np.empty(shape, dtype)
    size = dtype.itemsize
    steps = tuple(s * size for s in strides)
    if 0 in shape:
        return ndarray(shape, dtype, _NOTHING, 0, steps)
    reach = 1 + sum((n - 1) * s for n, s in zip(shape, strides))
    return ndarray(shape, dtype, np.empty(reach * size, np.uint8), 0, steps)


_NOTHING = np.empty(0, np.uint8)  # the base of empty arrays with requested strides


def has_strides(x: ndarray) -> bool:
    """Return whether an empty array has torch's strides; new empty arrays of NumPy itself have strides of 0."""
    return any(x.strides) or x.base is _NOTHING


def dense(x: ndarray) -> ndarray:
    """Return the array with row-major strides, even if it is empty; copy it only if needed."""
    return place(x, contiguous(x.shape))


def cloned(x: ndarray) -> ndarray:
    """Return a dense copy with the layout of ``clone``, which keeps the strides of a dense or empty array."""
    out = empty(x.shape, x.dtype, preserved(*layout_of(x)))
    out[...] = x
    return out


# ---------------------------------------------------------------- the order of dimensions


def _insertion_sort(ndim: int, should_swap: Callable[[int, int], int]) -> list[int]:
    """Sort dimensions, innermost in memory first, by a comparison that may leave two dimensions undecided."""
    perm = list(range(ndim))[::-1]
    for i in range(1, ndim):
        right = i
        for left in range(i - 1, -1, -1):
            found = should_swap(perm[left], perm[right])
            if found > 0:
                perm[left], perm[right] = perm[right], perm[left]
                right = left
            elif found < 0:
                break
    return perm


def order_of(shape: Shape, operands: Sequence[Strides]) -> list[int]:
    """Return the dimensions from the outermost in memory to the innermost, each pair by the first operand that decides.

    Parameters
    ----------
    shape : tuple of int
        The common shape.
    operands : sequence of tuple of int
        The strides of each operand, expanded to ``shape``: zero where the operand is broadcast.
    """

    def should_swap(a: int, b: int) -> int:
        for strides in operands:
            inner, outer = strides[a], strides[b]
            if not inner or not outer:
                continue
            if inner != outer:
                return -1 if inner < outer else 1
            if shape[a] > shape[b]:
                return 1
        return 0

    return _insertion_sort(len(shape), should_swap)[::-1]


def preserved(shape: Shape, strides: Strides) -> Strides:
    """Return the strides of ``empty_like``: the tensor's own if it is dense, else dense strides in the same order."""
    if is_dense(shape, strides):
        return strides
    return in_order(shape, order_of(shape, [strides]))


def expanded(layout: Layout, shape: Shape) -> Strides:
    """Return the strides of an operand that is expanded to a larger common shape."""
    sizes, strides = layout
    lead = len(shape) - len(sizes)
    own = (0 if n == 1 and m != 1 else s for n, m, s in zip(sizes, shape[lead:], strides))
    return (0,) * lead + tuple(own)


def iterated(operands: Sequence[Layout]) -> Strides:
    """Return the strides that torch's iterator gives the result of an elementwise op."""
    shape = operands[0][0]
    if all(sizes == shape for sizes, _ in operands):
        if all(is_contiguous(*x) for x in operands):
            return contiguous(shape)
        if len(shape) == 4 and all(is_channels_last(*x) for x in operands):
            return in_format(shape, "channels_last")
        last = operands[-1][1]
        if all(strides == last for _, strides in operands) and is_dense(shape, last):
            return last
    else:
        shape = np.broadcast_shapes(*(sizes for sizes, _ in operands))
    order = order_of(shape, [expanded(x, shape) for x in operands])
    return contiguous(shape) if order == list(range(len(shape))) else in_order(shape, order, empty=True)


def vector_run(operands: Sequence[np.ndarray], shape: Shape, order: Sequence[int]) -> tuple[int, int]:
    """Return the number of elements over which torch vectorizes, and the first dimension in ``order`` in that run.

    torch vectorizes along the innermost dimensions, as long as each operand, broadcast to ``shape``, is contiguous in
    memory there. One operand may be a single element instead. If torch uses no vectors, the run has one element.
    """
    seen = [np.broadcast_to(x, shape).transpose(order) for x in operands]
    run, inner, still = 1, len(shape), [False] * len(seen)
    for d in reversed(range(len(shape))):
        size = shape[order[d]]
        if size == 1:
            continue
        steps = [x.strides[d] for x in seen]
        if run == 1:
            still = [step == 0 for step in steps]
        if sum(still) > 1 or any(step != (0 if s else run * x.itemsize) for step, s, x in zip(steps, still, seen)):
            break
        run, inner = run * size, d
    return run, inner


# ---------------------------------------------------------------- another shape


def viewed(shape: Shape, strides: Strides, size: Sequence[int]) -> Strides | None:
    """Return the strides of a view with another shape, or None if no view is possible.

    Even for dimensions of size 1 and for empty tensors, the strides are torch's (``computeStride_impl`` in
    ATen/TensorUtils.cpp).
    """
    if 0 in shape:
        return strides if tuple(size) == shape else contiguous(size)
    found = [0] * len(size)
    place, base = len(size) - 1, strides[-1] if shape else 1
    held = taken = 1  # elements in a run of dimensions without gaps, counted in the old and in the new shape
    for d in reversed(range(len(shape))):
        held *= shape[d]
        if d == 0 or (shape[d - 1] != 1 and strides[d - 1] != held * base):
            while place >= 0 and (taken < held or size[place] == 1):
                found[place] = taken * base
                taken *= size[place]
                place -= 1
            if taken != held:
                return None
            if d:
                base, held, taken = strides[d - 1], 1, 1
    if not shape:
        return (1,) * len(size)
    return tuple(found) if place < 0 else None


# ---------------------------------------------------------------- advanced indexing


def indexed(source: Layout, indices: Sequence[Layout | None]) -> Strides:
    """Return the strides of a tensor that is indexed with integer tensors, one tensor or None per leading dimension."""
    sizes, steps = source
    at = [i for i, x in enumerate(indices) if x is not None]
    given = [x for x in indices if x is not None]
    if not at:  # torch accepts this only for an empty tensor
        return contiguous(sizes)
    lead = at[0]
    if at != list(range(lead, lead + len(at))):  # torch moves the indexed dimensions to the front
        order = [*at, *(d for d in range(len(sizes)) if d not in at)]
        sizes, steps, lead = tuple(sizes[d] for d in order), tuple(steps[d] for d in order), 0
    shape = np.broadcast_shapes(*(x[0] for x in given))
    rest = sizes[lead + len(at) :]
    whole = (*sizes[:lead], *shape, *rest)
    taken = (whole, (*steps[:lead], *[0] * len(shape), *steps[lead + len(at) :]))
    return iterated([taken, *(_between(expanded(x, shape), shape, lead, len(rest)) for x in given)])


def _between(strides: Strides, shape: Shape, before: int, after: int) -> Layout:
    """Return the layout of an index with dimensions of size 1 added before and after its own."""
    first, last = (shape[0] * strides[0], strides[-1]) if shape else (1, 1)
    return (1,) * before + shape + (1,) * after, (first,) * before + strides + (last,) * after


# ---------------------------------------------------------------- transforms


def transformed(layout: Layout, sizes: Shape, dims: Sequence[int], whole: bool) -> Strides:
    """Return the strides of a Fourier transform's result.

    The transformed dimensions are innermost, the others are in the input's order.

    Parameters
    ----------
    layout
        The input's layout.
    sizes : tuple of int
        The result's shape.
    dims : sequence of int
        The transformed dimensions. The last one stays last unless ``whole``, that is, all frequencies of a complex
        input are returned.
    """
    strides = layout[1]
    far = lambda d: -strides[d]
    moved = sorted(dims, key=far) if whole else [*sorted(dims[:-1], key=far), dims[-1]]
    # Ties are ordered as by a partition that swaps elements from both ends.
    batch = list(range(len(sizes)))
    first, last = 0, len(batch)
    while True:
        while first != last and batch[first] not in dims:
            first += 1
        last -= first != last
        while first != last and batch[last] in dims:
            last -= 1
        if first == last:
            break
        batch[first], batch[last] = batch[last], batch[first]
        first += 1
    return in_order(sizes, [*sorted(batch[:first], key=far), *moved])
