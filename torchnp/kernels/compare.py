"""Comparisons, logic and selection."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, refuse, require, warn
from torchnp.core.errors import not_implemented
from torchnp.core.fast_path import exact
from torchnp.core.inplace_out_spec import WriteSpec
from torchnp.core.python_scalars import single, tensor
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.kernels import _elementwise as el
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._elementwise import ALL, BOOL, COMPLEX, FLOATS, INTS, always_bool, binary, check_broadcast, operand
from torchnp.kernels._memory import RARE, memory_order
from torchnp.kernels.arithmetic import add_scalar, mul, sub
from torchnp.kernels.copy import convert
from torchnp.kernels.numerics.blocks import MANY, STRIP, choose, row_major_blocks
from torchnp.kernels.pointwise import abs
from torchnp.kernels.view import view
from torchnp.layout.apply import is_plain

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

# ---------------------------------------------------------------- where


def _quick_where(condition, self, other):
    """Compute `where` for three dense tensors of one shape, else return None."""
    if not type(condition) is type(self) is type(other) is ndarray or not condition.shape == self.shape == other.shape:
        return None
    if self.dtype is not other.dtype or condition.dtype is not dt.bool_:
        return None
    if not (is_plain(condition) and is_plain(self) and is_plain(other)):
        return None
    if self.size > MANY:
        return choose(condition, self, other)
    out = other.copy()
    np.putmask(out, condition, self)
    return out


@kernel(
    "where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar", like=np.where,
    differs=[
        "three-tier-promotion", "int-float-promotion", "number-promotion", "where-number", "where-needs-bool",
        "fill-overflow",
    ],
    quick=exact(_quick_where, placed=True),
)  # fmt: skip
def where(condition: ndarray, self: Any, other: Any) -> ndarray:
    """``self`` where the condition is true, else ``other``."""
    out = None if type(self) is type(other) is ndarray and self.dtype is other.dtype else dt.result_type(self, other)
    if out is not None:
        self, other = (x if isinstance(x, ndarray) else single(x, out) for x in (self, other))
    words = "where expected condition to be a boolean tensor, but got a tensor with dtype"
    check(condition.dtype in (dt.bool_, dt.uint8), f"{words} {dt.scalar_name(condition.dtype)}")
    if condition.dtype == dt.uint8:
        words = "This behavior is deprecated and will be removed in a future version of PyTorch."
        warn(f"where received a uint8 condition tensor. {words} Use a boolean condition instead.")
    if out is not None:
        self, other = dt.cast(self, out), dt.cast(other, out)
    check_broadcast(condition, self, other)
    if not since("2.13"):
        refuse("where_cpu", self.dtype, dt.BARE_UNSIGNED)
    return choose(condition, self, other)


@kernel("where", like=np.where, differs=["nonzero-0d"])
def where_indices(condition: ndarray) -> list[ndarray]:
    """The indices of the nonzero elements, one tensor for each dimension."""
    refuse("nonzero_count_cpu", condition.dtype, RARE)
    return [np.ascontiguousarray(i) for i in np.nonzero(np.atleast_1d(condition))]


# ---------------------------------------------------------------- membership


_NOT_IN = frozenset((dt.bool_, dt.complex64, dt.complex128))


def _check_isin(*operands: Any) -> None:
    for x in operands:
        dtype = dt.complex128 if isinstance(x, complex) else tensor(x).dtype
        check(dtype not in _NOT_IN, f"Unsupported input type encountered for isin(): {dt.scalar_name(dtype)}")


def _isin(elements: Any, tests: Any, unique: bool, invert: bool) -> ndarray:
    _check_isin(elements, tests)
    if not tensor(elements).size:
        return np.empty(elements.shape, bool)
    a, b = map(tensor, (elements, tests))
    by_sorting = b.size >= int(10 * a.size**0.145)
    for x in (a, b) if by_sorting and not unique else ():
        refuse("unique", x.dtype, (*dt.FLOAT8S, dt.complex32))
    # If torch sorts, it first concatenates both as 1-d tensors, so a 0-d tensor takes part in promotion like any other.
    common = dt.promote_types(a.dtype, b.dtype) if by_sorting else dt.result_type(elements, tests)
    if not by_sorting:
        view(convert(b, common), [-1])
    inner = dt.opmath(common)
    a, b = (operand(x, common) for x in (elements, tests))
    if by_sorting:
        check(not dt.is_complex(common), " Sort does not support complex dtypes on CPU")
        refuse("sorting_kernel_method_name", common, dt.FLOAT8S)
    elif common in dt.FLOAT8S or common in dt.BARE_UNSIGNED or dt.is_complex(common):
        raise not_implemented("isin_default_cpu", common)
    a, b = dt.cast(a, inner), dt.cast(b, inner)
    if unique and by_sorting:
        return _isin_unique(a, b, invert)
    return np.asarray(np.isin(a, b, invert=invert))


def _isin_unique(a: ndarray, b: ndarray, invert: bool) -> ndarray:
    """Compute isin with assume_unique as torch does: an element is found if it equals the next one in sorted order."""
    both = np.concatenate([a.reshape(-1), b.reshape(-1)])
    order = both.argsort(kind="stable")
    found = np.zeros(both.size, bool)
    found[order[:-1]] = both[order[1:]] == both[order[:-1]]
    return (found ^ invert)[: a.size].reshape(a.shape)


def _isin_number(elements: ndarray, number: Any, unique: bool, invert: bool) -> ndarray:
    _check_isin(elements, number)
    return (ne if invert else eq)(elements, number)


_OF_ISIN = {
    "like": np.isin,
    "differs": ["three-tier-promotion", "missing-kernel", "view-never-copies"],
    "writes": WriteSpec(dtype_before_target=True),
}
_DOC = "Whether each element is among the test elements, in the promoted dtype."
rows("isin.Tensor_Tensor isin.Scalar_Tensor", _isin, _DOC, **_OF_ISIN)
rows("isin.Tensor_Scalar", _isin_number, "Whether each element equals the number.", **_OF_ISIN)
