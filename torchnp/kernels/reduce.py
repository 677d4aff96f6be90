"""Sums, means, products, and whether or how many elements are true."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, refuse, require
from torchnp.core.errors import cannot_cast, out_dtype
from torchnp.core.fast_path import Quick, axes, is_float, within
from torchnp.core.inplace_out_spec import Bound, WriteSpec
from torchnp.core.python_scalars import number
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._reduction import FEW, NOT_NUMERIC, add_reduce, axes_of, length_of, listed_axes, ones, ranged_dims
from torchnp.kernels.arithmetic import div
from torchnp.kernels.extrema import reduced_shape
from torchnp.kernels.pointwise import nan_to_num
from torchnp.layout.overlap import check_target
from torchnp.layout.stride_rules import layout_of, order_of, preserved

ndarray = np.ndarray
# These are called with positional arguments, which costs less. np.array converts a NumPy scalar faster than np.asarray.
_add: Any
_multiply: Any
_add, _multiply, _array = np.add.reduce, np.multiply.reduce, np.array

# ---------------------------------------------------------------- sum


def _accumulated(x: ndarray, dtype: Any) -> np.dtype:
    """Return the result dtype of sum and prod: ``dtype`` if given, else int64 for integers and bool."""
    if dtype is not None:
        return dt.as_dtype(dtype)
    return x.dtype if dt.is_inexact(x.dtype) else dt.int64


def _sum(x: ndarray, axes: Any, keepdim: bool, out: np.dtype) -> ndarray:
    if out == x.dtype and out in _DIRECT:
        return np.asarray(add_reduce(x, axes, keepdim))
    if dt.is_integral(out) and x.dtype.kind in "biu":
        return _add(x, axes, out, None, keepdim)
    if out == dt.bool_:
        return np.asarray(np.any(dt.cast(x, out), axes, keepdims=keepdim))
    # If a sum takes several loops, torch does not first round the input to ``out``, but adds it in the opmath dtype.
    narrow = x.dtype != out != dt.opmath(out) and not dt.is_complex(out)
    terms = x if narrow and _runs(x, axes, out) > 1 else dt.cast(x, out)
    total = add_reduce(dt.cast(terms, dt.opmath(out)), axes, keepdim)
    return dt.cast(np.asarray(total), out)


_DIRECT = frozenset({dt.float32, dt.float64, dt.complex64, dt.complex128, dt.int64})


def _is_few(x: Any) -> bool:
    return is_float(x) and x.size <= FEW


def _quick_sum_dim(self, dim, keepdim=False, *, dtype=None):
    """Sum few float32 or float64 elements; return None for other arguments.

    The rows of a contiguous matrix are summed by a product with a vector of ones, which costs less per call.
    """
    if not _is_few(self) or dtype is not None or type(keepdim) is not bool:
        return None
    given = axes(dim, self.ndim)
    if given is None:
        return None
    if self.ndim == 2 and not keepdim and (given == (1,) or given == (-1,)) and self.flags.c_contiguous:
        out = self.dot(ones(self.shape[1], self.dtype))
        if 0.0 not in out.tolist():  # BLAS may return -0
            return out
    return np.asarray(_add(self, given, None, None, keepdim, 0))


def _quick_sum(self, *, dtype=None):
    if dtype is not None or not _is_few(self):
        return None
    total = self.reshape(-1).dot(ones(self.size, self.dtype))
    return _array(total if total else _add(self, None, None, None, False, 0))


def _quick_mean_dim(self, dim, keepdim=False, *, dtype=None):
    total = _quick_sum_dim(self, dim, keepdim, dtype=dtype)
    if total is None or not self.size:
        return None
    return np.asarray(np.divide(total, number(self.size // total.size, self.dtype)))


def _quick_mean(self, *, dtype=None):
    total = _quick_sum(self, dtype=dtype)
    return None if total is None or not self.size else _array(total[()] / self.size)


def _twin(quick: Any, of: Any) -> Quick:
    """Declare a fast path that may add in another order than the full kernel.

    Its tolerance is 2 ulp of the sum or mean (``of``) of the absolute values.
    """
    order = "torch adds few elements in an order that changes with their layout and with the processor"
    magnitudes = lambda x, dim=(), keepdim=False, *, dtype=None: of(np.abs(x), tuple(dim) or None, keepdims=keepdim)
    return within(2, quick, order, magnitudes)


def _refuse_sum(x: ndarray, axes: Any, out: np.dtype) -> None:
    """Raise torch's error for result dtypes that it cannot sum.

    A float8 sum is accepted if the summed dimensions form more than one loop: torch then adds in float32.
    """
    if not x.size or (out in dt.FLOAT8S and _runs(x, axes, out) > 1):
        return
    refuse("sum_cpu", out, NOT_NUMERIC)


def _loops(x: ndarray, axes: Any, out: np.dtype) -> list[list[int]]:
    """Group the summed dimensions into loops, innermost first; dimensions that are contiguous share a loop."""
    strides = layout_of(x)[1] if x.dtype == out else preserved(*layout_of(x))
    found: list[list[int]] = []
    end = None
    summed = set(range(x.ndim) if axes is None else axes)
    for d in reversed(order_of(x.shape, [strides])):
        if d in summed and x.shape[d] > 1:
            if strides[d] == end:
                found[-1].append(d)
            else:
                found.append([d])
            end = strides[d] * x.shape[d]
    return found


def _runs(x: ndarray, axes: Any, out: np.dtype) -> int:
    """Return the number of loops in which torch computes a sum."""
    return len(_loops(x, axes, out))


_OF_SUM = ["sum-dtype", "empty-dim", "zero-dim-axis", "half-opmath", "cascade-sum"]


@kernel("sum.dim_IntList", like=np.sum, differs=[*_OF_SUM, "missing-kernel"], quick=_twin(_quick_sum_dim, np.sum))
def sum_dim(self, dim, keepdim=False, *, dtype=None):
    """Sum over dimensions."""
    out = _accumulated(self, dtype)
    axes = axes_of(dim, self.ndim)
    _refuse_sum(self, axes, out)
    return _sum(self, axes, keepdim, out)


(sum_all,) = rows(
    "sum", lambda x, dtype: sum_dim(x, None, dtype=dtype), "Sum of all elements.", like=np.sum,
    differs=["sum-dtype", "missing-kernel", "half-opmath", "cascade-sum"], quick=_twin(_quick_sum, np.sum),
)  # fmt: skip


def look_told(bound: Bound, outs: list[ndarray]) -> None:
    """Check the dimensions, then that ``out=`` has the requested dtype."""
    axes_of(bound.get("dim"), bound["self"].ndim)
    if bound["dtype"] is not None:
        told, d = dt.as_dtype(bound["dtype"]), outs[0].dtype
        check(told == d, out_dtype(told, d))


_NOT_INFERRED = (
    "nanmean(): could not infer output dtype. Optional dtype must be either a floating point or complex dtype."
)


def _precheck_nansum(bound: Bound, outs: list[ndarray]) -> None:
    x, d, told = bound["self"].dtype, outs[0].dtype, bound["dtype"]
    check(not dt.is_complex(x), "nansum on CPU does not support complex inputs")
    if told is None and not dt.is_inexact(x):  # torch calls sum, which computes in the dtype of ``out=``
        bound["dtype"] = d
    if dt.is_inexact(x) and told is not None and (dt.is_inexact(dt.as_dtype(told)) or not since("2.13")):
        names = f"{dt.scalar_name(d)} and {dt.scalar_name(dt.as_dtype(told))}"
        check(dt.as_dtype(told) == d, f"nansum: provided dtype must match dtype of result. Got {names}.")
    elif dt.is_inexact(x) and told is not None:  # for integer results torch sums the result of nan_to_num
        nan_to_num(bound["self"])
    look_told(bound, outs)


@kernel(
    "nansum",
    like=np.nansum,
    differs=[*_OF_SUM[:-1], "no-complex", "missing-kernel"],
    writes=WriteSpec(out=_precheck_nansum),
)
def nansum(self, dim=None, keepdim=False, *, dtype=None):
    """Sum over dimensions, with NaN counted as 0."""
    axes = axes_of(dim, self.ndim, ranges_first=False)
    check(not dt.is_complex(self.dtype), "nansum on CPU does not support complex inputs")
    out = _accumulated(self, dtype)
    if not dt.is_inexact(self.dtype):
        return sum_dim(self, dim, keepdim, dtype=dtype)
    if not dt.is_inexact(out) and since("2.13"):  # nan_to_num also turns infinities into the largest numbers
        return sum_dim(nan_to_num(self), dim, keepdim, dtype=dtype)
    if self.size:
        require("nansum_cpu", out, dt.FLOATS)
    x = dt.cast(self, dt.opmath(out))
    x = np.where(np.isnan(x), x.dtype.type(0), x)
    loops = _loops(self, axes, out) if self.size and dt.is_half(out) else []
    if len(loops) > 1:  # torch adds the sums of the inner loop in the half type
        parts = dt.cast(np.asarray(add_reduce(x, tuple(loops[0]), True)), out)
        outer = [d for loop in loops[:0:-1] for d in loop[::-1]]
        terms = np.moveaxis(parts, outer, range(len(outer)))
        total = sum(terms.reshape(-1, *terms.shape[len(outer) :]), np.zeros((), out))
        return total.reshape(reduced_shape(self.shape, axes, keepdim))
    return dt.cast(np.asarray(add_reduce(x, axes, keepdim)), out)


# ---------------------------------------------------------------- mean


def _mean_dtype(x: ndarray, dtype: Any) -> np.dtype:
    """Return the dtype of a mean, or raise torch's error for integers, which have none."""
    out = x.dtype if dtype is None else dt.as_dtype(dtype)
    if not dt.is_inexact(out):
        words = f"mean(): could not infer output dtype. {'Input' if dtype is None else 'Optional'} dtype must be either"
        raise RuntimeError(f"{words} a floating point or complex dtype. Got: {dt.scalar_name(out)}")
    return out


