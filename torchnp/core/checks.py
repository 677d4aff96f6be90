"""Checks that kernels make before they compute; the error messages are in `torchnp.core.errors`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from torchnp.core.errors import (
    AXES,
    batch2_mismatch,
    dim_out_of_range,
    expand_mismatch,
    expected_type,
    no_dimensions,
    no_primitive,
    not_implemented,
    output_shape,
    shape_text,
    size_mismatch,
    too_few_sizes,
)
from torchnp.core.target import since
from torchnp.dtypes import BARE_UNSIGNED, FLOAT8S, is_inexact

ndarray = np.ndarray


def check(condition: Any, message: str | Exception, exc: type[Exception] = RuntimeError) -> None:
    """Raise ``exc(message)`` unless the condition holds (torch's TORCH_CHECK); ``message`` may also be an exception.

    If the message is costly to build, write ``if not ok: raise RuntimeError(...)`` instead of calling this function.
    """
    if not condition:
        raise message if isinstance(message, Exception) else exc(message)


def warn(message: str) -> None:
    """Issue a torch warning (TORCH_WARN)."""
    warnings.warn(message, UserWarning, stacklevel=3)


# ---------------------------------------------------------------- dtypes


def refuse(kernel: str, dtype: np.dtype, lacking: Collection[np.dtype]) -> None:
    """Raise torch's error if torch's CPU kernel does not support the dtype."""
    if dtype in lacking:
        raise not_implemented(kernel, dtype)


# Dtypes that a torch CPU kernel supports only since some version, by the kernel's name in error messages.
GAINED: dict[str, tuple[str, Collection[np.dtype]]] = {
    "signbit_cpu": ("2.13", BARE_UNSIGNED),
    **dict.fromkeys(("maximum_cpu", "minimum_cpu"), ("2.15", BARE_UNSIGNED)),
    **dict.fromkeys(
        ("clamp_cpu", "clamp_scalar_cpu", "clamp_min_scalar_cpu", "clamp_max_scalar_cpu"), ("2.15", BARE_UNSIGNED)
    ),
    **dict.fromkeys(("isinf", "isfinite"), ("2.15", FLOAT8S)),
}


def gained(kernel: str, dtype: np.dtype) -> bool:
    """Return whether torch's CPU kernel gained support for a dtype in some version, and the target version has it."""
    version, dtypes = GAINED.get(kernel, ("", ()))
    return dtype in dtypes and since(version)


def require(kernel: str, dtype: np.dtype, takes: Collection[np.dtype]) -> None:
    """Raise torch's error unless torch's CPU kernel supports the dtype in the target version of torch."""
    if dtype not in takes and not gained(kernel, dtype):
        raise not_implemented(kernel, dtype)


def refuse_elements(kernel: str, x: ndarray, lacking: Collection[np.dtype]) -> None:
    """Call `refuse` for a tensor's dtype unless the tensor is empty: torch runs no kernel for an empty one."""
    if x.dtype in lacking and x.size:
        raise not_implemented(kernel, x.dtype)


def check_type(expected: np.dtype, *operands: ndarray | None) -> None:
    """Raise torch's error for the first operand that has another dtype than expected; operands that are None pass."""
    for x in operands:
        if x is not None and x.dtype != expected:
            raise expected_type(expected, x.dtype)


# ---------------------------------------------------------------- dimensions


def dim_of(x: ndarray, dim: int) -> int:
    """Return a dimension like `wrap_dim`, but refuse a 0-d tensor, because the caller needs the dimension's size."""
    if not x.ndim:
        raise no_dimensions(dim)
    return wrap_dim(dim, x.ndim)


def wrap_dim(dim: int, ndim: int) -> int:
    """Return a dimension counted from 0; a 0-d tensor has dimensions 0 and -1.

    Raises
    ------
    IndexError
        ``dim`` is out of range.
    """
    span = ndim or 1
    if not -span <= dim < span:
        raise dim_out_of_range(dim, ndim)
    return dim + span if dim < 0 else dim


def wrap_dims(dims: int | Sequence[int], ndim: int) -> tuple[int, ...]:
    """Return dimensions counted from 0; raise torch's error if one occurs twice."""
    if isinstance(dims, (int, np.integer)):
        return (wrap_dim(dims, ndim),)
    wrapped: list[int] = []
    for d in dims:
        d = wrap_dim(d, ndim)
        if d in wrapped:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
        wrapped.append(d)
    return tuple(wrapped)


def ntuple(x: int | Sequence[int], n: int) -> tuple[int, ...]:
    """Return an ``int[n]`` argument as a tuple; a single number is repeated n times."""
    if isinstance(x, (int, float, np.number)):
        return (x,) * n
    x = tuple(x)
    return x * n if len(x) == 1 else x


# ---------------------------------------------------------------- shapes


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """Return the broadcast shape, or raise torch's error if the shapes do not broadcast."""
    result: list[int] = []
    for shape in shapes:
        if len(shape) > len(result):
            result = [1] * (len(shape) - len(result)) + result
        offset = len(result) - len(shape)
        for i, size in reversed(list(enumerate(shape, offset))):  # torch compares the last dimension first
            if size == result[i] or size == 1:
                continue
            if result[i] != 1:
                raise size_mismatch(result[i], size, i)
            result[i] = size
    return tuple(result)


def check_shape(x: ndarray, shape: Sequence[int], first: int = 0) -> None:
    """Raise torch's error unless a gradient has ``len(shape)`` dimensions, with these sizes from ``first`` on."""
    if x.ndim == len(shape) and x.shape[first:] == tuple(shape[first:]):
        return
    d = next((d for d in range(first, len(shape)) if x.ndim != len(shape) or x.shape[d] != shape[d]), 0)
    found = f"dimension {x.ndim} and tensor.size[{d}] = {x.shape[dim_of(x, d)]}"
    wanted = f"Expected a tensor of dimension {len(shape)} and tensor.size[{d}] == {shape[d]}"
    raise RuntimeError(f"{wanted} but got: {found}")


def check_filled(x: ndarray, expected: str, found: str, first: int = 1, end: str = "") -> None:
    """Raise torch's error if a dimension other than the batch, that is, from ``first`` on, has size 0."""
    for d in range(first, x.ndim):
        words = f"to have non-zero size for non-batch dimensions, but {found}"
        check(x.shape[d], f"{expected} {words}{shape_text(x.shape)} with dimension {d} being empty{end}")


def check_expand(x: ndarray, shape: Sequence[int]) -> None:
    """Raise torch's error unless ``x`` expands to ``shape``."""
    extra = len(shape) - x.ndim
    if extra < 0:
        raise too_few_sizes(x.dtype, x.shape, shape)
    for i in reversed(range(x.ndim)):
        if x.shape[i] not in (1, shape[extra + i]):
            raise expand_mismatch(shape[extra + i], x.shape[i], extra + i, shape, x.shape)


def check_fits(x: ndarray, target: ndarray) -> None:
    """Raise torch's error unless ``x`` broadcasts to the target into which it is written."""
    if x.shape != target.shape:
        shape = broadcast_shapes(target.shape, x.shape)
        check(shape == target.shape, output_shape(target.shape, shape))


def check_matrices(a: ndarray, b: ndarray, op: str, names: tuple[str, str] = ("", "")) -> None:
    """Raise torch's error unless two tensors are matrices with equal inner sizes.

    ``names`` are the messages of torch before 2.15 for a tensor that is not a matrix. Since 2.15 every message names
    the op.
    """
    for own, x, before in zip(("self", "mat2"), (a, b), names, strict=True):
        if x.ndim != 2:
            raise RuntimeError(f"{op}: {own} must be a matrix, got {x.ndim}-D tensor" if since("2.15") else before)
    if a.shape[1] != b.shape[0]:
        sizes = f"({a.shape[0]}x{a.shape[1]} and {b.shape[0]}x{b.shape[1]})"
        by = f"{op}: " if since("2.15") else ""
        raise RuntimeError(f"{by}mat1 and mat2 shapes cannot be multiplied {sizes}")


def expanded(x: ndarray, shape: tuple[int, ...]) -> ndarray:
    """Return ``x`` broadcast to ``shape``, or raise torch's error for ``expand``."""
    if x.shape == shape:
        return x
    check_expand(x, shape)
    return np.broadcast_to(x, shape)


def check_product(a: ndarray, b: ndarray) -> None:
    """Raise torch's error unless two batches of matrices broadcast and can be multiplied."""
    if a.shape[:-2] != b.shape[:-2] or a.shape[-1] != b.shape[-2]:
        batch = math.prod(broadcast_shapes(a.shape[:-2], b.shape[:-2]))
        check(a.shape[-1] == b.shape[-2], batch2_mismatch(batch, a.shape[-1], (batch, b.shape[-2])))


def check_single(x: ndarray) -> None:
    """Raise torch's error unless a gradient has exactly one element."""
    words = f"Expected a single element grad_output tensor, but got: {shape_text(x.shape)}"
    check(x.ndim <= 1 and x.size == 1, words)


# ---------------------------------------------------------------- checks of torch's Python layer


def check_strides(shape: Sequence[int], stride: Sequence[int]) -> None:
    """Raise torch's error unless memory with these strides can be allocated."""
    words = f"dimensionality of sizes ({len(shape)}) must match dimensionality of strides ({len(stride)})"
    check(len(shape) == len(stride), words)
    words = f"Storage size calculation overflowed with sizes={shape_text(shape)} and strides={shape_text(stride)}"
    check(0 in shape or all(step >= 0 or size == 1 for size, step in zip(shape, stride, strict=True)), words)


def check_real(name: str, **given: Any) -> None:
    """Raise torch's error if an argument of a method is complex; pass the arguments in the method's order."""
    for place, (argument, value) in enumerate(given.items(), 1):
        words = f"{name}(): argument '{argument}' (position {place}) must be float, not complex"
        check(not isinstance(value, complex), words, TypeError)


def check_normal(shape: Sequence[int], mean: Any, std: Any, dtype: np.dtype) -> None:
    """Raise the errors of the ``prims`` operator that draws normally distributed values."""
    check(std >= 0.0, f"expected non-negative standard deviation, but got std={std}")
    check(is_inexact(dtype), f"expected a floating-point or complex dtype, but got dtype=torch.{dtype}")
    improve = "(Could this error message be improved? If so, please report an enhancement request to PyTorch.)"
    check(min(shape, default=0) >= 0, f"Expected cond to be True, but got False. {improve}")
    check_real("normal_", mean=mean, std=std)


# ---------------------------------------------------------------- convolutions


def check_positive(name: str, values: Sequence[int]) -> None:
    """Raise the error of torch's transposed convolutions for a size, stride or dilation below 1."""
    if min(values) <= 0:
        found = f"{',' * (name == 'dilation')} ".join(f"{name}_{a}: {v}" for a, v in zip(AXES[-len(values) :], values))
        raise RuntimeError(f"{name}{' size' * (name == 'kernel')} should be greater than zero, but got {found}")


def check_no_dilation(dilation: Sequence[int], weight: ndarray, transposed: bool, vendor: bool) -> None:
    """Raise the backend's error for a dilation of 0.

    oneDNN allows it in transposed convolutions, in dimensions in which the kernel size is 1.
    """
    if vendor:
        check(transposed, "non-positive dilation is not supported")
        check(weight.ndim < 5, "dimensions are invalid")
        same = all(d == 1 or k == 1 for d, k in zip(dilation, weight.shape[2:], strict=True))
        check(same, no_primitive("deconvolution"))
        return
    unit = (1,) * (weight.ndim == 3) + tuple(dilation)  # torch computes a 1-d convolution as a 2-d one
    if transposed:
        check_positive("dilation", unit)
    raise RuntimeError(f"dilation should be greater than zero, but got {shape_text(unit)}")
