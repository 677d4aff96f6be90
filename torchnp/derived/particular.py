"""What torch looks at in one particular op before it writes its target or its ``out=``: the rules of no other op."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from torchnp.checks import check, shape_text
from torchnp.derived.dtypes import NOT_THE_SAME, resize
from torchnp.dtypes import c_name, float16, float32, is_complex, is_half, is_inexact, result_type, scalar_name

ndarray = np.ndarray
Bound = dict[str, Any]
Check = Callable[[Bound, list[ndarray]], Any]  # -> which outs torch leaves as they are

# ---------------------------------------------------------------- in place


def _addr(bound: Bound, _: list[ndarray]) -> None:
    x, u, v = bound["self"], bound["vec1"], bound["vec2"]
    if u.ndim == v.ndim == 1:
        check(x.ndim == 2, f"2D tensor expected, got {x.ndim}D tensor for input")
        sizes = f"input: {shape_text(x.shape)}, v1: {shape_text(u.shape)}, v2: {shape_text(v.shape)}"
        check(x.shape == (u.size, v.size), f"size mismatch, {sizes}")


def _clamp(bound: Bound, _: list[ndarray]) -> None:
    """The numbers around integers have a say in the result dtype, which is looked at before their values."""
    x, given = bound["self"], [n for n in (bound["min"], bound["max"]) if n is not None]
    if not is_inexact(x.dtype) and not any(isinstance(n, ndarray) for n in given):
        found = result_type(x, *given)
        words = f"result type {scalar_name(found)} can't be cast to the desired output type {c_name(x.dtype)}"
        check(found == x.dtype, words)


def _ldexp(bound: Bound, _: list[ndarray]) -> None:
    d = bound["self"].dtype
    check(is_inexact(d), f"ldexp can't be cast to the desired output type {scalar_name(d)}")


def _masked_scatter(bound: Bound, _: list[ndarray]) -> None:
    x, mask = bound["self"], bound["mask"]
    if x.dtype != bound["source"].dtype:
        return
    if mask.ndim > x.ndim:
        raise RuntimeError(
            f"expand(CPU{scalar_name(mask.dtype)}Type{{{shape_text(mask.shape)}}}, size={shape_text(x.shape)}): the "
            f"number of sizes provided ({x.ndim}) must be greater or equal to the number of dimensions in the tensor "
            f"({mask.ndim})"
        )
    for d in range(1, mask.ndim + 1):
        if mask.shape[-d] not in (1, x.shape[-d]):
            raise RuntimeError(
                f"The expanded size of the tensor ({x.shape[-d]}) must match the existing size ({mask.shape[-d]}) at "
                f"non-singleton dimension {x.ndim - d}.  Target sizes: {shape_text(x.shape)}.  Tensor sizes: "
                f"{shape_text(mask.shape)}"
            )


# ---------------------------------------------------------------- out=


def _nansum(bound: Bound, outs: list[ndarray]) -> None:
    dtype = bound["self"].dtype
    check(not is_complex(dtype), "nansum on CPU does not support complex inputs")
    if not is_inexact(dtype) and bound["dtype"] is None:  # torch calls sum, which computes in its out's dtype
        bound["dtype"] = outs[0].dtype


def _moments(bound: Bound, outs: list[ndarray]) -> None:
    """torch has another loop for a reduction to one number, which it takes by the dtype of the out."""
    x, d = bound["self"], outs[0].dtype
    dims = bound.get("dim")
    dims = [dims] if isinstance(dims, int) else dims
    left = () if dims is None or len(dims) == 0 else [n for i, n in enumerate(x.shape) if i not in _wrapped(dims, x)]
    if is_half(x.dtype) and not is_half(d) and is_inexact(d) and math.prod(left) == 1 and x.size:
        raise RuntimeError(f"std_var_all: Unsupported dtype {scalar_name(x.dtype)}")


def _wrapped(dims: list[int], x: ndarray) -> set[int]:
    return {d + x.ndim if d < 0 else d for d in dims}


def _diff(bound: Bound, outs: list[ndarray]) -> None:
    x, d = bound["self"].dtype, outs[0].dtype
    check(bound["n"] != 0 or x == d, f"expected scalar_type {scalar_name(x)} but found {scalar_name(d)}")


def _median(bound: Bound, outs: list[ndarray]) -> None:
    if bound["indices"].dtype != np.int64:
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have scalar type Long; but got "
            f"torch.{scalar_name(bound['indices'].dtype)}Tensor instead (while checking arguments for median)"
        )


def _glu_backward(bound: Bound, outs: list[ndarray]) -> None:
    x, d = bound["self"].dtype, outs[0].dtype
    check(x == d or not is_inexact(d), f"Found dtype {scalar_name(x)} but expected {scalar_name(d)}")


def _gelu_backward(bound: Bound, outs: list[ndarray]) -> None:
    """oneDNN computes it for these dtypes, and has no code for some others that it is to write."""
    x, d = bound["self"], outs[0].dtype
    if bound["approximate"] != "none" or x.ndim == 0 or x.size == 0 or x.dtype != bound["grad_output"].dtype:
        return
    if x.dtype == float32 or (x.dtype != float16 and is_half(x.dtype)):
        if d == np.float64 or is_complex(d):
            raise RuntimeError(
                f"itensor_view_from_dense expects float/bfloat16/half/int8/fp8 tensor input{scalar_name(d)}"
            )
        if d == float16 and x.dtype != float32:
            raise RuntimeError("could not create a primitive descriptor for the reorder primitive.")


def _matrix_power(bound: Bound, outs: list[ndarray]) -> None:
    """The last product is written by matmul, which takes no other dtype; a power of four or eight is copied."""
    x, d, n = bound["self"].dtype, outs[0].dtype, abs(bound["n"])
    last_is_product = bound["n"] == -1 or n == 2 or n & (n - 1)
    if d != x and is_inexact(d) and last_is_product and not (is_complex(x) and not is_complex(d)):
        raise RuntimeError(NOT_THE_SAME.format(rc=c_name(x), dc=c_name(d)))


def _batch_norm(bound: Bound, outs: list[ndarray]) -> frozenset[int] | None:
    """Without training there is nothing to save, and torch neither writes nor resizes what it looks at."""
    if bound["training"]:
        return None
    for x in outs[1:]:
        check(x.ndim == 1, f"TensorAccessor expected 1 dims but tensor has {x.ndim}")
    return frozenset({1, 2})


def _replication_pad(bound: Bound, outs: list[ndarray]) -> frozenset[int] | None:
    """Of no elements torch only resizes the out, of any dtype."""
    if bound["self"].size:
        return None
    resize(outs[0], bound["self"].shape)
    return frozenset({0})


INPLACE: dict[str, Check] = {
    "addr_": _addr,
    "clamp_": _clamp,
    "clip_": _clamp,
    "ldexp_": _ldexp,
    "masked_scatter_": _masked_scatter,
}
OUT: dict[str, Check] = {
    "native_batch_norm.out": _batch_norm,
    "nansum.out": _nansum,
    "var.out": _moments,
    "std.out": _moments,
    "var.correction_out": _moments,
    "std.correction_out": _moments,
    "diff.out": _diff,
    "median.dim_values": _median,
    "nanmedian.dim_values": _median,
    "glu_backward.grad_input": _glu_backward,
    "gelu_backward.grad_input": _gelu_backward,
    "replication_pad2d_backward.grad_input": _replication_pad,
    "replication_pad3d_backward.grad_input": _replication_pad,
    "linalg_matrix_power.out": _matrix_power,
    "matrix_power.out": _matrix_power,
}