def _precheck_mean(bound: Bound, outs: list[ndarray]) -> None:
    """Make torch's checks before the division; without ``dim``, first that ``out=`` can hold the input's dtype."""
    x, d = bound["self"], outs[0].dtype
    words = f"mean.dtype_out(): input types can't be cast to the desired output type {dt.scalar_name(d)}"
    check("dim" in bound or dt.can_cast(x.dtype, d), words)
    _mean_dtype(x, bound["dtype"])
    look_told(bound, outs)
    _refuse_sum(x, axes_of(bound.get("dim"), x.ndim), d)
    check_target(outs[0])


_OF_MEAN: dict[str, Any] = {"like": np.mean, "writes": WriteSpec(out=_precheck_mean, skips_memory_check=True)}


@kernel(
    "mean.dim",
    differs=["no-integers", "empty-dim", "zero-dim-axis", "cascade-sum"],
    quick=_twin(_quick_mean_dim, np.mean),
    **_OF_MEAN,
)
def mean_dim(self, dim, keepdim=False, *, dtype=None):
    """Arithmetic mean over dimensions."""
    out = _mean_dtype(self, dtype)
    axes = axes_of(dim, self.ndim)
    _refuse_sum(self, axes, out)  # torch checks this before the division's dtype
    refuse("div_cpu" if out == dt.complex32 else "div_cpu_reduced_float", out, NOT_NUMERIC)
    total = add_reduce(dt.cast(self, dt.opmath(out)), axes, keepdim)
    return dt.cast(np.asarray(total / total.dtype.type(length_of(self.shape, axes))), out)


