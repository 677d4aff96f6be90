"""The same call with other memory layouts of its arguments, with empty or 0-d arguments, or with many elements."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...case import DTYPES, Array, Case, map_tree, schemas, whole, window
from ...schema_facts import is_fragile, is_of_matrices, is_out, written_arrays
from ..constraints.table import constraint_of
from ..drawable import takes_any_shape

# Which arguments get a new layout, and which layout; the others keep theirs.
KINDS = (
    "all last", "all sliced", "first last", "all empty", "all mixed", "second last", "first single", "all spread",
    "first swapped", "all expanded", "all single",
)  # fmt: skip


def relaid(case: Case, kind: str) -> Case | None:
    """Return the case with arguments in new memory in the layout ``kind``, or None if the call does not change.

    Arguments that are written, share memory or are empty keep their layout.
    """
    which, how = kind.split()
    arrays = case.arrays()
    if how == "expanded" and is_of_matrices(case.op):
        return None
    if is_out(case.op):  # some operators check the shape of out= only if the input is contiguous
        return None
    if is_fragile(case.op) or any(arrays.count(a) > 1 for a in arrays):
        return None
    held = written_arrays(case)
    uses = [a.buffer for a in arrays]
    free = [i for i, a in enumerate(arrays) if i not in held and uses.count(a.buffer) == 1 and 0 not in a.shape]
    if which == "first":
        free = [i for i in free if arrays[i].shape][:1]
    if which == "second":
        free = [i for i in free if arrays[i].shape][1:2]
    if how in ("empty", "single"):
        alone = which == "first" and "pointwise" not in schemas()[case.op].tags
        every = free if which == "first" else range(len(arrays))
        return None if alone or not takes_any_shape(case.op) else cut(case, arrays, every, how)
    buffers = list(case.buffers)
    made: dict[int, Array] = {}
    for place, i in enumerate(free):
        a = arrays[i]
        order = _order(how, a.shape, place)
        buffers[a.buffer], made[i] = lay_out(
            a, a.on(case.buffers), order, spread=how == "spread", flat=how == "expanded", slack=how == "sliced"
        )
    return windowed(case, made, buffers) if any(made[i].strides != arrays[i].strides for i in made) else None


def windowed(case: Case, made: Mapping[int, Array], buffers: list[np.ndarray]) -> Case:
    """Return the case with some of its arrays, given by their index, replaced by other windows."""
    count = iter(range(len(case.arrays())))

    def leaf(x: object) -> object:
        return made.get(next(count), x) if isinstance(x, Array) else x

    return replace(case, args=map_tree(leaf, case.args), kwargs=map_tree(leaf, case.kwargs), buffers=buffers, digest="")


def retyped(case: Case, name: str) -> Case | None:
    """Return the case with arrays of the first one's dtype cast to another; None if arrays share memory."""
    arrays = case.arrays()
    if not arrays or len({a.buffer for a in arrays}) < len(arrays):
        return None
    made, buffers = {}, list(case.buffers)
    for i, a in enumerate(arrays):
        if a.dtype == arrays[0].dtype:
            buffers[a.buffer], made[i] = whole(cast(a.on(case.buffers), name), a.buffer)
    return windowed(case, made, buffers)


def cast(x: np.ndarray, name: str) -> np.ndarray:
    """Return an array converted to a dtype; for unsigned dtypes, its absolute values are converted."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ignore warnings about discarded imaginary parts
        return np.asarray(abs(x) if name.startswith("uint") else x).astype(DTYPES[name])


def cut(case: Case, arrays: Sequence[Array], which: Iterable[int], how: str) -> Case | None:
    """Return the case with empty arrays, which have one of the first array's sizes set to 0, or with 0-d arrays."""
    first = next((a for a in arrays if a.shape and 0 not in a.shape), None)
    if first is None or len({a.buffer for a in arrays}) < len(arrays):
        return None
    buffers = list(case.buffers)
    axis = int(case.digest[6:8], 16) % len(first.shape)
    made = {}
    for i in which:
        a = arrays[i]
        if how == "single" and 0 not in a.shape:
            made[i] = replace(a, shape=(), strides=())
        place = axis - (0 if len(a.shape) == len(first.shape) else len(first.shape))
        if how == "empty" and -len(a.shape) <= place < len(a.shape) and a.shape[place] == first.shape[axis]:
            shape = list(a.shape)
            shape[place] = 0
            steps = np.cumprod([1, *(max(n, 1) for n in shape[:0:-1])])[::-1] * DTYPES[a.dtype].itemsize
            made[i] = Array(a.buffer, a.dtype, tuple(shape), tuple(map(int, steps)))
            buffers[a.buffer] = np.zeros(0, np.uint8)
    return windowed(case, made, buffers)


