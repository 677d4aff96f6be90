"""Norms of vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, dim_of, wrap_dim
from torchnp.core.errors import empty_list, not_implemented, out_dtype
from torchnp.core.inplace_out_spec import Bound, WriteSpec
from torchnp.core.python_scalars import real
from torchnp.core.registry import kernel
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._reduction import SMALL, add_reduce, axes_of, length_of, row_dots
from torchnp.kernels.arithmetic import sub
from torchnp.kernels.numerics.blocks import STRIP
from torchnp.kernels.view import view
from torchnp.layout.overlap import check_apart, check_target
from torchnp.threads import blocks

ndarray = np.ndarray


def _precheck_alone(bound: Bound, outs: list[ndarray]) -> None:
    """If each norm is of a single number, check ``out=`` like ``abs`` does, because torch computes absolute values."""
    x, out = bound["self"], outs[0]
    if out.size == x.size and length_of(x.shape, axes_of(bound.get("dim"), x.ndim)) == 1:
        check_target(out)
        check_apart(out, x)


_WRITES = WriteSpec(out=_precheck_alone)


@kernel(
    "linalg_vector_norm", like=np.linalg.vector_norm, differs=["no-integers-norm", "empty-dim", "zero-dim-axis",
      "half-norm", "norm-of-nothing"],
    writes=_WRITES,
)  # fmt: skip
def linalg_vector_norm(self, ord=2, dim=None, keepdim=False, *, dtype=None):
    """(sum |x|**ord)**(1/ord) over dimensions; for ord inf, -inf, 0: max |x|, min |x|, the number of nonzeros."""
    name = "linalg.vector_norm"
    got = dt.scalar_name(self.dtype)
    check(dt.is_inexact(self.dtype), f"{name}: Expected a floating point or complex tensor as input. Got {got}")
    check(not isinstance(ord, complex), f"{name}: Expected a non-complex scalar as the order of norm.")
    ord = real(ord)
    _check_has_identity(name, self, ord, (dim,) if isinstance(dim, int) else dim)
    wide = self.dtype if dtype is None else _check_dtype(name, self.dtype, dt.as_dtype(dtype))
    axes, alone = axes_of(dim, self.ndim, ranges_first=False), _is_alone(self, dim)
    if self.dtype in dt.FLOAT8S and self.size and not alone:
        raise not_implemented("norm_cpu", self.dtype)
    x = dt.cast(self, dt.opmath(wide))
    if ord != 0 and alone:
        return dt.cast(np.asarray(add_reduce(np.abs(x), axes, keepdim)), dt.to_real(wide))  # squares could overflow
    return dt.cast(np.asarray(norm_along(x, ord, axes, keepdim)), dt.to_real(wide))


def _is_alone(x: ndarray, dim: Any) -> bool:
    """Return whether each norm is of one number; torch does not detect this for a 0-d tensor if ``dim`` is given."""
    named = isinstance(dim, int) or bool(dim)
    return length_of(x.shape, axes_of(dim, x.ndim)) == 1 and (x.ndim > 0 or not named)


def _ends_in(axes: Any, ndim: int) -> bool:
    """Return whether the axes are the last ones, or all."""
    return axes is None or sorted(a % ndim for a in axes) == list(range(ndim - len(axes), ndim))


def norm_along(x: ndarray, ord: float, axes: Any, keepdim: bool = False) -> Any:
    """Return (sum |x|**ord)**(1/ord) in the dtype of ``x``."""
    axes = (axes,) if isinstance(axes, int) else axes
    if ord == 0:
        return add_reduce((x != 0).astype(dt.to_real(x.dtype)), axes, keepdim)
    if ord == 2:
        if x.size > SMALL and x.dtype.kind == "f" and x.flags.c_contiguous and _ends_in(axes, x.ndim):
            n = length_of(x.shape, axes)
            shape = x.shape[: x.ndim - len(axes)] if axes is not None else ()
            norms = np.sqrt(row_dots(*[x.reshape(-1, n)] * 2))
            return norms.reshape((*shape, *[1] * (x.ndim - len(shape) if keepdim else 0)))
        squares = x * x if x.dtype.kind != "c" else x.real * x.real + x.imag * x.imag
        if x.dtype.kind == "c":  # a number with an infinite part has an infinite magnitude, even beside NaN
            squares = np.where(np.isinf(x), squares.dtype.type(np.inf), squares)
        return np.sqrt(add_reduce(squares, axes, keepdim))
    x = np.abs(x)
    if ord == 1:
        return add_reduce(x, axes, keepdim)
    if abs(ord) == math.inf:
        ufunc: Any = np.maximum if ord > 0 else np.minimum
        return ufunc.reduce(x, axes, None, None, keepdim)
    kind = x.dtype.type
    if not math.isfinite(kind(ord)) and not length_of(x.shape, axes):
        return add_reduce(x, axes, keepdim)
    return add_reduce(x ** kind(ord), axes, keepdim) ** (kind(1) / kind(ord))


def _check_has_identity(name: str, x: ndarray, ord: float, dims: Any) -> None:
    """Raise torch's error for norms of empty tensors that have no identity."""
    if x.size or not (ord < 0 or ord == math.inf):
        return
    spelled = f"{name} cannot compute the {ord:g} norm on"
    if not dims:
        raise RuntimeError(f"{spelled} an empty tensor because the operation does not have an identity")
    words = "this dimension is empty and the operation does not have an identity"
    for dim in dims:
        check(x.shape[wrap_dim(dim, x.ndim)], f"{spelled} the dimension {dim}because {words}")


