"""Losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchnp import dtypes as dt
from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable

_NONE, _MEAN, _SUM = range(3)  # torch's codes of reductions


def _reduced(lib: ArrayLibrary, x: Array, reduction: int) -> Array:
    if reduction == _NONE:
        return x
    return lib.call("aten::mean" if reduction == _MEAN else "aten::sum", x)


def _of_two(name: str, loss: Callable[[ArrayLibrary, Array, Array], Array]) -> None:
    @portable(name)
    def row(lib: ArrayLibrary, self: Array, target: Array, reduction: int = _MEAN) -> Array:
        return _reduced(lib, lib.in_opmath(lambda x, y: loss(lib, x, y), *lib.promote(self, target)), reduction)


_of_two("aten::mse_loss", lambda lib, x, y: (x - y) * (x - y))
_of_two("aten::l1_loss", lambda lib, x, y: lib.xp.abs(x - y))
_of_two("aten::soft_margin_loss", lambda lib, x, y: lib.xp.log1p(lib.xp.exp(-x * y)))


@portable("aten::smooth_l1_loss")
def smooth_l1_loss(lib: ArrayLibrary, self: Array, target: Array, reduction: int = _MEAN, beta: float = 1.0) -> Array:
    def f(x: Array, y: Array) -> Array:
        z = lib.xp.abs(x - y)
        return z if beta == 0 else lib.xp.where(z < beta, 0.5 * z * z / beta, z - 0.5 * beta)

    return _reduced(lib, lib.in_opmath(f, *lib.promote(self, target)), reduction)


@portable("aten::huber_loss")
def huber_loss(lib: ArrayLibrary, self: Array, target: Array, reduction: int = _MEAN, delta: float = 1.0) -> Array:
    def f(x: Array, y: Array) -> Array:
        z = lib.xp.abs(x - y)
        return lib.xp.where(z <= delta, 0.5 * z * z, delta * (z - 0.5 * delta))

    return _reduced(lib, lib.in_opmath(f, *lib.promote(self, target)), reduction)


@portable("aten::binary_cross_entropy")
def binary_cross_entropy(
    lib: ArrayLibrary, self: Array, target: Array, weight: Array | None = None, reduction: int = _MEAN
) -> Array:
    """Compute binary cross entropy; logarithms are at least -100, as in torch."""

    def f(x: Array, y: Array, w: Array | None) -> Array:
        low = lib.number(-100, lib.dtype_of(x))
        log = lambda v: lib.xp.maximum(lib.xp.log(v), low)
        found = (y - 1) * lib.xp.maximum(lib.xp.log1p(-x), low) - y * log(x)
        return found if w is None else found * w

    return _reduced(lib, lib.in_opmath(f, self, target, weight), reduction)


@portable("aten::binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    lib: ArrayLibrary,
    self: Array,
    target: Array,
    weight: Array | None = None,
    pos_weight: Array | None = None,
    reduction: int = _MEAN,
) -> Array:
    log_sigmoid = lib.call("aten::log_sigmoid", self)
    more = log_sigmoid if pos_weight is None else ((pos_weight - 1) * target + 1) * log_sigmoid
    found = (1 - target) * self - more
    return _reduced(lib, found if weight is None else found * weight, reduction)


@portable("aten::kl_div")
def kl_div(lib: ArrayLibrary, self: Array, target: Array, reduction: int = _MEAN, *, log_target: bool = False) -> Array:
    x, y = lib.promote(self, target)

    def f(x: Array, y: Array) -> Array:
        if log_target:
            return lib.xp.exp(y) * (y - x)
        zero = lib.number(0, lib.dtype_of(y))
        other = lib.xp.where(y == zero, lib.number(1, lib.dtype_of(y)), y)
        return lib.xp.where(y == zero, zero, y * lib.xp.log(other)) - y * x

    return _reduced(lib, lib.in_opmath(f, x, y), reduction)


# ---------------------------------------------------------------- classes


def _nll(
    lib: ArrayLibrary, self: Array, target: Array, weight: Array | None, reduction: int, ignore_index: int
) -> tuple[Array, Array]:
    """Return the loss and the total weight. The class dimension is 1, or 0 for a single sample."""
    d, classes = lib.dtype_of(self), 1 if self.ndim > 1 else 0
    counted = target != ignore_index
    safe = lib.xp.where(counted, target, lib.xp.zeros_like(target))
    picked = lib.xp.take_along_axis(self, lib.xp.expand_dims(safe, axis=classes), axis=classes)
    w = lib.full(safe.shape, 1, d)
    if weight is not None:
        w = lib.xp.reshape(lib.xp.take(weight, lib.xp.reshape(safe, (-1,)), axis=0), tuple(safe.shape))
    w = lib.xp.where(counted, w, lib.number(0, d))
    losses = lib.xp.where(counted, -lib.xp.squeeze(picked, axis=classes) * w, lib.number(0, d))
    if reduction == _NONE:
        return losses, lib.number(0, d) if losses.ndim else w  # as in torch, only a single sample's weight is given
    total, weights = lib.call("aten::sum", losses), lib.call("aten::sum", w)
    return (total / weights if reduction == _MEAN else total), weights


@portable("aten::nll_loss_forward", "aten::nll_loss2d_forward")
def nll_loss_forward(
    lib: ArrayLibrary, self: Array, target: Array, weight: Array | None, reduction: int, ignore_index: int
) -> tuple[Array, Array]:
    if 0 in self.shape:
        return NotImplemented
    return _nll(lib, self, target, weight, reduction, ignore_index)


@portable("aten::nll_loss", "aten::nll_loss_nd", "aten::nll_loss2d")
def nll_loss(
    lib: ArrayLibrary,
    self: Array,
    target: Array,
    weight: Array | None = None,
    reduction: int = _MEAN,
    ignore_index: int = -100,
) -> Array:
    found: Any = nll_loss_forward(lib, self, target, weight, reduction, ignore_index)
    return NotImplemented if found is NotImplemented else found[0]


@portable("aten::cross_entropy_loss")
def cross_entropy_loss(
    lib: ArrayLibrary,
    self: Array,
    target: Array,
    weight: Array | None = None,
    reduction: int = _MEAN,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Array:
    if 0 in self.shape:
        return NotImplemented
    classes = 1 if self.ndim > 1 else 0
    logs = lib.call("aten::log_softmax.int", self, classes)
    if dt.is_inexact(lib.dtype_of(target)):
        return _of_probabilities(lib, logs, target, weight, reduction, label_smoothing, classes)
    loss, weights = _nll(lib, logs, target, weight, reduction, ignore_index)
    if not label_smoothing:
        return loss
    d, n = lib.dtype_of(logs), self.shape[classes]
    shape = [1] * self.ndim
    shape[classes] = n
    scaled = logs if weight is None else logs * lib.xp.reshape(weight, tuple(shape))
    counted = target != ignore_index
    spread = lib.xp.where(counted, -lib.xp.sum(scaled, axis=classes), lib.number(0, d))
    if reduction != _NONE:
        spread = lib.call("aten::sum", spread)
        spread = spread / weights if reduction == _MEAN else spread
    return (1 - label_smoothing) * loss + label_smoothing / n * spread


def _of_probabilities(
    lib: ArrayLibrary, logs: Array, target: Array, weight: Array | None, reduction: int, smoothing: float, classes: int
) -> Array:
    n = logs.shape[classes]
    target = target * (1 - smoothing) + smoothing / n if smoothing else target
    products = logs * target
    if weight is not None:
        shape = [1] * logs.ndim
        shape[classes] = n
        products = products * lib.xp.reshape(weight, tuple(shape))
    losses = -lib.xp.sum(products, axis=classes)
    if reduction == _MEAN:
        count = 1
        for d, length in enumerate(logs.shape):
            count = count if d == classes else count * length
        return lib.call("aten::sum", losses) / count
    return _reduced(lib, losses, reduction)
