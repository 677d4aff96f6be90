"""The executor's fast linear layers and attention.

Each takes the operator's own arguments and passes unsupported cases to the table's kernel, as `fast_ops_common`
describes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np

import torchnp
from torchnp.blas import limit_blas_if_threaded
from torchnp.layout import stride_rules
from torchnp.runtime.fast_ops_common import FLOAT, aligned, plain
from torchnp.thresholds import Threshold

ndarray = np.ndarray


# ---------------------------------------------------------------- linear layers


class Linear:
    """The function ``x @ weight.T + bias`` with constant weight and bias; the weight is transposed once.

    Attributes
    ----------
    alone : bool
        Whether BLAS uses one thread for small products, because other operators of the program use torchnp's threads.
    """

    def __init__(self, weight: ndarray, bias: ndarray | None) -> None:
        self._given, self._bias, self.alone = weight, bias, False
        self._turned: ndarray | None = None

    def __call__(self, x: ndarray) -> ndarray:
        o, k = self._given.shape
        if not plain(x) or x.ndim < 2 or x.shape[-1] != k or not x.size:
            return torchnp.table["aten::linear"](x, self._given, self._bias)
        if self._turned is None:
            self._turned = aligned(self._given.T)
        with limit_blas_if_threaded() if self.alone and x.size * o < _ALONE else nullcontext():
            y = np.matmul(x.reshape(-1, k), self._turned)
        if self._bias is not None:
            y += self._bias
        return y.reshape(*x.shape[:-1], o)


_ALONE: Threshold = 1 << 22  # multiplications below which a second BLAS thread gains less than its busy-waiting costs


# ---------------------------------------------------------------- attention

# If scores and masks are below `_FAR` and values below `_VALUE`, a sum of a million products of their exponentials with
# values is a normal float32 number. Mask values below `_HIDDEN` contribute nothing.
_FAR, _VALUE, _HIDDEN = np.float32(20), np.float32(1e14), np.float32(-130)
_SUMMED: Threshold = 1 << 18  # up to this many products the table's kernel sums in double precision
_SCORES: Threshold = 1 << 17  # scores per block; a block stays in cache
_QUERIES = 64  # queries per block under a causal mask, so that the block can skip later keys


def attention(
    query: ndarray, key: ndarray, value: ndarray, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    *, scale: float | None = None, enable_gqa: bool = False,
) -> ndarray:  # fmt: skip
    """Compute ``scaled_dot_product_attention``: see `_attended`."""
    found = _attended(query, key, value, attn_mask, dropout_p, is_causal, scale)
    if found is None:
        kernel = torchnp.table["aten::scaled_dot_product_attention"]
        return kernel(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    return found


def flash_attention(
    query: ndarray, key: ndarray, value: ndarray, dropout_p: float = 0.0, is_causal: bool = False, *,
    attn_mask: Any = None, scale: float | None = None,
) -> ndarray:  # fmt: skip
    """Return the first result of ``_scaled_dot_product_flash_attention_for_cpu``, which takes no bool mask.

    See `_attended`.
    """
    found = None
    if attn_mask is None or plain(attn_mask):
        found = _attended(query, key, value, attn_mask, dropout_p, is_causal, scale)
    if found is None:
        kernel = torchnp.table["aten::_scaled_dot_product_flash_attention_for_cpu"]
        return kernel(query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale)[0]
    return found


def _attended(
    q: ndarray, k: ndarray, v: ndarray, mask: Any, dropout_p: float, causal: bool, scale: float | None
) -> ndarray | None:  # fmt: skip
    """Compute attention by blocks of queries, for scores so small that softmax need not subtract their maximum.

    The exponentials are multiplied by the exponential of a mask. Their sums come from a matrix product with a column of
    ones. Return None if the table's kernel must compute the result.
    """
    if dropout_p or not _attends(q, k, v) or (causal and mask is not None):
        return None
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    if not factor > 0:
        return None
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return _by_blocks(q, k, v, mask, causal, np.float32(factor))


def _attends(q: ndarray, k: ndarray, v: ndarray) -> bool:
    """Return whether the shapes and dtypes are supported, and large enough for this path to be faster."""
    if not plain(q, k, v) or not q.ndim == k.ndim == v.ndim == 4 or k.shape != v.shape:
        return False
    if q.strides[3] != q.itemsize:  # the table's result would have another layout
        return False
    return q.shape[:2] == k.shape[:2] and q.shape[3] == k.shape[3] and q.size * k.shape[2] > _SUMMED


@functools.lru_cache(maxsize=16)
def _seen(queries: int, keys: int) -> ndarray:
    """Return the causal mask as numbers: 1 where query i may attend to key j (j <= i), else 0.

    Query 0 and key 0 are at the same position.
    """
    return np.tri(queries, keys, dtype=FLOAT)


def _factors(mask: Any, shape: tuple[int, ...]) -> ndarray | None:
    """Return a mask as factors of the exponentials, by batch, head, query and key.

    Return None if the fast path cannot use it.
    """
    if type(mask) is not ndarray or mask.dtype not in (np.bool_, FLOAT) or not 2 <= mask.ndim <= 4:
        return None
    if any(n not in (1, m) for n, m in zip(mask.shape[::-1], shape[::-1])):
        return None
    if mask.dtype == FLOAT:
        shown = mask[~(mask < _HIDDEN)]
        if not (shown.max(initial=0) < _FAR and shown.min(initial=0) > -_FAR):
            return None
        mask = np.exp(mask)
    return np.broadcast_to(mask, shape)


def _by_blocks(
    q: ndarray, k: ndarray, v: ndarray, mask: Any, causal: bool, scale: np.float32
) -> ndarray | None:  # fmt: skip
    """Compute `_attended`; return None if a number is too far from zero, or a query sees no key."""
    keys = k.shape[2]
    seen = None
    if not (v.max() < _VALUE and v.min() > -_VALUE):
        return None
    if mask is not None and (seen := _factors(mask, (*q.shape[:3], keys))) is None:
        return None
    out = stride_rules.empty(q.shape, FLOAT, stride_rules.preserved(*stride_rules.layout_of(q)))
    ones = np.ones((keys, 1), FLOAT)
    for part, rows in _blocks(q.shape, keys, causal):
        stop = min(keys, rows.stop) if causal else keys
        s = np.matmul(q[part][..., rows, :] * scale, k[part][..., :stop, :].swapaxes(-1, -2))
        if not (s.max() < _FAR and s.min() > -_FAR):
            return None
        np.exp(s, out=s)
        if causal and stop > rows.start:
            s[..., rows.start :] *= _seen(rows.stop - rows.start, stop - rows.start)
        if seen is not None:
            s *= seen[part][..., rows, :]
        total = np.matmul(s, ones[:stop])
        if seen is not None and not total.min() > 0:
            return None
        y = out[part][..., rows, :]
        np.matmul(s, v[part][..., :stop, :], out=y)
        y /= total
    return out


def _blocks(shape: tuple[int, ...], keys: int, causal: bool) -> Iterator[tuple[tuple[slice, slice], slice]]:
    """Split the work into blocks of batches and heads, and of their queries."""
    batches, heads, queries, _ = shape
    many = min(queries, max(1, _SCORES // keys), _QUERIES if causal else queries)
    each = max(1, _SCORES // (many * keys))
    more = max(1, each // heads)
    for b in range(0, batches, more):
        for h in range(0, heads, each):
            for t in range(0, queries, many):
                yield (slice(b, b + more), slice(h, h + each)), slice(t, min(t + many, queries))
