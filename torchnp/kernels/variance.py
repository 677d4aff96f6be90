"""Variance, standard deviation and covariance."""

from __future__ import annotations

import math
import warnings
from functools import partial
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, refuse
from torchnp.core.errors import not_implemented
from torchnp.core.fast_path import Quick, axes, within
from torchnp.core.inplace_out_spec import Bound, WriteSpec, store
from torchnp.core.python_scalars import number, real, single
from torchnp.core.registry import kernel
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._reduction import FEW, add_reduce, axes_of, length_of, listed_axes, ones, ordered
from torchnp.kernels.arithmetic import div, mul, sub
from torchnp.kernels.extrema import reduced_shape
from torchnp.kernels.matmul import mm
from torchnp.kernels.numerics.blocks import STRIP
from torchnp.kernels.reduce import sum_all, sum_dim
from torchnp.layout import stride_rules
from torchnp.layout.overlap import check_target
from torchnp.threads import blocks, share

ndarray = np.ndarray
cast64 = partial(dt.cast, dtype=dt.float64)

# ---------------------------------------------------------------- variance and standard deviation

_DIFFERS = [
    "correction", "empty-dim", "zero-dim-axis", "no-integers", "half-opmath", "variance-in-double", "variance-of-nothing",
]  # fmt: skip


def _moments(
    name: str, x: ndarray, dim: Any, correction: Any, keepdim: bool, into: np.dtype | None = None
) -> tuple[ndarray, ndarray]:
    """Return the variance (or its root, by ``name``) and the mean; ``into`` is the variance's dtype for complex input.

    torch accumulates in float64 even for float32, so a small variance next to a large mean is accurate.
    """
    who = f"{name} only support" if name.endswith("_mean") else "std and var only support"
    check(dt.is_inexact(x.dtype), f"{who} floating point and complex dtypes")
    correction = 1 if correction is None else real(correction)
    axes = axes_of(dim, x.ndim, ranges_first=False)
    if x.dtype in dt.FLOAT8S and x.size:
        if name.endswith("_mean") or length_of(x.shape, axes) < x.size:
            raise not_implemented("std_cpu", x.dtype)
        raise RuntimeError(f"std_var_all: Unsupported dtype {dt.scalar_name(x.dtype)}")
    n = length_of(x.shape, axes)
    freedom = n - correction
    complexes = dt.cast(x, dt.complex128) if x.dtype == dt.complex32 else x
    parts = [complexes.real, complexes.imag] if dt.is_complex(x.dtype) else [x]
    # If only the variance of all elements is asked for, torch uses their sum, else a running mean. For narrower dtypes
    # both are exact in float64, or nearly so.
    running = x.dtype in (dt.float64, dt.complex128) and (n != x.size or name.endswith("_mean"))
    found = [_in_blocks(part, axes, n, keepdim, running) for part in parts]
    if freedom <= 0 and found[0][0].size:
        words = f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor"
        warnings.warn(f"{words} (input numel divided by output numel).", UserWarning, stacklevel=2)
    spreads = [t / np.float64(freedom if n and freedom > 0 else 0.0) for t, _ in found]
    into = into or dt.to_real(x.dtype)
    if len(found) == 2:  # torch computes the variance of each part as a separate result, and rounds it
        real_dtype = dt.to_real(into)
        spreads = [
            dt.cast(dt.cast(dt.cast(s, dt.to_real(x.dtype)), real_dtype), dt.opmath(real_dtype)) for s in spreads
        ]
        spreads = [dt.cast(spreads[0] + spreads[1], real_dtype).astype(np.float64)]
    spread = spreads[0].astype(np.complex128) if dt.is_complex(into) else spreads[0]
    mean = np.empty(found[0][0].shape, dt.complex128 if len(parts) == 2 else dt.float64)
    mean.real = found[0][1]
    if len(found) == 2:
        mean.imag = found[1][1]
    spread = np.asarray(np.sqrt(spread) if name.startswith("std") else spread)
    return dt.cast(spread, into), dt.cast(mean, x.dtype)


