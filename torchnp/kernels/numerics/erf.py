"""The error function and its complements, within one or two ulps of torch's libraries.

Below 1.25 they use the rational functions of Sun Microsystems' fdlibm, above it the scaled complement. Above 1.25,
SciPy's functions are up to 5 ulps off, and its erfc up to 20 in the tail, because it rounds the square in the exponent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.kernels.numerics.bessel_airy import in_double, piecewise, ratio
from torchnp.kernels.numerics.blocks import in_strips
from torchnp.kernels.numerics.fma import fast_fma, fma, upper
from torchnp.thresholds import Threshold

ndarray = np.ndarray


def scipy_special(name: str) -> Callable[..., Any]:
    """Return a wrapper of a `scipy.special` function that imports SciPy only when it is called."""

    def call(*args: Any) -> Any:
        import scipy.special

        return getattr(scipy.special, name)(*args)

    call.__name__ = call.__qualname__ = name
    return call


_TILE: Threshold = 1 << 13  # elements: a dozen float64 buffers fit in the L2 cache
erfcx_of_scipy = scipy_special("erfcx")

# erf(x) = tanh(x * P(x * x)) for float32, highest degree first: within 1e-7 of its value, fitted to SciPy's erf by least
# squares with Lawson's weights.
_ODD = (1.4185284561428284e-07, -5.668487500319663e-06, 8.76374073437647e-05, -0.0006197848932971089,
    -0.00019183050208805566, 0.102769055646166, 1.1283792743240808)  # fmt: skip
_TERMS = [np.array(c, np.float32) for c in _ODD]
_TERMS_OF_ROOT = [np.array(c / 2 ** (6 - k + 0.5), np.float32) for k, c in enumerate(_ODD)]  # for x / sqrt(2)
_ONE, _HALF = np.array(1, np.float32), np.array(0.5, np.float32)
MANY: Threshold = 1 << 12  # float32 elements; from here on, this is faster than SciPy's scalar loop

# ---------------------------------------------------------------- float64

# erf(x) = x + x * R(x * x) up to 0.84375, highest degree first.
NEAR_P = (-2.37630166566501626084e-05, -5.77027029648944159157e-03, -2.84817495755985104766e-02,
    -3.25042107247001499370e-01, 1.28379167095512558561e-01)  # fmt: skip
NEAR_Q = (-3.96022827877536812320e-06, 1.32494738004321644526e-04, 5.08130628187576562776e-03,
    6.50222499887672944485e-02, 3.97917223959155352819e-01, 1.0)  # fmt: skip
# erf(x) = AT_ONE + R(x - 1) from 0.84375 to 1.25.
AT_ONE = 8.45062911510467529297e-01
ONE_P = (-2.16637559486879084300e-03, 3.54783043256182359371e-02, -1.10894694282396677476e-01,
    3.18346619901161753674e-01, -3.72207876035701323847e-01, 4.14856118683748331666e-01,
    -2.36211856075265944077e-03)  # fmt: skip
ONE_Q = (1.19844998467991074170e-02, 1.36370839120290507362e-02, 1.26171219808761642112e-01,
    7.18286544141962662868e-02, 5.40397917702171048937e-01, 1.06420880400844228286e-01, 1.0)  # fmt: skip
# erfc(x) = exp(-x * x - 0.5625 + R(1 / (x * x))) / x: MIDDLE up to 2.857, FAR beyond.
MIDDLE_P = (-9.81432934416914548592e00, -8.12874355063065934246e01, -1.84605092906711035994e02,
    -1.62396669462573470355e02, -6.23753324503260060396e01, -1.05586262253232909814e01, -6.93858572707181764372e-01,
    -9.86494403484714822705e-03)  # fmt: skip
MIDDLE_Q = (-6.04244152148580987438e-02, 6.57024977031928170135e00, 1.08635005541779435134e02,
    4.29008140027567833386e02, 6.45387271733267880336e02, 4.34565877475229228821e02, 1.37657754143519042600e02,
    1.96512716674392571292e01, 1.0)  # fmt: skip
FAR_P = (-4.83519191608651397019e02, -1.02509513161107724954e03, -6.37566443368389627722e02,
    -1.60636384855821916062e02, -1.77579549177547519889e01, -7.99283237680523006574e-01,
    -9.86494292470009928597e-03)  # fmt: skip
FAR_Q = (-2.24409524465858183362e01, 4.74528541206955367215e02, 2.55305040643316442583e03, 3.19985821950859553908e03,
    1.53672958608443695994e03, 3.25792512996573918826e02, 3.03380607434824582924e01, 1.0)  # fmt: skip


def _near_zero(x: ndarray) -> ndarray:
    return x * ratio(x * x, NEAR_P, NEAR_Q)


def _near_one(size: ndarray) -> ndarray:
    return ratio(size - 1, ONE_P, ONE_Q)


def _tail(x: ndarray) -> ndarray:
    """Compute erfc above 1.25; the square in the exponent is split into an exact square and a remainder."""
    above = upper(np.minimum(x, 30))
    z = 1 / (x * x)
    rest = piecewise(z, z > 0.1225, lambda z: ratio(z, MIDDLE_P, MIDDLE_Q), lambda z: ratio(z, FAR_P, FAR_Q))
    return np.exp(-0.5625 - above * above) * np.exp((above - x) * (above + x) + rest) / x


def _tiled(function: Callable[[ndarray], ndarray]) -> Callable[[ndarray], ndarray]:
    """Apply a function tile by tile if the array is dense and larger than `_TILE`."""

    def chain(x: ndarray, out: ndarray) -> None:
        out[...] = function(x)

    return lambda x: in_strips(chain, x, _TILE) if x.size > _TILE and x.flags.c_contiguous else function(x)


@_tiled
def _erf(x: ndarray) -> ndarray:
    def beyond(x: ndarray) -> ndarray:
        size = np.abs(x)
        value = piecewise(size, size < 1.25, lambda s: AT_ONE + _near_one(s), lambda s: 1 - _tail(s))
        return np.copysign(value, x)

    return piecewise(x, np.abs(x) < 0.84375, lambda x: x + _near_zero(x), beyond)


@_tiled
def _erfc(x: ndarray) -> ndarray:
    def near(x: ndarray) -> ndarray:
        r = _near_zero(x)
        return np.where(x < 0.25, 1 - (x + r), 0.5 - (r + (x - 0.5)))

    def beyond(x: ndarray) -> ndarray:
        size = np.abs(x)
        value = piecewise(size, size < 1.25, lambda s: (1 - AT_ONE) - _near_one(s), _tail)
        return np.where(x < 0, 2 - value, value)

    return piecewise(x, np.abs(x) < 0.84375, near, beyond)


# ---------------------------------------------------------------- both precisions


def erf(x: ndarray) -> ndarray:
    """Compute erf; large float32 arrays use tanh, within 4 ulps, because SciPy's loop is scalar."""
    if x.dtype != dt.float32:
        return _erf(x)
    if x.size < MANY:
        return scipy_special("erf")(x)
    return in_strips(lambda part, out: _tanh_of_odd(part, _TERMS, out), x)


