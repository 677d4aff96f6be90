"""Gradients of padding: the gradients of all copies of an element are added up."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from torchnp.core.checks import check, check_type, dim_of, refuse_elements
from torchnp.core.errors import expected_true, not_implemented, shape_text
from torchnp.core.inplace_out_spec import Bound, WriteSpec, resize
from torchnp.core.target import since
from torchnp.dtypes import is_inexact
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._memory import empty_in_order
from torchnp.kernels._spatial import code_for
from torchnp.kernels.pad import NOT_PADDED, Pads, check_padded, check_reflected, image_order, reflected, replicated

ndarray = np.ndarray


def _folded(grad: ndarray, x: ndarray, pad: Pads, positions: Callable[[int, int, int], ndarray]) -> ndarray:
    """Add each gradient to its source element, in the order of the padded tensor as torch does."""
    n = len(pad) // 2
    inner, step, places = x.shape[x.ndim - n :], 1, np.zeros((), np.int64)
    for i in range(n):
        shown = positions(inner[n - 1 - i], *pad[2 * i : 2 * i + 2]) * step
        places = shown.reshape(-1, *(1,) * i) + places
        step *= inner[n - 1 - i]
    images = math.prod(x.shape[: x.ndim - n])
    if not images:
        return np.empty(x.shape, grad.dtype)
    out = np.zeros(images * step, grad.dtype)
    all_places = (np.arange(images)[:, None] * step + places.reshape(-1)).reshape(-1)
    np.add.at(out, all_places, np.ascontiguousarray(grad).reshape(-1))
    dense = empty_in_order(x.shape, grad.dtype, image_order(x))
    dense[...] = out.reshape(x.shape)
    return dense


def _check_grad(grad: ndarray, x: ndarray, pad: Pads, n: int, reflects: bool) -> None:
    """Check as torch does: with too many dimensions it checks only the first; it does not compare batch sizes."""
    if n == 3 or not reflects:
        check(
            len(pad) == 2 * n,
            f"padding size is expected to be {2 * n}{f', but got: {len(pad)}' * (reflects or since('2.15'))}",
        )
    if n == 3 and reflects:
        check(x.ndim > 3, expected_true("input.dim() > 3"))
        check(grad.ndim == x.ndim, expected_true("grad_output.dim() == input.dim()"))
    last = n + (x.ndim == n + 2)
    sizes = [x.shape[dim_of(x, d)] for d in range(last - n + (n < 3 or reflects), last + 1)][::-1]
    if n == 1 and reflects:
        check_reflected(x, pad, last)
    if n == 3 and not reflects:
        check_padded(x, pad, n, reflects)
        own, given = (a.shape[dim_of(a, x.ndim - 4)] for a in (x, grad))
        check(
            own == given,
            f"{'grad_output' if since('2.15') else 'gradOutput'} channel unexpected. Expected: {own}, Got: {given}",
        )
    spelled = "grad_output" if (reflects and n != 2) or since("2.15") else "gradOutput"
    comma = "" if n == 1 and not reflects and not since("2.15") else ","
    for i, (what, size) in enumerate(zip(("width", "height", "depth"), sizes)):
        expected, found = size + sum(pad[2 * i : 2 * i + 2]), grad.shape[dim_of(grad, last - i)]
        check(found == expected, f"{spelled} {what} unexpected. Expected: {expected}{comma} Got: {found}")


def _precheck_replication(bound: Bound, outs: list[ndarray]) -> frozenset[int]:
    """For an empty input, only resize ``out=``, whatever its dtype, as torch does."""
    if bound["self"].size:
        return frozenset()
    _check_grad(bound["grad_output"], bound["self"], bound["padding"], len(bound["padding"]) // 2, False)
    resize(outs[0], bound["self"].shape)
    return frozenset({0})


def _backward(grad, x, padding, *, op, n, positions):
    reflects = positions is reflected
    _check_grad(grad, x, padding, n, reflects)
    if reflects or x.size:
        code = code_for(op, grad) if n > 1 and x.ndim == n + 2 else op
        if not is_inexact(grad.dtype) and grad.size:
            raise not_implemented(code, grad.dtype)
        refuse_elements(code, grad, NOT_PADDED)
        if grad.size or (reflects and n == 2):
            check_type(grad.dtype, x)
    if not (reflects or x.size or n == 3):
        return np.empty(x.shape, grad.dtype)
    check_padded(x, padding, n, reflects)
    lead = x.shape[: x.ndim - n]
    check(not x.size or grad.shape[: x.ndim - n] == lead, f"Expected grad_output to begin with {shape_text(lead)}")
    return _folded(grad, x, padding, positions)


_REFLECTIONS = "reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward"
rows(_REFLECTIONS, _backward, "The gradient of reflection padding.", positions=reflected)
_DOC, _WRITES = "The gradient of replication padding.", WriteSpec(out=_precheck_replication)
rows("replication_pad1d_backward", _backward, _DOC, positions=replicated)
rows("replication_pad2d_backward replication_pad3d_backward", _backward, _DOC, writes=_WRITES, positions=replicated)
