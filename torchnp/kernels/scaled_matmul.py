"""Matrix products of float8 tensors with scales."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import broadcast_shapes, check, check_fits, dim_of
from torchnp.core.errors import dense_dtype, no_primitive, output_shape, shape_text
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.kernels._elementwise import check_result_dtype
from torchnp.kernels._memory import element_strides
from torchnp.kernels.view import matrix_transposed
from torchnp.layout.stride_rules import dense

ndarray = np.ndarray

_ONEDNN = frozenset({dt.float8_e4m3fn, dt.float8_e5m2, dt.float16, dt.bfloat16, dt.float32, dt.int8, dt.uint8})
_SCALED_RESULTS = (dt.float8_e4m3fn, dt.float8_e5m2)


@kernel("_scaled_mm", differs=["half-opmath"])
def _scaled_mm(
    self, mat2, scale_a, scale_b, bias=None, scale_result=None, out_dtype=None, use_fast_accum=False
):  # fmt: skip
    """(scale_a * self) @ (scale_b * mat2) + bias, divided by ``scale_result`` if ``out_dtype`` is float8.

    If both operands have the same dtype and a single scale each, oneDNN computes the product, and float8_e4m3fn
    overflows
    to nan. Otherwise the operands are scaled in float32, and the result saturates.
    """
    out = self.dtype if out_dtype is None else dt.as_dtype(out_dtype)
    by_onednn = self.dtype == mat2.dtype and scale_a.size == 1 == scale_b.size
    if not (by_onednn or _joint_scaling(self, mat2, scale_a, scale_b)):
        raise ValueError(_invalid("", self, mat2, scale_a, scale_b))
    _check_operands(("mat1", "mat2") if by_onednn else ("mat_a", "mat_b"), self, mat2, scale_result, bias)
    if not by_onednn and scale_a.ndim == 2 and scale_a.size > 1:
        _check_steps(scale_a, scale_b)
    scale_result = scale_result if out_dtype is not None and out in _SCALED_RESULTS else None
    run = _by_onednn if by_onednn else _emulated
    return run(self, mat2, scale_a, scale_b, bias, scale_result, out)


def _by_onednn(
    a: ndarray, b: ndarray, scale_a: ndarray, scale_b: ndarray, bias: Any, scale_result: Any, out: np.dtype
) -> ndarray:
    for name, mat in (("mat1", a), ("mat2", b)):
        check(mat.dtype in dt.FLOAT8S, f"Expected {name} to be Float8 matrix got {dt.scalar_name(mat.dtype)}")
    for dtype in (a.dtype, b.dtype, out, *([bias.dtype] if bias is not None else [])):
        check(dtype in _ONEDNN, dense_dtype(dtype))
    if bias is not None:
        row = bias.ndim < 2 or bias.shape == (1, b.shape[1])
        check(row and bias.dtype not in (dt.int8, dt.uint8), no_primitive("matmul", ""))
    total = np.matmul(a.astype(np.float32), b.astype(np.float32))
    total *= scale_a.reshape(()).astype(np.float32) * scale_b.reshape(()).astype(np.float32)
    if bias is not None:
        total += bias.reshape(-1).astype(np.float32)
    if scale_result is not None:
        total = total / scale_result.reshape(())
    return dense(total.astype(out) if out in dt.FLOAT8S else dt.cast(total, out))


def _emulated(
    a: ndarray, b: ndarray, scale_a: ndarray, scale_b: ndarray, bias: Any, scale_result: Any, out: np.dtype
) -> ndarray:
    one = scale_a.size == 1 == scale_b.size
    rows, columns = (scale_a.reshape(()), scale_b.reshape(())) if one else (scale_a, scale_b)
    broadcast_shapes(b.shape, columns.shape)
    total = np.matmul(dt.cast(a, dt.float32) * rows, dt.cast(b, dt.float32) * columns)
    check(total.ndim == 2, output_shape((a.shape[0], b.shape[1]), total.shape))
    total = total if bias is None else _plus(total, bias)
    if scale_result is not None:
        total = total * (np.float32(1) / scale_result.reshape(()))
    return dense(dt.cast(total, out))


def _plus(total: ndarray, bias: ndarray) -> ndarray:
    """Add a bias of any dtype, with the checks of torch's in-place addition."""
    check_fits(bias, total)
    wide = dt.promote_types(total.dtype, bias.dtype)
    check_result_dtype(wide, total.dtype)
    return dt.cast(dt.cast(total, wide) + dt.cast(bias, wide), total.dtype)


