"""Connectionist temporal classification: the probability of a label sequence over all its alignments."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, require, wrap_dim
from torchnp.core.errors import tensor_type
from torchnp.core.registry import kernel
from torchnp.kernels._elementwise import WIDE
from torchnp.kernels.loss import MEAN, SUM

ndarray = np.ndarray
_NEVER = -np.inf


def _lengths(*lengths: Any) -> list[list[int]]:
    for name, given in zip(("input_lengths", "target_lengths"), lengths, strict=True):
        if isinstance(given, ndarray):
            check(dt.is_integral(given.dtype), f"{name} must be integral")
    return [[int(n) for n in np.ravel(given)] for given in lengths]


def _expect(holds: bool, wanted: str, found: str) -> None:
    check(holds, f"Expected {wanted} but got {found} (while checking arguments for ctc_loss_allocate_outputs)")


def _labels_of(name: str, log_probs: ndarray, targets: ndarray, lengths: Any, blank: int) -> list[ndarray]:
    """The label sequence of each sample, with blanks between and around the labels."""
    input_lengths, target_lengths = lengths
    check(log_probs.size > 0, "log_probs tensor must not be empty")
    require(f"{name}_cpu", log_probs.dtype, WIDE)
    found, of = f"{tensor_type(targets.dtype)} instead", "for argument #2 'targets'"
    _expect(targets.dtype in (dt.int32, dt.int64), f"tensor {of} to have scalar type Int;", found)
    found = f"{log_probs.ndim}-dimensional tensor for argument #1 'log_probs'"
    _expect(log_probs.ndim == 3, "3-dimensional tensor,", found)
    _expect(targets.ndim in (1, 2), "1 to 2 dimensions,", f"{targets.ndim}-dimensional tensor {of}")
    steps, batch, classes = log_probs.shape
    check(0 <= blank < classes, "blank must be in label range")
    check(len(input_lengths) == batch, "input_lengths must be of size batch_size")
    check(len(target_lengths) == batch, "target_lengths must be of size batch_size")
    for n in target_lengths:
        _expect(n >= 0, "target_lengths to have value at least 0,", f"value {n}")
    flat, size, longest = targets.ndim == 1, targets.shape[-1], max(target_lengths, default=0)
    count = sum(target_lengths) if flat else batch
    _expect(len(targets) == count, f"tensor to have size {count} at dimension 0,", f"size {len(targets)} {of}")
    _expect(flat or size >= longest, f"tensor to have size at least {longest} at dimension 1,", f"size {size} {of}")
    rows = np.array_split(targets, np.cumsum(target_lengths)[:-1]) if flat else list(targets)
    for n in input_lengths:
        _expect(n >= 0, "input_lengths to have value at least 0,", f"value {n}")
        _expect(n <= steps, f"input_lengths to have value at most {steps},", f"value {n}")
    labels = [row[:n].astype(np.int64) for row, n in zip(rows, target_lengths, strict=False)]
    return [np.append(np.insert(row, range(len(row)), blank), blank) for row in labels]


def _added(*terms: ndarray) -> ndarray:
    """The logarithm of a sum, from the logarithms of its terms."""
    top = np.maximum.reduce(terms)
    top = np.where(top == _NEVER, top.dtype.type(0), top)
    return np.log(sum(np.exp(x - top) for x in terms)) + top


def _variables(emitted: ndarray, labels: ndarray) -> ndarray:
    """The forward variables: log probability of each label at each step, over all alignments of the steps so far."""
    out, skip = np.full(emitted.shape, _NEVER, emitted.dtype), np.zeros(len(labels), np.bool_)
    skip[2:] = labels[2:] != labels[:-2]  # an alignment may jump over the blank between labels that differ
    out[:1, :2] = emitted[:1, :2]
    for t in range(1, len(out)):
        stay, one, two = out[t - 1], np.full_like(out[0], _NEVER), np.full_like(out[0], _NEVER)
        one[1:] = stay[:-1]
        two[2:] = np.where(skip[2:], stay[:-2], stay.dtype.type(_NEVER))
        out[t] = _added(stay, one, two) + emitted[t]
    return out


@kernel("_ctc_loss", "_ctc_loss.Tensor")
def _ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, zero_infinity=False):
    """Minus the log likelihood of each sample, and the forward variables (-inf where there are none)."""
    input_lengths, target_lengths = lengths = _lengths(input_lengths, target_lengths)
    padded = _labels_of("ctc_loss", log_probs, targets, lengths, blank)
    steps, batch, _ = log_probs.shape
    log_alpha = np.full((batch, steps, 2 * max(target_lengths, default=0) + 1), _NEVER, log_probs.dtype)
    loss = np.empty(batch, log_probs.dtype)
    for b, (labels, n) in enumerate(zip(padded, input_lengths, strict=True)):
        width = len(labels)
        if n == 0:
            loss[b] = -0.0 if width == 1 else np.inf
            continue
        alpha = log_alpha[b, :n, :width] = _variables(log_probs[:n, b, labels], labels)
        loss[b] = -_added(*alpha[-1, :-3:-1])
    return loss, log_alpha


@kernel("_ctc_loss_backward", "_ctc_loss_backward.Tensor")
def _ctc_loss_backward(
    grad, log_probs, targets, input_lengths, target_lengths, neg_log_likelihood, log_alpha, blank, zero_infinity=False
):
    """The gradient of `_ctc_loss` by forward and backward variables."""
    input_lengths, target_lengths = lengths = _lengths(input_lengths, target_lengths)
    padded = _labels_of("ctc_loss_backward", log_probs, targets, lengths, blank)
    out = np.zeros_like(log_probs)
    for b, (labels, n) in enumerate(zip(padded, input_lengths, strict=True)):
        loss = neg_log_likelihood[b]
        if zero_infinity and loss == np.inf:
            continue
        backward = _variables(log_probs[:n, b, labels][::-1, ::-1], labels[::-1])[::-1, ::-1]
        both = log_alpha[b, :n, : len(labels)] + backward
        sums = np.full((n, out.shape[2]), _NEVER, log_probs.dtype)
        for s, label in reversed([*enumerate(labels)]):  # a label may occur several times in the sequence
            sums[:, label] = _added(sums[:, label], both[:, s])
        if len(labels) > 1:  # torch overwrites the last step's sum, so a label equal to the blank counts alone there
            sums[-1:, labels[-2]] = both[-1:, -2]
        scores = log_probs[:n, b]
        out[:n, b] = (np.exp(scores) - np.exp(sums + loss - scores)) * grad[b]
    return out


@kernel("ctc_loss.IntList", "ctc_loss.Tensor")
def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=1, zero_infinity=False):
    """Minus the log likelihood; the mean is over the losses per target label."""
    batched = log_probs.ndim == 3
    _, lengths = _lengths(input_lengths, target_lengths)
    wrap_dim(1, log_probs.ndim + 1)
    scores = log_probs if batched else log_probs[:, None]
    labels = dt.cast(targets, dt.int64)  # any dtype here, unlike in `_ctc_loss` itself
    loss = _ctc_loss(scores, labels, input_lengths, target_lengths, blank, zero_infinity)[0]
    if zero_infinity:
        loss = np.where(loss == np.inf, loss.dtype.type(0), loss)
    if reduction == MEAN:
        return np.asarray((loss / np.maximum(lengths, 1).astype(loss.dtype)).mean())
    if reduction == SUM:
        return np.asarray(loss.sum())
    return loss if batched else loss[0]