def _spread_and_mean(x: ndarray, axes: Any, n: int, keepdim: bool, running: bool) -> tuple[ndarray, ndarray]:
    """Return the sum of squared distances from the mean, and the mean.

    With ``running``, the mean is as accurate as torch's running mean, which is exact for equal numbers: their variance
    is 0.
    """
    mean = np.asarray(add_reduce(x, axes, True)) / np.float64(n)
    d = x - mean
    if running:
        slip = np.asarray(add_reduce(d, axes, True)) / np.float64(n)
        if (slip != 0).any():
            mean = np.where(np.isfinite(slip), mean + slip, mean)
            d = x - mean
    total = np.asarray(add_reduce(np.multiply(d, d, d if np.ndim(d) else None), axes, keepdim))
    return total, _running_mean(x, mean, axes).reshape(total.shape)


def _of_all_elements(x: ndarray, n: int, shape: tuple[int, ...], running: bool) -> tuple[ndarray, ndarray]:
    """Compute `_spread_and_mean` of all elements of a dense tensor, piece by piece."""
    flat = x.reshape(-1)
    pieces = [flat[part] for part in blocks(flat.size, STRIP)]
    summed = lambda term: np.asarray(add_reduce(np.array([add_reduce(term(cast64(part))) for part in pieces])))
    mean = summed(lambda part: part) / np.float64(n)
    if running:
        slip = summed(lambda part: part - mean) / np.float64(n)
        mean = np.where((slip != 0) & np.isfinite(slip), mean + slip, mean)
    total = summed(lambda part: np.square(part - mean))
    return total.reshape(shape), _running_mean(flat, mean, (0,)).reshape(shape)