def _check_operands(names: tuple[str, str], a: ndarray, b: ndarray, scale_result: Any, bias: Any) -> None:
    for name, own, x in (("mat1", "self", a), ("mat2", "mat2", b)):
        later = f"_scaled_mm: {own} must be a matrix, got {x.ndim}-D tensor"
        check(x.ndim == 2, later if names[0] == "mat1" and since("2.15") else f"{name} must be a matrix")
    sizes = f"{a.shape[0]}x{a.shape[1]} and {b.shape[0]}x{b.shape[1]}"
    check(a.shape[1] == b.shape[0], f"{names[0]} and {names[1]} shapes cannot be multiplied ({sizes})")
    alone = scale_result is None or (scale_result.size == 1 and scale_result.dtype == dt.float32)
    check(alone, "scale_result must be a float scalar")
    if bias is not None:
        check(bias.size == b.shape[1], f"Bias must be size {b.shape[1]} but got {bias.size}")


def _check_steps(scale_a: ndarray, scale_b: ndarray) -> None:
    """Raise torch's error for row-wise scales whose second stride is not 1, even if that dimension has size 1."""
    for name, scale in (("scale_a", scale_a), ("scale_b", scale_b)):
        step = element_strides(scale)[dim_of(scale, 1)]
        check(step == 1, f"expected {name}.stride(1) to be 1, but got {step}", ValueError)


def _joint_scaling(a: ndarray, b: ndarray, scale_a: ndarray, scale_b: ndarray) -> bool:
    """Return whether both operands have a single scale, or one per row of ``a`` and column of ``b``.

    The second operand is checked only if the first one fits.
    """
    turned = lambda fits: fits(*[matrix_transposed(x) for x in (scale_b, b)][::-1])
    return any(fits(a, scale_a) and turned(fits) for fits in (_one_scale, _scale_of_rows))


def _one_scale(x: ndarray, scale: ndarray) -> bool:
    return x.dtype in dt.FLOAT8S and scale.dtype == dt.float32 and scale.size == 1


def _scale_of_rows(x: ndarray, scale: ndarray) -> bool:
    known = x.dtype in dt.FLOAT8S and scale.dtype == dt.float32 and scale.ndim == 2
    return known and scale.shape == (x.shape[dim_of(x, 0)], 1) and scale.flags.c_contiguous


def _invalid(index: str, a: ndarray, b: ndarray, scale_a: ndarray, scale_b: ndarray) -> str:
    found = [
        f"{name}.dtype()={dt.scalar_name(x.dtype)}, {scale}{index}.dtype()={dt.scalar_name(s.dtype)}, "
        f"{scale}{index}.size()={shape_text(s.shape)}"
        for name, x, scale, s in (("a", a, "scale_a", scale_a), ("b", b, "scale_b", scale_b))
    ]
    wanted = a.shape[dim_of(a, 0)], b.shape[dim_of(b, 1)]
    stride_a, stride_b = shape_text(element_strides(scale_a)), shape_text(element_strides(scale_b))
    return (
        "Invalid scaling configuration.\n"
        "- For TensorWise scaling, a and b should be float8, scales should be float and singletons.\n"
        "- For RowWise scaling, a and b should be float8, scales should be float, scale_a should be "
        f"({wanted[0]}, 1) and scale_b should be (1, {wanted[1]}), and both should be contiguous.\n"
        f"Got mat_{found[0]}, scale_a{index}.stride()={stride_a}, mat_{found[1]} and scale_b{index}.stride()={stride_b}"
    )


# ---------------------------------------------------------------- by recipe


