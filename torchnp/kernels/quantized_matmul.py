"""Matrix products with 8-bit and 4-bit weights, and the packing of these weights."""

from __future__ import annotations

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, check_matrices, check_type, dim_of
from torchnp.core.inplace_out_spec import Bound, WriteSpec
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.kernels._memory import check_size
from torchnp.kernels.numerics.products import product
from torchnp.kernels.slicing import narrow
from torchnp.layout.stride_rules import dense
from torchnp.threads import blocks
from torchnp.thresholds import Threshold

ndarray = np.ndarray

_FLOATS = (dt.bfloat16, dt.float16, dt.float32)

# ---------------------------------------------------------------- 8 bits

_EXACT: Threshold = 512  # products of an 8-bit by a 7-bit number whose sum is exact in float32


def _check_int_mm(self: ndarray, mat2: ndarray) -> None:
    for name, mat in (("self", self), ("mat2", mat2)):
        words = f"int_mm_out_cpu: Expected {name} to be of dimension 2 but got {mat.ndim}"
        if since("2.15"):
            words = f"_int_mm: {name} must be a matrix, got {mat.ndim}-D tensor"
        check(mat.ndim == 2, words)
    if since("2.15"):
        check_matrices(self, mat2, "_int_mm")
    inner = f"{self.shape[1]} and {mat2.shape[0]}"
    check(self.shape[1] == mat2.shape[0], f"int_mm_out_cpu: self.size(1) needs to match mat2.size(0) but got {inner}")
    for name, mat in (("self", self), ("mat2", mat2)):
        wanted = "int8 or uint8" if mat is self else "of type int8"
        found = f"int_mm_out_cpu: Expected {name} dtype to be {wanted} but got {dt.c_name(mat.dtype)}"
        check(mat.dtype == dt.int8 or (mat is self and mat.dtype == dt.uint8), found)


def _precheck_int_mm(bound: Bound, outs: list[ndarray]) -> None:
    """Raise torch's error if ``out=`` has another dtype or shape: torch does not resize it."""
    self, mat2, (out,) = bound["self"], bound["mat2"], outs
    _check_int_mm(self, mat2)
    found = dt.c_name(out.dtype)
    check(out.dtype == dt.int32, f"int_mm_out_cpu: Expected result dtype to be of type kInt but got {found}")
    for d, n in enumerate((self.shape[0], mat2.shape[1])):
        size = out.shape[dim_of(out, d)]
        check(size == n, f"int_mm_out_cpu: Expected result.size({d}) to be {n} but got {size}")
    check(out.ndim == 2, f"int_mm_out_cpu: Expected result to be of dimension 2 but got {out.ndim}")


@kernel("_int_mm", like=np.matmul, differs=["int-mm-widens", "matrix-only"], writes=WriteSpec(out=_precheck_int_mm))
def _int_mm(self, mat2):
    """Product of two int8 matrices in int32, with wraparound; the first may be uint8."""
    dim_of(self, 0), dim_of(mat2, 1)
    _check_int_mm(self, mat2)
    out = np.zeros((len(self), mat2.shape[1]), np.int32)
    for part in blocks(self.shape[1], _EXACT):
        out += np.matmul(self[:, part].astype(np.float32), mat2[part].astype(np.float32)).astype(np.int32)
    return out


@kernel("_weight_int8pack_mm", differs=["half-opmath"])
def _weight_int8pack_mm(self, mat2, scales):
    """``self @ mat2.T`` with int8 weights and one scale for each row of ``mat2``."""
    name = "_weight_int8pack_mm_cpu"
    dim_of(self, 0)
    rows, inner = mat2.shape[dim_of(mat2, 0)], self.shape[dim_of(self, 1)]
    check(self.dtype in _FLOATS, f"{name} : expect A to be either 32-bit or 16-bit float tensor.")
    check(self.ndim == 2, f"{name} : expect A to be 2D tensor.")
    rowwise = self.strides[1] == self.itemsize or 0 in self.shape
    check(rowwise, f"{name} : A must be contiguous on the last dimension.")
    check(mat2.dtype == dt.int8, f"{name} : expect B to be int8 tensor.")
    check(mat2.flags.c_contiguous, f"{name} : expect B to be contiguous.")
    check(mat2.shape[dim_of(mat2, 1)] == inner, f"{name} : expect B.size(1) == {inner}")
    check(scales.shape == (rows,), f"{name} : expect scales to be 1d tensor with size {rows}")
    check_type(self.dtype, scales)
    weights = mat2.reshape(-1)[: rows * inner].reshape(rows, inner)  # torch ignores dimensions beyond two
    total = np.matmul(dt.cast(self, dt.float32), weights.T.astype(np.float32))
    return dense(dt.cast(total * dt.cast(scales, dt.float32), self.dtype))


