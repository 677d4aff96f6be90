"""Prims that create arrays, or return Python numbers."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check
from torchnp.core.registry import kernel
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._memory import check_size
from torchnp.kernels._spatial import Ints
from torchnp.kernels.prims._portable import NOT_TRUE, Array, aten, either

ndarray = np.ndarray

# ---------------------------------------------------------------- arrays


def _made(*given: Any, of: str, dtype: Any, device: Any, requires_grad: bool) -> ndarray:
    """Create a tensor with an aten op; refuse ``requires_grad`` for dtypes without gradients, as torch does."""
    out = aten(of)(*given, dtype=dtype)
    floats = dt.is_inexact(out.dtype)
    check(floats or not requires_grad, "Only Tensors of floating point and complex dtype can require gradients")
    return out


def _made_of_size(shape: Ints, *given: Any, **named: Any) -> ndarray:
    check(all(n >= 0 for n in shape), NOT_TRUE)
    return _made(shape, *given, **named)


def _permuted(shape: Ints, physical_layout: Ints, **named: Any) -> ndarray:
    n, found = len(shape), len(physical_layout)
    check(all(-n <= d < n for d in physical_layout), "list index out of range", IndexError)
    check(all(shape[d] >= 0 for d in physical_layout), NOT_TRUE)
    words = "Number of dimensions in the tensor input does not match the length of the physical layout; i.e. len(size)"
    check(n == found, f"{words} = {n} is not equal to len(physical_layout) = {found}")
    return _made(shape, physical_layout, of="empty_permuted", **named)


@kernel("prims::iota", like=np.arange, differs=["number-wraps", "only-floats-derive"])
def iota(length: int, *, start: int, step: int, dtype: Any, device: Any, requires_grad: bool) -> ndarray:
    """``start + i * step`` for ``i`` below ``length``."""
    found = dt.as_dtype(dtype)
    check(dt.is_integral(found), "prims.iota only supports integer dtypes")
    check(step != 0, "step must be nonzero")
    (count,) = check_size([length])
    check(not requires_grad, "Only Tensors of floating point and complex dtype can require gradients")
    return dt.cast(start + np.arange(count, dtype=np.int64) * step, found)


_DOC = "An uninitialized array"
rows("prims::empty", _made_of_size, f"{_DOC}.", of="empty.memory_format", like=np.empty, differs=["only-floats-derive"])
rows("prims::empty_strided", _made, f"{_DOC} with given strides, in elements.", of="empty_strided")
_DOC = f"{_DOC} whose dimensions have a given order in memory."
rows("prims::empty_permuted", _permuted, _DOC)
rows(
    "prims::full",
    _made_of_size,
    "An array filled with one number.",
    of="full",
    like=np.full,
    differs=["number-wraps", "only-floats-derive"],
)
rows(
    "prims::full_like", either, "An array of another array's shape, filled with one number.",
    native=partial(_made, of="full_like"), portable=lambda xp, a, fill_value, **_: xp.full_like(a, fill_value),
    like=np.full_like, differs=["fill-overflow", "number-wraps", "only-floats-derive"],
)  # fmt: skip


@kernel("prims::scalar_tensor", like=np.asarray)
def scalar_tensor(s: Any, *, dtype: Any = None, device: Any = None) -> ndarray:
    """A number as a 0-d array."""
    missing = [repr(name) for name, value in (("dtype", dtype), ("device", device)) if value is None]
    if missing:  # torch's schema allows None, but its implementation does not
        plural = "s" if len(missing) > 1 else ""
        raise TypeError(
            f"_scalar_tensor_meta() missing {len(missing)} required keyword-only argument{plural}: {' and '.join(missing)}"
        )
    if isinstance(s, complex) and not dt.is_complex(dt.as_dtype(dtype)):
        raise TypeError("Complex scalar requires complex tensor dtype.")
    return aten("scalar_tensor")(s, dtype=dtype)


rows("prims::_make_token", lambda: np.empty(0, dt.get_default_dtype()), "An empty array as the token of a side effect.")
rows("prims::_sink_tokens", lambda tokens: None, "Do nothing: tokens only order side effects.")

# ---------------------------------------------------------------- numbers


def _check_one(a: Array) -> None:
    size = int(np.prod(a.shape))
    check(size == 1, f"a Tensor with {size} elements cannot be converted to Scalar")


def _number(xp: Any, a: Array) -> Any:
    for kind, convert in (("bool", bool), ("integral", int), ("real floating", float)):
        if xp.isdtype(a.dtype, kind):
            return convert(xp.reshape(a, ()))
    return complex(xp.reshape(a, ()))


rows(
    "prims::item", either, "The only element as a Python number.", native="_local_scalar_dense", portable=_number,
    precheck=_check_one, like=ndarray.item,
)  # fmt: skip


def _limits(dtype: Any) -> tuple[Any, Any]:
    found = dt.as_dtype(dtype)
    if found == dt.bool_:
        return False, True
    if not dt.is_inexact(found):
        return int(np.iinfo(found).min), int(np.iinfo(found).max)
    import ml_dtypes

    limits = ml_dtypes.finfo(dt.to_real(found))
    return float(limits.min), float(limits.max)


rows("prims::maximum_value", lambda dtype: _limits(dtype)[1], "The largest finite value of a dtype.")
rows("prims::minimum_value", lambda dtype: _limits(dtype)[0], "The smallest finite value of a dtype.")
