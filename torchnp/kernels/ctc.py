"""Connectionist temporal classification: the probability of a label sequence over all its alignments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, require, wrap_dim
from torchnp.core.errors import tensor_type
from torchnp.core.registry import kernel
from torchnp.kernels._elementwise import WIDE
from torchnp.kernels.loss import MEAN, SUM
from torchnp.threads import blocks
from torchnp.thresholds import Threshold

ndarray = np.ndarray
_NEVER = -np.inf


def _lengths(*lengths: Any) -> list[list[int]]:
    for name, given in zip(("input_lengths", "target_lengths"), lengths, strict=True):
        if isinstance(given, ndarray):
            check(dt.is_integral(given.dtype), f"{name} must be integral")
    return [[int(n) for n in np.ravel(given)] for given in lengths]


def _expect(holds: bool, wanted: str, found: str) -> None:
    check(holds, f"Expected {wanted} but got {found} (while checking arguments for ctc_loss_allocate_outputs)")


def _labels_of(name: str, log_probs: ndarray, targets: ndarray, lengths: Any, blank: int) -> ndarray:
    """Return each sample's label sequence as a row, with blanks between, before and after the labels and as padding."""
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
    labels = np.full((batch, 2 * longest + 1), blank)
    for sequence, row, n in zip(labels, rows, target_lengths, strict=False):
        sequence[1 : 2 * n : 2] = row[:n]
    return labels


def _added(*terms: ndarray) -> ndarray:
    """Return the logarithm of a sum, given the logarithms of its terms."""
    top = np.maximum.reduce(terms)
    top = np.where(top == _NEVER, top.dtype.type(0), top)
    return np.log(sum(np.exp(x - top) for x in terms)) + top


_FEW: Threshold = 64  # labels in one step; for so few, a call of NumPy takes longer than its work
_TOGETHER: Threshold = 1 << 12  # labels; samples with about this many labels are computed together


