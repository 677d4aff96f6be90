"""Connectionist temporal classification: the probability of a label sequence over all its alignments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check, require, wrap_dim
from torchnp.kernels._elementwise import WIDE
from torchnp.kernels.loss import MEAN, SUM
from torchnp.registry import kernel

ndarray = np.ndarray
_NEVER = -np.inf


def _both_lengths(**lengths: Any) -> list[list[int]]:
    for name, given in lengths.items():
        if isinstance(given, ndarray):
            check(dt.is_integral(given.dtype) or dt.is_bool(given.dtype), f"{name} must be integral")
    return [[int(n) for n in np.ravel(given)] for given in lengths.values()]


def labels_of(
    log_probs: ndarray, targets: ndarray, input_lengths: Sequence[int], target_lengths: Sequence[int], blank: int
) -> list[ndarray]:
    """The label sequence of each sample, with blanks between and around the labels."""
    check(log_probs.size > 0, "log_probs tensor must not be empty")
    require("ctc_loss_cpu", log_probs.dtype, WIDE)
    where = "(while checking arguments for ctc_loss_allocate_outputs)"
    found = f"but got torch.{dt.scalar_name(targets.dtype)}Tensor instead {where}"
    known = targets.dtype in (dt.int32, dt.int64)
    check(known, f"Expected tensor for argument #2 'targets' to have scalar type Int; {found}")
    found = f"but got {log_probs.ndim}-dimensional tensor for argument #1 'log_probs' {where}"
    check(log_probs.ndim == 3, f"Expected 3-dimensional tensor, {found}")
    found = f"but got {targets.ndim}-dimensional tensor for argument #2 'targets' {where}"
    check(targets.ndim in (1, 2), f"Expected 1 to 2 dimensions, {found}")
    steps, batch, classes = log_probs.shape
    check(0 <= blank < classes, "blank must be in label range")
    check(len(input_lengths) == batch, "input_lengths must be of size batch_size")
    check(len(target_lengths) == batch, "target_lengths must be of size batch_size")
    for n in target_lengths:
        check(n >= 0, f"Expected target_lengths to have value at least 0, but got value {n}")
    longest = max(target_lengths, default=0)
    if targets.ndim == 1:
        total = sum(target_lengths)
        found = f"{total} at dimension 0, but got size {targets.size} for argument #2 'targets' {where}"
        check(targets.size == total, f"Expected tensor to have size {found}")
        starts = np.cumsum([0, *target_lengths])
        rows = [targets[s : s + n] for s, n in zip(starts, target_lengths, strict=False)]
    else:
        found = f"{batch} at dimension 0, but got size {targets.shape[0]} for argument #2 'targets' {where}"
        check(targets.shape[0] == batch, f"Expected tensor to have size {found}")
        found = f"{longest} at dimension 1, but got size {targets.shape[1]} for argument #2 'targets' {where}"
        check(targets.shape[1] >= longest, f"Expected tensor to have size at least {found}")
        rows = [row[:n] for row, n in zip(targets, target_lengths, strict=True)]
    for n in input_lengths:
        check(n >= 0, f"Expected input_lengths to have value at least 0, but got value {n}")
        check(n <= steps, f"Expected input_lengths to have value at most {steps}, but got value {n}")
    return [np.append(np.insert(row.astype(np.int64), range(len(row)), blank), blank) for row in rows]


def _may_skip(labels: ndarray) -> ndarray:
    """Where an alignment may jump over the blank before: labels that differ from the label two places back."""
    skip = np.zeros(len(labels), np.bool_)
    skip[2:] = labels[2:] != labels[:-2]
    return skip


def _advance(previous: ndarray, skip: ndarray) -> ndarray:
    """The log probability of having come here by staying, by one step, or by a jump over a blank."""
    one, two = np.full_like(previous, _NEVER), np.full_like(previous, _NEVER)
    one[1:] = previous[:-1]
    two[2:] = previous[:-2]
    two = np.where(skip, two, previous.dtype.type(_NEVER))
    top = np.maximum(np.maximum(previous, one), two)
    top = np.where(top == _NEVER, previous.dtype.type(0), top)
    return np.log(np.exp(previous - top) + np.exp(one - top) + np.exp(two - top)) + top


@kernel("_ctc_loss", "_ctc_loss.Tensor")
def _ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, zero_infinity=False):
    """Minus the log likelihood of each sample, and the forward variables (-inf where there are none)."""
    input_lengths, target_lengths = _both_lengths(input_lengths=input_lengths, target_lengths=target_lengths)
    padded = labels_of(log_probs, targets, input_lengths, target_lengths, blank)
    steps, batch, _ = log_probs.shape
    log_alpha = np.full((batch, steps, 2 * max(target_lengths, default=0) + 1), _NEVER, log_probs.dtype)
    loss = np.empty(batch, log_probs.dtype)
    for b, (labels, n) in enumerate(zip(padded, input_lengths, strict=True)):
        width = len(labels)
        if n == 0:
            loss[b] = -0.0 if width == 1 else np.inf
            continue
        emitted, skip, alpha = log_probs[:, b, :][:, labels], _may_skip(labels), log_alpha[b, :, :width]
        alpha[0, :2] = emitted[0, :2]
        for t in range(1, n):
            alpha[t] = _advance(alpha[t - 1], skip) + emitted[t]
        loss[b] = -np.logaddexp.reduce(alpha[n - 1, -2:])
    return loss, log_alpha


@kernel("_ctc_loss_backward", "_ctc_loss_backward.Tensor")
def _ctc_loss_backward(
    grad, log_probs, targets, input_lengths, target_lengths, neg_log_likelihood, log_alpha, blank, zero_infinity=False
):
    """The gradient of `_ctc_loss` by forward and backward variables."""
    input_lengths, target_lengths = _both_lengths(input_lengths=input_lengths, target_lengths=target_lengths)
    padded = labels_of(log_probs, targets, input_lengths, target_lengths, blank)
    out = np.zeros_like(log_probs)
    classes = log_probs.shape[2]
    for b, (labels, n) in enumerate(zip(padded, input_lengths, strict=True)):
        loss = neg_log_likelihood[b]
        if zero_infinity and loss == np.inf:
            continue
        emitted = log_probs[:, b, :][:, labels]
        skip = _may_skip(labels[::-1])
        beta = np.full((n, len(labels)), _NEVER, log_probs.dtype)
        beta[-1:, -2:] = emitted[n - 1 : n, -2:]
        for t in range(n - 2, -1, -1):
            beta[t] = _advance(beta[t + 1, ::-1], skip)[::-1] + emitted[t]
        both = log_alpha[b, :n, : len(labels)] + beta
        sums = np.full((n, classes), _NEVER, log_probs.dtype)
        for s, label in enumerate(labels):  # several places of a sequence may hold one label
            sums[:, label] = np.logaddexp(sums[:, label], both[:, s])
        scores = log_probs[:n, b]
        out[:n, b] = (np.exp(scores) - np.exp(sums + loss - scores)) * grad[b]
    return out


@kernel("ctc_loss.IntList", "ctc_loss.Tensor")
def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=1, zero_infinity=False):
    """Minus the log likelihood; the mean is over the losses per target label."""
    batched = log_probs.ndim == 3
    _, lengths = _both_lengths(input_lengths=input_lengths, target_lengths=target_lengths)
    wrap_dim(1, log_probs.ndim + 1)
    scores = log_probs if batched else log_probs[:, None]
    loss = _ctc_loss(scores, targets, input_lengths, target_lengths, blank, zero_infinity)[0]
    if zero_infinity:
        loss = np.where(loss == np.inf, loss.dtype.type(0), loss)
    if reduction == MEAN:
        return np.asarray((loss / np.maximum(lengths, 1).astype(loss.dtype)).mean())
    if reduction == SUM:
        return np.asarray(loss.sum())
    return loss if batched else loss[0]
