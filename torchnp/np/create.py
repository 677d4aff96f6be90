"""New tensors and casts, with NumPy's defaults: floats are float64, integers int64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchnp.np.dtypes import (
    NUMPY_OF,
    as_tensor,
    beside,
    can_cast,
    carried,
    cast,
    number,
    numpy_dtype,
    result_dtype,
    torch_dtype,
    uncarried,
)
from torchnp.np.shapes import broadcast_to, is_fortran, sizes
from torchnp.np.table import add_row, row


def _by_columns(found: Tensor, order: str) -> Tensor:
    """Return a new tensor in the memory layout that ``order`` requests."""
    if order not in ("C", "F", "A", "K", None):
        raise ValueError(f"order must be one of 'C', 'F', 'A', or 'K' (got '{order}')")
    if order != "F" or found.dim() < 2:
        return found
    turned = tuple(reversed(range(found.dim())))
    return found.permute(turned).contiguous().permute(turned)


@row("array", "default-dtype scalar-tensor-is-float")
def array(
    object: Any, dtype: Any = None, *, copy: Any = True, order: str = "K", subok: bool = False, ndmin: int = 0,
    ndmax: int = 0, like: Any = None,
) -> Tensor:  # fmt: skip
    """`numpy.array` that returns a tensor: a copy, with NumPy's dtype (``[1.0]`` is float64)."""
    found = as_tensor(object, dtype)
    if copy and found is object:
        found = found.clone(memory_format=torch.preserve_format if order in ("K", "A") else torch.contiguous_format)
    elif copy and isinstance(object, np.ndarray):
        found = found.clone()
    if copy is False and isinstance(object, Tensor) and found is not object:
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    found = found.reshape((1,) * (ndmin - found.dim()) + tuple(found.shape)) if found.dim() < ndmin else found
    return _by_columns(found, order)


def _as_array(name: str, contiguous: str = "", ndmin: int = 0) -> None:
    def function(
        a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: Any = None, like: Any = None
    ) -> Tensor:
        found = array(a, dtype, copy=copy or None, order=order or "K", ndmin=ndmin) if copy is not False else array(
            a, dtype, copy=False)  # fmt: skip
        if contiguous == "C":
            return found.contiguous()
        return _by_columns(found, "F") if contiguous == "F" and not is_fortran(found) else found

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`numpy.{name}` as a tensor; a tensor that already has the dtype is returned itself."
    add_row(name, function, "contiguous-0d default-dtype" if contiguous else "default-dtype")


_as_array("asarray")
_as_array("asanyarray")
_as_array("ascontiguousarray", "C", 1)
_as_array("asfortranarray", "F", 1)


@row("copy", "memory-format")
def copy(a: Any, order: str = "K", subok: bool = False) -> Tensor:
    """`numpy.copy` of a tensor, in the same memory layout."""
    return array(a, order=order, copy=True)


@row("astype", "always-complex float-dtypes-alone masked-fill-truncates")
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """`numpy.astype` of a tensor: converts as a cast in C."""
    value = as_tensor(x)
    found = cast(value, torch_dtype(dtype))
    return found.clone() if copy and found is value else found


def _filled(name: str, fill: Any) -> None:
    def function(shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None) -> Tensor:
        wanted = sizes(shape)
        if any(n < 0 for n in wanted):
            raise ValueError("negative dimensions are not allowed")
        kind = torch.float64 if dtype is None else torch_dtype(dtype)
        return beside(_by_columns(torch.full(wanted, fill, dtype=kind, device=_device(device)), order))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`numpy.{name}` as a tensor, float64 by default; ``device`` is torch's."
    add_row(name, function, "default-dtype")


def _device(device: Any) -> Any:
    return None if device in (None, "cpu") else device


_filled("zeros", 0)
_filled("ones", 1)
_filled("empty", 0)  # NumPy leaves the values undefined; zeros make runs reproducible


