"""Amendments for linear algebra: factors, tolerances, norms, Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from .explain_disagreements import amends, expects, refuse
from .natural_call import NaturalCall
from .template_helpers import stored


@amends("qr-mode-r", stage=3)
def return_empty_q(call: NaturalCall) -> Any:
    if call.given.get("mode") != "r":
        return False
    dtype = call.first.dtype
    call.after.append(lambda r: (np.empty(0, dtype), r))
    return True


@amends("svd-reduced", stage=2)
def use_reduced_factors(call: NaturalCall) -> Any:
    if {"full_matrices", "some"} & call.given.keys() or not call.full()["compute_uv"]:
        return False
    call.kwargs["full_matrices"] = False
    return True


@amends("svd-v", stage=3)
def return_v_not_transposed(call: NaturalCall) -> Any:
    if not call.full()["compute_uv"]:
        return False
    call.after.append(lambda out: (out[0], out[1], np.conj(np.swapaxes(out[2], -1, -2))))
    return True


@amends("svd-without-vectors", stage=3)
def return_placeholder_vectors(call: NaturalCall) -> Any:
    """Return empty arrays in place of the vectors, or zero matrices for `svd`."""
    full, x = call.full(), call.first
    if full["compute_uv"]:
        return False
    m, n = x.shape[-2:]
    shapes = [(*x.shape[:-2], k, k) for k in (m, n)] if "some" in full else [(0,), (0,)]
    u, v = (np.zeros(shape, x.dtype) for shape in shapes)
    call.after.append(lambda s: (u, s, v))
    return True


@amends("svd-driver", stage=0)
def refuse_driver(call: NaturalCall) -> Any:
    return refuse(call) if "driver" in call.given and call.first.size else False


@amends("rank-tolerance", stage=2)
def scale_tolerance_by_size(call: NaturalCall) -> Any:
    if {"rcond", "rtol", "atol"} & call.given.keys():
        return False
    call.kwargs["rtol"] = None
    return True


@amends("tolerance-of-zero", stage=1)
def use_default_tolerance(call: NaturalCall) -> Any:
    if np.any(call.given.get("atol", 1)):
        return False
    del call.given["atol"]
    return True


@amends("rank-of-vectors", stage=0)
def refuse_vectors(call: NaturalCall) -> Any:
    return refuse(call) if call.first.ndim < 2 else False


@amends("tolerance-tensors", stage=3)
def apply_tolerance_per_matrix(call: NaturalCall) -> Any:
    """Apply a tolerance for each matrix of the batch; tolerances must be real."""
    x, cut = call.first, call.given["rcond"]
    if cut.dtype.kind == "c":
        return refuse(call)

    def pseudoinverse(x: Any, **_: Any) -> Any:
        u, s, vh = np.linalg.svd(x, full_matrices=False)
        kept = s > cut[..., None] * s.max(axis=-1, keepdims=True, initial=0)
        inverse = np.where(kept, 1 / s, 0).astype(s.dtype)
        return np.swapaxes(vh, -1, -2).conj() * inverse[..., None, :] @ np.swapaxes(u, -1, -2).conj()

    call.f = pseudoinverse if x.size else lambda x, **_: np.swapaxes(x, -1, -2).copy()
    return True


@amends("solve-vectors", stage=3)
def solve_batch_of_vectors(call: NaturalCall) -> Any:
    a, b = call.given["A"], call.given["B"]
    if b.ndim == 1 or a.ndim - 1 != b.ndim or a.shape[:-1] != b.shape:
        return False
    call.given["B"] = b[..., None]
    call.after.append(lambda x: x[..., 0])
    return True


@amends("cond-of-zero", stage=5)
def return_nan_for_zero_matrices(call: NaturalCall) -> Any:
    nothing = (call.first == 0).all(axis=(-2, -1))
    call.after.append(lambda out: np.where(nothing, np.asarray(np.nan, out.dtype), out))
    return True


@amends("cond-of-singular", stage=3)
def compute_condition_by_singular_values(call: NaturalCall) -> Any:
    if call.given["p"] != "nuc" or not call.first.size:
        return False

    def ratio(x: Any, p: str) -> Any:
        s = np.linalg.svdvals(x)
        return s.sum(axis=-1) * (1 / s).sum(axis=-1)

    call.f = ratio
    return True


@amends("vander-needs-two", stage=0)
def refuse_fewer_than_two_columns(call: NaturalCall) -> Any:
    return refuse(call) if call.given.get("N", call.first.shape[-1:] or (1,)) in (0, 1, (0,), (1,)) else False


@amends("vander-increasing", stage=2)
def use_increasing_powers(call: NaturalCall) -> Any:
    call.kwargs["increasing"] = True
    return True


@amends("vander-of-rows", stage=3)
def build_matrix_of_each_row(call: NaturalCall) -> Any:
    if call.first.ndim == 1:
        return False
    wide = lambda x: x.astype(np.int64) if x.dtype.kind in "bui" else x
    call.f = lambda x, n=None, **_: np.atleast_1d(wide(x))[..., None] ** np.arange(n or x.shape[-1])
    return True


# ---------------------------------------------------------------- least squares


def residual_sums(call: NaturalCall, x: np.ndarray) -> np.ndarray:
    """Return the residual sums of squares of least-squares solutions."""
    a, b = call.given["self"], call.given["b"]
    vectors = b.ndim == a.ndim - 1 and a.shape[:-1] == b.shape
    left = (b[..., None] - a @ x[..., None]) if vectors else b - a @ x
    return (np.abs(left) ** 2).sum(-2)


@amends("lstsq-results", stage=4)
def return_results_of_driver(call: NaturalCall) -> Any:
    """Return residuals except for gelsy, ranks except for gels, and singular values only for gelsd and gelss."""
    real, driver = call.first.real.dtype, call.given.get("driver", "gelsy")
    m, n = call.first.shape[-2:]

    def shown(out: Any) -> Any:
        x, _, rank, values = out
        told = m > n and driver != "gelsy" and (driver == "gels" or np.all(rank == n))
        residuals = np.atleast_1d(residual_sums(call, x)) if told else np.empty(0, real)
        ranks = np.empty(0, np.int64) if driver == "gels" else np.asarray(rank).astype(np.int64)
        return x, residuals, ranks, values if driver in ("gelsd", "gelss") else np.empty(0, real)

    call.after.append(shown)
    return True


@amends("lstsq-tolerance", stage=2)
def use_epsilon_of_dtype(call: NaturalCall) -> Any:
    if "rcond" in call.given:
        return False
    call.kwargs["rcond"] = np.finfo(call.first.dtype).eps * max(call.first.shape[-2:])
    return True


@amends("slogdet-sign-of-zero", stage=5)
def keep_sign_of_zero_determinant(call: NaturalCall) -> Any:
    """Compute the sign as torch does, as the product of the diagonal's signs and the sign of the row exchanges.

    A zero sign then keeps its own sign: 0 times -1 is -0.
    """
    lu, pivots = scipy.linalg.lu_factor(call.first, check_finite=False)
    exchanges = int((pivots != np.arange(len(pivots))).sum())
    sign = np.prod(np.sign(np.diag(lu))) * lu.dtype.type((-1) ** exchanges)
    call.after.append(lambda out: (sign if out[0] == 0 else out[0], out[1]))
    return True


@amends("vecdot-broadcasts", stage=2)
def sum_products(call: NaturalCall) -> Any:
    vectors = all(x.ndim == 1 for x in call.arrays())
    call.f = lambda x, y, axis=-1: (np.conjugate(x) * y).sum(-1 if vectors else axis)
    return True


@amends("fft-dims-unique", stage=0)
def refuse_repeated_dims(call: NaturalCall) -> Any:
    dims = call.full().get("dim") or ()
    return refuse(call) if len({d % call.first.ndim for d in dims}) < len(dims) else False


@amends("lstsq-batches", stage=3)
def solve_each_matrix(call: NaturalCall) -> Any:
    a, b = call.given["self"], call.given["b"]
    if a.ndim < 3:
        return False
    vectors = b.ndim == a.ndim - 1 and a.shape[:-1] == b.shape
    b = b[..., None] if vectors else b
    batch, f = np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), call.f
    a, b = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b))

    def solved(*args: Any, **how: Any) -> Any:
        found = [f(a[i], b[i], **how) for i in np.ndindex(*batch)]
        together = lambda k: np.reshape([np.asarray(r[k]) for r in found], (*batch, *np.shape(found[0][k])))
        x, rank, values = together(0), together(2), together(3)
        return x[..., 0] if vectors else x, None, rank, values

    call.f = solved
    return True


@expects("lstsq-drivers", "value", "shape")
def has_driver_dependent_rank(call: NaturalCall) -> Any:
    """Return whether the result depends on the driver.

    gels assumes full rank. Only gelsd replaces a ``rcond`` outside (0, 1) by machine epsilon.
    """
    limit, sizes = call.given.get("rcond", 0.5), call.first.shape[-2:]
    deficient = (np.linalg.matrix_rank(call.first) < min(sizes)).any()
    return not 0 < limit < 1 or (call.given.get("driver") == "gels" and deficient)


# ---------------------------------------------------------------- FFT sizes and normalization


@amends("fft-of-nothing", stage=0)
def refuse_empty_input(call: NaturalCall) -> Any:
    return False if call.first.size else refuse(call)


@amends("fft-normalization", stage=2)
def map_normalization(call: NaturalCall) -> Any:
    """Treat any normalization other than 0 and 1 as 1 / n; swap NumPy's modes for inverse transforms."""
    asked = call.given["normalization"]
    scale = asked if asked in (0, 1) else 2
    call.given["normalization"] = scale if call.given.get("forward", "onesided" in call.given) else 2 - scale
    return call.given["normalization"] != asked


# ---------------------------------------------------------------- FFTs with out=


@amends("fft-out-kind", stage=0)
def refuse_out_of_other_kind(call: NaturalCall) -> Any:
    real = call.f in (np.fft.irfft, np.fft.hfft, np.fft.irfftn, np.fft.irfft2)
    return False if call.target is None or call.target.dtype.kind == "fc"[not real] else refuse(call)


@amends("fft-out-exact", stage=0)
def refuse_out_of_other_dtype(call: NaturalCall) -> Any:
    x = call.first
    if call.target is None or x.dtype.kind == "c":
        return False
    exact = np.result_type(x if x.dtype.kind == "f" else np.float32, np.complex64)
    return False if call.target.dtype == exact else refuse(call)


@amends("fft-out-ignored", "fft-out-sized", "fft-out-casts", stage=4)
def write_result_to_out(call: NaturalCall) -> Any:
    out = call.target
    if out is None:
        return False
    call.without_target()
    call.after.append(lambda r: stored(r, out))
    return True
