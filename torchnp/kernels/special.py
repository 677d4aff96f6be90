"""Special functions; SciPy is imported at the first call of a function that needs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, require
from torchnp.core.inplace_out_spec import NO_VECTORS, Bound, WriteSpec
from torchnp.core.python_scalars import number, scalar
from torchnp.core.registry import kernel
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._elementwise import FLOATS, WIDE, binary, check_result_dtype, finish, int_to_float, same, unary
from torchnp.kernels.arithmetic import add, add_scalar, mul
from torchnp.kernels.numerics import bessel_airy, erf
from torchnp.kernels.numerics.erf import scipy_special
from torchnp.kernels.numerics.fma import fast_fma, horner

ndarray = np.ndarray
_FLOAT = ["int-to-default-float", "half-opmath"]
_NO_HALF = ["int-to-default-float", "missing-kernel"]
_DOUBLE = ["int-to-default-float", "scipy-in-double"]
_POLYGAMMA = [*_DOUBLE, "coarse-special", "polygamma-order", "trigamma-poles", "zeta-of-infinity"]
_MULTIGAMMA = [*_DOUBLE, "multigammaln-domain", "lgamma-of-minus-infinity"]

# ---------------------------------------------------------------- error function and relatives


def _float(names: str, function: Any, scipy: str, *also: str, **given: Any) -> Callable[[Any], ndarray]:
    """Declare a `unary` op of floats; integers are converted to the default dtype.

    ``scipy`` is the name of SciPy's function, ``also`` lists further differences.
    """
    differs = [*(_NO_HALF if given.get("takes") is WIDE else _FLOAT), *also]
    return unary(names, function, int_to_float, like=scipy_special(scipy), differs=differs, **{"takes": FLOATS} | given)


erf_of_tensor = _float("erf special_erf", erf.erf, "erf", half=erf.erf_of_half, cpu="erf_vml_cpu")
_float("erfc special_erfc", erf.erfc, "erfc", "scipy-rounding", cpu="erfc_vml_cpu")
_float("erfinv special_erfinv", erf.erfinv, "erfinv", "erfinv-of-negative-zero", cpu="erfinv_vml_cpu")
_float("special_erfcx", erf.erfcx, "erfcx", cpu="erfcx_cpu", takes=WIDE)
_float("special_ndtri", scipy_special("ndtri"), "ndtri", cpu="ndtri_cpu", takes=WIDE)
_float("special_log_ndtr", erf.log_ndtr, "log_ndtr", cpu="log_ndtr_cpu", takes=WIDE)
rows(
    "special_ndtr", lambda x: mul(add_scalar(erf_of_tensor(mul(x, 0.7071067811865476)), 1), 0.5),
    "The standard normal CDF; half types are rounded at each step.",
    like=scipy_special("ndtr"), differs=[*_FLOAT, "ndtr-by-erf", "missing-kernel"], writes=WriteSpec(dtype_before_target=True),
)  # fmt: skip

# ---------------------------------------------------------------- gamma


def _lgamma(x: ndarray) -> ndarray:
    """Compute lgamma with SciPy, with torch's results at -inf (inf), near 0, and for large float32 (early overflow)."""
    value = scipy_special("gammaln")(x)
    size = np.abs(x)
    if x.dtype == dt.float64:
        value = np.where(size < 1e-300, -np.log(size), value)
    limit = 4.0371103180829464e36 if x.dtype == dt.float32 else np.inf
    return np.where(size >= limit, x.dtype.type(np.inf), value)


DIGAMMA = (
    *(8.33333333333333333333e-2, -2.10927960927960927961e-2, 7.57575757575757575758e-3, -4.16666666666666666667e-3),
    *(3.96825396825396825397e-3, -8.33333333333333333333e-3, 8.33333333333333333333e-2),
)


def _digamma(x: ndarray) -> ndarray:
    """Compute digamma as Cephes does: recurrence steps up to 10, then the asymptotic series.

    The result is -inf at 0, inf at -0, and nan at the other poles.
    """
    real = x.dtype.type
    zero, left = x == 0, x < 0
    above = np.where(left, 1 - x, x)
    total = np.zeros_like(above)
    for _ in range(10):
        low = above < 10
        if not low.any():
            break
        total = np.where(low, total - 1 / above, total)
        above = np.where(low, above + 1, above)
    z = 1 / (above * above)
    series = np.where(above < 1e17, horner(z, DIGAMMA), real(0))
    value = fast_fma(-z, series, total + bessel_airy.in_double(np.log, above) - real(0.5) / above)
    value = np.where(above == 10, total + real(2.25175258906672110764), value)
    if left.any():
        wide = x.astype(np.float64)
        rest = wide - np.trunc(wide)
        reflected = value - (np.pi / np.tan(np.pi * rest)).astype(x.dtype)
        value = np.where(left, np.where(rest == 0, real(np.nan), reflected), value)
    return np.where(zero, np.copysign(real(np.inf), -x), value)