def _groups(labels: ndarray) -> Iterator[slice]:
    return blocks(len(labels), max(_TOGETHER // labels.shape[1], 1))


def _variables(out: ndarray, emitted: Callable[[int], ndarray], labels: ndarray) -> None:
    """Write the forward variables: log probability of each label at each step, over all alignments of the steps so far.

    Their dimensions are step, sample and label; elements after a sample's last step or label have no meaning.
    ``emitted`` gives the log probability of each sample's labels in one step.
    """
    stays = labels[:, 2:] == labels[:, :-2]  # an alignment may skip the blank between labels that differ
    one, two = (np.full(labels.shape, _NEVER, out.dtype) for _ in range(2))
    if not len(out):
        return
    out[0] = _NEVER
    out[0, :, :2] = emitted(0)[:, :2]
    if labels.size <= _FEW:
        for t in range(1, len(out)):
            before, after = out[t - 1], out[t]
            one[:, 1:] = before[:, :-1]
            np.copyto(two[:, 2:], before[:, :-2], where=~stays)
            np.logaddexp(np.logaddexp(before, one, after), two, after)
            np.add(after, emitted(t), after)
        return
    for t in range(1, len(out)):
        before = out[t - 1]
        one[:, 1:] = before[:, :-1]
        two[:, 2:] = before[:, :-2]
        two[:, 2:][stays] = _NEVER
        np.add(_added(before, one, two), emitted(t), out[t])


def _in_step(log_probs: ndarray, numbers: ndarray, labels: ndarray, t: int) -> ndarray:
    """Return the log probability of some samples' labels in one step."""
    return log_probs[t, numbers, labels]


@kernel("_ctc_loss", "_ctc_loss.Tensor")
def _ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, zero_infinity=False):
    """Minus the log likelihood of each sample, and the forward variables (-inf where there are none)."""
    input_lengths, target_lengths = lengths = _lengths(input_lengths, target_lengths)
    labels = _labels_of("ctc_loss", log_probs, targets, lengths, blank)
    steps, batch, _ = log_probs.shape
    log_alpha = np.empty((batch, steps, labels.shape[1]), log_probs.dtype)
    loss = np.empty(batch, log_probs.dtype)
    for some in _groups(labels):
        emitted = partial(_in_step, log_probs, np.arange(batch)[some, None], labels[some])
        longest = max(input_lengths[some], default=0)
        _variables(log_alpha[some].swapaxes(0, 1)[:longest], emitted, labels[some])
    for b, (n, count) in enumerate(zip(input_lengths, target_lengths, strict=True)):
        alpha, width = log_alpha[b], 2 * count + 1
        alpha[n:], alpha[:, width:] = _NEVER, _NEVER
        loss[b] = -_added(*alpha[n - 1, max(width - 2, 0) : width][::-1]) if n else -0.0 if width == 1 else np.inf
    return loss, log_alpha


@kernel("_ctc_loss_backward", "_ctc_loss_backward.Tensor")
def _ctc_loss_backward(
    grad, log_probs, targets, input_lengths, target_lengths, neg_log_likelihood, log_alpha, blank, zero_infinity=False
):
    """The gradient of `_ctc_loss`, from forward and backward variables."""
    input_lengths, target_lengths = lengths = _lengths(input_lengths, target_lengths)
    labels = _labels_of("ctc_loss_backward", log_probs, targets, lengths, blank)
    out = np.zeros_like(log_probs)
    for some in _groups(labels):
        numbers = range(len(labels))[some]
        sums = _of_labels(log_probs, labels, log_alpha, lengths, numbers)
        for b, of_sample in zip(numbers, sums.swapaxes(0, 1)):
            loss, n = neg_log_likelihood[b], input_lengths[b]
            if not zero_infinity or loss != np.inf:
                scores = log_probs[:n, b]
                out[:n, b] = (np.exp(scores) - np.exp(of_sample[:n] + loss - scores)) * grad[b]
    return out


def _of_labels(log_probs: ndarray, labels: ndarray, log_alpha: ndarray, lengths: Any, numbers: range) -> ndarray:
    """Return the log probability of each class at each step of some samples, over all alignments."""
    steps, _, classes = log_probs.shape
    width, some = labels.shape[1], np.asarray(numbers)
    steps = min(steps, max((lengths[0][b] for b in numbers), default=0))
    log_probs = log_probs[:steps]
    n, last = np.asarray(lengths[0], np.int64)[some], 2 * np.asarray(lengths[1], np.int64)[some]
    # Steps and labels of each sample in reverse order. Indexing with these arrays twice restores the order.
    back, places = (n - 1 - np.arange(steps)[:, None])[..., None], (last[:, None] - np.arange(width))[None]
    column = np.arange(len(some))[:, None]
    turned = np.take_along_axis(labels[some], places[0] % width, 1)
    backward = np.empty((steps, *turned.shape), log_probs.dtype)
    _variables(backward, lambda t: log_probs[back[t] % steps, some[:, None], turned], turned)
    both = backward[back % steps, column, places % width]
    both += log_alpha[some, :steps, :width].swapaxes(0, 1)
    both[(back < 0) | (places < 0)] = _NEVER
    sums = np.full((steps, len(some), classes), _NEVER, log_probs.dtype)
    for s in reversed(range(width)):  # a label may occur several times in the sequence
        label = labels[some, s]
        sums[:, column[:, 0], label] = _added(sums[:, column[:, 0], label], both[:, :, s])
    # In the last step, torch overwrites the sum of the last label's class: if that is the blank, blanks do not count.
    full = np.flatnonzero((n > 0) & (last > 0))
    at, label = last[full] - 1, labels[some[full], last[full] - 1]
    sums[n[full] - 1, full, label] = both[n[full] - 1, full, at]
    return sums


@kernel("ctc_loss.IntList", "ctc_loss.Tensor")
def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=1, zero_infinity=False):
    """Minus the log likelihood; for the mean, each loss is first divided by its number of target labels."""
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
