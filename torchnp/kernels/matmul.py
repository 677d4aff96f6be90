"""Matrix and vector products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import broadcast_shapes, check, check_matrices, check_type, dim_of, expanded
from torchnp.core.errors import (
    batch2_mismatch,
    cannot_cast,
    complex_clamp,
    no_dimensions,
    not_implemented,
    out_dtype,
    shape_text,
)
from torchnp.core.fast_path import within
from torchnp.core.inplace_out_spec import Bound, WriteSpec, step_by_step
from torchnp.core.python_scalars import scalar, single
from torchnp.core.registry import kernel
from torchnp.kernels._declare_rows import rows
from torchnp.kernels.activation import gelu, relu
from torchnp.kernels.arithmetic import mul
from torchnp.kernels.numerics.products import (
    ROUNDED,
    blas_ready,
    check_products,
    product,
    weighted,
    without_product,
    words,
)
from torchnp.kernels.view import view
from torchnp.layout.overlap import check_target
from torchnp.layout.stride_rules import empty, iterated, layout_of, place

ndarray = np.ndarray

# ---------------------------------------------------------------- two matrices, two batches


def _quick_mm(self, mat2):
    if type(self) is not ndarray or type(mat2) is not ndarray or not self.ndim == 2 == mat2.ndim:
        return None
    dtype = self.dtype
    if dtype is mat2.dtype and (dtype is dt.float32 or dtype is dt.float64) and self.shape[1] == mat2.shape[0] != 1:
        return self.dot(mat2)  # np.matmul looks up the axes first; but dot skips 0 * nan if the inner size is 1
    return None


_BLAS = "both ask BLAS, by functions that add in orders of their own"
_PRODUCT = ["no-mixed-products", "no-bool-product", "matrix-only"]
_TWIN = within(2, _quick_mm, _BLAS, lambda self, mat2: np.abs(self) @ np.abs(mat2))


def _other_products(a: ndarray, b: ndarray) -> RuntimeError:
    return RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {words(a.dtype)} != {words(b.dtype)}")


def _other_sums(name: str, x: ndarray, mat2: ndarray) -> RuntimeError:
    pair = f"{dt.scalar_name(x.dtype)} and {dt.scalar_name(mat2.dtype)}"
    return RuntimeError(f"{name} and mat2 must have the same dtype, but got {pair}")


def _precheck_lists(first: Sequence[ndarray], others: Sequence[Sequence[ndarray]]) -> None:
    check(len(first), "_foreach_mm requires non-empty tensor lists")
    check(len(others[0]) == len(first), "_foreach_mm: self and mat2 must have the same number of tensors")


@kernel("mm", like=np.matmul, differs=_PRODUCT, quick=_TWIN, writes=WriteSpec(lists=_precheck_lists))
def mm(self, mat2):
    """Product of two matrices."""
    check_matrices(self, mat2, "mm", ("self must be a matrix", "mat2 must be a matrix"))
    if self.dtype != mat2.dtype:
        raise _other_products(self, mat2)
    if self.size and mat2.size:
        check_products("addmm_impl_cpu_", self.dtype, float8=True)
    return product(self, mat2)


@kernel("bmm", like=np.matmul, differs=[*_PRODUCT, "product-of-nothing"])
def bmm(self, mat2):
    """Products of the matrices of two batches."""
    _check_batches(self, mat2)
    return batched(self, mat2)


def batched(a: ndarray, b: ndarray) -> ndarray:
    """Multiply batches of matrices of fitting shapes; if one is empty, use ``b``'s dtype without a check."""
    if not (a.size and b.size):
        return np.zeros((*broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]), b.dtype)
    check_batched(a, b)
    return product(a, b, batches=True)


def check_batched(a: ndarray, b: ndarray) -> None:
    """Refuse dtypes that torch's product of batches refuses; these broadcast, as three-dimensional copies if need be."""
    if a.dtype == b.dtype and a.dtype not in _BY_GEMM:
        return check_products("bmm" if _is_small(a, b) else "addmm_impl_cpu_", a.dtype)
    n = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (np.broadcast_to(x, (*n, *x.shape[-2:])).reshape(math.prod(n), *x.shape[-2:]) for x in (a, b))
    _check_by_size("bmm", a, b)
    return None


_BY_GEMM = (dt.complex32, *dt.FLOAT8S)
_BY_BATCHES = (dt.float32, dt.float64, dt.complex64, dt.complex128, *_BY_GEMM)


