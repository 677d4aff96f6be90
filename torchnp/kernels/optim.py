"""Fused optimizer steps and gradient scaling. These ops return nothing, and write their arguments in place."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, require
from torchnp.core.errors import expected_true
from torchnp.core.registry import kernel
from torchnp.kernels._declare_rows import rows
from torchnp.kernels.numerics.blocks import STRIP
from torchnp.layout.overlap import check_target
from torchnp.threads import blocks

ndarray = np.ndarray
Arrays = Sequence[ndarray]


def _number(x: Any) -> float:
    return float(x) if not isinstance(x, ndarray) else float(x.astype(np.float64).reshape(()))


def _strips(x: ndarray, *others: ndarray) -> Iterator[tuple[ndarray, ...]]:
    """Yield strips of a tensor and of the others that have its shape; tensors of other shapes are yielded whole.

    If the tensor is short, or any tensor of its shape is not contiguous, all tensors are yielded whole, once.
    """
    alike = [other.shape == x.shape for other in (x, *others)]
    if x.size <= STRIP or not all(y.flags.c_contiguous for y, cut in zip((x, *others), alike) if cut):
        yield x, *others
        return
    laid = [y.reshape(-1) if cut else y for y, cut in zip((x, *others), alike)]
    for part in blocks(x.size, STRIP):
        yield tuple(y[part] if cut else y for y, cut in zip(laid, alike))


def _steps(
    name: str, params: Arrays, grads: Arrays, *states: Arrays, weight_decay: float, maximize: bool,
    grad_scale: ndarray | None, found_inf: ndarray | None,
) -> Iterator[Any]:  # fmt: skip
    """Yield each parameter's array, its value and gradient in the opmath dtype, the type of that dtype, and its states.

    If gradients are unscaled, they are also written back, as torch does.
    """
    if found_inf is not None and _number(found_inf) == 1.0:  # a gradient overflowed: skip the whole step
        return
    for p, grad, *state in (strips for given in zip(params, grads, *states, strict=True) for strips in _strips(*given)):
        inner = dt.opmath(p.dtype)
        require(name, grad.dtype, dt.FLOATS)
        x, g = dt.cast(p, inner), dt.cast(grad, inner)
        if grad_scale is not None:
            g = g / np.asarray(_number(grad_scale), inner)
            grad[...] = g
        g = -g if maximize else g
        yield p, x, g + x * inner.type(weight_decay) if weight_decay else g, inner.type, *state


@kernel("_fused_sgd_", "_fused_sgd_.tensor_lr", differs=["half-opmath"])
def _fused_sgd_(
    self, grads, momentum_buffer_list, *, weight_decay, momentum, lr, dampening, nesterov, maximize, is_first_step,
    grad_scale=None, found_inf=None,
) -> None:  # fmt: skip
    """Stochastic gradient descent with momentum."""
    rate, buffers = _number(lr), [momentum_buffer_list] if momentum else []
    options = {"maximize": maximize, "grad_scale": grad_scale, "found_inf": found_inf}
    for p, x, g, one, *state in _steps("fused_sgd_kernel", self, grads, *buffers, weight_decay=weight_decay, **options):
        for buffer in state:
            b = g if is_first_step else dt.cast(buffer, g.dtype) * one(momentum) + g * one(1 - dampening)
            buffer[...] = b
            g = g + b * one(momentum) if nesterov else b
        p[...] = x - g * one(rate)


def _adam(
    params: Arrays, grads: Arrays, exp_avgs: Arrays, exp_avg_sqs: Arrays, max_exp_avg_sqs: Arrays, steps: Arrays, *,
    lr: Any, beta1: float, beta2: float, weight_decay: float, eps: float, amsgrad: bool, decoupled: bool, **options: Any,
) -> None:  # fmt: skip
    tops = len(max_exp_avg_sqs)
    check(tops == len(params) or not amsgrad, expected_true("max_exp_avg_sqs.size() == n_tensors"))
    check(not tops or amsgrad, expected_true("max_exp_avg_sqs.empty()"))
    rate, added, share = _number(lr), 0.0 if decoupled else weight_decay, 1 - beta1
    states = (exp_avgs, exp_avg_sqs, steps, max_exp_avg_sqs) if amsgrad else (exp_avgs, exp_avg_sqs, steps)
    for p, x, g, one, avg, sq, step, *top in _steps(
        "fused_adam_kernel", params, grads, *states, weight_decay=added, **options
    ):
        if decoupled and weight_decay:
            x = x - x * one(rate * weight_decay)
        m, v = dt.cast(avg, g.dtype), dt.cast(sq, g.dtype)
        # torch's lerp starts from the nearer end.
        avg[...] = m = m + (g - m) * one(share) if share < 0.5 else g - (g - m) * one(1 - share)
        sq[...] = v = v * one(beta2) + g * g * one(1 - beta2)
        for most in top:
            most[...] = v = np.maximum(dt.cast(most, g.dtype), v)
        size, root = rate / (1 - beta1 ** _number(step)), math.sqrt(1 - beta2 ** _number(step))
        p[...] = x - m / (np.sqrt(v) / one(root) + one(eps)) * one(size)


_ADAM, _ADAMW = "_fused_adam_ _fused_adam_.tensor_lr", "_fused_adamw_ _fused_adamw_.tensor_lr"
_HALF = {"differs": ["half-opmath"]}
rows(_ADAM, _adam, "Adam; weight decay is added to the gradient.", decoupled=False, **_HALF)
rows(_ADAMW, _adam, "AdamW; weight decay shrinks the parameter itself.", decoupled=True, **_HALF)


def _adagrad(
    self: Arrays, grads: Arrays, sums: Arrays, steps: Arrays, *, lr: Any, lr_decay: float, eps: float, **options: Any
) -> None:
    rate = _number(lr)
    for p, x, g, one, total, step in _steps("fused_adagrad_kernel", self, grads, sums, steps, **options):
        total[...] = s = dt.cast(total, g.dtype) + g * g
        now = rate / (1 + (_number(step) - 1) * lr_decay)
        p[...] = x - g / (np.sqrt(s) + one(eps)) * one(now)


_DOC = "Adagrad: learning rates shrink with the sum of squared gradients."
rows("_fused_adagrad_ _fused_adagrad_.tensor_lr", _adagrad, _DOC, **_HALF)


def _check_numbers(**given: ndarray) -> None:
    for name, x in given.items():
        check(x.size == 1, f"{name} must be a 1-element tensor.")
    for name, x in given.items():
        dtype, kind = (dt.int32, "an int") if name == "growth_tracker" else (dt.float32, "a float")
        check(x.dtype == dtype, f"{name} must be {kind} tensor.")


@kernel("_amp_foreach_non_finite_check_and_unscale_")
def _amp_foreach_non_finite_check_and_unscale_(self: Arrays, found_inf: ndarray, inv_scale: ndarray) -> None:
    """Multiply gradients by ``inv_scale``; set ``found_inf`` to 1 if any of them is not finite."""
    if not self:
        return
    _check_numbers(inv_scale=inv_scale, found_inf=found_inf)
    factor = inv_scale.reshape(())
    for x in self:
        check_target(x)
        require("_amp_foreach_non_finite_check_and_unscale_cpu", x.dtype, dt.FLOATS)
        for (strip,) in _strips(x):
            wide = dt.cast(strip, dt.opmath(x.dtype))
            if not np.isfinite(wide).all():
                found_inf[...] = 1
            if factor != 1:
                strip[...] = dt.cast(wide * factor.astype(wide.dtype), x.dtype)


@kernel("_amp_update_scale_")
def _amp_update_scale_(self, growth_tracker, found_inf, scale_growth_factor, scale_backoff_factor, growth_interval):
    """Reduce the loss scale after an overflow; raise it after ``growth_interval`` steps without one."""
    _check_numbers(growth_tracker=growth_tracker, current_scale=self, found_inf=found_inf)
    if _number(found_inf):
        self[...] = self.astype(np.float64) * scale_backoff_factor
        growth_tracker[...] = 0
        return self
    run = int(growth_tracker.reshape(())) + 1
    if run == growth_interval:
        grown = (self.astype(np.float64) * scale_growth_factor).astype(np.float32)
        if np.isfinite(grown).all():
            self[...] = grown
        run = 0
    growth_tracker[...] = run
    return self