def _in_blocks(x: ndarray, axes: Any, n: int, keepdim: bool, running: bool) -> tuple[ndarray, ndarray]:
    """Compute `_spread_and_mean` of a large tensor block by block, so that only a block is held in float64."""
    axes = tuple(a % x.ndim for a in listed_axes(axes, x.ndim))
    kept = [i for i in range(x.ndim) if i not in axes and x.shape[i] > 1]
    if x.size <= 2 * STRIP or not (kept or x.flags.c_contiguous):
        return _spread_and_mean(cast64(x), axes, n, keepdim, running)
    if not kept:
        return _of_all_elements(x, n, reduced_shape(x.shape, axes, keepdim), running)
    axis = max(kept, key=lambda i: x.shape[i])
    out = [np.empty(reduced_shape(x.shape, axes, True)) for _ in range(2)]

    def work(part: slice) -> None:
        place = (slice(None),) * axis + (part,)
        for whole, found in zip(out, _in_blocks(x[place], axes, n, True, running)):
            whole[place] = found

    share(work, blocks(x.shape[axis], max(STRIP * x.shape[axis] // x.size, 1)))
    shape = reduced_shape(x.shape, axes, keepdim)
    return out[0].reshape(shape), out[1].reshape(shape)


def _running_mean(x: ndarray, mean: ndarray, axes: Any) -> ndarray:
    """Return the mean as torch updates it, element by element: an infinity makes it NaN unless it comes last."""
    if not np.isinf(mean).any():
        return mean
    axes = listed_axes(axes, x.ndim)
    rows = np.moveaxis(x, axes, range(-len(axes), 0)).reshape(*reduced_shape(x.shape, axes, False), -1)
    early = np.logical_not(np.isfinite(rows[..., :-1])).any(-1).reshape(mean.shape)
    return np.where(np.isinf(mean) & early, np.nan, mean)


def _quick(root: bool) -> Quick:
    """Return a fast path for the variances of the short rows of a small contiguous float32 matrix, or their ``root``."""

    def quick(self, dim=None, *, correction=None, keepdim=False):
        if type(self) is not ndarray or self.dtype is not dt.float32 or self.ndim != 2 or not 0 < self.size <= FEW:
            return None
        n = self.shape[1]
        if keepdim is not False or n > 16 or axes(dim, 2) not in ((1,), (-1,)) or not self.flags.c_contiguous:
            return None
        if correction is not None and type(correction) is not int and type(correction) is not float:
            return None
        freedom = n - (1 if correction is None else correction)
        if not 0 < freedom <= 1e18:
            return None
        x = self.astype(np.float64)
        mean = x.dot(ones((n, n), dt.float64))  # the row's mean in every column, which avoids broadcasting
        np.divide(mean, number(n, dt.float64), mean)
        np.subtract(x, mean, x)
        total = np.multiply(x, x, x).dot(ones(n, dt.float64))
        np.divide(total, number(float(freedom), dt.float64), total)
        return (np.sqrt(total, total) if root else total).astype(dt.float32)

    return within(1, quick, "both sum in double, in another order, and round to float once")


def _of_parts(x: ndarray, dtype: np.dtype) -> ndarray:
    """Round the real and imaginary parts of complex numbers to a real dtype."""
    wide = dt.cast(x, dt.complex128).copy()
    for part in (wide.real, wide.imag):
        part[...] = dt.cast(part, dtype)
    return wide


def _precheck_out(bound: Bound, outs: list[ndarray], op: str) -> tuple[int, ...]:
    """Check ``out=``; for complex input, or if the result is one number, also compute the result and write it.

    torch computes a result of one number in a different loop, which it chooses by the dtype of ``out=``.
    """
    x, d = bound["self"], outs[0].dtype
    dims = bound.get("dim")
    dims = [dims] if isinstance(dims, int) else dims
    reduced = range(x.ndim) if not dims else [i + x.ndim if i < 0 else i for i in dims]
    left = math.prod(n for i, n in enumerate(x.shape) if i not in reduced)
    real, is_complex = dt.to_real(x.dtype), dt.is_complex(x.dtype)
    # For complex input, torch writes the variance of each part to a separate tensor
    part = dt.to_real(d) if is_complex else d
    if not dt.is_inexact(x.dtype):
        return ()
    axes_of(bound.get("dim"), x.ndim, ranges_first=False)
    if not dt.can_cast(real, d):
        return ()
    if x.size and left > 1 and (dt.is_complex(part) or part in dt.FLOAT8S):
        raise not_implemented("std_cpu", part)
    at_once = left == 1 and not dt.is_half(part)
    if x.size and at_once and real not in (dt.float32, dt.float64):
        raise RuntimeError(f"std_var_all: Unsupported dtype {dt.scalar_name(real)}")
    if is_complex:
        if d in dt.FLOAT8S:
            raise not_implemented("add_stub", d)
        if d == dt.complex32 and op == "std":
            raise not_implemented("sqrt_vml_cpu", d)
        if not at_once:
            x = _of_parts(x, part)
    check_target(outs[0])
    if not is_complex and (not at_once or not x.size):
        return ()
    given = {k: v for k, v in bound.items() if k not in ("self", "out")}
    value = _spread(x, **given, op=op, into=d if is_complex else None)
    if at_once and not is_complex:  # torch fills ``out=`` with one number, here and for each part
        single(value.item(), d)
    elif at_once and real.itemsize > part.itemsize:
        for p in (x.real, x.imag):
            single(_spread(p, **given, op="var").item(), part)
    return store(outs[0], value)


def _spread(x, *, dim=None, unbiased=None, correction=None, keepdim=False, op, into=None):
    spread, mean = _moments(op, x, dim, correction if unbiased is None else int(unbiased), keepdim, into)
    return (spread, mean) if op.endswith("_mean") else spread


_VAR = "Sum of squared distances from the mean, divided by N - correction; correction is 1 by default."
_STD = "Square root of `var`."
_OF_ALL = ["correction", "no-integers", "half-opmath", "variance-in-double"]
_VAR_OUT = WriteSpec(out=partial(_precheck_out, op="var"), skips_memory_check=True)
_STD_OUT = WriteSpec(out=partial(_precheck_out, op="std"), skips_memory_check=True)
rows("var.correction", _spread, _VAR, like=np.var, differs=_DIFFERS, quick=_quick(False), writes=_VAR_OUT)
rows("var.dim", _spread, _VAR, like=np.var, differs=_DIFFERS, writes=_VAR_OUT)
rows("var", _spread, _VAR, like=np.var, differs=_OF_ALL)
rows("std.correction", _spread, _STD, like=np.std, differs=_DIFFERS, quick=_quick(True), writes=_STD_OUT)
rows("std.dim", _spread, _STD, like=np.std, differs=_DIFFERS, writes=_STD_OUT)
rows("std", _spread, _STD, like=np.std, differs=_OF_ALL)
rows("var_mean var_mean.dim var_mean.correction", _spread, "`var`, and the mean.", differs=_DIFFERS)
rows("std_mean std_mean.dim std_mean.correction", _spread, "`std`, and the mean.", differs=_DIFFERS)

# ---------------------------------------------------------------- covariance


@kernel("cov", like=np.cov, differs=["cov-dtype", "default-dtype", "cov-weights", "complex-infinities"])
def cov(self, *, correction=1, fweights=None, aweights=None):
    """Covariances of the rows; each column is an observation."""
    words = f"cov(): expected input to have two or fewer dimensions but got an input with {self.ndim} dimensions"
    check(self.ndim <= 2, words)
    check(self.dtype != dt.bool_, "cov(): bool dtype is not supported for input")
    rows = self.reshape((1, -1) if self.ndim < 2 else self.shape)
    w = _weights(rows.shape[1], fweights, aweights)
    total = np.asarray(rows.shape[1]) if w is None else sum_all(w)
    correction = np.asarray(correction)
    check(w is None or total, "cov(): weights sum to zero, can't be normalized")
    mean = div(sum_dim(rows if w is None else mul(rows, w), [1]), total)
    freedom = sub(total, correction)
    if aweights is not None and correction != 0:
        freedom = sub(total, div(mul(sum_all(mul(w, aweights)), correction), total))
    if freedom <= 0:
        warnings.warn("cov(): degrees of freedom is <= 0", UserWarning, stacklevel=2)
        freedom = np.zeros_like(freedom)
    d = sub(rows, mean[:, None])
    weighted = d if w is None else mul(d, w)
    out = div(mm(d, weighted.conj().T if dt.is_complex(weighted.dtype) else weighted.T), freedom)
    return out.squeeze() if out.size else stride_rules.dense(out)


def _weights(n: int, fweights: Any, aweights: Any) -> ndarray | None:
    total = None
    for name, w in (("fweights", fweights), ("aweights", aweights)):
        if w is None:
            continue
        words = f"cov(): expected {name} to have one or fewer dimensions but got {name} with {w.ndim} dimensions"
        check(w.ndim <= 1, words)
        kinds = dt.is_integral(w.dtype) if name == "fweights" else dt.is_floating(w.dtype)
        spoken = "integral" if name == "fweights" else "floating point"
        words = f"cov(): expected {name} to have {spoken} dtype but got {name} with {dt.scalar_name(w.dtype)} dtype"
        check(kinds, words)
        words = f"cov(): expected {name} to have the same numel as there are observations in the input but got"
        check(w.size == n, f"{words} {w.size} != {n}")
        if w.size:
            refuse("min_all", w.dtype, (*dt.BARE_UNSIGNED, *dt.FLOAT8S))
            check(w.min() >= 0, f"cov(): {name} cannot be negative")
        total = w.reshape(-1) if total is None else mul(total, w.reshape(-1))
    return total


@kernel("corrcoef", like=np.corrcoef, differs=["cov-dtype", "default-dtype"])
def corrcoef(self):
    """Covariances of the rows, divided by the products of their standard deviations, and clipped to [-1, 1]."""
    words = f"corrcoef(): expected input to have two or fewer dimensions but got an input with {self.ndim} dimensions"
    check(self.ndim <= 2, words)
    c = cov(self)
    if c.ndim == 0:
        return c / c
    d = np.sqrt(ordered(np.diagonal(c)).real)
    out = dt.cast(c, dt.opmath(c.dtype)) / d[:, None] / d
    if dt.is_complex(out.dtype):
        out = (np.clip(out.real, -1, 1) + 1j * np.clip(out.imag, -1, 1)).astype(out.dtype)
    else:
        out = np.clip(out, -1, 1)
    return dt.cast(out, c.dtype)