# ---------------------------------------------------------------- 4 bits

_BLOCK: Threshold = 64  # rows that torch packs together with AVX512


@kernel("_convert_weight_to_int4pack_for_cpu")
def _convert_weight_to_int4pack_for_cpu(self, innerKTiles):
    """4-bit weights, two per byte, in the order of torch's AVX512 code: rows n and n + 32 of 64, or adjacent rows."""
    name = "_convert_weight_to_int4pack_cpu"
    check(self.ndim == 2, f"{name} : expect weight to be 2D tensor.")
    check(self.dtype == dt.int32, f"{name} : expect weight to be kInt.")
    rows, inner = self.shape
    check(rows % 16 == 0, f"{name} : expect N to be dividable by 16")
    check(inner % 2 == 0, "_convert_weight_to_int4pack: expect K to be dividable by 2")
    out = np.empty((rows, inner // 2), np.uint8)
    for start in range(0, rows, _BLOCK):
        block = self[start : start + _BLOCK].astype(np.uint8)
        low, high = _halves(block)
        out[start : start + _BLOCK] = ((high << np.uint8(4)) | low).T.reshape(len(block), inner // 2)
    return dense(out)


def _halves(block: ndarray) -> tuple[ndarray, ndarray]:
    """Split a block into the rows stored in the low 4 bits of the bytes, and those stored in the high 4 bits."""
    return (block[:32], block[32:]) if len(block) == _BLOCK else (block[::2], block[1::2])


def _unpacked(packed: ndarray) -> ndarray:
    """Unpack the bytes of `_convert_weight_to_int4pack_for_cpu` to weights from -8 to 7."""
    rows, inner = packed.shape[0], 2 * packed.shape[1]
    out = np.empty((rows, inner), np.float32)
    for start in range(0, rows, _BLOCK):
        low, high = _halves(out[start : start + _BLOCK])
        both = packed[start : start + _BLOCK].reshape(inner, len(low)).T
        low[...], high[...] = (both & 15).astype(np.float32) - 8, (both >> 4).astype(np.float32) - 8
    return out


@kernel("_weight_int4pack_mm_for_cpu", differs=["half-opmath"])
def _weight_int4pack_mm_for_cpu(self, mat2, qGroupSize, qScaleAndZeros):
    """``self @ weights.T`` with packed 4-bit weights (`_convert_weight_to_int4pack_for_cpu`), scaled by group."""
    name = "_weight_int4pack_mm_cpu"
    dim_of(self, 0)
    rows, inner = mat2.shape[dim_of(mat2, 0)], self.shape[dim_of(self, 1)]
    check(self.dtype in _FLOATS, f"{name} : expect A to be either 32-bit or 16-bit float tensor.")
    check(self.flags.c_contiguous, f"{name} : expect A to be contiguous.")
    check(self.ndim == 2, f"{name} : expect A to be 2D tensor.")
    check(mat2.dtype == dt.uint8, f"{name} : expect B to be uint8 tensor.")
    check(mat2.flags.c_contiguous, f"{name} : expect B to be contiguous.")
    check(mat2.shape[dim_of(mat2, 1)] == inner // 2, f"{name} : expect B.size(1) to be K/2, got {mat2.shape[1]}")
    sizes = (32, 64, 128, 256)
    check(qGroupSize in sizes, f"{name}: expect qGroupSize to be 32, 64, 128 or 256, got {qGroupSize}")
    words = f"expect K to be divisible by qGroupSize, got K:{inner}, qGroupSize:{qGroupSize}"
    check(inner % qGroupSize == 0, f"{name}: {words}")
    right = qScaleAndZeros.ndim == 3 and qScaleAndZeros.shape[1:] == (rows, 2)
    check(right, f"{name}: expect qScaleAndZeros to be 3d tensor with sizes [:, {rows}, 2]")
    check_type(self.dtype, qScaleAndZeros)
    both = dt.cast(qScaleAndZeros[: inner // qGroupSize], dt.float32).repeat(qGroupSize, 0)
    packed = mat2.reshape(-1)[: rows * (inner // 2)].reshape(rows, inner // 2)
    weights = _unpacked(packed).T * both[..., 0] + both[..., 1]
    return dense(dt.cast(np.matmul(dt.cast(self, dt.float32), weights), self.dtype))


# ---------------------------------------------------------------- 4 bits, with inputs that are quantized on the fly


@kernel("_dyn_quant_pack_4bit_weight")
def _dyn_quant_pack_4bit_weight(weights, scales_zeros, bias, block_size, in_features, out_features):
    """Packed weights, their scales and the bias, concatenated in float32."""
    name = "_dyn_quant_pack_4bit_weight_cpu"
    check(weights.dtype == dt.uint8, f"{name} : expect weight to be kByte.")
    _check_group(name, block_size, in_features)
    parts = [weights, scales_zeros, *([] if bias is None else [bias])]
    return np.concatenate([dt.cast(x, dt.float32).reshape(-1) for x in parts])


def _check_group(name: str, block_size: int, in_features: int) -> None:
    right = block_size == in_features or not (block_size % 32 or in_features % block_size)
    found = f"in_features [{in_features}]. Provided {block_size}"
    check(right, f"{name}: Group size should be multiple of 32, {found}")


@kernel("_dyn_quant_matmul_4bit", differs=["half-opmath"])
def _dyn_quant_matmul_4bit(inp, packed_weights, block_size, in_features, out_features):
    """``inp @ weights.T`` with 4-bit weights; rows of ``inp`` are quantized to 8 bits, and integer sums are scaled."""
    name = "_dyn_quant_matmul_4bit_cpu"
    half = inp.dtype == dt.bfloat16
    known = inp.dtype == dt.float32 or (half and block_size == in_features)
    check(known, f"{name} : expect input to be float32 or bfloat16 tensor.")
    _check_group(name, block_size, in_features)
    dim_of(inp, 0)
    check_size((len(inp), out_features))
    groups = in_features // block_size
    size, count = out_features * in_features // 2, out_features * groups
    check(packed_weights.size >= size + count, "Invalid packed weight tensor size")
    head, tail = narrow(packed_weights, 0, 0, size), narrow(packed_weights, 0, size, len(packed_weights) - size)
    scales = dt.cast(narrow(tail, 0, 0, count), dt.float32).reshape(-1)[:count].reshape(out_features, groups)
    left = packed_weights.size - size - count
    bias = dt.cast(narrow(tail, 0, count, left), dt.float32).reshape(-1) if left else None
    check(bias is None or left == out_features, "Expected bias length to match output dimension")
    pairs = dt.cast(head.reshape(-1)[:size], dt.uint8).reshape(out_features, in_features // 2)
    weights = np.stack([pairs & 15, pairs >> 4], -1).reshape(out_features, in_features).astype(np.int32) - 8
    values = dt.cast(np.resize(inp, (len(inp), in_features)), dt.float32)
    rows, scale, offset = _quantized_rows(values)
    total = np.zeros((len(inp), out_features), np.float32)
    for group in range(groups):
        part = slice(group * block_size, (group + 1) * block_size)
        sums = product(rows[:, part] + offset, weights[:, part].T)
        scaled = sums.astype(np.float32) * scales[:, group]
        total = scaled if groups == 1 else total + scaled  # with one group nothing is added, so zeros keep their sign
    total = total * scale
    limit = np.float32(3.38953139e38) if half else np.finfo(np.float32).max
    total = dense(np.clip(total if bias is None else total + bias, -limit, limit))
    # torch truncates to bfloat16 here; elsewhere it rounds.
    return (total.view(np.uint32) >> 16).astype(np.uint16).view(dt.bfloat16) if half else total


def _quantized_rows(x: ndarray) -> tuple[ndarray, ndarray, ndarray]:
    """Quantize rows to 8-bit integers; also return each row's scale and zero offset."""
    one = np.float32
    # A NaN restarts torch's search for the minimum and maximum: elements before it do not count.
    before = np.logical_or.accumulate(np.isnan(x)[:, ::-1], 1)[:, ::-1]
    left = np.where(before, one(0), x)
    low, high = left.min(1, keepdims=True, initial=0), left.max(1, keepdims=True, initial=0)
    factor = np.where(low == high, one(1), one(255) / (high - low))
    bottom, top = low * factor, high * factor
    zero = np.where((-128 + bottom) + (127 + top) > 0, -128 - bottom, 127 - top)
    zero = np.rint(np.clip(zero, -128, 127)).astype(np.int32)
    scaled = x * factor
    away = np.trunc(scaled + np.copysign(one(0.5), scaled))  # round half away from zero
    fits = np.abs(away) < 2.0**31  # NaN and values beyond int32 become INT32_MIN, as in x86's float-to-int conversion
    rows = np.clip(np.where(fits, away, -(2.0**31)).astype(np.int32) + zero, -128, 127)
    return rows, np.where(factor == 0, one(0), one(1) / factor), -zero
