"""`gradient`: the derivative of a sampled function, by second-order differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from torchnp.core.checks import check, wrap_dims
from torchnp.core.errors import no_dimensions
from torchnp.dtypes import uint8
from torchnp.kernels._declare_rows import rows
from torchnp.kernels.arithmetic import add, div, mul, sub
from torchnp.kernels.diff_trapezoid import diff
from torchnp.kernels.fft_kernels import along
from torchnp.kernels.join import cat
from torchnp.kernels.pointwise import neg
from torchnp.layout import stride_rules

ndarray = np.ndarray


def _dims(self: ndarray, spacings: int | None, dim: Any, edge_order: int) -> list[int]:
    """Check the arguments as torch does, and return the dimensions.

    ``spacings`` is the number of spacings, None if there is one for all dimensions.
    """
    given = None if dim is None else [dim] if isinstance(dim, int) else list(dim)
    check(self.dtype != uint8, "torch.gradient does not support uint8 input.")
    words = "torch.gradient expected spacing to be unspecified, a scalar"
    if spacings is not None and given is None and spacings != self.ndim:
        found = f"since dim argument was not given, but got a list of length {spacings}"
        raise RuntimeError(f"{words}, or a list of length equal to 'self.dim() = {self.ndim}', {found}")
    if spacings is not None and given is not None and spacings != len(given):
        found = f"a spacing argument of length {spacings} and a dim argument of length {len(given)}."
        raise RuntimeError(f"{words} or it's spacing and dim arguments to have the same length, but got {found}")
    check(edge_order in (1, 2), "torch.gradient only supports edge_order=1 and edge_order=2.")
    dims = list(range(self.ndim)) if given is None else list(wrap_dims(given, self.ndim))
    check(self.ndim or not given, no_dimensions(given[0] if given else 0))
    long = all(self.shape[d] > edge_order for d in dims)
    check(long, "torch.gradient expected each dimension size to be at least edge_order+1")
    return dims


def _even(x: ndarray, axis: int, spacing: Any, edge_order: int) -> ndarray:
    """Return the derivative along an axis whose points are ``spacing`` apart."""
    part = lambda *bounds: along(x, axis, *bounds)
    if edge_order == 1:
        first = div(sub(part(1, 2), part(0, 1)), spacing)
        last = div(sub(part(-1, None), part(-2, -1)), spacing)
    else:
        first = div(_sum_of([-1.5, 2, -0.5], [part(0, 1), part(1, 2), part(2, 3)]), spacing)
        # Twice an integer may wrap before the subtraction.
        last = add(sub(mul(0.5, part(-3, -2)), mul(2, part(-2, -1))), mul(1.5, part(-1, None)))
        last = div(last, spacing)
    inner = div(sub(part(2, None), part(0, -2)), spacing)
    return _joined(x, [first, div(inner, 2), last], axis)


def _joined(x: ndarray, parts: list[ndarray], axis: int) -> ndarray:
    """Concatenate the parts, in the memory format that torch's results for slices of ``x`` suggest."""
    out = cat(parts, axis)
    slices = [along(x, axis, *bounds) for bounds in ((0, 1), (1, -1), (-1, None))]
    laid = [(s.shape, stride_rules.iterated([stride_rules.layout_of(s)])) for s in slices]
    return stride_rules.place(out, stride_rules.in_format(out.shape, stride_rules.joined(laid)))


def _sum_of(weights: Sequence[Any], parts: Sequence[ndarray]) -> ndarray:
    a, b, c = (mul(w, p) for w, p in zip(weights, parts, strict=True))
    return add(add(a, b), c)


def _uneven(x: ndarray, axis: int, points: ndarray, edge_order: int) -> ndarray:
    """Return the derivative along an axis with given coordinates."""
    steps = diff(points)
    left, right = steps[:-1], steps[1:]
    both = add(left, right)
    shape = [-1 if i == axis else 1 for i in range(x.ndim)]
    part = lambda *bounds: along(x, axis, *bounds)
    weights = [div(neg(right), mul(left, both)), div(sub(right, left), mul(left, right)), div(left, mul(right, both))]
    inner = _sum_of([w.reshape(shape) for w in weights], [part(0, -2), part(1, -1), part(2, None)])
    words = f"select(): index {edge_order - 1} out of range for tensor of size [{steps.size}] at dimension 0"
    check(steps.size >= edge_order, words, IndexError)
    if edge_order == 1:
        first = div(sub(part(1, 2), part(0, 1)), steps[0, ...])
        last = div(sub(part(-1, None), part(-2, -1)), steps[-1, ...])
        return _joined(x, [first, inner, last], axis)
    l, r, b = left[0, ...], right[0, ...], both[0, ...]
    weights = [div(neg(add(mul(l, 2.0), r)), mul(l, b)), div(b, mul(l, r)), div(neg(l), mul(r, b))]
    first = _sum_of(weights, [part(0, 1), part(1, 2), part(2, 3)])
    l, r, b = left[-1, ...], right[-1, ...], both[-1, ...]
    weights = [div(r, mul(l, b)), div(neg(b), mul(l, r)), div(add(mul(r, 2.0), l), mul(r, b))]
    last = _sum_of(weights, [part(-3, -2), part(-2, -1), part(-1, None)])
    return _joined(x, [first, inner, last], axis)


def _by_steps(self: ndarray, dim: Any, edge_order: int, *, spacing: Any = 1) -> list[ndarray]:
    several = isinstance(spacing, (list, tuple))
    dims = _dims(self, len(spacing) if several else None, dim, edge_order)
    steps = spacing if several else [1 if spacing is None else spacing] * len(dims)
    return [_even(self, axis, step, edge_order) for axis, step in zip(dims, steps, strict=True)]


def _by_points(self: ndarray, spacing: Sequence[ndarray], dim: Any, edge_order: int) -> list[ndarray]:
    dims = _dims(self, len(spacing), dim, edge_order)
    found = []
    for axis, points in zip(dims, spacing, strict=True):
        words = f"one dimension, but got an element with {points.ndim} dimensions!"
        check(points.ndim == 1, f"torch.gradient expected each element of spacing to have {words}")
        found.append(_uneven(self, axis, points, edge_order))
    return found


# ---------------------------------------------------------------- rows

_OVER = "dimensions, by default all,"
_DIFFERS = ["int-to-default-float", "derivatives-no-bytes", "derivatives-in-integers"]
for _names, _body, _doc, *_also in (
    ("gradient.scalarint", _by_steps, f"{_OVER} with one spacing"),
    (
        "gradient.scalarrayint",
        _by_steps,
        f"{_OVER} with a spacing for each",
        "derivatives-spacings",
        "half-opmath",
    ),
    ("gradient.scalararray gradient.scalarrayarray", _by_steps, "the listed dimensions", "derivatives-spacings"),
    ("gradient.array", _by_steps, "the listed dimensions, with a spacing of 1"),
    ("gradient.tensorarrayint", _by_points, f"{_OVER} with the coordinates of the points"),
    (
        "gradient.tensorarray",
        _by_points,
        "the listed dimensions, with the coordinates of the points",
        "derivatives-of-one-point",
    ),
):
    rows(
        _names,
        _body,
        f"Derivatives along {_doc}.",
        like=np.gradient,
        differs=[*_DIFFERS, *_also],
    )
