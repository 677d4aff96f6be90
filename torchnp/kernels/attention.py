"""Attention: the scaled dot product, and the layers that torch fuses around it."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import (
    broadcast_shapes,
    check,
    check_fits,
    check_type,
    dim_of,
    refuse,
    refuse_elements,
    require,
    wrap_dim,
)
from torchnp.core.errors import expected_true, shape_text
from torchnp.core.python_scalars import number, scalar
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.kernels import activation, normalization
from torchnp.kernels._elementwise import in_place
from torchnp.kernels._memory import RARE
from torchnp.kernels.arithmetic import add, div, mul
from torchnp.kernels.dropout import dropout
from torchnp.kernels.numerics.blocks import row_major_blocks
from torchnp.kernels.reduce import sum_dim
from torchnp.kernels.softmax import _safe_softmax, _softmax
from torchnp.kernels.tensor_products import linear, matmul
from torchnp.layout import stride_rules
from torchnp.thresholds import Threshold

ndarray = np.ndarray
Block = tuple[slice, ...]

# ---------------------------------------------------------------- the scaled dot product


@functools.lru_cache(maxsize=16)
def later(rows: int, columns: int, start: int = 0) -> ndarray:
    """Return a causal mask, True where attention is forbidden because the key comes after the query.

    The mask's first row is query number ``start``.
    """
    return ~np.tri(rows, columns, start, dtype=np.bool_)


# Numbers of queries from which torch's flash kernels process them in blocks of 64 and of 256.
_MEDIUM: Threshold = 192
_LONG: Threshold = 768
_VECTOR: Threshold = 64  # bytes of the longest SIMD vector


def queries_at_once(rows: int) -> int:
    """Return the number of queries in a block of torch's flash kernels."""
    return 256 if rows >= _LONG else 64 if rows >= _MEDIUM else 32