rows(
    "mean", lambda x, dtype: mean_dim(x, None, dtype=dtype), "Arithmetic mean of all elements.",
    differs=["no-integers"], quick=_twin(_quick_mean, np.mean), **_OF_MEAN,
)  # fmt: skip


def _precheck_nanmean(bound: Bound, outs: list[ndarray]) -> None:
    """Make the checks that torch makes first.

    One of these checks: for an empty floating-point input, ``out=`` must not have an integer dtype, which could hold
    the sum but not the quotient.
    """
    x, d = bound["self"], outs[0].dtype
    words = "nanmean(): integral types and 'Bool' are not supported for nanmean, even for empty tensors."
    check(dt.is_inexact(x.dtype), words)
    if dt.is_floating(x.dtype) and not x.size and not dt.is_inexact(d):
        raise cannot_cast(dt.get_default_dtype(), d)
    told = x.dtype if bound["dtype"] is None else dt.as_dtype(bound["dtype"])
    check(dt.is_inexact(told) or not since("2.13"), f"{_NOT_INFERRED} Got: {dt.scalar_name(told)}")
    _precheck_nansum(bound, outs)


_OF_NANMEAN = ["no-integers", "empty-dim", "no-complex"]


@kernel("nanmean", like=np.nanmean, differs=_OF_NANMEAN, writes=WriteSpec(out=_precheck_nanmean))
def nanmean(self, dim=None, keepdim=False, *, dtype=None):
    """Arithmetic mean over dimensions of the elements that are not NaN."""
    words = "nanmean(): expected input to have floating point or complex dtype but got"
    check(dt.is_inexact(self.dtype), f"{words} {dt.scalar_name(self.dtype)}")
    out = self.dtype if dtype is None else dt.as_dtype(dtype)
    check(dt.is_inexact(out) or not since("2.13"), f"{_NOT_INFERRED} Got: {dt.scalar_name(out)}")
    axes = axes_of(dim, self.ndim)
    return div(nansum(self, dim, keepdim, dtype=dtype), add_reduce(self == self, axes, keepdim))


