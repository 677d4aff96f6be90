"""Grouped products: each group of rows or columns has its own matrix, as in mixtures of experts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from torchnp import dtypes as dt
from torchnp.core import errors
from torchnp.core.checks import check, check_matrices
from torchnp.core.errors import shape_text
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.kernels._memory import element_strides
from torchnp.kernels.numerics.products import product
from torchnp.layout.stride_rules import empty

ndarray = np.ndarray


@kernel("_grouped_mm", differs=["half-opmath"])
def _grouped_mm(self, mat2, offs=None, bias=None, out_dtype=None):
    """Products of groups that end at ``offs``: of rows (2-d by 3-d), columns (3-d by 2-d) or inner slices (2-d by 2-d).

    Rows and columns after the last group are zero here, and uninitialized in torch.
    """
    for name, mat in (("mat_a", self), ("mat_b", mat2)):
        if mat.dtype not in (dt.bfloat16, dt.float32, dt.float16):
            found = dt.scalar_name(mat.dtype)
            raise RuntimeError(f"Expected {name} to be Float32, BFloat16 or Float16 matrix, got {found}")
    if since("2.15"):
        got = " and ".join(dt.scalar_name(x.dtype) for x in (self, mat2))
        check(self.dtype == mat2.dtype, f"Expected mat_a and mat_b to have the same dtype, got {got}")
    _check_groups(self, mat2, offs, bias)
    same = out_dtype is None or dt.as_dtype(out_dtype) == self.dtype
    check(same, "Grouped gemm output dtype must match `mat_a` dtype")
    out = _padded(_grouped_shape(self, mat2, offs), self.dtype)
    same = self.dtype == mat2.dtype
    check(same or self.ndim + mat2.ndim < 6, errors.out_dtype(mat2.dtype, self.dtype))
    names = " != ".join(dt.c_name(x.dtype) for x in (self, mat2))
    for a, b, c in _groups(self, mat2, offs, out):
        check(same, f"expected m1 and m2 to have the same dtype, but got: {names}")
        if offs is not None:  # a slice of the inner dimension may be shorter in one of the matrices
            check_matrices(a, b, "mm")
        c[...] = product(a, b)
    return out


def _check_groups(a: ndarray, b: ndarray, offs: ndarray | None, bias: ndarray | None) -> None:
    check(a.ndim in (2, 3), "mat_a has to be 2 or 3d")
    check(b.ndim in (2, 3), "mat_b has to be 2 or 3d")
    flat = a.ndim == 2 or b.ndim == 2
    if a.ndim == 3 or b.ndim == 3:
        check(a.shape[-1] == b.shape[-2], "contraction dimension of mat_a and mat_b must match")
    _check_strides(a)
    _check_strides(b)
    words = "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d"
    check((offs is not None) == flat, words)
    if offs is not None:
        check(offs.ndim == 1, "offs has to be 1D")
        check(offs.dtype == dt.int32, "Offsets have to be int32")
    check(bias is None, "Bias not supported yet")


def _check_strides(x: ndarray) -> None:
    """Check that matrices are row-major or column-major, with a leading stride that is a multiple of 16 bytes."""
    strides, (rows, columns) = element_strides(x), x.shape[-2:]
    if strides[-2] == 1 and strides[-1] >= max(1, rows):
        step = strides[-1]
    elif strides[-1] == 1 and strides[-2] >= max(1, columns):
        step = strides[-2]
    else:
        sizes = f"got {shape_text(strides)} for strides and {shape_text(x.shape)} for sizes"
        raise RuntimeError(f"Invalid strides/sizes, {sizes}")
    check(step % (16 // x.itemsize) == 0, "strides should be multiple of 16 bytes")


def _grouped_shape(a: ndarray, b: ndarray, offs: ndarray | None) -> tuple[int, ...]:
    if a.ndim == b.ndim == 3:
        check(a.shape[0] == b.shape[0], "batched dimension has to match")
        return (a.shape[0], a.shape[1], b.shape[2])
    groups = len(offs) if offs is not None else 0
    if a.ndim == b.ndim:
        return (groups, a.shape[0], b.shape[1])
    check(groups == (b if a.ndim == 2 else a).shape[0], "matrix batch sizes have to match")
    return (a.shape[-2], b.shape[-1])


def _padded(shape: tuple[int, ...], dtype: np.dtype) -> ndarray:
    """Return zeros whose rows start at multiples of 16 bytes."""
    step = 16 // dtype.itemsize
    width = -(-shape[-1] // step) * step
    if 0 in shape:
        rows = max(shape[-2], 1) if since("2.14") else shape[-2]
        return empty(shape, dtype, (rows * width, width, 1)[-len(shape) :])
    return np.zeros((*shape[:-1], width), dtype)[..., : shape[-1]]


def _groups(a: ndarray, b: ndarray, offs: ndarray | None, out: ndarray) -> Iterator[tuple[ndarray, ndarray, ndarray]]:
    """Yield each group's two factors, and the part of ``out`` for their product."""
    if offs is None:
        yield a, b, out
        return
    ends = offs.tolist()
    for i, (start, end) in enumerate(itertools.pairwise([0, *ends])):
        if a.ndim == b.ndim:
            yield a[:, start:end], b[start:end], out[i]
        elif a.ndim == 2:
            yield a[start:end], b[i], out[start:end]
        else:
            yield a[i], b[:, start:end], out[:, start:end]


