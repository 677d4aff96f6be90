"""Matrix products. Products of integers keep their width, and half types are multiplied in float32."""

from __future__ import annotations

from typing import Any

from torchnp import dtypes as dt
from torchnp.core.checks import check, refuse
from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable


def _check_dtypes(lib: ArrayLibrary, *operands: Array) -> None:
    """Refuse operands of several dtypes; torch does not check batches without elements."""
    found = [lib.dtype_of(x) for x in operands]
    mixed = any(d != found[0] for d in found)
    if mixed and not any(x.ndim > 2 and 0 in x.shape for x in operands):
        names = ", ".join(dt.scalar_name(d) for d in found)
        raise RuntimeError(f"expected the tensors of a product to have the same dtype, but got: {names}")


@portable("aten::dot")
def dot(lib: ArrayLibrary, self: Array, other: Array) -> Array:
    refuse("dot", lib.dtype_of(self), dt.BARE_UNSIGNED)
    return matmul(lib, self, other)


@portable("aten::mm", "aten::bmm", "aten::matmul", "aten::mv")
def matmul(lib: ArrayLibrary, self: Array, other: Array) -> Array:
    if dt.is_bool(lib.dtype_of(self)):
        return NotImplemented
    _check_dtypes(lib, self, other)
    return lib.in_opmath(lib.xp.matmul, self, other)


@portable("aten::vdot")
def vdot(lib: ArrayLibrary, self: Array, other: Array) -> Array:
    return dot(lib, lib.call("aten::conj", self), other)


def _plus_product(lib: ArrayLibrary, self: Array, a: Array, b: Array, beta: Any, alpha: Any) -> Array:
    """Return ``beta * self + alpha * (a @ b)``; if beta is 0, ``self`` is ignored, even its NaNs.

    If alpha is 0, the NumPy kernel runs: whether torch ignores NaNs of the product depends on the operator and its size.
    """

    def f(c: Array, x: Array, y: Array) -> Array:
        product = lib.xp.matmul(x, y)
        product = product if alpha == 1 else product * lib.number(alpha, lib.dtype_of(product))
        if beta == 0:
            return product
        return product + (c if beta == 1 else c * lib.number(beta, lib.dtype_of(c)))

    if dt.is_bool(lib.dtype_of(self)) or alpha == 0:
        return NotImplemented
    _check_dtypes(lib, self, a, b)
    return lib.in_opmath(f, self, a, b)


@portable("aten::addmm")
def addmm(lib: ArrayLibrary, self: Array, mat1: Array, mat2: Array, *, beta: Any = 1, alpha: Any = 1) -> Array:
    return _plus_product(lib, self, mat1, mat2, beta, alpha)


@portable("aten::baddbmm")
def baddbmm(lib: ArrayLibrary, self: Array, batch1: Array, batch2: Array, *, beta: Any = 1, alpha: Any = 1) -> Array:
    return _plus_product(lib, self, batch1, batch2, beta, alpha)


@portable("aten::addmv")
def addmv(lib: ArrayLibrary, self: Array, mat: Array, vec: Array, *, beta: Any = 1, alpha: Any = 1) -> Array:
    if 0 in mat.shape:
        return NotImplemented  # torch's result then has the shape of ``self``
    return _plus_product(lib, self, mat, vec, beta, alpha)


@portable("aten::linear")
def linear(lib: ArrayLibrary, input: Array, weight: Array, bias: Array | None = None) -> Array:
    def f(x: Array, w: Array, b: Array | None) -> Array:
        y = lib.xp.matmul(x, w if w.ndim == 1 else lib.xp.permute_dims(w, (1, 0)))
        return y if b is None else y + b

    return lib.in_opmath(f, input, weight, bias)


@portable("aten::outer", "aten::ger")
def outer(lib: ArrayLibrary, self: Array, vec2: Array) -> Array:
    return lib.call("aten::mul.Tensor", lib.xp.expand_dims(self, axis=1), lib.xp.expand_dims(vec2, axis=0))


@portable("aten::addr")
def addr(lib: ArrayLibrary, self: Array, vec1: Array, vec2: Array, *, beta: Any = 1, alpha: Any = 1) -> Array:
    d = lib.result_type(self, vec1, vec2)
    refuse("addr_cpu", d, dt.BARE_UNSIGNED)
    for name, number in (("beta", beta), ("alpha", alpha)):
        check(type(number) is not bool or dt.is_bool(d), f"Boolean {name} only supported for Boolean results.")
    columns, rows = lib.xp.expand_dims(vec1, axis=1), lib.xp.expand_dims(vec2, axis=0)
    if dt.is_bool(lib.dtype_of(self)):
        return NotImplemented

    def f(c: Array, x: Array, y: Array) -> Array:
        product = x * y if alpha == 1 else x * y * lib.number(alpha, lib.dtype_of(x))
        return product if beta == 0 else product + (c if beta == 1 else c * lib.number(beta, lib.dtype_of(c)))

    return lib.in_opmath(f, *lib.promote(self, columns, rows))


@portable("aten::einsum")
def einsum(lib: ArrayLibrary, equation: str, tensors: list[Array], *, path: Any = None) -> Array:
    """Call the library's own einsum, which many libraries have although the standard lacks it."""
    function = getattr(lib.xp, "einsum", None)
    if function is None:
        return NotImplemented
    return lib.in_opmath(lambda *xs: function(equation.replace(" ", ""), *xs), *lib.promote(*tensors))


@portable("aten::tensordot")
def tensordot(lib: ArrayLibrary, self: Array, other: Array, dims_self: list[int], dims_other: list[int]) -> Array:
    if any(self.shape[i] != other.shape[j] for i, j in zip(dims_self, dims_other)):
        return NotImplemented  # only torch broadcasts sizes of 1
    f = lambda a, b: lib.xp.tensordot(a, b, axes=(tuple(dims_self), tuple(dims_other)))
    return lib.in_opmath(f, self, other)
