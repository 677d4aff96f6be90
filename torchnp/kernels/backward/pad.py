"""Gradients of padding: what was shown several times is added up."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from torchnp.checks import check, check_type, refuse_elements, wrap_dim
from torchnp.dtypes import is_inexact
from torchnp.errors import expected_true, no_dimensions, not_implemented
from torchnp.kernels._memory import empty_in_order
from torchnp.kernels._rows import rows
from torchnp.kernels._spatial import code_for
from torchnp.kernels.pad import NOT_PADDED, Pads, check_padded, image_order, reflected, replicated, sides
from torchnp.writes import Bound, Writes, resize

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


def _check_ranks(grad: ndarray, x: ndarray, n: int, reflects: bool) -> None:
    """The sizes that torch reads before it looks at the number of dimensions."""
    if reflects and n == 3:
        check(x.ndim > 3, expected_true("input.dim() > 3"))
        check(grad.ndim == x.ndim, expected_true("grad_output.dim() == input.dim()"))
    first = 0 if n == 3 else 1
    if x.ndim == 0:
        raise no_dimensions(first)
    if x.ndim <= n:
        wrap_dim(max(first, x.ndim), x.ndim)


def _check_grad(grad: ndarray, x: ndarray, pad: Pads, n: int, name: str, comma: str) -> None:
    if n == 3 and name == "gradOutput" and grad.shape[-4] != x.shape[-4]:
        raise RuntimeError(f"gradOutput channel unexpected. Expected: {x.shape[-4]}, Got: {grad.shape[-4]}")
    for what, (dim, left, right) in zip(("width", "height", "depth"), sides(x, pad)):
        expected = x.shape[dim] + left + right
        words = f"{name} {what} unexpected. Expected: {expected}{comma} Got: {grad.shape[dim]}"
        check(grad.shape[dim] == expected, words)


def _look_replication(bound: Bound, outs: list[ndarray]) -> frozenset[int]:
    """Of no elements torch only resizes the out, of any dtype."""
    if bound["self"].size:
        return frozenset()
    resize(outs[0], bound["self"].shape)
    return frozenset({0})


def _backward(grad, x, padding, *, op, n, positions):
    reflects = positions is reflected
    spelled = "grad_output" if reflects and n != 2 else "gradOutput"
    comma = "" if n == 1 and not reflects else ","
    _check_ranks(grad, x, n, reflects)
    if x.ndim > n + 2:  # torch takes the first dimensions then
        outer = tuple(a[(*[slice(None)] * (n + 1), *[0] * (a.ndim - n - 1))] for a in (grad, x) if a.size)
        if len(outer) == 2:
            check_padded(outer[1], padding, n, reflects, x.shape)
            _check_grad(*outer, padding, n, spelled, comma)
    check_padded(x, padding, n, reflects)
    _check_grad(grad, x, padding, n, spelled, comma)
    if not is_inexact(grad.dtype) and grad.size:
        raise not_implemented(code_for(op, grad), grad.dtype)
    refuse_elements(op, grad, NOT_PADDED)
    if grad.size or (reflects and n == 2):
        check_type(grad.dtype, x)
    return _folded(grad, x, padding, positions)


_REFLECTIONS = "reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward"
rows(_REFLECTIONS, _backward, "The gradient of the padding by reflection.", positions=reflected)
_DOC, _WRITES = "The gradient of the padding by replication.", Writes(out=_look_replication)
rows("replication_pad1d_backward", _backward, _DOC, positions=replicated)
rows("replication_pad2d_backward replication_pad3d_backward", _backward, _DOC, writes=_WRITES, positions=replicated)