digamma = _float("digamma special_digamma special_psi", _digamma, "digamma", "missing-kernel", cpu="digamma")
lgamma = _float("lgamma special_gammaln", _lgamma, "gammaln", "lgamma-of-minus-infinity", cpu="lgamma_vml_cpu")


@kernel("polygamma", "special_polygamma", like=scipy_special("polygamma"), differs=_POLYGAMMA)
def polygamma(n: int, self: ndarray) -> ndarray:
    """The n-th derivative of digamma."""
    check(n >= 0, "polygamma(n, x) does not support negative n.")
    if n == 0:
        return digamma(self)
    out = int_to_float(self.dtype)
    require("trigamma" if n == 1 else "polygamma", out, FLOATS)
    x = dt.cast(dt.cast(self, out), dt.opmath(out))
    if n == 1:
        return finish(_trigamma(x), out)
    kind = x.dtype.type
    factorial = np.exp(np.float64(kind(scipy_special("gammaln")(n + 1.0))))  # inexact, as in torch
    factor = kind(factorial if n % 2 else -factorial)
    # torch computes the terms of half types in float32, where they cancel below zero.
    zeta = _zeta_in_single(n + 1, x) if dt.is_half(out) else _zeta(np.float64(n + 1), x.astype(np.float64))
    return finish(factor * dt.cast(dt.cast(zeta, out), x.dtype), out)


def _zeta_in_single(order: int, q: ndarray) -> ndarray:
    x, q = np.broadcast_arrays(np.float32(order), q)
    value = _zeta_series(x, q)
    return np.where((q <= 0) & (q == np.floor(q)), np.float32(np.inf), value)


def _trigamma(x: ndarray) -> ndarray:
    """Compute trigamma as torch does: reflection, six recurrence steps, asymptotic series. Poles come out finite."""
    low = x < 0.5
    sine = np.sin(x.dtype.type(np.pi) * x)
    reflected = np.where(low, -(x.dtype.type(np.pi) ** 2) / (sine * sine), x.dtype.type(0))
    x = np.where(low, 1 - x, x)
    total = reflected
    for _ in range(6):
        total = total + 1 / (x * x)
        x = x + 1
    ixx = 1 / (x * x)
    total = total + (1 + 1 / (2 * x) + ixx * (1 / 6 - ixx * (1 / 30 - ixx * (1 / 42)))) / x
    return np.where(low, -total, total)


_CODE_FIRST = WriteSpec(dtype_before_target=True)


@kernel("mvlgamma", "special_multigammaln", like=scipy_special("multigammaln"), differs=_MULTIGAMMA, writes=_CODE_FIRST)
def mvlgamma(self: ndarray, p: int) -> ndarray:
    """The logarithm of the multivariate gamma function of dimension ``p``."""
    check(self.dtype != dt.bool_, "The input tensor may not be a boolean tensor.")
    check(p >= 1, "p has to be greater than or equal to 1")
    out = int_to_float(self.dtype)
    require("arange_cpu", out, FLOATS)
    steps = dt.cast(np.arange(p) * -0.5, out)
    each = lgamma(add(dt.cast(self, out)[..., None], steps))
    total = finish(each.sum(axis=-1, dtype=dt.opmath(out)), out)
    return add_scalar(total, p * (p - 1) / 4 * float(np.log(np.pi)))