def _masked_in_blocks(queries: range, rows: int, columns: int) -> ndarray:
    """Return the causal mask, but False in the key blocks after the query block, which torch's flash kernel skips."""
    block = queries_at_once(rows)
    ends = (np.asarray(queries) // block + 1) * block
    masked = later(len(queries), columns, queries.start)
    return masked & (np.arange(columns) // KEYS_AT_ONCE * KEYS_AT_ONCE < ends[:, None])


BUDGET: Threshold = 1 << 20  # bytes of a block's scores; several arrays of this size fit a core's cache
_FEW: Threshold = 32  # smallest number of queries in a block; with fewer, the keys and values would be read too often


def _blocks(q: ndarray, k: ndarray, inner: np.dtype) -> list[Block]:
    """Cut (batch, heads, queries) into blocks whose scores take about `BUDGET` bytes."""
    line = k.shape[-2] * inner.itemsize
    return list(row_major_blocks(q.shape[:-1], line, max(BUDGET, _FEW * line)))


def part_of(mask: ndarray, block: Block) -> ndarray:
    """Return a block's part of a mask; dimensions of size 1 are broadcast."""
    at = (*block, slice(None))[4 - mask.ndim :]
    return mask[tuple(s if n > 1 else slice(None) for s, n in zip(at, mask.shape, strict=True))]


def scores(q: ndarray, k: ndarray, mask: ndarray | None, causal: bool, scale: float | None, start: int = 0) -> ndarray:
    """Return the masked, scaled products of all queries with all keys; the first query is number ``start``."""
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None and q.shape[-1] else 1.0 if scale is None else scale
    s = np.matmul(q, k.swapaxes(-1, -2))
    s *= np.asarray(factor, s.dtype)
    if mask is not None:
        check_fits(mask, s)
        if mask.dtype == dt.bool_:
            s = np.where(mask, s, np.asarray(-np.inf, s.dtype))
        else:
            s = s + dt.cast(mask, s.dtype)
    if causal:
        np.copyto(s, -np.inf, where=later(*s.shape[-2:], start))
    return s


def exponentials(s: ndarray) -> tuple[ndarray, ndarray, ndarray]:
    """Write ``exp(s - top)`` into ``s``, and return it with its row sums and ``top``, the row maxima.

    A fully masked row gives zeros.
    """
    if s.shape[-1] == 0:
        nothing = np.zeros((*s.shape[:-1], 1), s.dtype)
        return s, nothing, nothing
    top = s.max(-1, keepdims=True)
    np.copyto(top, 0, where=top == -np.inf)
    s -= top
    np.exp(s, out=s)
    return s, s.sum(-1, keepdims=True), top


# Sums of up to this many products are computed in float64, because rounding errors of a float32 sum would show if terms
# cancel.
_WIDE: Threshold = 1 << 18


def sum_dtype(q: ndarray, k: ndarray) -> np.dtype:
    """Return the dtype to compute attention in."""
    small = q.dtype == dt.float32 and q.size * k.shape[-2] <= _WIDE
    return dt.float64 if small else dt.opmath(q.dtype)


def rounded(scale: float | None, dtype: np.dtype) -> float | None:
    """Return the scale rounded as in torch's fused kernels."""
    return None if scale is None else float(dt.opmath(dtype).type(scale))


KEYS_AT_ONCE: Threshold = 512  # keys in a block of torch's flash kernels


def attend(
    q: ndarray, k: ndarray, v: ndarray, mask: ndarray | None, causal: bool, scale: float | None
) -> tuple[ndarray, ndarray]:
    """Return the values averaged with the softmax of the scores, and the log of each row's sum of exponentials.

    The logarithms are in the compute dtype.
    """
    dtype, inner, scale, rows = q.dtype, sum_dtype(q, k), rounded(scale, q.dtype), q.shape[2]
    blocks = _blocks(q, k, inner) if q.shape[:2] == k.shape[:2] == v.shape[:2] else []
    if len(blocks) < 2:
        out, log_sum = _attend(q, k, v, mask, causal, scale, inner, range(rows), rows)
        return dt.cast(out, dtype), log_sum
    out, log_sum = np.empty((*q.shape[:-1], v.shape[-1]), dtype), np.empty(q.shape[:-1], inner)
    if mask is not None:
        check_fits(mask, np.broadcast_to(log_sum[..., None], (*q.shape[:-1], k.shape[-2])))
    for block in blocks:
        own = None if mask is None else part_of(mask, block)
        keys, values, queries = k[block[:2]], v[block[:2]], range(block[2].start, block[2].stop)
        found, log_sum[block] = _attend(q[block], keys, values, own, causal, scale, inner, queries, rows)
        out[block] = dt.cast(found, dtype)
    return out, log_sum


def _attend(
    q: ndarray, k: ndarray, v: ndarray, mask: ndarray | None, causal: bool, scale: float | None, inner: np.dtype,
    queries: range, rows: int,
) -> tuple[ndarray, ndarray]:  # fmt: skip
    """Compute `attend` for the range ``queries`` of all ``rows`` queries, without the final rounding.

    For half types, exponentials are taken relative to the largest score so far, and rounded before they multiply the
    values.
    """
    dtype = q.dtype
    q, k, v = (dt.cast(x, inner) for x in (q, k, v))
    s = scores(q, k, mask, causal, scale, queries.start)
    if causal and scale is not None and scale <= 0:  # torch masks before it scales: -inf * scale is inf or nan
        masked = _masked_in_blocks(queries, rows, s.shape[-1])
        np.copyto(s, s.dtype.type(-np.inf) * s.dtype.type(scale), where=masked)
    if (
        mask is None and s.shape[-1] < _VECTOR // dt.opmath(dtype).itemsize
    ):  # in rows shorter than a vector, nan is never the maximum
        np.copyto(s, -np.inf, where=~(s > -np.inf).any(-1, keepdims=True))
    if dtype not in dt.HALVES or not s.shape[-1]:
        e, total, top = exponentials(s)
        lone = v.shape[-2] == 1 < min(rows, v.shape[-1])
        # With a single key, a product of -0 stays -0, except in a result of one row or column.
        out = e * v if lone else np.matmul(e, v)
    else:
        out, total, top = _attend_in_blocks(s, v, dtype)
    empty = total == 0
    out /= np.where(empty, np.asarray(1, total.dtype), total)
    log_sum = np.where(empty, 0, top + np.log(total))
    return out, log_sum[..., 0]


def _attend_in_blocks(s: ndarray, v: ndarray, dtype: np.dtype) -> tuple[ndarray, ndarray, ndarray]:
    top = np.full((*s.shape[:-1], 1), -np.inf, s.dtype)
    out: Any = np.zeros((), s.dtype)
    total: Any = out
    for start in range(0, s.shape[-1], KEYS_AT_ONCE):
        block = s[..., start : start + KEYS_AT_ONCE]
        before, top = top, np.maximum(top, block.max(-1, keepdims=True))
        finite = np.where(top == -np.inf, np.asarray(0, s.dtype), top)
        e, kept = np.exp(block - finite), np.exp(before - finite)
        total = total * kept + e.sum(-1, keepdims=True)
        out = out * kept + np.matmul(dt.cast(dt.cast(e, dtype), s.dtype), v[..., start : start + KEYS_AT_ONCE, :])
    return out, total, np.where(top == -np.inf, np.asarray(0, s.dtype), top)


def per_query_head(query: ndarray, *others: ndarray) -> tuple[ndarray, ...]:
    """Repeat keys and values so that each query head has its own."""
    heads, *shared = (x.shape[dim_of(x, -3)] for x in (query, *others))
    fits = all(n == heads or (n and heads % n == 0) for n in shared)
    if since("2.15"):
        check(0 not in shared, "Number of heads in key and value must be greater than 0")
    check(fits, f"Number of heads in key and value must divide the number of heads in {'query' * since('2.15')}")
    return tuple(x if x.shape[-3] == heads else np.repeat(x, heads // x.shape[-3], -3) for x in others)


_FLASH = "scaled_dot_product_attention_flash_attention: "


@kernel("_scaled_dot_product_flash_attention_for_cpu", differs=["masked-row", "half-opmath"])
def _scaled_dot_product_flash_attention_for_cpu(
    query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None
):
    """Attention over (batch, heads, time, size), and the logarithm of each row's sum of exponentials."""
    dtype = query.dtype
    found = f"but got {dt.scalar_name(dtype)} instead."
    check(dt.is_floating(dtype), f"{_FLASH}Expected data type in FP32, FP64, BF16, FP16, {found}")
    check(query.ndim == key.ndim == value.ndim == 4, f"{_FLASH}Accept only 4 dims inputs shape of {{B, H, T, K}}")
    check(dropout_p == 0, f"{_FLASH}Currently do not support dropout > 0")
    check(query.shape[3] == key.shape[3] == value.shape[3], f"{_FLASH}Q/K/V should have the same head size")
    if attn_mask is not None:
        check(attn_mask.dtype in (dtype, dt.float32), f"{_FLASH}Attention mask is the same data type as query")
        check(attn_mask.ndim in (2, 4), f"{_FLASH}Attention mask dim in {{2, 4}}")
    require("flash_attention", dtype, dt.FLOATS)
    check_type(dtype, key, value)
    key, value = per_query_head(query, key, value)
    out, log_sum = _attended(query, key, value, attn_mask, is_causal, scale)
    return out, dt.cast(log_sum, dt.opmath(dtype)).swapaxes(1, 2).copy().swapaxes(1, 2)


def _attended(query, key, value, mask, causal, scale):
    """Call `attend`, and lay out the result like the query."""
    words = f"{_FLASH}expected a value for each key, got {value.shape[-2]} for {key.shape[-2]}"
    check(value.shape[-2] == key.shape[-2], words)  # torch does not check this, and reads beyond the values
    out, log_sum = attend(query, key, value, mask, causal, scale)
    strides = stride_rules.preserved(query.shape, stride_rules.layout_of(query)[1])
    return stride_rules.place(out, strides), log_sum


def _check_operands(query: ndarray, key: ndarray, value: ndarray, mask: ndarray | None) -> None:
    if not query.dtype == key.dtype == value.dtype:
        a, b, c = (dt.c_name(x.dtype) for x in (query, key, value))
        found = f"query.dtype: {a} key.dtype: {b} and value.dtype: {c} instead."
        raise RuntimeError(f"Expected query, key, and value to have the same dtype, but got {found}")
    if min(query.ndim, key.ndim, value.ndim) < 2:
        found = f"query.dim: {query.ndim} key.dim: {key.ndim} and value.dim: {value.ndim} instead."
        raise RuntimeError(f"Expected query, key, and value to all be  at least 2 dimensional, but got {found}")
    if mask is not None and mask.dtype not in (dt.bool_, dt.float32, query.dtype):
        a, b = (dt.c_name(x.dtype) for x in (mask, query))
        words = "Expected attn_mask dtype to be bool or float or to match query dtype, but got"
        raise RuntimeError(f"{words} attn_mask.dtype: {a} and  query.dtype: {b} instead.")


_UNSUMMED = frozenset((*dt.FLOAT8S, dt.complex32))


@kernel("scaled_dot_product_attention", differs=["masked-row", "half-opmath"])
def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False
):
    """Averages of the values, weighted by the softmax of the scaled products of queries and keys."""
    _check_operands(query, key, value, attn_mask)
    if not value.size or not query.shape[-2]:
        for x in (query, key, value):  # torch adds the sums of these tensors to zeros
            refuse_elements("sum_cpu", x, _UNSUMMED)
        refuse("add_stub", query.dtype, RARE)
        return stride_rules.dense(np.zeros((*query.shape[:-1], value.shape[-1]), query.dtype))
    shared = {"scale": scale, "enable_gqa": enable_gqa}
    fused = _fused_sdp_choice(query, key, value, attn_mask, dropout_p, is_causal, **shared)
    if attn_mask is not None and attn_mask.dtype == dt.bool_:
        attn_mask = np.where(attn_mask, query.dtype.type(0), scalar(-np.inf, query.dtype))
    if fused:
        rest = {"attn_mask": attn_mask, "scale": scale}
        return _scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout_p, is_causal, **rest)[0]
    return stride_rules.dense(
        _scaled_dot_product_attention_math(query, key, value, attn_mask, dropout_p, is_causal, **shared)[0]
    )


@kernel("_scaled_dot_product_attention_math", differs=["masked-row", "half-opmath"])
def _scaled_dot_product_attention_math(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, dropout_mask=None, *, scale=None,
    enable_gqa=False,
):  # fmt: skip
    """Attention, and the attention weights."""
    dtype = query.dtype
    if attn_mask is not None and attn_mask.dtype == dt.bool_:
        attn_mask = dt.cast(attn_mask, dtype)  # this op adds every mask, even a bool one
    rest = (attn_mask, is_causal, scale)
    moderate = scale is None or abs(scale) < 1e30  # for larger scales, products overflow in torch's dtype
    if moderate and dtype in dt.FLOATS and key.dtype == value.dtype == dtype and _fit(query, key, value):
        _check_causal(attn_mask, is_causal)
        inner = sum_dtype(query, key)
        q, k, v = (dt.cast(x, inner) for x in (query, key, value))
        weights, total, _ = exponentials(scores(q, k, *rest))
        weights /= np.where(total == 0, np.asarray(1, inner), total)
    else:
        weights, v = _by_steps(query, key, value, *rest, enable_gqa)
    if dropout_p > 0:
        if dropout_mask is not None:
            broadcast_shapes(dropout_mask.shape, weights.shape)
            weights = np.where(dropout_mask, weights, np.asarray(0, weights.dtype))
            v = mul(v, 1 / (1 - dropout_p))
        else:
            weights = dropout(weights, dropout_p, True)
    return dt.cast(matmul(weights, v), dtype), dt.cast(weights, dtype)


def _fit(q: ndarray, k: ndarray, v: ndarray) -> bool:
    """Return whether the operands need no broadcasting, no repetition of heads and no error."""
    batch = q.shape[:-2] == k.shape[:-2] == v.shape[:-2]
    return batch and min(q.ndim, k.ndim, v.ndim) > 1 and q.shape[-1] == k.shape[-1] and k.shape[-2] == v.shape[-2]


def _check_causal(mask: ndarray | None, causal: bool) -> None:
    words = "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
    check(mask is None or not causal, words)


def _by_steps(query, key, value, mask, causal, scale, enable_gqa):
    """Compute weights and values with the operators that torch calls, which raise their own errors."""
    q, k, v = (dt.cast(x, dt.opmath(x.dtype)) if dt.is_half(x.dtype) else x for x in (query, key, value))
    size = q.shape[dim_of(q, -1)]
    factor = (1 / math.sqrt(size) if size else math.inf) if scale is None else scale
    root = math.sqrt(abs(factor))
    q = mul(q, math.copysign(root, factor))
    _check_causal(mask, causal)
    if causal:
        mask = np.where(later(q.shape[dim_of(q, -2)], k.shape[dim_of(k, -2)]), -np.inf, 0).astype(q.dtype)
    if enable_gqa:
        k, v = per_query_head(q, k, v)
    s = matmul(q, mul(k.swapaxes(wrap_dim(-2, k.ndim), wrap_dim(-1, k.ndim)), root))
    if mask is not None:
        s = in_place(s, add(s, mask))
    return _safe_softmax(np.ascontiguousarray(s), -1), v


@kernel("_fused_sdp_choice")
def _fused_sdp_choice(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False
) -> int:
    """The implementation that torch picks: 1 for the fused one, 0 for plain math."""
    if dropout_p > 0 or not query.ndim == key.ndim == value.ndim == 4:
        return 0
    (batch, heads, rows, _), (_, groups, columns, _) = query.shape, key.shape
    shared = groups > 0 and heads % groups == 0 if enable_gqa else heads == groups
    if not (batch == len(key) == len(value) and groups == value.shape[1] and shared):
        return 0
    whole = (batch, heads, rows, columns)
    if attn_mask is not None and attn_mask.ndim not in (2, 4):
        dim_of(attn_mask, -2)
        return 0
    fits = attn_mask is None or all(n in (1, m) for n, m in zip(attn_mask.shape[::-1], whole[::-1]))
    same = query.shape[-1] == key.shape[-1] == value.shape[-1] and query.dtype == key.dtype == value.dtype
    same = same and query.dtype in dt.FLOATS
    together = all(x.strides[-1:] == (x.itemsize,) for x in (query, key, value))  # the last dimension is dense
    return int(fits and same and together and rows > 0 and columns > 0)


# ---------------------------------------------------------------- multi-head attention and the encoder layer


def _split_heads(x: ndarray, heads: int) -> ndarray:
    batch, time, size = x.shape
    return x.reshape(batch, time, heads, size // heads).swapaxes(1, 2)


@kernel("_transform_bias_rescale_qkv")
def _transform_bias_rescale_qkv(qkv: ndarray, qkv_bias: ndarray, num_heads: int) -> tuple[ndarray, ...]:
    """Queries (scaled), keys and values of all heads from one packed projection."""
    wrap_dim(2, qkv.ndim)
    check(qkv.shape[2] // 3 % num_heads == 0, expected_true("D % num_head == 0"))
    check(qkv.shape[2] % 3 == 0, expected_true("_3D % 3 == 0"))
    require("transform_bias_rescale_qkv", qkv.dtype, dt.FLOATS)
    inner = dt.opmath(qkv.dtype)
    packed = dt.cast(qkv, inner) + dt.cast(qkv_bias, inner)
    q, k, v = (_split_heads(part, num_heads) for part in np.split(packed, 3, -1))
    q = q * np.asarray(1 / math.sqrt(q.shape[-1]), inner)
    return tuple(np.ascontiguousarray(dt.cast(part, qkv.dtype)) for part in (q, k, v))


def _multi_head(
    x: tuple[ndarray, ...], heads: int, weights: tuple[ndarray, ...], mask: ndarray | None, mask_type: int | None
) -> tuple[ndarray, ndarray]:
    """Compute input projections, attention and output projection, and return the output and the attention weights.

    Each step is rounded to the common dtype. True in the mask forbids attention. Mask type 0 is a mask over (query,
    key), 1 over (batch, key), 2 over all dimensions.
    """
    qkv_weight, qkv_bias, proj_weight, proj_bias = weights
    size = proj_weight.shape[0]
    packed = [linear(part, qkv_weight[i * size : (i + 1) * size]) for i, part in enumerate(x)]
    q, k, v = _transform_bias_rescale_qkv(np.concatenate(packed, -1), qkv_bias, heads)
    s = matmul(q, k.swapaxes(-1, -2))
    if mask is not None:
        mask = dt.cast(mask, dt.bool_)  # a float mask of 0 and -inf means the same
        mask = mask[:, None, None, :] if mask_type == 1 and mask.ndim == 2 else mask
        s = np.where(mask, number(-np.inf, s.dtype), s)
    attention = _softmax(s, -1, False)
    joined = matmul(attention, v).swapaxes(1, 2)
    return linear(joined.reshape(*joined.shape[:2], size), proj_weight, proj_bias), attention


@kernel("_native_multi_head_attention", differs=["half-opmath"])
def _native_multi_head_attention(
    query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask=None,
    need_weights=True, average_attn_weights=True, mask_type=None,
):  # fmt: skip
    """Self or cross attention with packed projections, as torch fuses it for inference."""
    d = embed_dim
    check(query.ndim == 3, f"expected 3-D `query`, got {query.ndim}-D tensor")
    check(query.shape[2] == d, f"passed-in embed_dim {d} didn't match last dim of query {query.shape[2]}")
    for name, x in (("key", key), ("value", value)):
        check(x.ndim == 3, f"expected 3-D `{name}`, got {x.ndim}-D tensor")
    check(query.shape == key.shape == value.shape, "expected `query`/`key`/`value` shapes to match")
    words = f"expected `qkv_weight` first dim to be 3x embed_dim, got {shape_text(qkv_weight.shape)}"
    check(qkv_weight.shape[0] == 3 * d, words)
    check(qkv_bias.ndim == 1, f"expected 1-D `qkv_bias`, got {qkv_bias.ndim}-D tensor")
    check(d % num_head == 0, "`embed_dim` must divide evenly by `num_heads`")
    weights = qkv_weight, qkv_bias, proj_weight, proj_bias
    out, attention = _multi_head((query, key, value), num_head, weights, mask, mask_type)
    if not need_weights:
        return out, None
    return out, div(sum_dim(attention, [1]), num_head) if average_attn_weights else attention


@kernel("_transformer_encoder_layer_fwd", differs=["half-opmath"])
def _transformer_encoder_layer_fwd(
    src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps,
    norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2,
    mask=None, mask_type=None,
):  # fmt: skip
    """A whole encoder layer: attention and two dense layers, each with a residual and a norm."""
    weights = qkv_weight, qkv_bias, proj_weight, proj_bias

    def normed(x: ndarray, weight: Any, bias: Any) -> ndarray:
        return normalization.native_layer_norm(x, [embed_dim], weight, bias, eps)[0]

    def attended(x: ndarray) -> ndarray:
        return _multi_head((x, x, x), num_heads, weights, mask, mask_type)[0]

    def dense(x: ndarray) -> ndarray:
        hidden = linear(x, ffn_weight_1, ffn_bias_1)
        return linear(activation.gelu(hidden) if use_gelu else activation.relu(hidden), ffn_weight_2, ffn_bias_2)

    first, second = (norm_weight_1, norm_bias_1), (norm_weight_2, norm_bias_2)
    if norm_first:
        x = add(attended(normed(src, *first)), src)
        return add(dense(normed(x, *second)), x)
    x = normed(add(attended(src), src), *first)
    return normed(add(dense(x), x), *second)