def _order(how: str, shape: Sequence[int], place: int) -> list[int]:
    """Return the dimensions in memory order, outermost first."""
    axes = list(range(len(shape)))
    if len(axes) < 2 or how in ("expanded", "sliced"):
        return axes
    if how in ("last", "spread"):
        return [0, *axes[2:], 1] if len(axes) > 3 else axes[::-1]
    if how == "swapped":
        return [*axes[:-2], axes[-1], axes[-2]]
    turn = 1 + place % (len(axes) - 1)
    return axes[turn:] + axes[:turn]


SIZED = {"dim", "dtype"}  # arguments of reductions, scans and sorts
ENLARGED = 40_000  # elements: more than one chunk of a kernel, and enough for algorithms for many elements


def longest(case: Case, ndim: int) -> int:
    """Return the dimension along which `enlarged` repeats a call, counted from the end."""
    return int(case.digest[6:8], 16) % ndim - ndim


def enlarged(case: Case, length: int = 0) -> Case | None:
    """Return the case with values repeated along one dimension, to `ENLARGED` elements or to about ``length``.

    Return None if shapes are not free, or if the result may be far larger than the arguments, as for a matrix that is
    made from its diagonal, or for a list of results.
    """
    s = schemas()[case.op]
    if (
        s.is_view
        or any("[]" in str(r) for r in s.returns)
        or not ({"pointwise"} & set(s.tags) or SIZED & {a.name for a in s.args})
    ):
        return None
    arrays = case.arrays()
    first = next((a for a in arrays if a.shape), None)
    if (
        first is None
        or not takes_any_shape(case.op)
        or is_out(case.op)
        or is_fragile(case.op)
        or is_of_matrices(case.op)
    ):
        return None
    if any(0 in a.shape for a in arrays) or len({a.buffer for a in arrays}) < len(arrays):
        return None
    if constraint_of(case.op).values != "any" and any((x != x).any() for x in (a.on(case.buffers) for a in arrays)):
        return None  # torch may treat many NaNs differently from a few
    axis = longest(case, len(first.shape))
    times = -(-length // first.shape[axis]) if length else ENLARGED // int(np.prod(first.shape))
    made, buffers = {}, list(case.buffers)
    for i, a in enumerate(arrays):
        if len(a.shape) >= -axis and a.shape[axis] == first.shape[axis]:
            parts = [times if d == axis + len(a.shape) else 1 for d in range(len(a.shape))]
            buffers[a.buffer], made[i] = whole(np.tile(a.on(case.buffers), parts), a.buffer)
    return windowed(case, made, buffers) if times > 1 else None


def lay_out(
    a: Array, values: np.ndarray, order: Sequence[int], spread: bool, flat: bool, slack: bool
) -> tuple[np.ndarray, Array]:
    """Copy values into a new buffer with another layout; return the buffer and the array on it.

    ``spread`` doubles the innermost stride; ``flat`` gives the largest dimension stride 0. With ``slack`` the array
    starts one element after the start of the buffer, and each dimension is followed by a gap.
    """
    strides, step = [0] * len(order), DTYPES[a.dtype].itemsize
    widest = max(range(len(order)), key=lambda i: a.shape[i], default=None)
    for axis in reversed(order):
        step *= 2 if spread and axis == order[-1] else 1
        strides[axis] = step
        if flat and axis == widest:
            strides[axis] = 0
        else:
            step *= max(a.shape[axis], 1) + slack
    # Allocate at least the contiguous size, because some of torch's kernels read expanded arrays as contiguous.
    memory = np.zeros(max(step, values.size * DTYPES[a.dtype].itemsize) + DTYPES[a.dtype].itemsize * slack, np.uint8)
    offset = DTYPES[a.dtype].itemsize if slack and values.size and a.shape else 0
    new = Array(a.buffer, a.dtype, a.shape, tuple(strides), offset)
    if flat and values.size and widest is not None:
        values = np.take(values, [0], widest)
        window(memory, DTYPES[a.dtype], values.shape, new.strides, offset)[...] = values
    elif values.size:
        window(memory, DTYPES[a.dtype], a.shape, new.strides, offset)[...] = values
    return memory, new