def _zeta(x: Any, q: Any) -> ndarray:
    """Compute Hurwitz zeta by SciPy, or by `_zeta_series` for infinities and where terms underflow or have poles."""
    dtype = np.result_type(x, q)
    x, q = (np.asarray(v, np.float64) for v in (x, q))
    value = np.asarray(scipy_special("zeta")(np.minimum(x, 1e300), q))
    odd = (np.isinf(x) | (q > 1e8) | (value == 0) | np.isnan(value)) & (x > 1) & (q > -_ZETA_STEPS)
    if odd.any():
        x, q = np.broadcast_arrays(x, q)
        value[odd] = _zeta_series(x[odd], q[odd])
    if dtype == dt.float32:  # torch computes the first term in float32, the others in double
        first = np.power(q, -x)
        rounding = first.astype(np.float32) - first
        value = np.where(np.isfinite(rounding), value + rounding, value)
    value = np.where((q <= 0) & (x > 1) & (x != np.floor(x)), np.nan, value)
    value = np.where((q <= 0) & (q == np.floor(q)), np.inf, value)
    return np.where(x == 1, np.inf, np.where(x < 1, np.nan, value)).astype(dtype)


# Coefficients (2 k)! / B(2 k) of the Euler-Maclaurin formula.
_ZETA = (
    *(12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9, 7.47242496e10),
    *(-2.950130727918164224e12, 1.1646782814350067249e14, -4.5979787224074726105e15),
    *(1.8152105401943546773e17, -7.1661652561756670113e18),
)
_ZETA_STEPS = 1000  # for q below minus this number, SciPy's value is used


def _power(base: ndarray, exponent: ndarray) -> ndarray:
    return np.power(base.astype(np.float64), exponent).astype(base.dtype)


def _zeta_series(x: ndarray, q: ndarray) -> ndarray:
    """Compute zeta by the steps of Cephes; for infinities these include ``0 * inf``, which is nan."""
    tiny = 2.0**-53
    total = _power(q, -x)
    a, term, done = q.copy(), np.zeros_like(q), np.zeros(q.shape, np.bool_)
    for i in range(_ZETA_STEPS + 10):
        active = ~done & ((i < 9) | (a <= 9))
        if not active.any():
            break
        a = np.where(active, a + 1, a)
        term = np.where(active, _power(a, -x), term)
        total = np.where(active, total + term, total)
        done |= active & (-tiny * total < term) & (term < tiny * total)
    above = a
    total = np.where(done, total, total + term * above / (x - 1) - 0.5 * term)
    factor, k = np.ones_like(q), 0.0
    for coefficient in _ZETA:
        factor = factor * (x + k)
        term = term / above
        step = factor * term / coefficient
        total = np.where(done, total, total + step)
        done |= np.abs(step / total) < tiny
        factor = factor * (x + k + 1)
        term = term / above
        k += 2
    return total


zeta = binary(
    "special_zeta special_zeta.other_scalar special_zeta.self_scalar", _zeta, int_to_float, cpu="zeta_cpu", takes=WIDE,
    like=scipy_special("zeta"), differs=[*_NO_HALF, "zeta-of-infinity"],
)  # fmt: skip


def _incomplete(name: str, first: float) -> Callable[[ndarray, ndarray], ndarray]:
    """Return an incomplete gamma function that is ``first`` at x = 0; zero and infinity are checked before NaN."""
    function = scipy_special(name)

    def gamma(a: ndarray, x: ndarray) -> ndarray:
        value = function(a, x)
        if x.dtype == dt.float32:  # torch's tail is 0 if its factor would be below the smallest normal number
            log_factor = a * np.log(x) - x - scipy_special("gammaln")(a)
            tail = (a > 0) & (value == value) & ((x > 1.1) & (x >= a) if first else (x <= 1) | (x <= a))
            far = (np.abs(a - x) > 0.4 * a) & (a > 0) & (value == value)
            value = np.where((log_factor < -88.72284) & far & tail, np.float32(0), value)
            lost = np.isnan(log_factor) | ((log_factor == np.inf) & (first == 0))  # torch's factor overflows
            value = np.where(lost & far, np.float32(np.nan), value)
        odd = (value != value) & ~(a <= 0) & ~(x < 0)
        if odd.any():
            start, end = odd & ((x == 0) | np.isinf(a)) & ~np.isinf(x), odd & np.isinf(x) & ~np.isinf(a)
            value = np.where(start, value.dtype.type(first), np.where(end, value.dtype.type(1 - first), value))
        return value

    return gamma


for _name, _also, _first in (("gammainc", "igamma special_gammainc", 0), ("gammaincc", "igammac special_gammaincc", 1)):
    binary(
        _also, _incomplete(_name, _first), cpu=f"{_also.split()[0]}_cpu", takes=FLOATS, like=scipy_special(_name),
        differs=["float-functions-refuse-integers", "igamma-of-nan", "half-opmath"],
    )  # fmt: skip

# ---------------------------------------------------------------- products with logarithms


