"""Gradients of padding: what was shown several times is added up."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from torchnp.checks import not_implemented
from torchnp.dtypes import is_inexact
from torchnp.kernels._memory import empty_in_order, refuse
from torchnp.kernels.pad import NOT_PADDED, Pads, check_padded, image_order, reflected, replicated
from torchnp.registry import kernel

ndarray = np.ndarray


def _folded(grad: ndarray, x: ndarray, pad: Pads, positions: Callable[[int, int, int], ndarray]) -> ndarray:
    """The gradient added up at the positions that were shown, in the order of the padded tensor as torch does."""
    n = len(pad) // 2
    inner, step, places = x.shape[x.ndim - n :], 1, np.zeros((), np.int64)
    for i in range(n):
        shown = positions(inner[n - 1 - i], *pad[2 * i : 2 * i + 2]) * step
        places = shown.reshape(-1, *(1,) * i) + places
        step *= inner[n - 1 - i]
    images = math.prod(x.shape[: x.ndim - n])
    out = np.zeros(images * step, grad.dtype)
    all_places = (np.arange(images)[:, None] * step + places.reshape(-1)).reshape(-1)
    np.add.at(out, all_places, np.ascontiguousarray(grad).reshape(-1))
    dense = empty_in_order(x.shape, grad.dtype, image_order(x))
    dense[...] = out.reshape(x.shape)
    return dense


_NAMES = {"W": "width", "H": "height", "D": "depth"}


def _check_grad(grad: ndarray, x: ndarray, pad: Pads, n: int, name: str, comma: str) -> None:
    for i in range(n):
        dim = x.ndim - 1 - i
        expected = x.shape[dim] + pad[2 * i] + pad[2 * i + 1]
        if grad.shape[dim] != expected:
            what = _NAMES["WHD"[i]]
            raise RuntimeError(f"{name} {what} unexpected. Expected: {expected}{comma} Got: {grad.shape[dim]}")


def _backward(kind: str, n: int, positions: Callable[[int, int, int], ndarray]) -> None:
    name = f"{kind}_pad{n}d_backward"
    spelled = "grad_output" if kind == "reflection" and n != 2 else "gradOutput"
    comma = "" if kind == "replication" and n == 1 else ","

    def body(grad_output, self, padding):
        check_padded(self, padding, n, kind == "reflection")
        _check_grad(grad_output, self, padding, n, spelled, comma)
        refuse(grad_output, name, NOT_PADDED)
        if not is_inexact(grad_output.dtype) and grad_output.size:
            raise not_implemented(name, grad_output.dtype)
        return _folded(grad_output, self, padding, positions)

    body.__name__ = name
    body.__doc__ = f"The gradient of {kind}_pad{n}d."
    kernel(name)(body)


for _n in (1, 2, 3):
    _backward("reflection", _n, reflected)
    _backward("replication", _n, replicated)