@kernel("_scaled_mm_v2", differs=["half-opmath"])
def _scaled_mm_v2(
    self, mat2, scale_a, recipe_a, swizzle_a, scale_b, recipe_b, swizzle_b, bias, out_dtype, contraction_dim=(),
    use_fast_accum=False,
):  # fmt: skip
    """`_scaled_mm` with the scaling given by recipe numbers: 0 for one scale, 1 for a scale per row or column."""
    out = self.dtype if out_dtype is None else dt.as_dtype(out_dtype)
    check(self.ndim == 2, "mat_a must be a matrix", ValueError)
    check(mat2.ndim == 2, "mat_b must be a matrix", ValueError)
    nothing = 0 in (*self.shape, mat2.shape[1])
    if nothing and not since("2.14"):
        return dense(np.zeros((self.shape[0], mat2.shape[1]), out))
    if since("2.15"):
        words = "torch._scaled_mm_v2 only supports contraction_dim=(1, 0)"
        check(tuple(contraction_dim) in ((), (1, 0)), words, ValueError)
    _check_contraction(self, mat2, tuple(contraction_dim))
    if bias is not None:
        words = f"Bias must be size {mat2.shape[1]} but got {bias.size}"
        check(bias.size == mat2.shape[1], words, ValueError)
        words = f"Bias must be Float32 or BFloat16 or Half, but got {dt.scalar_name(bias.dtype)}"
        check(bias.dtype in (dt.float32, dt.bfloat16, dt.float16), words, ValueError)
    swizzles = any((*swizzle_a[:1], *swizzle_b[:1]))
    if since("2.14"):
        _check_recipes(self, mat2, scale_a, recipe_a, scale_b, recipe_b)
        check(not swizzles, "CPU does not support swizzle.", ValueError)
        if nothing:
            return dense(np.zeros((self.shape[0], mat2.shape[1]), out))
        return _emulated(self, mat2, scale_a[0], scale_b[0], bias, None, out)
    check(not swizzles, "CPU does not support swizzle.", ValueError)
    lists = (scale_a, recipe_a, scale_b, recipe_b)
    alike = all(len(x) == 1 for x in lists) and recipe_a[0] == recipe_b[0] and recipe_a[0] in (0, 1)
    float8 = self.dtype in dt.FLOAT8S and mat2.dtype in dt.FLOAT8S
    if not (alike and float8 and scale_a[0].dtype == dt.float32 == scale_b[0].dtype):
        lacking = [np.empty(0, np.float32)]
        raise ValueError(_invalid("[0]", self, mat2, *((x or lacking)[0] for x in (scale_a, scale_b))))
    _check_scales(recipe_a[0], self, mat2, scale_a[0], scale_b[0])
    return _emulated(self, mat2, scale_a[0], scale_b[0], bias, None, out)


def _check_recipes(a: ndarray, b: ndarray, scale_a: Any, recipe_a: Any, scale_b: Any, recipe_b: Any) -> None:
    """Make the checks of scales that torch makes since 2.14; before, it had one message for all of them."""
    kinds = f"mat_a.dtype={dt.scalar_name(a.dtype)}{{}} mat_b.dtype={dt.scalar_name(b.dtype)}"
    float8 = a.dtype in dt.FLOAT8S and b.dtype in dt.FLOAT8S
    check(float8, f"Expected both inputs to be fp8 or fp4 types but got {kinds.format(' and')}", ValueError)
    words = "Invalid scaling configuration for _scaled_mm_v2: unsupported recipe(s). Got "
    words += f"{kinds.format(',')}, recipe_a.size()={len(recipe_a)}, recipe_b.size()={len(recipe_b)}"
    check([*recipe_a] == [*recipe_b] and [*recipe_a] in ([0], [1]), words, ValueError)
    by_row = recipe_a[0] == 1
    for name, scales, rows in (("scale_a", scale_a, a.shape[0]), ("scale_b", scale_b, b.shape[1])):
        count = rows if by_row else 1
        right = len(scales) == 1 and scales[0].dtype == dt.float32 and scales[0].size == count
        found = f"s, got {scales[0].size if scales else 0}" if by_row else ""
        check(right, f"{name} must have {count} Float element{found}", ValueError)
    if by_row and a.size and b.size:
        _check_steps(scale_a[0], scale_b[0])


def _check_contraction(a: ndarray, b: ndarray, dims: tuple[int, ...]) -> None:
    words = f"mat_a and mat_b shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and {b.shape[0]}x{b.shape[1]})"
    if not dims:
        check(a.shape[1] == b.shape[0], words, ValueError)
        return
    check(len(dims) == 2, "contraction_dim must have exactly 2 elements", ValueError)
    words = f"{words} with contraction dims mat_a: {dims[0]}, mat_b: {dims[1]}"
    check(a.shape[dim_of(a, dims[0])] == b.shape[dim_of(b, dims[1])], words, ValueError)


def _check_scales(recipe: int, a: ndarray, b: ndarray, scale_a: ndarray, scale_b: ndarray) -> None:
    if recipe == 0:
        check(scale_a.size == 1, "scale_a must have 1 Float element", ValueError)
        check(scale_b.size == 1, "scale_b must have 1 Float element", ValueError)
        return
    rows, shape = a.shape[0], shape_text(scale_a.shape)
    right = scale_a.shape[dim_of(scale_a, 0)] == rows and scale_a.shape[dim_of(scale_a, 1)] == 1
    check(right, f"scale_a must have shape [{rows}, 1], got [{shape}]", ValueError)
    check(scale_a.size == rows, f"scale_a must have {rows} Float elements, got {scale_a.size}", ValueError)
    words = f"scale_b must have {b.shape[1]} Float elements, got {scale_b.size}"
    check(scale_b.size == b.shape[1], words, ValueError)
    _check_steps(scale_a, scale_b)