def _tanh_of_odd(x: ndarray, terms: Sequence[ndarray], out: ndarray) -> None:
    """Write ``tanh(x * P(x * x))`` into ``out``."""
    square = x * x
    np.multiply(square, terms[0], out=out)
    for term in terms[1:-1]:
        np.add(out, term, out=out)
        np.multiply(out, square, out=out)
    np.add(out, terms[-1], out=out)
    np.multiply(out, x, out=out)
    np.tanh(out, out=out)


def times_normal(x: ndarray) -> ndarray:
    """Compute ``x`` times the normal CDF at ``x``, in torch's steps: ``x / 2 * (1 + erf(x / sqrt(2)))``."""
    if x.dtype != dt.float32 or x.size < MANY:
        return x * 0.5 * (1 + erf(x * 0.7071067811865476))

    def chain(x: ndarray, out: ndarray) -> None:
        _tanh_of_odd(x, _TERMS_OF_ROOT, out)
        np.add(out, _ONE, out=out)
        np.multiply(out, _HALF, out=out)
        np.multiply(out, x, out=out)

    return in_strips(chain, x)


def erf_of_half(x: ndarray) -> ndarray:
    """Compute erf as torch's vectors do for half types, with an absolute error of 1.5e-7: tiny arguments give 0."""
    one = np.float32(1)
    t = one / fast_fma(np.float32(0.3275911), np.abs(x), one)
    powers = np.full_like(t, np.float32(1.061405429))
    for c in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        powers = fast_fma(powers, t, np.float32(c))
    return np.copysign(fast_fma(-in_double(np.exp, -(x * x)) * t, powers, one), x)


