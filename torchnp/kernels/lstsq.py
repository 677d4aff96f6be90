"""Least squares by LAPACK's drivers, which differ in how they determine rank."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import broadcast_shapes, check
from torchnp.core.registry import kernel
from torchnp.kernels.lu import check_epsilon, check_lapack, column_major, lapack, raise_first

ndarray = np.ndarray

_NAME = "torch.linalg.lstsq"


@kernel(
    "linalg_lstsq",
    like=np.linalg.lstsq,
    differs=["no-integers-linalg", "lstsq-results", "lstsq-tolerance", "lstsq-batches", "lstsq-drivers"],
)
def linalg_lstsq(self, b, rcond=None, *, driver=None):
    """Least squares solutions, and for some drivers residuals, ranks and singular values.

    "gels" assumes full rank and ignores ``rcond``; "gelsy" always counts the first column, whatever ``rcond`` is;
    for "gelsd" an ``rcond`` that is negative or at least 1 means machine epsilon.
    """
    chosen = "gelsy" if driver is None else driver
    check(self.ndim >= 2, f"{_NAME}: input must have at least 2 dimensions.")
    check(b.ndim >= 1, f"{_NAME}: other must have at least 1 dimension.")
    words = "input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1"
    check(0 <= self.ndim - b.ndim <= 1, f"{_NAME}: {words}")
    pair = f"input's dtype {dt.scalar_name(self.dtype)} and other's dtype {dt.scalar_name(b.dtype)}"
    check(self.dtype == b.dtype, f"{_NAME}: Expected input and other to have the same dtype, but got {pair}")
    vector = b.ndim == 1 or (b.ndim == self.ndim - 1 and b.shape == self.shape[:-1])
    right = b[..., None] if vector else b
    m, n = self.shape[-2:]
    check(right.shape[-2] == m, f"{_NAME}: input.size(-2) should match other.size(-{1 if vector else 2})")
    check(chosen in _DRIVERS, f"{_NAME}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")
    if rcond is None:
        check_epsilon(self)
    # If ``b`` has one dimension fewer, torch treats all its dimensions but the last as batch dimensions.
    batch = broadcast_shapes(self.shape[:-2], b.shape[:-1] if b.ndim < self.ndim else right.shape[:-2])
    check_lapack("linalg_lstsq_cpu", self, True)
    a, right = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (self, right))
    limit = np.finfo(self.dtype).eps * max(m, n) if rcond is None else rcond
    x, rank, values = _solve(a, right, float(limit), chosen)
    # The drivers write the residuals below the solution, but only if the matrix has full rank.
    told = m > n and (chosen == "gels" or (chosen != "gelsy" and bool((rank == n).all())))
    residuals = (np.abs(x[..., n:, :]) ** 2).sum(-2) if told else np.empty(0, dt.to_real(self.dtype))
    if batch != self.shape[:-2]:  # a matrix that is broadcast over several right-hand sides has one rank
        own = tuple(map(slice, self.shape[:-2]))
        rank, values = (found[own] if found.size else found for found in (rank, values))
    x = x[..., :n, :]
    return x[..., 0] if vector else x, residuals, rank, values


def _solve(a: ndarray, right: ndarray, limit: float, driver: str) -> tuple[ndarray, ndarray, ndarray]:
    """Return solutions with the residuals below them, and the ranks and singular values if ``driver`` computes them."""
    *batch, m, n = a.shape
    x = column_major((*batch, max(m, n), right.shape[-1]), a.dtype)
    x[..., :m, :] = right
    x[..., m:, :] = 0
    rank = np.zeros(0 if driver == "gels" else batch, np.int64)
    values = np.zeros((*batch, min(m, n)) if driver in ("gelsd", "gelss") else 0, dt.to_real(a.dtype))
    info = np.zeros(batch, np.int32)
    if a.size == 0 or (right.size == 0 and driver in ("gels", "gelsy")):
        if driver in ("gels", "gelsy"):
            x[...] = 0
        return x, rank, values
    for i in np.ndindex(*batch):
        info[i] = next((-argument for given, argument in ((a[i], 4), (right[i], 6)) if np.isnan(given).any()), 0)
        if info[i]:
            continue
        x[i], *counts, info[i] = _DRIVERS[driver](a[i], x[i], limit)
        for kept, count in zip((rank, values), counts, strict=False):
            kept[i] = count
    raise_first(info, _NAME)
    return x, rank, values


def _gels(a: ndarray, b: ndarray, _: float) -> tuple[Any, ...]:
    _, x, info = lapack("gels", a.dtype)(a, b)
    return x, info


def _gelsy(a: ndarray, b: ndarray, limit: float) -> tuple[Any, ...]:
    room = _room("gelsy_lwork", a, b, limit)[0]
    # torch does not clear the list of leading columns, so its result for a rank-deficient matrix may vary.
    first = np.zeros(a.shape[1], np.int32)
    _, x, _, rank, info = lapack("gelsy", a.dtype)(a, b, first, limit, room)
    return x, rank, info


def _gelsd(a: ndarray, b: ndarray, limit: float) -> tuple[Any, ...]:
    x, values, rank, info = lapack("gelsd", a.dtype)(a, b, *_room("gelsd_lwork", a, b), limit)
    return x, rank, values, info


def _gelss(a: ndarray, b: ndarray, limit: float) -> tuple[Any, ...]:
    _, x, values, rank, _, info = lapack("gelss", a.dtype)(a, b, limit)
    return x, rank, values, info


def _room(query: str, a: ndarray, b: ndarray, *limit: float) -> list[int]:
    """Return the workspace sizes that a driver asks for."""
    *sizes, _ = lapack(query, a.dtype)(*a.shape, b.shape[1], *limit)
    return [int(np.real(n)) for n in sizes]


_DRIVERS = {"gels": _gels, "gelsy": _gelsy, "gelsd": _gelsd, "gelss": _gelss}