# ---------------------------------------------------------------- of float8, with scales


@kernel("_scaled_grouped_mm", differs=["half-opmath"])
def _scaled_grouped_mm(
    self, mat2, scale_a, scale_b, offs=None, bias=None, scale_result=None, out_dtype=None, use_fast_accum=False
):
    """`_grouped_mm` of float8 matrices with a float32 scale for each row of the first and column of the second.

    torch implements it on GPUs only; the result is bfloat16, computed in float32.
    """
    known = out_dtype is None or dt.as_dtype(out_dtype) == dt.bfloat16
    check(known, "Only bf16 high precision output types are supported for grouped gemm")
    for name, mat in (("mat_a", self), ("mat_b", mat2)):
        words = f"Expected {name} to be Float8_e4m3 matrix got {dt.scalar_name(mat.dtype)}"
        check(mat.dtype == dt.float8_e4m3fn, words, ValueError)
    check(scale_result is None, "Scale result not supported yet", ValueError)
    _check_groups(self, mat2, offs, bias)
    out = _padded(_grouped_shape(self, mat2, offs), dt.bfloat16)
    groups = out.shape[:1] if self.ndim == mat2.ndim == 2 else ()
    rows = _scale(scale_a, (*groups, *self.shape[:-1], 1))
    columns = _scale(scale_b, (*groups, *mat2.shape[:-2], 1, mat2.shape[-1]))
    wide = np.zeros(out.shape, np.float32)
    for a, b, c in _groups(self, mat2, offs, wide):
        c[...] = np.matmul(a.astype(np.float32), b.astype(np.float32))
    for row, column, c in _groups(rows, columns, None if groups else offs, wide):
        c *= row * column
    out[...] = dt.cast(wide, dt.bfloat16)
    return out


@kernel("_scaled_grouped_mm_v2", differs=["half-opmath"])
def _scaled_grouped_mm_v2(
    self, mat2, scale_a, recipe_a, swizzle_a, scale_b, recipe_b, swizzle_b, offs=None, bias=None, out_dtype=None,
    contraction_dim=(), use_fast_accum=False,
):  # fmt: skip
    """`_scaled_grouped_mm` with the scaling recipe as numbers; only rowwise scaling is supported."""
    known = list(recipe_a) == [1] == list(recipe_b) and not any((*swizzle_a, *swizzle_b))
    check(known, "Invalid scaling configuration: torchnp has one scale for each row and column", ValueError)
    return _scaled_grouped_mm(self, mat2, scale_a[0], scale_b[0], offs, bias, None, out_dtype, use_fast_accum)


def _scale(scale: ndarray, shape: tuple[int, ...]) -> ndarray:
    """Reshape the scales of rows or columns; for two 2-d matrices they hold all groups in sequence."""
    check(scale.dtype == dt.float32, "Both scale_a and scale_b must be float (fp32) tensors.")
    return scale.reshape(shape)
