"""Optimizer steps that torch fuses, and gradient scaling. These ops only mutate: each writes its lists in place."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check, require
from torchnp.errors import expected_true
from torchnp.kernels._rows import rows
from torchnp.registry import kernel

ndarray = np.ndarray
Arrays = Sequence[ndarray]


def _number(x: Any) -> float:
    return float(x) if not isinstance(x, ndarray) else float(x.astype(np.float64).reshape(()))


def _skipped(found_inf: ndarray | None) -> bool:
    """A gradient overflowed somewhere: the whole step is left out."""
    return found_inf is not None and _number(found_inf) == 1.0


def _in_opmath(
    name: str, params: Arrays, grads: Arrays, grad_scale: ndarray | None, maximize: bool
) -> Iterator[tuple[ndarray, ndarray, np.dtype]]:
    """Each parameter and its gradient in the dtype of the computation; unscaling is written back, as torch does."""
    for p, grad in zip(params, grads, strict=True):
        inner = dt.opmath(p.dtype)
        require(name, grad.dtype, dt.FLOATS)
        g = dt.cast(grad, inner)
        if grad_scale is not None:
            g = g / np.asarray(_number(grad_scale), inner)
            grad[...] = dt.cast(g, grad.dtype)
        yield dt.cast(p, inner), -g if maximize else g, inner


@kernel("_fused_sgd_", "_fused_sgd_.tensor_lr", differs=["half-opmath"])
def _fused_sgd_(
    self, grads, momentum_buffer_list, *, weight_decay, momentum, lr, dampening, nesterov, maximize, is_first_step,
    grad_scale=None, found_inf=None,
) -> None:  # fmt: skip
    """Stochastic gradient descent with momentum."""
    if _skipped(found_inf):
        return
    rate = _number(lr)
    for i, (x, g, inner) in enumerate(_in_opmath("fused_sgd_kernel", self, grads, grad_scale, maximize)):
        one = inner.type
        if weight_decay:
            g = g + x * one(weight_decay)
        if momentum:
            buffer = momentum_buffer_list[i]
            b = g if is_first_step else dt.cast(buffer, inner) * one(momentum) + g * one(1 - dampening)
            buffer[...] = dt.cast(b, buffer.dtype)
            g = g + b * one(momentum) if nesterov else b
        self[i][...] = dt.cast(x - g * one(rate), self[i].dtype)


def _adam(
    params: Arrays, grads: Arrays, exp_avgs: Arrays, exp_avg_sqs: Arrays, max_exp_avg_sqs: Arrays, steps: Arrays,
    lr: Any, beta1: float, beta2: float, weight_decay: float, eps: float, amsgrad: bool, maximize: bool,
    grad_scale: ndarray | None, found_inf: ndarray | None, decoupled: bool,
) -> None:  # fmt: skip
    tops = len(max_exp_avg_sqs)
    check(tops == len(params) or not amsgrad, expected_true("max_exp_avg_sqs.size() == n_tensors"))
    check(not tops or amsgrad, expected_true("max_exp_avg_sqs.empty()"))
    if _skipped(found_inf):
        return
    rate = _number(lr)
    given = _in_opmath("fused_adam_kernel", params, grads, grad_scale, maximize)
    for i, ((x, g, inner), p, avg, sq, step) in enumerate(
        zip(given, params, exp_avgs, exp_avg_sqs, steps, strict=True)
    ):
        one, m, v = inner.type, dt.cast(avg, inner), dt.cast(sq, inner)
        if weight_decay:
            if decoupled:
                x = x - x * one(rate * weight_decay)
            else:
                g = g + x * one(weight_decay)
        share = 1 - beta1
        # torch interpolates from the nearer end.
        m = m + (g - m) * one(share) if share < 0.5 else g - (g - m) * one(1 - share)
        v = v * one(beta2) + g * g * one(1 - beta2)
        avg[...], sq[...] = dt.cast(m, avg.dtype), dt.cast(v, sq.dtype)
        if amsgrad:
            top = max_exp_avg_sqs[i]
            v = np.maximum(dt.cast(top, inner), v)
            top[...] = dt.cast(v, top.dtype)
        size, root = rate / (1 - beta1 ** _number(step)), math.sqrt(1 - beta2 ** _number(step))
        denominator = np.sqrt(v) / one(root) + one(eps)
        p[...] = dt.cast(x - m / denominator * one(size), p.dtype)


_ADAM, _ADAMW = "_fused_adam_ _fused_adam_.tensor_lr", "_fused_adamw_ _fused_adamw_.tensor_lr"
_HALF = {"differs": ["half-opmath"]}
rows(_ADAM, _adam, "Adam; weight decay is added to the gradient.", decoupled=False, **_HALF)
rows(_ADAMW, _adam, "AdamW; weight decay shrinks the parameter itself.", decoupled=True, **_HALF)


@kernel("_fused_adagrad_", "_fused_adagrad_.tensor_lr", differs=["half-opmath"])
def _fused_adagrad_(
    self, grads, state_sums, state_steps, *, lr, lr_decay, weight_decay, eps, maximize, grad_scale=None, found_inf=None
) -> None:
    """Adagrad: rates shrink with the sum of squared gradients."""
    if _skipped(found_inf):
        return
    rate = _number(lr)
    given = _in_opmath("fused_adagrad_kernel", self, grads, grad_scale, maximize)
    for (x, g, inner), p, total, step in zip(given, self, state_sums, state_steps, strict=True):
        one = inner.type
        if weight_decay:
            g = g + x * one(weight_decay)
        s = dt.cast(total, inner) + g * g
        total[...] = dt.cast(s, total.dtype)
        now = rate / (1 + (_number(step) - 1) * lr_decay)
        p[...] = dt.cast(x - g / (np.sqrt(s) + one(eps)) * one(now), p.dtype)


def _check_numbers(**given: ndarray) -> None:
    for name, x in given.items():
        check(x.size == 1, f"{name} must be a 1-element tensor.")
    for name, x in given.items():
        dtype, kind = (dt.int32, "an int") if name == "growth_tracker" else (dt.float32, "a float")
        check(x.dtype == dtype, f"{name} must be {kind} tensor.")


@kernel("_amp_foreach_non_finite_check_and_unscale_")
def _amp_foreach_non_finite_check_and_unscale_(self: Arrays, found_inf: ndarray, inv_scale: ndarray) -> None:
    """Unscale gradients, and note in ``found_inf`` whether any was not finite."""
    _check_numbers(inv_scale=inv_scale, found_inf=found_inf)
    factor = inv_scale.reshape(())
    for x in self:
        wide = dt.cast(x, dt.opmath(x.dtype))
        if not np.isfinite(wide).all():
            found_inf[...] = 1
        if factor != 1:
            x[...] = dt.cast(wide * factor.astype(wide.dtype), x.dtype)


@kernel("_amp_update_scale_")
def _amp_update_scale_(self, growth_tracker, found_inf, scale_growth_factor, scale_backoff_factor, growth_interval):
    """Back the scale off after an overflow, grow it after a run without one."""
    _check_numbers(growth_tracker=growth_tracker, current_scale=self, found_inf=found_inf)
    if _number(found_inf):
        self *= np.float32(scale_backoff_factor)
        growth_tracker[...] = 0
        return self
    run = int(growth_tracker.reshape(())) + 1
    if run == growth_interval:
        grown = self * np.float32(scale_growth_factor)
        if np.isfinite(grown).all():
            self[...] = grown
        run = 0
    growth_tracker[...] = run
    return self