def _check_dtype(name: str, source: np.dtype, wanted: np.dtype) -> np.dtype:
    found = dt.scalar_name(wanted)
    check(dt.is_inexact(wanted), f"{name}: dtype should be floating point or complex, but got {found}")
    kind = "complex" if dt.is_complex(source) else "real"
    same = dt.is_complex(source) == dt.is_complex(wanted)
    check(same, f"{name}: dtype should be {kind} for {kind} inputs, but got {found}")
    words = f"the dtype of the input ({dt.scalar_name(source)}) should be convertible without narrowing"
    check(dt.promote_types(source, wanted) == wanted, f"{name}: {words} to the specified dtype ({found})")
    return wanted


@kernel("_foreach_norm.Scalar", like=np.linalg.vector_norm, differs=["no-integers-norm", "half-norm"])
def foreach_norm(self, ord=2, dtype=None):
    """The norm of each tensor."""
    check(len(self) > 0, empty_list())
    check(not isinstance(ord, (bool, complex)), "foreach_tensor_norm_slow expects ord to be integer or float")
    why = "because the operation does not have an identity"
    results = []
    for x in self:
        check(x.size or ord != math.inf, f"_foreach_norm cannot compute the infinity norm on an empty tensor {why}")
        results.append(linalg_vector_norm(x, ord, dtype=dtype))
    return results


@kernel("linalg__powsum", differs=["no-integers-norm", "empty-dim", "half-norm"])
def linalg__powsum(self, ord=2, dim=None, keepdim=False, *, dtype=None):
    """sum |x|**ord over dimensions: `linalg_vector_norm` before the root."""
    ord, axes = real(ord), axes_of(dim, self.ndim)
    if dtype is not None:
        wide = dt.as_dtype(dtype)
        wide = dt.to_complex(wide) if dt.is_complex(self.dtype) and not _is_alone(self, dim) else wide
    else:
        wide = self.dtype if dt.is_inexact(self.dtype) else dt.int64
    if self.size and (not dt.is_inexact(wide) or wide in dt.FLOAT8S):
        raise not_implemented("powsum_cpu", wide)
    if axes is None and self.size and self.dtype == wide == dt.float64:
        total = _powers_in_sequence(self.reshape(-1), ord).reshape([1] * self.ndim if keepdim else [])
    else:
        x = dt.cast(self, dt.opmath(wide))
        square = ord == 2 and x.dtype.kind == "f"
        x = x if square else np.abs(x)
        total = add_reduce(x * x if square else x ** x.dtype.type(ord) if x.size else x, axes, keepdim)
    return dt.cast(np.asarray(total), dt.to_real(wide if dtype is None else dt.as_dtype(dtype)))


def _powers_in_sequence(x: ndarray, ord: float) -> ndarray:
    """Return sum |x|**ord, adding one element after the other as torch does in float64; squares in four lanes."""
    lanes = 4 if ord == 2 else 1
    whole, total = x.size - x.size % lanes, np.zeros(lanes)
    for part in blocks(whole, STRIP):
        powers = (np.abs(x[part]) ** ord).reshape(-1, lanes)
        powers[0] += total
        total = np.add.accumulate(powers)[-1]
    return np.add.accumulate(np.concatenate([total, np.abs(x[whole:]) ** ord]))[-1:]


# ---------------------------------------------------------------- norm


def norm_of(x: ndarray, p: Any = 2, dim: Any = None, keepdim: bool = False) -> ndarray:
    """Compute `linalg_vector_norm` with the error messages of `norm`."""
    words = "norm(): input dtype should be either floating point or complex. Got"
    check(dt.is_inexact(x.dtype), f"{words} {dt.scalar_name(x.dtype)} instead.")
    axes_of(dim, x.ndim)  # torch checks the dimensions first
    return linalg_vector_norm(x, 2 if p is None else p, dim, keepdim)