@row("full", "default-dtype fill-overflow only-floats-derive")
def full(
    shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None
) -> Tensor:
    """`numpy.full` as a tensor; an integer out of the dtype's range is an error."""
    value = _fill_value(fill_value, None if dtype is None else torch_dtype(dtype))
    return _by_columns(broadcast_to(value, sizes(shape)).clone().to(_device(device)), order)


def _fill_value(value: Any, dtype: torch.dtype | None) -> Tensor:
    if dtype is None or type(value) not in (int, float):
        return as_tensor(value, dtype)
    whole = type(value) is float and numpy_dtype(dtype).kind in "iu"
    return number(int(value) if whole else value, dtype)


def _like(name: str, fill: Any) -> None:
    def function(
        a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None
    ) -> Tensor:
        return _alike(a, fill, dtype, order, shape, device)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`numpy.{name}` as a tensor, with the shape, dtype and memory layout of ``a``."
    add_row(name, function, "memory-format-fits")


def _alike(a: Any, fill: Any, dtype: Any, order: str, shape: Any, device: Any) -> Tensor:
    x = as_tensor(a)
    kind = x.dtype if dtype is None else torch_dtype(dtype)
    value = _fill_value(fill, kind)
    found = torch.empty_like(x, dtype=kind) if shape is None else x.new_empty(sizes(shape), dtype=kind)
    if order in ("C", "F"):
        found = found.contiguous()
    found = found.copy_(broadcast_to(cast(value, kind), tuple(found.shape)))
    return _by_columns(found, "F" if order == "F" or (order in "AK" and shape is None and is_fortran(x)) else "C")


_like("zeros_like", 0)
_like("ones_like", 1)
_like("empty_like", 0)


@row("full_like", "fill-overflow")
def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *,
    device: Any = None,
) -> Tensor:  # fmt: skip
    """`numpy.full_like` as a tensor."""
    return _alike(a, fill_value, dtype, order, shape, device)


@row("arange", "arange-truncates arange-bounds range-inclusive default-dtype")
def arange(
    start: Any, stop: Any = None, step: Any = None, dtype: Any = None, *, device: Any = None, like: Any = None
) -> Tensor:
    """`numpy.arange` as a tensor: the first value plus multiples of the step, both rounded to the dtype."""
    bounds = [x.item() if isinstance(x, Tensor) else x for x in (start, stop, step)]
    found = np.arange(*bounds[:2], bounds[2] if step is not None else 1) if stop is not None else np.arange(bounds[0])  # type: ignore[call-overload]
    kind = torch_dtype(found.dtype) if dtype is None else torch_dtype(dtype)
    return as_tensor(np.arange(bounds[0] if stop is not None else 0, bounds[1] if stop is not None else bounds[0],
        1 if step is None else bounds[2], dtype=numpy_dtype(kind))).to(_device(device))  # fmt: skip


@row("eye", "default-dtype")
def eye(
    N: int, M: Any = None, k: int = 0, dtype: Any = float, order: str = "C", *, device: Any = None, like: Any = None
) -> Tensor:
    """`numpy.eye` as a tensor, with ones on the ``k``-th diagonal."""
    rows, columns = int(N), int(N if M is None else M)
    if rows < 0 or columns < 0:
        raise ValueError("negative dimensions are not allowed")
    is_one = torch.arange(columns, device=_device(device)) == torch.arange(rows, device=_device(device))[:, None] + int(
        k
    )
    return _by_columns(cast(is_one, torch_dtype(dtype)), order)


def _triangle(name: str, upper: bool) -> None:
    def function(m: Any, k: int = 0) -> Tensor:
        x = as_tensor(m)
        if x.dim() == 0:
            raise (
                ValueError("Input array must be at least 1-dimensional") if False else TypeError("tri() of a 0-d array")
            )
        x = x.expand(x.shape[0], x.shape[0]) if x.dim() == 1 else x
        return uncarried((torch.triu if upper else torch.tril)(carried(x), int(k)), x.dtype)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`numpy.{name}` on tensors; a vector is broadcast to a square."
    add_row(name, function, "triangle-of-vector")


