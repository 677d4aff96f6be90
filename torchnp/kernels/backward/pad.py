"""Gradients of padding: what was shown several times is added up."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from torchnp.checks import not_implemented
from torchnp.dtypes import cast, is_inexact, opmath
from torchnp.kernels._memory import empty_in_order
from torchnp.kernels.pad import Pads, check_padded, image_order, reflected, refuse, replicated
from torchnp.registry import kernel

ndarray = np.ndarray


def _folded(grad: ndarray, x: ndarray, pad: Pads, positions: Callable[[int, int, int], ndarray]) -> ndarray:
    """The gradient added up at the positions that each padded dimension showed."""
    out = cast(grad, opmath(grad.dtype))
    for i in range(len(pad) // 2):
        left, right = pad[2 * i : 2 * i + 2]
        if left or right:
            out = _fold(out, positions(x.shape[x.ndim - 1 - i], left, right), x.ndim - 1 - i, x.shape[x.ndim - 1 - i])
    dense = empty_in_order(x.shape, grad.dtype, image_order(x))
    dense[...] = cast(out, grad.dtype)
    return dense


def _fold(grad: ndarray, shown: ndarray, dim: int, size: int) -> ndarray:
    """Add slices of a dimension at their positions; each run of neighbouring positions is one addition."""
    out = np.zeros((*grad.shape[:dim], size, *grad.shape[dim + 1 :]), grad.dtype)
    ahead, steps = (slice(None),) * dim, np.diff(shown)
    edges = [0, *(np.flatnonzero(np.diff(steps)) + 1).tolist(), len(shown)] if len(shown) > 1 else [0, len(shown)]
    for a, b in itertools.pairwise(edges):
        run = shown[a:b]
        part = grad[(*ahead, slice(a, b))]
        if len(run) > 1 and run[0] == run[1]:
            place = int(run[0])
            out[(*ahead, slice(place, place + 1))] += part.sum(dim, keepdims=True)
        elif len(run):
            low, high = int(run.min()), int(run.max())
            part = part if run[0] == low else part[(*ahead, slice(None, None, -1))]
            out[(*ahead, slice(low, high + 1))] += part
    return out


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
        refuse(grad_output, name)
        if not is_inexact(grad_output.dtype) and grad_output.size:
            raise not_implemented(name, grad_output.dtype)
        return _folded(grad_output, self, padding, positions)

    body.__name__ = name
    body.__doc__ = f"The gradient of {kind}_pad{n}d."
    kernel(name, differs=["no-counterpart"])(body)


for _n in (1, 2, 3):
    _backward("reflection", _n, reflected)
    _backward("replication", _n, replicated)