# ---------------------------------------------------------------- prod


def _prod(x: ndarray, dim: int | None = None, keepdim: bool = False, *, dtype: Any) -> ndarray:
    axes, out = axes_of(dim, x.ndim), _accumulated(x, dtype)
    if not x.size:
        return np.ones(reduced_shape(x.shape, axes, keepdim), out)
    refuse("prod_out_cpu", out, NOT_NUMERIC)
    if out == dt.bool_:
        return np.asarray(np.all(dt.cast(x, out), axes, keepdims=keepdim))
    if dt.is_half(out):
        return _half_prod(dt.cast(x, out), axes, keepdim)
    return _multiply(dt.cast(x, out), axes, out, None, keepdim)


def _half_prod(x: ndarray, axes: Any, keepdim: bool) -> ndarray:
    """Compute a product in a half type, rounding after each factor as torch does."""
    flat = x.reshape(-1) if axes is None else np.moveaxis(x, axes[0], -1)
    last = np.multiply.accumulate(flat, -1)[..., -1:]
    if axes is None:
        return last.reshape((1,) * x.ndim if keepdim else ())
    return np.moveaxis(last, -1, axes[0]) if keepdim else last[..., 0]


_OF_PROD = ["sum-dtype", "half-prod"]
_GIVEN: dict[str, Any] = {"differs": _OF_PROD, "writes": WriteSpec(out=look_told)}
rows("prod.dim_int", _prod, "Product along a dimension.", like=np.prod, **_GIVEN)
rows("prod", _prod, "Product of all elements.", like=np.prod, differs=_OF_PROD)

# ---------------------------------------------------------------- any, all


def _truth(x: ndarray) -> ndarray:
    return x if x.dtype == dt.bool_ else dt.cast(x, dt.bool_)


def _logical(x: ndarray, dim: Any = None, keepdim: bool = False, *, ufunc: Any) -> ndarray:
    axes = None if dim is None else ranged_dims(dim, x.ndim)
    out = ufunc.reduce(_truth(x), axes if x.ndim else None, None, None, keepdim)
    return np.asarray(out, np.uint8) if x.dtype == dt.uint8 else out


def _precheck_flag(bound: Bound, outs: list[ndarray]) -> None:
    """If ``out=`` is uint8 and the input has more than one element, cast the input to uint8, as torch does.

    Therefore 0.5 and 256 count as false.
    """
    if outs[0].dtype == dt.uint8 and bound["self"].size > 1:
        bound["self"] = dt.cast(bound["self"], dt.uint8)


_FLAG = WriteSpec(out=_precheck_flag)

_flag = partial(rows, differs=["uint8-truth", "zero-dim-axis"], writes=_FLAG)
_ANY, _ALL = {"like": np.any, "ufunc": np.logical_or}, {"like": np.all, "ufunc": np.logical_and}
_flag("any any.dim", _logical, "Whether any element is true; NaN is true.", **_ANY)
_flag("any.dims", _logical, "Whether any element is true (NaN is true); an empty list reduces nothing.", **_ANY)
_flag("all all.dim", _logical, "Whether all elements are true; NaN is true.", **_ALL)
_flag("all.dims", _logical, "Whether all elements are true (NaN is true); an empty list reduces nothing.", **_ALL)


def _count(x: ndarray, dim: Any) -> ndarray:
    axes = listed_axes(axes_of(dim, x.ndim), x.ndim)
    if dim is None or not len(dim):
        refuse("nonzero_count_cpu", x.dtype, {*dt.BARE_UNSIGNED, *dt.FLOAT8S})
        return np.asarray(np.count_nonzero(_truth(x)))
    return np.add.reduce(_truth(x), axes, np.int64)


_DOC = "The number of nonzero elements{}."
_one = lambda x, dim: _count(x, None if dim is None else (dim,))
_of_count = partial(rows, like=np.count_nonzero)
_of_count("count_nonzero", _one, _DOC.format(""))
_of_count("count_nonzero.dim_IntList", _count, _DOC.format(" over dimensions"), differs=["empty-dim", "zero-dim-axis"])