_triangle("tril", False)
_triangle("triu", True)


@row("copyto", "copy-casts-down overlap-order")
def copyto(dst: Tensor, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """`numpy.copyto` on tensors: writes in place, as if the source were copied first."""
    if not isinstance(dst, Tensor):
        raise TypeError(f"copyto() argument 1 must be numpy.ndarray, not {type(dst).__name__}")
    value = (
        number(src, dst.dtype, dst)
        if type(src) in (int, float, complex) and _fits(src, dst.dtype)
        else as_tensor(src, like=dst)
    )
    if not can_cast(value.dtype, dst.dtype, casting):
        names = (numpy_dtype(value.dtype), numpy_dtype(dst.dtype))
        raise TypeError(f"Cannot cast array data from {names[0]!r} to {names[1]!r} according to the rule '{casting}'")
    from torchnp.np.indexing import _fitted

    value = cast(_fitted(value, dst.shape), dst.dtype)
    if where is True:
        dst.copy_(value.clone())
    else:
        dst.copy_(torch.where(as_tensor(where, like=dst), value, dst))


def _fits(value: Any, dtype: torch.dtype) -> bool:
    letter = numpy_dtype(dtype).kind
    return {int: letter in "iufc", float: letter in "fc", complex: letter == "c"}[type(value)]


# ---------------------------------------------------------------- dtypes


@row("can_cast", "can-cast-by-category")
def numpy_can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    """`numpy.can_cast` of torch's or NumPy's dtypes, and of tensors."""
    source = from_.dtype if isinstance(from_, Tensor) else from_
    return can_cast(torch_dtype(source), torch_dtype(to), casting)


@row("promote_types", "promotion-category")
def promote_types(type1: Any, type2: Any) -> torch.dtype:
    """`numpy.promote_types`, as torch's dtype."""
    return torch_dtype(np.promote_types(numpy_dtype(type1), numpy_dtype(type2)))


@row("result_type", "promotion-category three-tier-promotion")
def result_type(*arrays_and_dtypes: Any) -> torch.dtype:
    """`numpy.result_type` of tensors, dtypes and numbers, as torch's dtype."""
    keys = (x.dtype if isinstance(x, Tensor) else type(x) if type(x) in (int, float, complex) else
            torch_dtype(x) if isinstance(x, (torch.dtype, type, np.dtype, str)) else as_tensor(x).dtype
            for x in arrays_and_dtypes)  # fmt: skip
    return result_dtype(*keys)


@row("isdtype")
def isdtype(dtype: Any, kind: Any) -> bool:
    """`numpy.isdtype` of torch's or NumPy's dtypes."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    known = tuple(k if isinstance(k, str) and k not in ("float64",) else numpy_dtype(k) for k in kinds)
    return bool(np.isdtype(numpy_dtype(dtype), known))


@row("finfo")
def finfo(dtype: Any) -> np.finfo:
    """`numpy.finfo` of a dtype, or of a tensor's dtype."""
    return np.finfo(numpy_dtype(dtype.dtype if isinstance(dtype, Tensor) else dtype))


@row("iinfo")
def iinfo(int_type: Any) -> np.iinfo:
    """`numpy.iinfo` of a dtype, or of a tensor's dtype."""
    return np.iinfo(numpy_dtype(int_type.dtype if isinstance(int_type, Tensor) else int_type))


DTYPES = {name: t for t, n in NUMPY_OF.items() if hasattr(np, name := n.name)}
CONSTANTS = {
    "pi": math.pi,
    "e": math.e,
    "inf": math.inf,
    "nan": math.nan,
    "euler_gamma": np.euler_gamma,
    "newaxis": None,
}