# erfc(x) = exp(-x * x) * t * P(t) with t = 3 / (3 + x), highest degree first: within 3e-9 of its value from 0 to 11, where
# float32 has no smaller numbers; fitted to SciPy's erfcx by least squares with Lawson's weights.
_SCALED = (
    0.0547006195625648,
    -0.2866030601404501,
    0.5226102182472031,
    -0.4235423423022513,
    0.38868779079506394,
    0.006142513957232476,
    0.18931084980086016,
    0.17204348290662078,
    0.188610172138891,
    0.18803975202703763,
)


def erfc(x: ndarray) -> ndarray:
    """Compute ``1 - erf(x)`` without cancellation; many float32 numbers by exp in double."""
    if x.dtype != dt.float32:
        return _erfc(x)
    if x.size < MANY:
        return scipy_special("erfc")(x)
    return in_strips(_erfc_by_exp, x, _TILE)


def _erfc_by_exp(x: ndarray, out: ndarray) -> None:
    size = np.abs(x).astype(np.float64)
    t = size + 3
    np.divide(3, t, t)
    value = np.multiply(t, _SCALED[0])
    for c in _SCALED[1:]:
        value += c
        value *= t
    np.multiply(size, size, size)
    np.negative(size, size)
    value *= np.exp(size, size)
    out[...] = np.where(x < 0, 2 - value, value)


def erfcx(x: ndarray) -> ndarray:
    """Compute ``exp(x * x) * erfc(x)`` by SciPy, except where torch's float32 code rounds square or argument."""
    if x.dtype != dt.float32:
        return erfcx_of_scipy(x)

    def negative(x: ndarray) -> ndarray:
        power = np.float32(2) * in_double(np.exp, x * x)
        return np.where(x < np.float32(-6.1), power, power - near(-x))

    def near(x: ndarray) -> ndarray:
        return erfcx_of_scipy(400 / (np.float32(400) / (np.float32(4) + x)).astype(np.float64) - 4).astype(np.float32)

    value = piecewise(x, x < 0, negative, lambda x: piecewise(x, x > 50, erfcx_of_scipy, near))
    return np.where(x < np.float32(-26.7), np.float32(np.inf), value)


def log_ndtr(x: ndarray) -> ndarray:
    """Compute the logarithm of the normal CDF."""
    real = x.dtype.type
    t = x * real(0.7071067811865476)

    def left(t: ndarray) -> ndarray:
        return fma(-t, t, in_double(np.log, erfcx(-t) / real(2)))

    return piecewise(t, x < -1, left, lambda t: in_double(np.log1p, -erfc(t) / real(2)))


# ---------------------------------------------------------------- the inverse

# Wichura's AS241: erfinv(x) = x * R(0.180625 - x * x / 4) / sqrt(8) up to |x| = 0.85, and R(r - 1.6) / sqrt(2) beyond, where
# r * r = -log((1 - |x|) / 2), as far as float32 goes; highest degree first.
_CENTRE_P = (2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4,
    1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080)  # fmt: skip
_CENTRE_Q = (5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
    5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0)  # fmt: skip
_OUTER_P = (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258,
    3.64784832476320460504, 5.76949722146069140550, 4.63033784615654529590, 1.42343711074968357734)  # fmt: skip
_OUTER_Q = (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
    6.89767334985100004550e-1, 1.67638483018380384940, 2.05319162663775882187, 1.0)  # fmt: skip


def erfinv(x: ndarray) -> ndarray:
    """Compute the inverse of erf: for float64 by SciPy, with the sign of zero kept; for float32 in double."""
    if x.dtype != np.float32:
        return np.where(x == 0, x, scipy_special("erfinv")(x))

    def near(x: ndarray) -> ndarray:
        return x * ratio(0.180625 - 0.25 * (x * x), _CENTRE_P, _CENTRE_Q) * 0.5

    def far(x: ndarray) -> ndarray:
        size = np.abs(x)
        value = ratio(np.sqrt(-np.log(0.5 * (1 - size))) - 1.6, _OUTER_P, _OUTER_Q)
        return np.copysign(np.where(size == 1, np.inf, value), x)

    def chain(part: ndarray, out: ndarray) -> None:
        wide = part.astype(np.float64)
        out[...] = piecewise(wide, np.abs(wide) <= 0.85, near, far) * 0.7071067811865476

    return in_strips(chain, np.asarray(x), _TILE)
