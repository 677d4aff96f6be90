"""The negative log likelihood of secret classes, by vectors with a single 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp.engine import Call
from torchnp.mpc.fixed_point import FixedPoint
from torchnp.mpc.operators.registry import PublicArray, op, public, secret, shared
from torchnp.mpc.operators.selection import unit_vectors
from torchnp.mpc.shares import SharedSum

_NONE, _MEAN = 0, 1  # torch's numbers of reductions


def _chosen(p: FixedPoint, target: Any, classes: int, ignored: int) -> SharedSum | np.ndarray:
    """1 at each sample's class: of shape ``(samples, classes)``."""
    if not secret(target):
        known = np.asarray(public(target))
        return ((known[..., None] == np.arange(classes)) & (known != ignored)[..., None]).astype(np.int64)
    if 0 <= ignored < classes:
        raise ValueError(f"nll_loss: ignore_index={ignored} is a class, and whether a secret target has it is secret")
    return unit_vectors(p, target, classes)


def _last(p: FixedPoint, x: SharedSum) -> SharedSum:
    """Classes, the second dimension, last."""
    return p.each(lambda w: np.moveaxis(w, 1, -1) if w.ndim > 1 else w, x)


def _weighted(p: FixedPoint, chosen: Any, weight: Any) -> tuple[Any, int]:
    """The vectors times a public weight per class, and their fractional bits."""
    if weight is None:
        return chosen, 0
    if secret(weight):
        raise TypeError("nll_loss: the weight of each class is public")
    words = p.encode(public(weight), p.bits)
    if secret(chosen):
        return p.each(lambda w: w * words, chosen, bits=p.bits), p.bits
    return chosen * words, p.bits


def _product(p: FixedPoint, x: SharedSum, factors: Any, bits: int) -> SharedSum:
    if secret(factors):
        return p.at(p.multiply(x, factors), p.bits)
    return p.at(p.each(lambda w: w * factors, x, bits=x.bits + bits), p.bits)


def _total(p: FixedPoint, chosen: Any, bits: int, samples: int, weighted: bool) -> Any:
    """The sum of the weights of all samples: known, unless secret targets have weights."""
    if not secret(chosen):
        return np.float64(chosen.sum() / 2.0**bits)
    if weighted:
        raise TypeError("nll_loss: reduction='mean' with weights needs public targets, as the sum of weights is secret")
    return np.float64(samples)


@op("nll_loss_forward", "nll_loss2d_forward")
def nll_loss_forward(
    p: FixedPoint, call: Call, x: Any, target: Any, weight: Any, reduction: int, ignore_index: int
) -> tuple[Any, Any]:
    """Minus the sum, or mean, of the elements of each target's class. Secret targets are classes, none is ignored."""
    rows = _last(p, shared(p, x, p.bits))
    chosen, bits = _weighted(p, _chosen(p, target, rows.shape[-1], ignore_index), weight)
    each = p.each(lambda w: -w.sum(-1), _product(p, rows, chosen, bits))
    if reduction == _NONE:
        return each, PublicArray(np.zeros((), np.float32))
    total = p.each(lambda w: np.asarray(w.sum()), each)
    samples = int(np.prod(rows.shape[:-1]))
    if reduction != _MEAN:
        return total, PublicArray(np.zeros((), np.float32))
    over = _total(p, chosen, bits, samples, weight is not None)
    return p.scaled(total, 1 / over), PublicArray(np.asarray(over, np.float32))


@op("nll_loss_backward", "nll_loss2d_backward")
def nll_loss_backward(
    p: FixedPoint, call: Call, grad: Any, x: Any, target: Any, weight: Any, reduction: int, ignore_index: int,
    total_weight: Any,
) -> SharedSum:  # fmt: skip
    """Minus the gradient at each target's class."""
    shape = x.shape if secret(x) else public(x).shape
    classes = shape[1] if len(shape) > 1 else shape[0]
    chosen, bits = _weighted(p, _chosen(p, target, classes, ignore_index), weight)
    value = shared(p, grad, p.bits)
    if reduction == _MEAN:
        samples = int(np.prod(shape)) // classes
        value = p.scaled(value, 1 / _total(p, chosen, bits, samples, weight is not None))
    apart = p.each(lambda w: -w[..., None], value)
    return p.each(lambda w: np.moveaxis(w, -1, 1) if w.ndim > 1 else w, _product(p, apart, chosen, bits))