def _norm_in(x: ndarray, p: Any, *given: Any) -> ndarray:
    *over, dtype = given
    wide = x.dtype if dtype is None else dt.as_dtype(dtype)
    words = "norm(): the desired output dtype should be either floating point or complex. Got"
    check(dt.is_inexact(wide), f"{words} {dt.scalar_name(wide)} instead.")
    for dim in over[:1]:  # torch checks the dimensions first
        axes_of(dim, x.ndim)
    out = linalg_vector_norm(x, 2 if p is None else p, *over, dtype=wide)
    check(dtype is None or out.dtype == wide, out_dtype(out.dtype, wide))
    return out


def _frobenius(x: ndarray, dim: Any, keepdim: bool = False) -> ndarray:
    dim = [dim] if isinstance(dim, int) else dim
    check(len(dim) <= 2, f"Expected at most 2 dimensions, but got {len(dim)} dimensions instead.")
    return norm_of(x, 2, dim, keepdim)


_OF_ALL = {"like": np.linalg.norm, "differs": ["no-integers-norm", "half-norm", "norm-flattens"]}
_OF_DIMS = ["no-integers-norm", "empty-dim", "zero-dim-axis", "half-norm"]
_OVER: dict[str, Any] = {"like": np.linalg.norm, "differs": [*_OF_DIMS, "norm-flattens"], "writes": _WRITES}
_SPARSE = "p-norm over dimensions, computed in ``dtype``; torch has code for it on sparse tensors only."
rows("norm.Scalar native_norm", norm_of, "p-norm of all elements.", **_OF_ALL)
(norm_over,) = rows("norm.ScalarOpt_dim", norm_of, "p-norm over dimensions; 2 by default.", **_OVER)
rows("norm.ScalarOpt_dtype", _norm_in, "p-norm of all elements, computed in ``dtype``.", **_OF_ALL)
rows("norm.ScalarOpt_dim_dtype", _norm_in, "p-norm over dimensions, computed in ``dtype``.", **_OVER)
rows("native_norm.ScalarOpt_dim_dtype", _norm_in, _SPARSE, **_OVER)
rows("frobenius_norm.dim", _frobenius, "2-norm over one or two dimensions.", **_OVER | {"differs": _OF_DIMS})


@kernel("norm_except_dim")
def norm_except_dim(v, pow=2, dim=0):
    """pow-norm of each slice along a dimension, or of the whole tensor for dim -1."""
    if dim == -1:
        return norm_of(v, pow)
    if dim in (0, v.ndim - 1):
        n = v.shape[dim_of(v, dim)]
        rows, over = ([n, -1], 1) if dim == 0 else ([-1, n], 0)
        return view(
            norm_of(view(np.ascontiguousarray(v), rows), pow, over), [n if d == dim else 1 for d in range(v.ndim)]
        )
    axis = wrap_dim(dim, v.ndim)
    return norm_except_dim(v.swapaxes(0, axis), pow, 0).swapaxes(0, axis)


@kernel("dist", differs=["no-integers-norm"])
def dist(self, other, p=2):
    """p-norm of the difference of two tensors."""
    return norm_of(sub(self, other), p)


@kernel("_foreach_powsum.Scalar")
def _foreach_powsum(self, ord=2, dtype=None):
    """The sum of ``|x|**ord`` of each tensor."""
    check(self, empty_list())
    return [linalg__powsum(x, ord, dtype=dtype) for x in self]


@kernel("renorm", differs=["half-opmath"])
def renorm(self, p, dim, maxnorm):
    """The tensor with slices along ``dim`` scaled down to a p-norm of ``maxnorm`` if their norm is larger."""
    check(not isinstance(p, complex), "renorm: p must be real-valued")
    check(p > 0, "renorm: non-positive-norm not supported")
    check(not isinstance(maxnorm, complex), "renorm: maxnorm must be real-valued")
    check(maxnorm >= 0, f"renorm: expected maxnorm to be >= 0 but got {maxnorm:g}")
    check(self.ndim > 1, f"renorm: input needs at least 2 dimensions, got {self.ndim} dimensions")
    axis = wrap_dim(dim, self.ndim)
    if self.dtype in (dt.float8_e4m3fn, dt.float8_e5m2):
        dt.promote_types(self.dtype, dt.float32)
    wide = dt.cast(self, dt.opmath(self.dtype))
    others = [i for i in range(self.ndim) if i != axis]
    norms = linalg_vector_norm(wide if dt.is_inexact(self.dtype) else self, p, others, True)
    limit = norms.dtype.type(maxnorm)
    # torch adds 1e-7 to the norm, so that the scaled slice stays below the limit.
    scale = np.where(norms > limit, limit / (norms + norms.dtype.type(1e-7)), norms.dtype.type(1))
    if dt.is_half(self.dtype):  # torch stores the factors in the half type
        scale = dt.cast(dt.cast(scale, self.dtype), wide.dtype)
    return dt.cast(wide * scale, self.dtype)
