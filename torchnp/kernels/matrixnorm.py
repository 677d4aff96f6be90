"""Norms, powers and exponentials of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, refuse, wrap_dim
from torchnp.core.errors import invalid_view, not_implemented, out_dtype, shape_text
from torchnp.core.inplace_out_spec import Bound, WriteSpec
from torchnp.core.python_scalars import each, real
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.kernels import lu
from torchnp.kernels._declare_rows import rows
from torchnp.kernels.create import eye
from torchnp.kernels.extrema import amax, amin
from torchnp.kernels.qr_svd_eigh import linalg_svdvals
from torchnp.kernels.reduce import sum_dim
from torchnp.kernels.scan import cumprod
from torchnp.kernels.tensor_products import matmul
from torchnp.kernels.vectornorm import _check_dtype, linalg_vector_norm
from torchnp.kernels.view import movedim_intlist, view
from torchnp.layout import stride_rules

ndarray = np.ndarray


def _matrix_axes(x: ndarray, dim: Any) -> tuple[int, ...]:
    dim = each(dim, 2)
    check(len(dim) == 2, f"linalg.matrix_norm: dim must be a 2-tuple. Got {' '.join(map(str, dim))}")
    axes = tuple(wrap_dim(d, x.ndim) for d in dim)
    check(axes[0] != axes[1], f"linalg.matrix_norm: dims must be different. Got ({axes[0]}, {axes[1]})")
    return axes


def _of_singular_values(x: ndarray, axes: tuple[int, ...], keepdim: bool, reduce: Any) -> ndarray:
    out = reduce(linalg_svdvals(np.moveaxis(x, axes, (-2, -1))), [-1])
    return _with_kept(out, axes) if keepdim else stride_rules.dense(out)


def _amax(x: ndarray, dim: Any, keepdim: bool = False) -> ndarray:
    """Return the largest norm, or 0 if there are none."""
    return amax(x, dim, keepdim) if x.shape[dim[0]] else sum_dim(x, dim, keepdim)


def _with_kept(out: ndarray, axes: Sequence[int]) -> ndarray:
    """Put the reduced dimensions back with a stride of one: torch keeps them as the last ones, and permutes."""
    shape, strides = list(out.shape), list(stride_rules.contiguous(out.shape))
    for axis in sorted(axes):
        shape.insert(axis, 1)
        strides.insert(axis, 1)
    return stride_rules.place(out.reshape(shape), tuple(strides))


def _matrix_norm(x: ndarray, ord: Any, dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None) -> ndarray:
    name = "linalg.matrix_norm"
    if isinstance(ord, str):
        check(ord in ("fro", "nuc"), f"{name}: Order {ord} not supported.")
    else:
        check(not isinstance(ord, complex), f"{name}: Expected a non-complex scalar as the order of norm.")
        ord = float(ord)
        check(abs(ord) in (1, 2, math.inf), f"{name}: Order {ord:g} not supported.")
    lu.check_matrix(name, x)
    lu.check_inexact(name, x, ord not in ("nuc", 2, -2))
    axes = _matrix_axes(x, dim)
    x = x if dtype is None else dt.cast(x, _check_dtype(name, x.dtype, dt.as_dtype(dtype)))
    if ord == "fro":
        return stride_rules.dense(linalg_vector_norm(x, 2, list(axes), keepdim))
    pick = sum_dim if ord == "nuc" else _amax if ord > 0 else amin
    if ord in ("nuc", 2, -2):
        return _of_singular_values(x, axes, keepdim, pick)
    by, over = axes if abs(ord) == 1 else axes[::-1]
    sums = linalg_vector_norm(x, 1.0, [by], keepdim)
    return stride_rules.dense(pick(sums, [over - (by < over and not keepdim)], keepdim))


_DOC = "Matrix norms: the largest column sum (1), row sum (inf) or singular value (2); the smallest if negative."
_OF_MATRIX: Any = {"like": np.linalg.matrix_norm, "differs": ["no-integers-linalg"]}
rows("linalg_matrix_norm", _matrix_norm, _DOC, **_OF_MATRIX)
rows("linalg_matrix_norm.str_ord", _matrix_norm, "Frobenius or nuclear norms of matrices.", **_OF_MATRIX)
_OF_NORM: Any = {"like": np.linalg.norm, "differs": ["no-integers-linalg"]}
_NUCLEAR = {"by_name": True, "ord": "nuc", **_OF_NORM}
rows("nuclear_norm nuclear_norm.dim", _matrix_norm, "Nuclear norm: the sum of singular values.", **_NUCLEAR)


def _norm(self: ndarray, ord: Any, dim: Any, keepdim: bool, *, dtype: Any) -> ndarray:
    words = f"If dim is not specified but ord is, the input must be 1D or 2D. Got {self.ndim}D."
    check(dim is not None or ord is None or self.ndim in (1, 2), f"linalg.norm: {words}")
    dims = dim if dim is None else [dim] if isinstance(dim, int) else list(dim)
    words = f"If dim is specified, it must be of length 1 or 2. Got {'' if dims is None else shape_text(dims)}"
    check(dims is None or len(dims) in (1, 2), f"linalg.norm: {words}")
    if ord is None or (not isinstance(ord, str) and (self.ndim if dims is None else len(dims)) != 2):
        return stride_rules.dense(linalg_vector_norm(self, 2 if ord is None else ord, dims, keepdim, dtype=dtype))
    return _matrix_norm(self, ord, dims or (0, 1), keepdim, dtype=dtype)


_DOC = "Norm of vectors (one dimension, or all without ``ord``) or of matrices (two dimensions)."
rows("linalg_norm", _norm, _DOC, like=np.linalg.norm, differs=["no-integers-linalg", "norm-of-nothing"])
rows("linalg_norm.ord_str", _norm, "Frobenius or nuclear norm of matrices.", **_OF_NORM)


@kernel("linalg_cond", like=np.linalg.cond, differs=["no-integers-linalg", "cond-of-zero"])
def linalg_cond(self, p=None):
    """Norm of matrices times the norm of their inverses."""
    check(self.ndim >= 2, "linalg.cond: The input tensor must have at least 2 dimensions.")
    spelled = f"{p:f}" if isinstance(p, float) else int(p) if isinstance(p, bool) else p
    words = "linalg.cond: Expected a non-complex scalar as the order of norm."
    check(not isinstance(p, complex) or not since("2.14"), words, ValueError)
    p = None if p is None else real(p)
    by_values = p is None or abs(p) == 2
    if not by_values and abs(p) not in (1, math.inf):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p:g}")
    if self.size == 0:
        return np.zeros(self.shape[:-2], dt.to_real(self.dtype))
    if by_values:
        s = linalg_svdvals(self)
        first, last = s[..., 0], s[..., -1]
        return np.asarray(first / last if p is None or p > 0 else last / first)
    lu.check_square(f"linalg.cond(ord={spelled})", self)
    return _cond(self, p)


@kernel("linalg_cond.p_str", like=np.linalg.cond, differs=["no-integers-linalg", "cond-of-singular"])
def linalg_cond_str(self, p):
    """Frobenius or nuclear norm of matrices times that of their inverses."""
    lu.check_square(f"linalg.cond(ord={p})", self)
    check(p in ("fro", "nuc"), f"linalg.cond got an invalid norm type: {p}")
    if self.size == 0:
        return np.zeros(self.shape[:-2], dt.to_real(self.dtype))
    if p == "nuc":
        lu.check_inexact("linalg.svd", self)
        refuse("linalg_svd_cpu", self.dtype, dt.FLOAT8S)
        s = linalg_svdvals(self)  # singular values exist even for a matrix without an inverse
        return np.asarray(s.sum(-1) * np.reciprocal(s).sum(-1))
    return _cond(self, p)


def _cond(x: ndarray, p: Any) -> ndarray:
    inverse, info = lu.inverted(x, False)
    out = _matrix_norm(x, p) * _matrix_norm(inverse, p)
    return np.where(info > 0, out.dtype.type(np.inf), out)


def _precheck_power(bound: Bound, outs: list[ndarray]) -> None:
    """Refuse an ``out=`` of another inexact dtype if torch computes the last product, or the inverse, directly in it.

    The powers 1, 4, 8, 16, ... are copied into ``out=`` instead.
    """
    x, d, n = bound["self"].dtype, outs[0].dtype, abs(bound["n"])
    last_is_product = bound["n"] == -1 or n == 2 or n & (n - 1)
    if d != x and dt.is_inexact(d) and last_is_product and not (dt.is_complex(x) and not dt.is_complex(d)):
        raise out_dtype(x, d)


@kernel(
    "linalg_matrix_power", "matrix_power", like=np.linalg.matrix_power, differs=["flip-copies"],
    writes=WriteSpec(out=_precheck_power),
)  # fmt: skip
def linalg_matrix_power(self, n):
    """n-th powers of square matrices, by repeated squaring; a negative n takes powers of the inverses."""
    lu.check_square("linalg.matrix_power", self)
    if n == 0:
        return stride_rules.dense(np.broadcast_to(eye(self.shape[-1], dtype=self.dtype), self.shape).copy())
    if n < 0:
        lu.check_inexact("linalg.inv", self, False)
        self, n = lu.linalg_inv(self), -n
        if n == 1:  # in the column-major layout in which LAPACK leaves it
            return stride_rules.place(self, stride_rules.columns(self.shape))
    while n % 2 == 0:
        self, n = matmul(self, self), n // 2
    out = self
    while n > 1:
        self, n = matmul(self, self), n // 2
        if n % 2:
            out = matmul(out, self)
    return stride_rules.dense(out.copy())


@kernel("linalg_matrix_exp", "matrix_exp")
def linalg_matrix_exp(self):
    """Exponentials of square matrices."""
    lu.check_square("linalg.matrix_exp", self)
    lu.check_inexact("linalg.matrix_exp", self)
    from scipy.linalg import expm

    n = self.shape[-1]
    if self.dtype in dt.FLOAT8S and n:
        code = "abs" if self.dtype == dt.float8_e8m0fnu else "sum" if self.size else "le"
        raise not_implemented(f"{'exp_vml' if n == 1 else code}_cpu", self.dtype)
    if self.dtype == dt.complex32 and (self.size or n == 1):
        raise not_implemented(
            "exp_vml_cpu" if n == 1 else "bmm" if self.ndim > 2 or self.any() else "sum_cpu", self.dtype
        )
    if self.size == 0:
        return stride_rules.cloned(self)
    if self.dtype == dt.complex32:  # for a single zero matrix, torch adds powers and multiplies none
        zero = self.size == n * n and not self.any()
        raise not_implemented("exp_vml_cpu" if n == 1 else "sum_cpu" if zero else "bmm", self.dtype)
    if n > 1 and self.ndim > 3:
        view(self, (math.prod(self.shape[:-2]), n, n))
    wide = dt.complex128 if dt.is_complex(self.dtype) else dt.float64
    out = dt.cast(expm(dt.cast(self, wide)), self.dtype)
    return (
        stride_rules.place(out, stride_rules.iterated([stride_rules.layout_of(self)]))
        if n == 1
        else stride_rules.dense(out)
    )  # for 1 x 1 matrices torch calls exp


@kernel(
    "linalg_vander", like=np.vander, differs=["vander-increasing", "vander-dtype", "vander-of-rows", "vander-needs-two"]
)
def linalg_vander(x, *, N=None):
    """Each value's powers 0 to N - 1, as a row."""
    known = x.dtype in (*dt.INTS, *dt.BARE_UNSIGNED, dt.float32, dt.float64, dt.complex64, dt.complex128)
    got = dt.scalar_name(x.dtype)
    check(known, f"linalg.vander supports floating point, complex, and integer tensors, but got {got}")
    x = np.atleast_1d(x)
    n = x.shape[-1] if N is None else N
    check(n > 1, "N must be greater than 1.")
    out = dt.int64 if dt.is_integral(x.dtype) else x.dtype
    powers = np.broadcast_to(dt.cast(x, out)[..., None], (*x.shape, n - 1))
    first = np.ones((*x.shape, 1), out)
    return np.concatenate([first, cumprod(powers, -1)], -1)