def _with_log(name: str, log: Callable[[ndarray], ndarray], names: str) -> Callable[[Any, Any], ndarray]:
    """Declare ``x * log(y)``, which is 0 if x is 0 and y not nan; torch rounds the logarithm of half types first."""
    product = lambda x, y: np.where(np.isnan(y), y, np.where(x == 0, number(0, x.dtype), x * log(y)))
    return binary(
        names, product, int_to_float, cpu=f"{name}_cpu", takes=FLOATS, compute=same, like=scipy_special(name),
        differs=_DOUBLE, writes=NO_VECTORS,
    )  # fmt: skip


_XLOGY = "special_xlogy special_xlogy.other_scalar special_xlogy.self_scalar"
xlogy = _with_log("xlogy", np.log, f"xlogy.Tensor xlogy.Scalar_Other xlogy.Scalar_Self {_XLOGY}")
_with_log("xlog1py", np.log1p, "special_xlog1py special_xlog1py.other_scalar special_xlog1py.self_scalar")


def _entr(x: ndarray) -> ndarray:
    inside = np.where(x > 0, -x * np.log(x), np.where(x == 0, number(0, x.dtype), x.dtype.type(-np.inf)))
    return np.where(np.isnan(x), x, inside)


_float("special_entr", _entr, "entr", cpu="entr_cpu", compute=same)


def _precheck_logit(bound: Bound, targets: list[ndarray]) -> None:
    """Check that the target can hold the result, which torch does before it reads ``eps``."""
    check_result_dtype(int_to_float(bound["self"].dtype), targets[0].dtype)


@kernel(
    "logit", "special_logit", like=scipy_special("logit"), differs=_FLOAT,
    writes=WriteSpec(inplace=_precheck_logit, out=_precheck_logit),
)  # fmt: skip
def logit(self: ndarray, eps: float | None = None) -> ndarray:
    """``log(x / (1 - x))``, with x clamped to [eps, 1 - eps] if ``eps`` is given."""
    out = int_to_float(self.dtype)
    require("logit_cpu", out, FLOATS)
    x = dt.cast(self, out)  # half types are rounded at each step
    if eps is not None:
        scalar(float(eps), out)  # eps has to fit the dtype
    if eps is not None and eps >= 0:
        low, high = number(float(eps), x.dtype), number(1, x.dtype) - number(float(eps), x.dtype)
        x = np.where(x < low, low, np.where(x > high, high, x))
    return finish(np.where(x == 1, x.dtype.type(np.inf), np.log(x / (number(1, x.dtype) - x))), out)


_float("i0 special_i0", bessel_airy.i0, "i0", cpu="i0_vml_cpu")
_float("special_i0e", bessel_airy.i0e, "i0e", cpu="i0e_cpu", half_tail=bessel_airy.i0e)
for _name, _takes, _function, _scipy, *_more in (
    ("special_i1", FLOATS, bessel_airy.i1, "i1"),
    ("special_i1e", FLOATS, bessel_airy.i1e, "i1e"),
    ("special_bessel_j0", WIDE, bessel_airy.j0, "j0", "coarse-special"),
    ("special_bessel_j1", WIDE, bessel_airy.j1, "j1", "coarse-special"),
    ("special_bessel_y0", WIDE, bessel_airy.y0, "y0", "coarse-special"),
    ("special_bessel_y1", WIDE, bessel_airy.y1, "y1", "coarse-special"),
    ("special_modified_bessel_i0", WIDE, bessel_airy.i0, "i0"),
    ("special_modified_bessel_i1", WIDE, bessel_airy.modified_i1, "i1"),
    ("special_modified_bessel_k0", WIDE, bessel_airy.k0, "k0"),
    ("special_modified_bessel_k1", WIDE, bessel_airy.k1, "k1", "bessel-of-least"),
    ("special_scaled_modified_bessel_k0", WIDE, bessel_airy.k0e, "k0e", "bessel-of-least"),
    ("special_scaled_modified_bessel_k1", WIDE, bessel_airy.k1e, "k1e", "bessel-of-least"),
    ("special_spherical_bessel_j0", WIDE, bessel_airy.spherical_j0, "spherical_jn", "scipy-in-double"),
    ("special_airy_ai", WIDE, bessel_airy.airy_ai, "airy", "coarse-special", "airy-of-large"),
):
    _float(_name, _function, _scipy, *_more, cpu=f"{_name.removeprefix('special_')}_cpu", takes=_takes)