def _is_small(a: ndarray, b: ndarray) -> bool:
    return bool(a.shape[-2] * a.shape[-1] * b.shape[-1] < ROUNDED)


def _check_by_size(small: str, a: ndarray, b: ndarray, *numbers: Any) -> None:
    """Refuse dtypes as torch's kernel ``small`` does, or for large matrices BLAS: of batches, or matrix by matrix.

    The first two look at ``numbers``, the factors, before the other dtype.
    """
    expected, other = a.dtype, b
    if _is_small(a, b):
        check_products(small, a.dtype)
    elif _in_runs(a) and _in_runs(b) and b.dtype in _BY_BATCHES:
        check_products("baddbmm_with_gemm", b.dtype)
        expected, other = b.dtype, a
    elif a.dtype != b.dtype:
        raise _other_products(a, b) if small == "bmm" else _other_sums("mat1", a, b)
    else:
        check_products("addmm_impl_cpu_", a.dtype, float8=True)
    for x in numbers:
        scalar(x, dt.opmath(expected))
    check_type(expected, other)


def _in_runs(x: ndarray) -> bool:
    """Return whether BLAS can read these matrices: the elements of their rows, or columns, are neighbours."""
    (rows, columns), (down, across) = x.shape[-2:], (s // x.itemsize for s in x.strides[-2:])
    return (across == 1 and (rows == 1 or down >= columns)) or (down == 1 and (columns == 1 or across >= rows))


def _check_batches(a: ndarray, b: ndarray) -> None:
    check(a.ndim == 3, "batch1 must be a 3D tensor")
    check(b.ndim == 3, "batch2 must be a 3D tensor")
    if b.shape[:2] != (a.shape[0], a.shape[2]):
        raise batch2_mismatch(a.shape[0], a.shape[2], (b.shape[0], b.shape[1]))


# ---------------------------------------------------------------- plus a matrix

_SUM = ["no-mixed-products", "beta-zero", "half-opmath"]


def _fits(base: ndarray, a: ndarray, b: ndarray) -> bool:
    """Return whether nothing needs a check: ``base`` is a linear layer's bias, or has the result's shape."""
    if a.dtype not in (dt.float32, dt.float64) or not a.ndim == b.ndim == 2 or a.shape[1] != b.shape[0]:
        return False
    return base.shape == b.shape[1:] or base.shape == (a.shape[0], b.shape[1])


def _precheck_addmm(bound: Bound, targets: list[ndarray]) -> None:
    """Refuse a target of another shape: torch checks the shape before it converts beta and alpha."""
    a, b = bound["mat1"], bound["mat2"]
    if a.ndim == b.ndim == 2 and a.shape[1] == b.shape[0] and targets[0].dtype == a.dtype == b.dtype:
        _check_same(targets[0], (a.shape[0], b.shape[1]))


@kernel(
    "addmm",
    differs=[*_SUM, "alpha-zero"],
    writes=WriteSpec(inplace=_precheck_addmm, expanded=step_by_step(), free=("mat1", "mat2"), unexpanded=True),
)
def addmm(self, mat1, mat2, *, beta=1, alpha=1):
    """beta * self + alpha * (mat1 @ mat2)."""
    if beta == 1 == alpha and self.dtype is mat1.dtype is mat2.dtype and _fits(self, mat1, mat2):
        out = np.matmul(blas_ready(mat1), blas_ready(mat2))
        return np.add(out, self, out)
    return dt.cast(_addmm(self, mat1, mat2, beta, alpha), mat1.dtype)


def _addmm(self: ndarray, mat1: ndarray, mat2: ndarray, beta: Any, alpha: Any) -> ndarray:
    """Compute `addmm` without the rounding to a half type."""
    for name, other in (("self", self), ("mat1", mat1)):
        if other.dtype != mat2.dtype:
            raise _other_sums(name, other, mat2)
    found = [f"{name} must be a matrix, got {x.ndim}-D tensor" for name, x in (("mat1", mat1), ("mat2", mat2))]
    check_matrices(mat1, mat2, "addmm", (found[0], found[1]))
    base = expanded(self, (mat1.shape[0], mat2.shape[1]))
    if not (mat1.size and mat2.size):
        return without_product(base, beta)
    check_products("addmm_impl_cpu_", self.dtype, float8=True)
    return weighted(base, beta, alpha, mat1, mat2)


@kernel("_addmm_activation", differs=[*_SUM, "alpha-zero"])
def _addmm_activation(self, mat1, mat2, *, beta=1, alpha=1, use_gelu=False):
    """`addmm` followed by relu or gelu."""
    out = addmm(self, mat1, mat2, beta=beta, alpha=alpha)
    if use_gelu:
        return gelu(out)
    check(not dt.is_complex(out.dtype), complex_clamp())
    return relu(out)


# The factors of products are `free` (not checked for overlap): torch passes them to BLAS without that check.
def _base_of_batches(self: ndarray, batch1: ndarray, batch2: ndarray) -> ndarray:
    shape = [x.shape[dim_of(x, d)] for x, d in ((batch1, 0), (batch1, 1), (batch2, 2))]
    base = expanded(self, tuple(shape))
    if self.dtype != batch1.dtype:
        pair = f"batch1: {words(batch1.dtype)}, batch2: {words(batch2.dtype)}"
        raise RuntimeError(f"Input dtypes must be the same, got: input {words(self.dtype)}, {pair}")
    _check_batches(batch1, batch2)
    return base


def _check_same(target: ndarray, shape: tuple[int, ...]) -> None:
    words = f"input tensor size {shape_text(target.shape)} and output tensor size {shape_text(shape)} should match"
    check(target.shape == shape, f"Bad in-place call: {words}")


def _precheck_baddbmm(bound: Bound, targets: list[ndarray]) -> None:
    """Refuse a target of another dtype or shape: torch checks it before it converts beta and alpha."""
    base, other = _base_of_batches(bound["self"], bound["batch1"], bound["batch2"]), bound["batch2"].dtype
    pair = f"input tensor dtype {dt.c_name(base.dtype)} and output tensor dtype {dt.c_name(other)} should match"
    check(base.dtype == other, f"Bad in-place call: {pair}")
    _check_same(targets[0], base.shape)


# torch computes an expanded target element by element. For each dimension of the target, these are the matching
# dimensions of the batches.
_BADDBMM = WriteSpec(
    inplace=_precheck_baddbmm,
    expanded=step_by_step((("batch1", 0), ("batch2", 0)), (("batch1", 1),), (("batch2", 2),)),
    free=("batch1", "batch2"),
)


@kernel("baddbmm", differs=_SUM, writes=_BADDBMM)
def baddbmm(self, batch1, batch2, *, beta=1, alpha=1):
    """beta * self + alpha * (batch1 @ batch2), matrix by matrix."""
    base = _base_of_batches(self, batch1, batch2)
    if not (batch1.size and batch2.size):
        base = dt.cast(base, batch2.dtype)  # torch scales its copy of the base
        return dt.cast(without_product(base, beta), base.dtype)
    _check_by_size("baddbmm", batch1, batch2, beta, alpha)
    return dt.cast(weighted(base, beta, alpha, batch1, batch2, batches=True), self.dtype)


def _precheck_addbmm(bound: Bound, outs: list[ndarray]) -> None:
    """For zero batches, cast ``self`` to the dtype of ``out=``: torch copies ``self`` there, and scales the copy."""
    if not len(bound["batch1"]):
        bound["self"] = dt.cast(bound["self"], outs[0].dtype)


# torch implements addbmm_ by its out=, which accepts another shape.
_ADDBMM = WriteSpec(
    out=_precheck_addbmm, resizes=True, free=("batch1", "batch2"), dtype_before_target=True, memory_first=True
)


@kernel("addbmm", differs=[*_SUM, "alpha-zero"], writes=_ADDBMM)
def addbmm(self, batch1, batch2, *, beta=1, alpha=1):
    """beta * self + alpha * sum(batch1 @ batch2)."""
    base = expanded(self, (batch1.shape[dim_of(batch1, 1)], batch2.shape[dim_of(batch2, 2)]))
    check(batch1.ndim == 3, "batch1 must be a 3D tensor")
    check(batch2.ndim == 3, "batch2 must be a 3D tensor")
    (n, rows, inner), (count, found, columns) = batch1.shape, batch2.shape
    check(n == count, f"batch1 and batch2 must have same number of batches, got {n} and {count}")
    check(inner == found, f"Incompatible matrix sizes for bmm ({rows}x{inner} and {found}x{columns})")
    if not n:
        return dt.cast(without_product(base, beta, skips_empty=False), self.dtype)
    # torch rounds after each matrix; if there is no product, it multiplies by beta, even by 1.
    if dt.is_half(self.dtype) or not inner:
        out = base
        for a, b in zip(batch1, batch2, strict=True):
            out, beta = addmm(out, a, b, beta=beta, alpha=alpha), 1
        return out
    # The sum over the batch is a single product whose inner dimension includes the batch.
    wide = batch1.transpose(1, 0, 2).reshape(rows, n * inner)
    return addmm(base, wide, batch2.reshape(n * inner, columns), beta=beta, alpha=alpha)


def _in_dtype(*given: Any, plain: Any, **options: Any) -> ndarray:
    """Call ``plain`` with operands in the result's dtype: the operands' own, or float32 for half types."""
    *base, a, b, out_dtype = given
    out = dt.as_dtype(out_dtype)
    fits = out == a.dtype or (out == dt.float32 and dt.is_half(a.dtype))
    check(fits, "out_dtype must be the same as input dtype or fp32 for fp16/bf16 inputs")
    for x in base:
        first = "mat1" if plain is addmm else "batch1"
        check(x.dtype in (out, a.dtype), f"self dtype must match either out_dtype or {first} dtype")
    second = dt.cast(b, out) if b.dtype == a.dtype else b
    return plain(*(dt.cast(x, out) for x in (*base, a)), second, **options)


for _name, _body, _differs, _too in (
    ("mm.dtype", mm, _PRODUCT, ""), ("addmm.dtype", addmm, [*_SUM, "alpha-zero"], " (as may ``self``)"),
    ("bmm.dtype", bmm, _PRODUCT, ""), ("baddbmm.dtype", baddbmm, _SUM, " (as may ``self``)"),
):  # fmt: skip
    _doc = f"`{_body.__name__}` in ``out_dtype``, which may be float32 for half types{_too}; torch has it on GPUs only."
    rows(_name, _in_dtype, _doc, plain=_body, differs=_differs)


# ---------------------------------------------------------------- vectors


def _check_addmv(self: ndarray, mat: ndarray, vec: ndarray) -> None:
    if mat.ndim != 2 or vec.ndim != 1 or self.ndim > 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {self.ndim}, {mat.ndim}, {vec.ndim}")
    size = self.shape[0] if self.ndim else mat.shape[0]
    if mat.shape[1] != vec.shape[0] or (mat.shape[0] != size and size != 1):
        check(self.ndim, no_dimensions(0))
        raise RuntimeError(
            f"size mismatch, got input ({size}), mat ({mat.shape[0]}x{mat.shape[1]}), vec ({vec.shape[0]})"
        )
    if not self.dtype == mat.dtype == vec.dtype:
        names = "{}, {}, and {}".format(*(dt.scalar_name(x.dtype) for x in (self, mat, vec)))
        raise RuntimeError(f"addmv input tensors must have the same dtype, but got {names}")


def _precheck_addmv(bound: Bound, targets: list[ndarray]) -> None:
    _check_addmv(bound["self"], bound["mat"], bound["vec"])
    _check_same(targets[0], bound["mat"].shape[:1])


_ADDMV = WriteSpec(expanded=step_by_step((("mat", 0),)), free=("mat", "vec"), inplace=_precheck_addmv)


@kernel("addmv", differs=[*_SUM, "alpha-zero"], writes=_ADDMV)
def addmv(self, mat, vec, *, beta=1, alpha=1):
    """beta * self + alpha * (mat @ vec)."""
    _check_addmv(self, mat, vec)
    if not mat.size:  # if there is no product, the vector keeps its own shape
        return np.multiply(self, single(beta, self.dtype)) if beta != 0 else np.zeros(mat.shape[:1], self.dtype)
    base = expanded(self, mat.shape[:1])
    check_products("addmv_impl_cpu", self.dtype)
    # Beta and alpha are rounded too
    beta, alpha = (dt.cast(scalar(x, self.dtype), dt.opmath(self.dtype)).item() for x in (beta, alpha))
    return dt.cast(weighted(base, beta, alpha, mat, vec), self.dtype)


def _precheck_same(bound: Bound, outs: list[ndarray]) -> None:
    """Check the operands and the dtype of ``out=``.

    torch adds to an ``out=`` of a fitting size, and otherwise to a new vector of the dtype of ``vec``.
    """
    mat, vec, out = bound["self"], bound["vec"], outs[0]
    check(mat.ndim, no_dimensions(0))
    fits = out.ndim < 2 and out.size in (mat.shape[0], 1)
    _check_addmv(out if fits else np.zeros(mat.shape[0], vec.dtype), mat, vec)
    check(out.dtype == vec.dtype, out_dtype(vec.dtype, out.dtype))


@kernel("mv", like=np.matmul, differs=_PRODUCT, writes=WriteSpec(out=_precheck_same))
def mv(self, vec):
    """Product of a matrix and a vector."""
    check(self.ndim, no_dimensions(0))
    if self.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {self.ndim}, {vec.ndim}")
    return addmv(np.zeros(self.shape[0], vec.dtype), self, vec, beta=0)


def _check_dot(a: ndarray, b: ndarray) -> None:
    if a.ndim != 1 or b.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {a.ndim}D and {b.ndim}D tensors")
    if a.dtype != b.dtype:
        pair = f"{dt.scalar_name(a.dtype)} and {dt.scalar_name(b.dtype)}"
        raise RuntimeError(f"dot : expected both vectors to have same dtype, but found {pair}")
    if a.shape != b.shape:
        shapes = f"expected tensor {shape_text(a.shape)} and src {shape_text(b.shape)}"
        counts = f"the same number of elements, but got {a.size} and {b.size} elements respectively"
        raise RuntimeError(f"inconsistent tensor size, {shapes} to have {counts}")


@kernel("dot", like=np.dot, differs=["no-mixed-products", "no-bool-product", "vectors-only"])
def dot(self, tensor):
    """Sum of products of two vectors."""
    _check_dot(self, tensor)
    check_products("dot", self.dtype)
    return product(self, tensor)


@kernel("vdot", like=np.vdot, differs=["no-mixed-products", "no-bool-product", "vectors-only"])
def vdot(self, other):
    """Sum of products of two vectors; the first vector is conjugated."""
    _check_dot(self, other)
    check_products("vdot" if self.dtype == dt.complex32 else "dot", self.dtype)
    return product(self.conj() if dt.is_complex(self.dtype) else self, other)


def _check_vectors(name: str, **vectors: ndarray) -> None:
    for word, v in vectors.items():
        check(v.ndim == 1, f"{name}: Expected 1-D argument {word}, but got {v.ndim}-D")


def _precheck_addr(bound: Bound, _: list[ndarray]) -> None:
    x, u, v = bound["self"], bound["vec1"], bound["vec2"]
    if u.ndim == v.ndim == 1:
        check(x.ndim == 2, f"2D tensor expected, got {x.ndim}D tensor for input")
        sizes = f"input: {shape_text(x.shape)}, v1: {shape_text(u.shape)}, v2: {shape_text(v.shape)}"
        check(x.shape == (u.size, v.size), f"size mismatch, {sizes}")
        check_target(x)
        common = dt.result_type(x, u, v)
        check(dt.can_cast(common, x.dtype), cannot_cast(common, x.dtype))


@kernel("addr", differs=["half-opmath", "beta-zero"], writes=WriteSpec(inplace=_precheck_addr))
def addr(self, vec1, vec2, *, beta=1, alpha=1):
    """beta * self + alpha * outer(vec1, vec2)."""
    _check_vectors("addr", vec1=vec1, vec2=vec2)
    base = expanded(self, (vec1.size, vec2.size))
    out = dt.result_type(self, vec1, vec2)
    for name, number in (("beta", beta), ("alpha", alpha)):
        fits = out == dt.bool_ or not isinstance(number, bool)
        check(fits, f"Boolean {name} only supported for Boolean results.")
        words = f"For integral input tensors, argument {name} must not be a floating point number."
        check(dt.is_inexact(out) or not isinstance(number, (float, complex)), words)
    if out in (*dt.BARE_UNSIGNED, *dt.FLOAT8S, dt.complex32):
        raise not_implemented("addr_cpu", out)
    laid = iterated((layout_of(base), layout_of(view(vec1, (vec1.size, 1))), layout_of(vec2)))
    total = empty(base.shape, out, laid)
    b, a = scalar(beta, out), scalar(alpha, out)
    if out == dt.bool_:
        np.logical_and(np.logical_and(vec1, a)[:, None], vec2, out=total)
        return np.logical_or(base, total, out=total) if b else total
    # The half types are rounded after each step here, as torch does.
    np.multiply((a * dt.cast(vec1, out))[:, None], dt.cast(vec2, out), out=total)
    if b != 0:
        base = dt.cast(base, out)
        np.add(base if b == 1 else b * base, total, out=total)
    return total


def _outer(a: ndarray, b: ndarray) -> ndarray:
    _check_vectors("outer", self=a, vec2=b)
    out = mul(view(a, (a.size, 1)), b)
    return out if out.size else place(out, iterated((((a.size, 1), (1, 1)), (b.shape, (1,)))))


_OF_OUTER = {"like": np.outer, "differs": ["outer-vectors"]}
outer, ger = rows("outer ger", _outer, "Outer product of two vectors.", **_OF_OUTER)
