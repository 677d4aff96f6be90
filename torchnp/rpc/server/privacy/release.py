"""Noised sums and means of clipped rows: their cost, and how they are computed.

Two datasets are neighbours if they have the same shape and differ in one row. Rows are clipped to an L2 norm of C, so
one row changes their sum by at most 2 C. For exact noise, rows are rounded to a lattice. Its unit g is a power of two,
about a million times smaller than the noise. In these units, each row becomes integers whose norm, computed in
integers, is at most ``floor(C / g)``. So the sum and its sensitivity are exact, and the noise is a discrete Gaussian
whose sigma is a whole number of units. The result depends only on the noised integer. Rows with a nan or an infinity
count as zeros.

The cost of a release, and all that is visible of it except its values, follow from its `Release`, which is public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from torchnp.dtypes import dtype_name, is_floating
from torchnp.rpc.exceptions import PrivacyError
from torchnp.rpc.server.privacy import accountant
from torchnp.rpc.server.privacy.noise import discrete_gaussian
from torchnp.rpc.server.privacy.row_labels import Mixed, Rows
from torchnp.rpc.wire import dtype_of

FINE = 20  # bits of sigma in lattice units, after its leading bit
WIDEST = 1 << 31  # largest clip in units, so that sums of 2**31 rows fit in 64 bits
BLOCK = 1 << 18  # elements that are clipped per batch
REDUCTIONS = ("sum", "mean")
SMALLEST, LARGEST = 1e-140, 1e140  # range of clip and sigma whose squares neither overflow nor underflow
MOST_EPSILON = 1e6  # practically no privacy


@dataclass(frozen=True)
class Release:
    """Public parameters of a release.

    Attributes
    ----------
    dataset : str
        The dataset whose budget pays.
    reduce : str
        ``"sum"`` or ``"mean"``.
    rows : int
        Number of rows that are summed.
    dim : int
        The dimension that indexes the rows.
    shape, dtype : tuple, str
        Shape and dtype of the result.
    clip : float
        The L2 norm to which rows are clipped.
    exponent : int
        The lattice unit is 2**exponent.
    bound, noise : int
        The largest norm of a row, and the standard deviation of the noise on the sum, in units.
    """

    dataset: str
    reduce: str
    rows: int
    dim: int
    shape: tuple[int, ...]
    dtype: str
    clip: float
    exponent: int
    bound: int
    noise: int

    @property
    def rho(self) -> Fraction:
        """Cost of the release, in zCDP."""
        return accountant.gaussian_rho(Fraction(2 * self.bound), Fraction(self.noise))

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise in the result."""
        sigma = math.ldexp(self.noise, self.exponent)
        return sigma / self.rows if self.reduce == "mean" else sigma

    def terms(self) -> dict[str, Any]:
        """Return the parameters that the ledger records; a client's key is valid only for these parameters."""
        return {
            "reduce": self.reduce, "rows": self.rows, "dim": self.dim, "shape": list(self.shape), "dtype": self.dtype,
            "clip": self.clip, "exponent": self.exponent, "bound": self.bound, "noise": self.noise,
        }  # fmt: skip


def plan(
    label: Rows | Mixed | None,
    array: np.ndarray,
    reduce: str,
    clip: float,
    sigma: float | None,
    epsilon: float | None,
    delta: float,
) -> Release:
    """Compute the parameters of the release that a client requests, without looking at any value.

    Parameters
    ----------
    label, array : Label, ndarray
        The label and the values of the tensor.
    reduce, clip : str, float
        ``"sum"`` or ``"mean"``, and the L2 norm to which rows are clipped.
    sigma, epsilon : float or None
        Either the standard deviation of the noise in the result, or the largest cost of this one release at ``delta``.

    Raises
    ------
    PrivacyError
        The release is refused; the message says why.
    """
    dim, dataset = _check(label, array, reduce)
    _check_terms(clip, sigma, epsilon)
    rows = array.shape[dim]
    if sigma is not None:
        rho, total = None, Fraction(sigma) * (rows if reduce == "mean" else 1)
    else:
        assert epsilon is not None
        rho = accountant.rho_of(epsilon, delta)
        if rho < accountant.UNIT:
            raise PrivacyError(f"eps={epsilon:g} is too little for any release")
        total = Fraction(accountant.sigma_of(rho, 2 * Fraction(clip)))
    exponent = math.frexp(total.numerator / total.denominator)[1] - 1 - FINE
    unit = Fraction(2) ** exponent
    bound = math.floor(Fraction(clip) / unit)
    if bound > WIDEST or not -900 < exponent < 900:
        raise PrivacyError(
            f"noise of {float(total):.3g} on the sum of rows clipped to {clip:g} is not between a thousandth and 10**250 "
            "of the clip: take more noise, or another scale"
        )
    if not bound:
        raise PrivacyError(
            f"rows clipped to {clip:g} vanish in noise of {float(total):.3g} on their sum: take a larger clip, or less noise"
        )
    noise = math.ceil(total / unit)
    shape = array.shape[:dim] + array.shape[dim + 1 :]
    dtype = dtype_name(array.dtype) if is_floating(array.dtype) else "float64"
    made = Release(dataset, reduce, rows, dim, shape, dtype, clip, exponent, bound, noise)
    assert rho is None or made.rho <= rho
    return made


