"""Finite differences, and the trapezoidal rule."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, dim_of, wrap_dim
from torchnp.core.inplace_out_spec import Bound, WriteSpec
from torchnp.core.registry import kernel
from torchnp.kernels._declare_rows import rows
from torchnp.kernels.arithmetic import add, div, mul, sub
from torchnp.kernels.fft_kernels import along
from torchnp.kernels.reduce import sum_dim
from torchnp.kernels.scan import cumsum
from torchnp.layout import stride_rules

ndarray = np.ndarray


def _precheck_diff(bound: Bound, outs: list[ndarray]) -> None:
    """Refuse an ``out=`` of another dtype for order 0, which copies the tensor.

    For other orders, refuse an empty dimension: torch slices it from the second element on.
    """
    x, d, n = bound["self"], outs[0].dtype, bound["n"]
    check(n != 0 or x.dtype == d, f"expected scalar_type {dt.scalar_name(x.dtype)} but found {dt.scalar_name(d)}")
    if x.ndim and n > 0:
        axis = wrap_dim(bound["dim"], x.ndim)
        parts = [p for p in (bound["prepend"], x, bound["append"]) if p is not None and p.ndim == x.ndim]
        words = "start out of range (expected to be in range of [0, 0], but got 1)"
        check(any(p.shape[axis] for p in parts), words, IndexError)


@kernel(
    "diff",
    like=np.diff,
    differs=["diff-of-number", "flip-copies", "complex-infinities", "missing-kernel"],
    writes=WriteSpec(out=_precheck_diff),
)
def diff(self, n=1, dim=-1, prepend=None, append=None):
    """The n-th differences along a dimension; for bools, whether neighbours differ."""
    check(self.ndim >= 1, "diff expects input to be at least one-dimensional")
    check(n >= 0, f"order must be non-negative but got {n}")
    parts = [p for p in (prepend, self, append) if p is not None]
    if n == 0 and len(parts) == 1:  # torch does not check the dimension
        return stride_rules.cloned(self)
    axis = wrap_dim(dim, self.ndim)
    words = "diff expects the shape of tensor to prepend or append to match that of input except along the differencing"
    for part in parts:
        check(part.ndim == self.ndim, "diff expects prepend or append to be the same dimension as input")
        for i, (a, b) in enumerate(zip(self.shape, part.shape, strict=True)):
            check(i == axis or a == b, f"{words} dimension; input.size({i}) = {a}, but got tensor.size({i}) = {b}")
    if n == 0:
        return stride_rules.cloned(self)
    common = dt.result_type(*parts)
    x = self
    if len(parts) > 1:  # the result has the memory format that all parts suggest
        x = np.concatenate([dt.cast(p, common) for p in parts], axis)
        x = stride_rules.place(
            x, stride_rules.in_format(x.shape, stride_rules.joined([stride_rules.layout_of(p) for p in parts]))
        )
    for _ in range(min(n, x.shape[axis])):
        after, before = along(x, axis, 1, None), along(x, axis, None, -1)
        x = after != before if common == dt.bool_ else sub(after, before)
        x = stride_rules.place(x, stride_rules.iterated([stride_rules.layout_of(after)]))
    return stride_rules.cloned(x) if x is self else x


# ---------------------------------------------------------------- trapezoidal rule


def _widths(name: str, y: ndarray, x: ndarray, axis: int) -> ndarray:
    """Return the width of each interval, shaped to broadcast against the sums of neighbours."""
    if x.ndim == 1:
        check(x.shape[0] == y.shape[axis], f"{name}: There must be one `x` value for each sample point")
        x = x.reshape([-1 if i == axis else 1 for i in range(y.ndim)])
    elif x.ndim < y.ndim:
        x = x.reshape((1,) * (y.ndim - x.ndim) + x.shape)
    return sub(along(x, axis, 1, None), along(x, axis, None, -1))


def _check_samples(name: str, y: ndarray, x: ndarray | None, dx: Any = 1) -> None:
    named = "`y`" if x is None else "`x` or `y`"
    bools = y.dtype == dt.bool_ or (x is not None and x.dtype == dt.bool_)
    check(not bools, f"{name}: received a bool input for {named}, but bool is not supported")
    check(not isinstance(dx, (complex, bool)), f"{name}: Currently, we only support dx as a real number.")


def _neighbours(y: ndarray, axis: int) -> ndarray:
    return add(along(y, axis, None, -1), along(y, axis, 1, None))


_NUMBER: stride_rules.Layout = ((), ())


def _area(y: ndarray, x: Any, dim: int, *, by: str) -> ndarray:
    axis = dim_of(y, dim if by == "dx" else wrap_dim(dim, y.ndim))
    if y.shape[axis] == 0:
        return stride_rules.dense(np.zeros([n for i, n in enumerate(y.shape) if i != axis], y.dtype))
    if by == "x":
        _check_samples("trapezoid", y, x)
        widths = _widths("trapezoid", y, x, axis)
        area = div(sum_dim(mul(_neighbours(y, axis), widths), axis), 2.0)
        return area if area.size else stride_rules.dense(area)
    _check_samples("trapezoid", y, None, x)
    first, last = along(y, axis, 0, 1).squeeze(axis), along(y, axis, -1, None).squeeze(axis)
    ends = add(first, last)
    area = mul(sub(sum_dim(y, axis), mul(ends, 0.5)), x)
    # The layout that TensorIterator gives the result of each step
    after = lambda *operands: (area.shape, stride_rules.iterated(operands))
    half = after(after(stride_rules.layout_of(first), stride_rules.layout_of(last)), _NUMBER)
    rest = after((area.shape, stride_rules.contiguous(area.shape)), half)
    return stride_rules.place(area, after(rest, _NUMBER)[1])


_PROMOTION = ["int-to-default-float", "int-float-promotion"]
_DIFFERS = [*_PROMOTION, "trapezoid-of-nothing", "missing-kernel"]
_row = partial(rows, like=np.trapezoid)
_row("trapezoid.x trapz.x", _area, "Area under the points (x, y) along a dimension.", by="x", differs=_DIFFERS)
_DIFFERS = [*_DIFFERS, "trapezoid-ends"]
_DOC = "Area under points at equal distances along a dimension."
_row("trapezoid.dx trapz.dx", _area, _DOC, by="dx", differs=_DIFFERS)


def _running(y: ndarray, x: ndarray | None = None, *, dx: Any = 1, dim: int) -> ndarray:
    if x is not None:
        wrap_dim(dim, y.ndim)
    _check_samples("cumulative_trapezoid", y, x, dx)
    axis = dim if x is None and not y.ndim else wrap_dim(dim, y.ndim)
    widths = dx / 2.0 if x is None else _widths("cumulative_trapezoid", y, x, axis)
    check(y.ndim > 0, "slice() cannot be applied to a 0-dim tensor.", IndexError)
    if x is None:
        return cumsum(mul(_neighbours(y, axis), widths), axis)
    return div(cumsum(mul(_neighbours(y, axis), widths), axis), 2.0)


_OF_AREA = {"differs": _PROMOTION}
rows("cumulative_trapezoid.x", _running, "Running areas under the points (x, y) along a dimension.", **_OF_AREA)
_DOC = "Running areas under points at equal distances along a dimension."
rows("cumulative_trapezoid.dx", _running, _DOC, **_OF_AREA)
