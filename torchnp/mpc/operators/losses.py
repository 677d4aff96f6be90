"""The negative log likelihood loss of secret classes, computed with vectors with a single 1."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torchnp.engine import Call
from torchnp.mpc import functions
from torchnp.mpc.fixed_point import FixedPoint
from torchnp.mpc.operators.registry import PublicArray, op, public, secret, shared
from torchnp.mpc.operators.selection import unit_vectors
from torchnp.mpc.shares import SharedSum

_NONE, _MEAN = 0, 1  # torch's numbers for the reductions


def _last(p: FixedPoint, x: SharedSum) -> SharedSum:
    """Move the classes from the second to the last dimension."""
    return p.each(lambda w: np.moveaxis(w, 1, -1) if w.ndim > 1 else w, x)


def _factors(p: FixedPoint, target: Any, weight: Any, classes: int, ignored: int) -> tuple[Any, int]:
    """Return the weight of each sample at its class, 0 elsewhere, and the number of its fractional bits.

    The weights are shares or public words, of shape ``(samples, classes)``.
    """
    counts = np.arange(classes) != ignored
    if secret(target):
        chosen: Any = p.each(lambda w: w * counts, unit_vectors(p, target, classes))
    else:
        chosen = ((np.asarray(public(target))[..., None] == np.arange(classes)) & counts).astype(np.int64)
    if weight is None:
        return chosen, 0
    if secret(weight):
        if secret(chosen):
            return p.multiply(chosen, weight), weight.bits
        return p.each(lambda w: chosen * w, weight), weight.bits
    words = p.encode(public(weight), p.bits)
    return p.each(lambda w: w * words, chosen, bits=p.bits) if secret(chosen) else chosen * words, p.bits


def _product(p: FixedPoint, x: SharedSum, factors: Any, bits: int) -> SharedSum:
    if secret(factors):
        return p.at(p.multiply(x, factors), p.bits)
    return p.at(p.each(lambda w: w * factors, x, bits=x.bits + bits), p.bits)


def _total(p: FixedPoint, factors: Any, bits: int, known: bool) -> Any:
    """Return the sum of the weights of all samples.

    It is a number if all weights are public, or if it is ``known`` that each sample counts once.
    """
    if known:
        return np.float64(math.prod(factors.shape[:-1]))
    if secret(factors):
        return p.at(p.each(lambda w: w.sum(), factors), p.bits)
    return np.float64(factors.sum() / 2.0**bits)


def _over(p: FixedPoint, x: SharedSum, total: Any) -> SharedSum:
    return functions.divide(p, x, total) if secret(total) else p.scaled(x, 1 / total)


def _each_counts(target: Any, weight: Any, classes: int, ignored: int) -> bool:
    """Return whether each sample counts once, whatever its secret class is."""
    return secret(target) and weight is None and not 0 <= ignored < classes


@op("nll_loss_forward", "nll_loss2d_forward")
def nll_loss_forward(
    p: FixedPoint, call: Call, x: Any, target: Any, weight: Any, reduction: int, ignore_index: int
) -> tuple[Any, Any]:
    """Return minus the sum, or mean, of the elements at each target's class; a secret target must be a class."""
    rows = _last(p, shared(p, x, p.bits))
    classes = rows.shape[-1]
    factors, bits = _factors(p, target, weight, classes, ignore_index)
    each = p.each(lambda w: -w.sum(-1), _product(p, rows, factors, bits))
    if reduction == _NONE and len(rows.shape) > 1:
        return each, PublicArray(np.zeros((), np.float32))
    loss = p.each(lambda w: w.sum(), each)
    total = _total(p, factors, bits, _each_counts(target, weight, classes, ignore_index))
    shown = total if secret(total) else PublicArray(np.asarray(total, np.float32))
    return (_over(p, loss, total) if reduction == _MEAN else loss), shown


@op("nll_loss_backward", "nll_loss2d_backward")
def nll_loss_backward(
    p: FixedPoint, call: Call, grad: Any, x: Any, target: Any, weight: Any, reduction: int, ignore_index: int,
    total_weight: Any,
) -> SharedSum:  # fmt: skip
    """Return minus the gradient at each target's class, and 0 elsewhere."""
    shape = x.shape if secret(x) else public(x).shape
    classes = shape[1] if len(shape) > 1 else shape[0]
    factors, bits = _factors(p, target, weight, classes, ignore_index)
    value = shared(p, grad, p.bits)
    if reduction == _MEAN:
        value = _over(p, value, public(total_weight) if not secret(total_weight) else total_weight)
    apart = p.each(lambda w: -w[..., None], value)
    return p.each(lambda w: np.moveaxis(w, -1, 1) if w.ndim > 1 else w, _product(p, apart, factors, bits))
