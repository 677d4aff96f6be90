"""Shapes, joins and repeats, with NumPy's arguments: views where torch has them, else copies."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchnp.np.axes import normal_axes, normal_axis
from torchnp.np.dtypes import as_tensor, can_cast, carried, cast, numpy_dtype, result_dtype, torch_dtype, uncarried
from torchnp.np.table import add_row, row
from torchnp.np.ufunc import write


def sizes(shape: Any) -> tuple[int, ...]:
    """Return a shape as a tuple, from an integer or a sequence of integers."""
    if isinstance(shape, Tensor):
        shape = shape.tolist()
    if isinstance(shape, (Sequence, torch.Size)) or hasattr(shape, "__iter__"):
        return tuple(operator.index(n) for n in shape)
    return (operator.index(shape),)


def _text(shape: Sequence[int]) -> str:
    return f"({','.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def _ordered(order: str) -> str:
    if order not in ("C", "F", "A", "K"):
        raise ValueError(f"order must be one of 'C', 'F', 'A', or 'K' (got '{order}')")
    return order


def _reversed_axes(x: Tensor) -> Tensor:
    return x.permute(tuple(reversed(range(x.dim()))))


def is_fortran(x: Tensor) -> bool:
    """Return whether a tensor is column-major contiguous, and not row-major."""
    return x.dim() > 1 and not x.is_contiguous() and _reversed_axes(x).is_contiguous()


@row("reshape", "unflatten-needs-sizes prims-count-from-front")
def reshape(a: Any, /, shape: Any = None, order: str = "C", *, copy: bool | None = None) -> Tensor:
    """`numpy.reshape` on tensors."""
    x = as_tensor(a)
    if shape is None:
        raise TypeError("reshape() missing 1 required positional argument: 'shape'")
    wanted = sizes(shape)
    _checked_sizes(x, wanted)
    by_columns = _ordered(order) == "F" or (order in "A" and is_fortran(x))
    if by_columns:
        whole = _filled(x, wanted)
        found = _reversed_axes(_reversed_axes(x).reshape(tuple(reversed(whole))))
    else:
        found = x.reshape(_filled(x, wanted))
    if copy is False and x.numel() and found.data_ptr() != x.data_ptr():
        raise ValueError("Unable to avoid creating a copy while reshaping.")
    return found.clone() if copy and found.data_ptr() == x.data_ptr() else found


def _filled(x: Tensor, wanted: tuple[int, ...]) -> tuple[int, ...]:
    rest = 1
    for n in wanted:
        rest *= n if n >= 0 else 1
    return tuple(x.numel() // max(rest, 1) if n < 0 else n for n in wanted)


def _checked_sizes(x: Tensor, wanted: tuple[int, ...]) -> None:
    unknown = [n for n in wanted if n < 0]
    rest = 1
    for n in wanted:
        rest *= n if n >= 0 else 1
    if len(unknown) > 1:
        raise ValueError("can only specify one unknown dimension")
    fits = x.numel() == rest if not unknown else rest and x.numel() % rest == 0
    if not fits:
        raise ValueError(f"cannot reshape array of size {x.numel()} into shape {_text(wanted)}")


@row("ravel", "view-never-copies")
def ravel(a: Any, order: str = "C") -> Tensor:
    """`numpy.ravel` on tensors: a view where the memory allows it."""
    x = as_tensor(a)
    by_columns = _ordered(order) == "F" or (order in "AK" and is_fortran(x))
    return _reversed_axes(x).reshape(-1) if by_columns else x.reshape(-1)


@row("transpose permute_dims", "transpose-pair t-of-matrices")
def transpose(a: Any, axes: Any = None) -> Tensor:
    """`numpy.transpose` on tensors: a view with its axes reversed, or permuted."""
    x = as_tensor(a)
    if axes is None:
        return _reversed_axes(x)
    order = tuple(operator.index(i) for i in axes)
    if len(order) != x.dim():
        raise ValueError("axes don't match array")
    order = tuple(normal_axis(i, x.dim()) for i in order)
    if len(set(order)) != len(order):
        raise ValueError("repeated axis in transpose")
    return x.permute(order)


@row("matrix_transpose linalg.matrix_transpose", "t-of-matrices")
def matrix_transpose(x: Any, /) -> Tensor:
    """`numpy.matrix_transpose` on tensors."""
    value = as_tensor(x)
    if value.dim() < 2:
        raise ValueError(f"Input array must be at least 2-dimensional, but it is {value.dim()}")
    return value.transpose(-1, -2)


@row("swapaxes")
def swapaxes(a: Any, axis1: int, axis2: int) -> Tensor:
    """`numpy.swapaxes` on tensors."""
    x = as_tensor(a)
    first, second = normal_axis(axis1, x.dim(), "axis1"), normal_axis(axis2, x.dim(), "axis2")
    return x.transpose(first, second)


@row("squeeze", "squeeze-size-not-1")
def squeeze(a: Any, axis: Any = None) -> Tensor:
    """`numpy.squeeze` on tensors; an axis whose size is not 1 is an error."""
    x = as_tensor(a)
    if axis is None:
        return x.squeeze()
    if x.dim() == 0 and not isinstance(axis, tuple):
        normal_axis(axis, 1)
        return x
    axes = normal_axes(axis if isinstance(axis, tuple) else (axis,), x.dim())
    if any(x.shape[i] != 1 for i in axes):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return x.reshape([n for i, n in enumerate(x.shape) if i not in axes]) if not axes else x.squeeze(axes)


@row("expand_dims")
def expand_dims(a: Any, axis: Any) -> Tensor:
    """`numpy.expand_dims` on tensors."""
    x = as_tensor(a)
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = normal_axes(tuple(given), x.dim() + len(given))
    for place in sorted(axes):
        x = x.unsqueeze(place)
    return x


@row("broadcast_to", "expand-minus-1")
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Tensor:
    """`numpy.broadcast_to` on tensors: a view in which repeated elements share memory."""
    x, wanted = as_tensor(array), sizes(shape)
    if not wanted and x.dim():
        raise ValueError("cannot broadcast a non-scalar to a scalar array")
    if any(n < 0 for n in wanted):
        raise ValueError("all elements of broadcast shape must be non-negative")
    aligned = x.dim() <= len(wanted) and all(
        n in (1, m) for n, m in zip(reversed(x.shape), reversed(wanted), strict=False)
    )
    if not aligned:
        shapes = f"original->remapped]: {_text(x.shape)}  and requested shape {_text(wanted)}"
        raise ValueError(f"operands could not be broadcast together with remapped shapes [{shapes}")
    return x.expand(wanted)


@row("lib.stride_tricks.as_strided", "as-strided-storage as-strided-elements")
def as_strided(x: Any, shape: Any = None, strides: Any = None, subok: bool = False, writeable: bool = True) -> Tensor:
    """`numpy.lib.stride_tricks.as_strided` of a tensor: strides in bytes, counted from the tensor's first element."""
    value = as_tensor(x)
    steps = [s * value.element_size() for s in value.stride()] if strides is None else sizes(strides)
    if any(s < 0 or s % value.element_size() for s in steps):
        raise ValueError("strides of tensors are whole elements, and not negative")
    elements = [s // value.element_size() for s in steps]
    return torch.as_strided(value, tuple(value.shape) if shape is None else sizes(shape), elements)


@row("broadcast_arrays")
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[Tensor, ...]:
    """`numpy.broadcast_arrays` on tensors."""
    parts = [as_tensor(a) for a in args]
    shape = common_shape(*(p.shape for p in parts))
    return tuple(p.expand(shape) for p in parts)


def common_shape(*shapes: Any) -> tuple[int, ...]:
    """Return the broadcast shape, or raise NumPy's ValueError."""
    try:
        return tuple(torch.broadcast_shapes(*shapes))
    except RuntimeError:
        words = " ".join(_text(s) for s in shapes)
        raise ValueError(f"shape mismatch: objects cannot be broadcast to a single shape: {words}") from None


@row("broadcast_shapes")
def broadcast_shapes(*args: Any) -> tuple[int, ...]:
    """`numpy.broadcast_shapes`."""
    return common_shape(*map(sizes, args))


@row("flip", "flip-copies")
def flip(m: Any, axis: Any = None) -> Tensor:
    """`numpy.flip` on tensors, as a copy: torch has no negative strides."""
    x = as_tensor(m)
    axes = normal_axes(axis if axis is None or isinstance(axis, tuple) else (axis,), x.dim())
    return uncarried(torch.flip(carried(x), axes), x.dtype) if axes else x


@row("roll", "roll-aligned roll-needs-shifts")
def roll(a: Any, shift: Any, axis: Any = None) -> Tensor:
    """`numpy.roll` on tensors; shifts and axes broadcast. With ``axis=None``, the flattened tensor is rolled."""
    x = as_tensor(a)
    shift = shift.tolist() if isinstance(shift, Tensor) else shift
    if axis is None:
        return torch.roll(x.reshape(-1), int(np.sum(shift))).reshape(x.shape)
    axes = normal_axes(axis if isinstance(axis, tuple) else (axis,), x.dim(), repeats=True)
    pairs = np.broadcast(shift, axes)
    if pairs.ndim > 1:
        raise ValueError("'shift' and 'axis' should be scalars or 1D sequences")
    steps: dict[int, int] = dict.fromkeys(range(x.dim()), 0)
    for s, i in pairs:
        steps[int(i)] += int(s)
    for i, s in steps.items():
        x = torch.roll(x, s % max(x.shape[i], 1), i) if s else x
    return x.clone() if x is a else x


@row("concatenate concat", "cat-legacy-empty int-float-promotion")
def concatenate(
    arrays: Any, /, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Tensor:
    """`numpy.concatenate` on tensors; the dtype is NumPy's result type."""
    parts = [as_tensor(a) for a in (arrays.unbind() if isinstance(arrays, Tensor) and arrays.dim() else arrays)]
    if not parts:
        raise ValueError("need at least one array to concatenate")
    if axis is None:
        parts, axis = [p.reshape(-1) for p in parts], 0
    place = normal_axis(axis, parts[0].dim()) if parts[0].dim() else 0
    if any(p.dim() == 0 for p in parts):
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    _checked_join(parts, place)
    if out is not None and dtype is not None:
        raise TypeError("concatenate() only takes `out` or `dtype` as an argument, but both were provided.")
    if out is not None:
        target = out.dtype
    elif dtype is not None:
        target = torch_dtype(dtype)
    else:
        target = result_dtype(*(p.dtype for p in parts))
    for p in parts:
        if not can_cast(p.dtype, target, casting):
            names = (numpy_dtype(p.dtype), numpy_dtype(target))
            raise TypeError(
                f"Cannot cast array data from {names[0]!r} to {names[1]!r} according to the rule '{casting}'"
            )
    found = torch.cat([cast(p, target) for p in parts], place)
    if out is not None and out.shape != found.shape:
        raise ValueError("Output array is the wrong shape")
    return found if out is None else write(out, found)


def _checked_join(parts: list[Tensor], place: int) -> None:
    first = parts[0]
    for i, p in enumerate(parts):
        if p.dim() != first.dim():
            raise ValueError(
                f"all the input arrays must have same number of dimensions, but the array at index 0 has {first.dim()} "
                f"dimension(s) and the array at index {i} has {p.dim()} dimension(s)"
            )
        for d, (n, m) in enumerate(zip(first.shape, p.shape, strict=True)):
            if d != place and n != m:
                raise ValueError(
                    "all the input array dimensions except for the concatenation axis must match exactly, but along dimension "
                    f"{d}, the array at index 0 has size {n} and the array at index {i} has size {m}"
                )


@row("repeat", "repeat-is-tile repeats-keep-dtype repeat-output-size repeat-of-number")
def repeat(a: Any, repeats: Any, axis: Any = None) -> Tensor:
    """`numpy.repeat` on tensors: repeats each element along ``axis``; with None, the tensor is flattened first."""
    x = as_tensor(a)
    if axis is None:
        x, place = x.reshape(-1), 0
    else:
        x = x.reshape(1) if x.dim() == 0 else x
        place = normal_axis(axis, x.dim())
    counts = as_tensor(repeats, like=x)
    if counts.dtype == torch.uint64 and counts.dim() == 0:
        counts = counts.view(torch.int64)  # a single count is passed as a Python number
    if counts.dim() > 1:
        raise ValueError("object too deep for desired array")
    counts = counts.reshape(-1)
    if not can_cast(counts.dtype, torch.int64, "safe"):
        raise TypeError(
            f"Cannot cast array data from {numpy_dtype(counts.dtype)!r} to dtype('int64') according to the rule 'safe'"
        )
    counts = carried(counts).to(torch.int64)
    if counts.shape[0] not in (1, x.shape[place]):
        raise ValueError(
            f"operands could not be broadcast together with shape ({x.shape[place]},) ({counts.shape[0]},)"
        )
    if isinstance(repeats, int):
        if repeats < 0:
            raise ValueError("repeats may not contain negative values.")
        return uncarried(torch.repeat_interleave(carried(x), repeats, place), x.dtype)
    if bool((counts < 0).any()):
        raise ValueError("repeats may not contain negative values.")
    return uncarried(torch.repeat_interleave(carried(x), counts.expand(x.shape[place]), place), x.dtype)


@row("resize", "resize-in-memory")
def resize(a: Any, new_shape: Any) -> Tensor:
    """`numpy.resize` on tensors: a copy that repeats the elements in row-major order."""
    x, wanted = as_tensor(a).reshape(-1), sizes(new_shape)
    count = 1
    for n in wanted:
        if n < 0:
            raise ValueError("all elements of `new_shape` must be non-negative")
        count *= n
    if x.shape[0] == 0:
        return torch.zeros(wanted, dtype=x.dtype, device=x.device)
    repeated = x.repeat(-(-count // x.shape[0])) if count else x[:0]
    return repeated[:count].reshape(wanted)


@row("diagonal", "diag-embed-batches")
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """`numpy.diagonal` on tensors: a view; the axes default to the first two."""
    x = as_tensor(a)
    if x.dim() < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    first, second = normal_axis(axis1, x.dim(), "axis1"), normal_axis(axis2, x.dim(), "axis2")
    if first == second:
        raise ValueError("axis1 and axis2 cannot be the same")
    found = torch.diagonal(x, offset if abs(offset) <= max(x.shape[first], x.shape[second]) else 0, first, second)
    return found if abs(offset) <= max(x.shape[first], x.shape[second]) else found[..., :0]


@row("trace", "sum-dtype")
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Tensor:
    """`numpy.trace` on tensors of any number of dimensions: sums of diagonals."""
    from torchnp.np.elementwise import add

    return add.reduce(diagonal(a, offset, axis1, axis2), -1, dtype, out)


def _size_of(name: str) -> None:
    def function(a: Any, axis: Any = None) -> Any:
        x = as_tensor(a)
        if name == "size":
            if axis is None:
                return x.numel()
            count = 1
            for i in normal_axes(axis if isinstance(axis, tuple) else (axis,), x.dim()):
                count *= x.shape[i]
            return count
        return x.dim() if name == "ndim" else tuple(x.shape)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`numpy.{name}` of tensors, as Python integers."
    add_row(name, function)


for _name in ("size", "ndim", "shape"):
    _size_of(_name)


@row("shares_memory may_share_memory")
def shares_memory(a: Any, b: Any, /, max_work: Any = None) -> bool:
    """`numpy.shares_memory` of tensors: NumPy checks arrays on their memory."""
    from torchnp.interop import to_numpy

    return bool(np.shares_memory(*(to_numpy(t.detach()) if isinstance(t, Tensor) else t for t in (a, b))))  # type: ignore[arg-type]