@kernel("linalg_tensorinv", like=np.linalg.tensorinv)
def linalg_tensorinv(self, ind=2):
    """Inverse of the matrix whose rows are the first ``ind`` dimensions."""
    check(ind > 0, f"Expected a strictly positive integer for 'ind', but got {ind}")
    check(ind <= self.ndim, f"ArrayRef: invalid slice, N = {ind}; size = {self.ndim}")
    rows, columns = self.shape[:ind], self.shape[ind:]
    m, n = math.prod(rows), math.prod(columns)
    words = f"prod(self.shape[ind:]) == prod(self.shape[:ind]), but got {n} != {m}"
    check(m == n, f"Expected self to satisfy the requirement {words}")
    return lu.inverted(self.reshape(m, n), name="inv")[0].reshape(columns + rows)


@kernel("linalg_tensorsolve", like=np.linalg.tensorsolve)
def linalg_tensorsolve(self, other, dims=None):
    """Solution of a linear system whose matrix is given as a tensor."""
    a = self
    if dims is not None:
        moved = [dims] if isinstance(dims, int) else dims
        a = movedim_intlist(self, moved, range(self.ndim - len(moved), self.ndim))
    check(
        a.ndim >= other.ndim,
        "cannot create std::vector larger than max_size()",
        RuntimeError if since("2.15") else ValueError,
    )
    shape = a.shape[other.ndim :]
    m, n = math.prod(shape), math.prod(other.shape)
    words = "prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim])"
    check(m == n, f"Expected self to satisfy the requirement {words}, but got {m} != {n}")
    check(a.size == m * m, invalid_view((m, m), a.size))
    return lu.linalg_solve(a.reshape(m, m), other.reshape(-1)).reshape(shape)
