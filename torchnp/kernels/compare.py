"""Comparisons and logic."""

from __future__ import annotations

from functools import partial

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, refuse, require
from torchnp.core.inplace_out_spec import WriteSpec
from torchnp.core.registry import kernel
from torchnp.kernels import _elementwise as el
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._elementwise import ALL, BOOL, COMPLEX, FLOATS, INTS, always_bool, binary, check_broadcast, operand
from torchnp.kernels._memory import memory_order
from torchnp.kernels.arithmetic import add_scalar, mul, sub
from torchnp.kernels.numerics.blocks import STRIP, row_major_blocks
from torchnp.kernels.pointwise import abs

ndarray = np.ndarray
_ORDERED = BOOL | INTS | FLOATS
_PROMOTION = ["three-tier-promotion", "comparison-in-promoted-dtype", "comparison-wraps-number"]

# ---------------------------------------------------------------- comparisons, in the promoted dtype

_any = partial(binary, result=always_bool, takes=ALL | {dt.bcomplex32}, differs=_PROMOTION)
_of_ordered = partial(
    binary, result=always_bool, takes=_ORDERED, differs=[*_PROMOTION, "no-complex-comparison", "missing-kernel"]
)
eq = _any("eq.Tensor eq.Scalar", np.equal, cpu="eq_cpu")
ne = _any("ne.Tensor ne.Scalar not_equal.Tensor not_equal.Scalar", np.not_equal, cpu="ne_cpu")
lt = _of_ordered("lt.Tensor lt.Scalar less.Tensor less.Scalar", np.less, cpu="lt_cpu")
le = _of_ordered("le.Tensor le.Scalar less_equal.Tensor less_equal.Scalar", np.less_equal, cpu="le_cpu")
gt = _of_ordered("gt.Tensor gt.Scalar greater.Tensor greater.Scalar", np.greater, cpu="gt_cpu")
ge = _of_ordered("ge.Tensor ge.Scalar greater_equal.Tensor greater_equal.Scalar", np.greater_equal, cpu="ge_cpu")

# ---------------------------------------------------------------- logic


def _logical(self: ndarray, other: ndarray, *, op: str, of: np.ufunc) -> ndarray:
    common = el.common_dtype(self, other)
    check_broadcast(self, other)
    require(f"{op}_cpu", common, _ORDERED | COMPLEX)
    return of(dt.cast(operand(self, common), dt.bool_), dt.cast(operand(other, common), dt.bool_))


_DOC = "The elementwise logical operation; nonzero elements are true."
_LOGICAL = WriteSpec(predicate=True, vectors=False)
rows("logical_and", _logical, _DOC, of=np.logical_and, like=np.logical_and, writes=_LOGICAL)
rows("logical_or", _logical, _DOC, of=np.logical_or, like=np.logical_or, writes=_LOGICAL)
rows("logical_xor", _logical, _DOC, of=np.logical_xor, like=np.logical_xor, writes=_LOGICAL)

# ---------------------------------------------------------------- whole tensors


@kernel("equal", like=np.array_equal)
def equal(self: ndarray, other: ndarray) -> bool:
    """Whether shape and all elements are the same; nan is unequal to itself."""
    if self.shape != other.shape:
        return False
    common = dt.result_type(self, other)
    refuse("equal_cpu", common, (dt.complex32,))
    same = lambda a, b: bool(eq(a, b).all())
    if self.size <= STRIP:
        return same(self, other)
    order = memory_order(self) or range(self.ndim)
    a, b = self.transpose(order), other.transpose(order)
    return all(same(a[part], b[part]) for part in row_major_blocks(a.shape, 1, STRIP))


@kernel("isclose", like=np.isclose, differs=["no-mixed-dtypes", "negative-tolerance", "isclose-of-integers"])
def isclose(
    self: ndarray, other: ndarray, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> ndarray:
    """``|self - other| <= atol + rtol * |other|``, in the tensors' dtype."""
    dtype = self.dtype
    check(dtype == other.dtype, f"{dt.scalar_name(dtype)} did not match {dt.scalar_name(other.dtype)}")
    check(rtol >= 0, f"rtol must be greater than or equal to zero, but got {rtol:g}")
    check(atol >= 0, f"atol must be greater than or equal to zero, but got {atol:g}")
    check_broadcast(self, other)
    close = np.equal(self, other)
    if equal_nan and dt.is_inexact(dtype):
        close = close | (np.isnan(self) & np.isnan(other))
    if rtol == 0 and atol == 0:
        return np.asarray(close)
    # Step by step, because half types are rounded at each step.
    a, b = (x if dt.is_inexact(dtype) else dt.cast(x, dt.get_default_dtype()) for x in (self, other))
    allowed = add_scalar(abs(mul(b, rtol)), atol)
    error = abs(sub(a, b))
    return np.asarray(close | (np.isfinite(error) & le(error, allowed)))


_all = lambda *given: bool(isclose(*given).all())
rows(
    "allclose",
    _all,
    "Whether `isclose` holds everywhere.",
    like=np.allclose,
    differs=["no-mixed-dtypes", "negative-tolerance", "isclose-of-integers"],
)