def _check_terms(clip: float, sigma: float | None, epsilon: float | None) -> None:
    """Raise PrivacyError for parameters that are invalid or whose arithmetic could leave the range of float64."""
    if not 0 < clip < math.inf:
        raise PrivacyError(f"clip is a norm above 0, not {clip}")
    if (sigma is None) == (epsilon is None):
        raise PrivacyError("give the noise of a release with sigma=, or what it may cost with eps=, not both")
    for name, value in (("sigma", sigma), ("eps", epsilon)):
        if value is not None and not 0 < value < math.inf:
            raise PrivacyError(f"{name} is a finite number above 0, not {value}")
    for name, value in (("clip", clip), ("sigma", sigma)):
        if value is not None and not SMALLEST <= value <= LARGEST:
            raise PrivacyError(
                f"{name}={value:g} is not between {SMALLEST:g} and {LARGEST:g}: take another one, or another scale"
            )
    if epsilon is not None and epsilon > MOST_EPSILON:
        raise PrivacyError(f"eps={epsilon:g} is more than any release may cost, which is {MOST_EPSILON:g}")


def _check(label: Rows | Mixed | None, array: np.ndarray, reduce: str) -> tuple[int, str]:
    shape = tuple(array.shape)
    if label is None:
        raise PrivacyError(
            f"this tensor of shape {shape} is public: publish() gives its exact values, and costs nothing"
        )
    if isinstance(label, Mixed):
        raise PrivacyError(
            f"this tensor of shape {shape} mixes an owner's rows (at {label.by}), so a sum over them cannot be bounded: "
            "release one value for each row, before any sum, sort or mean over the rows; for gradients, those of "
            "torch.func.vmap(torch.func.grad(loss))"
        )
    if reduce not in REDUCTIONS:
        raise PrivacyError(f"reduce is 'sum' or 'mean', not {reduce!r}")
    if array.dtype.kind == "c":
        raise PrivacyError("complex rows are not released: take torch.view_as_real of them")
    if not array.shape[label.dim]:
        raise PrivacyError(f"this tensor of shape {shape} has no rows")
    return label.dim, label.dataset


def draw(array: np.ndarray, release: Release) -> np.ndarray:
    """Compute the noised sum or mean, with new noise each time."""
    rows = np.moveaxis(array, release.dim, 0)
    width = math.prod(release.shape)
    total = np.zeros(width, np.int64)
    step = max(1, BLOCK // max(width, 1))
    for start in range(0, release.rows, step):
        block = rows[start : start + step].astype(np.float64)
        total += lattice_rows(block.reshape(len(block), width), release).sum(0)
    total += discrete_gaussian(width, release.noise)
    with np.errstate(over="ignore", under="ignore"):
        value = np.ldexp(total.astype(np.float64), release.exponent)
        if release.reduce == "mean":
            value /= release.rows
        return value.astype(dtype_of(release.dtype)).reshape(release.shape)


def lattice_rows(rows: np.ndarray, release: Release) -> np.ndarray:
    """Clip rows and round them to int64 units.

    Each row's norm is then at most ``release.bound``, which is checked in integers.

    The result for a row depends only on that row, and the steps are the same for all rows.
    """
    bound = release.bound
    with np.errstate(all="ignore"):
        usable = np.isfinite(rows).all(1, keepdims=True)
        rows = np.where(usable, rows, 0.0)
        largest = np.abs(rows).max(1, keepdims=True, initial=0.0)
        scaled = np.where(largest > 0, rows / largest, 0.0)
        norm = np.sqrt((scaled * scaled).sum(1, keepdims=True))  # of the scaled row, whose largest entry is 1
        length = np.minimum(np.ldexp(largest, -release.exponent), bound / np.maximum(norm, 1.0))
        exact = np.nan_to_num(scaled * length, nan=0.0, posinf=0.0, neginf=0.0)
    nearest = np.clip(np.rint(exact), -bound, bound).astype(np.int64)
    inner = np.clip(np.trunc(exact * (1 - 2.0**-30)), -bound, bound).astype(np.int64)
    return np.where(_within(nearest, bound), nearest, np.where(_within(inner, bound), inner, 0))


def _within(rows: np.ndarray, bound: int) -> np.ndarray:
    """Return whether the norm of each integer row is at most the bound (itself at most 2**31), in exact arithmetic."""
    squares = (rows * rows).astype(np.uint64)  # at most 2**62
    low = (squares & np.uint64(2**31 - 1)).sum(1, keepdims=True)
    high = (squares >> np.uint64(31)).sum(1, keepdims=True) + (low >> np.uint64(31))
    low &= np.uint64(2**31 - 1)
    most_high, most_low = divmod(bound * bound, 2**31)
    return (high < most_high) | ((high == most_high) & (low <= most_low))
