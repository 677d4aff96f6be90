"""Samples of gamma and Dirichlet distributions, and their gradients with respect to the parameters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from torchnp.core.checks import broadcast_shapes, require
from torchnp.core.registry import kernel
from torchnp.dtypes import cast, float32, float64
from torchnp.kernels._elementwise import check_same_dtype
from torchnp.kernels.numerics import rejection
from torchnp.kernels.numerics.bessel_airy import in_double
from torchnp.kernels.numerics.fma import horner
from torchnp.kernels.special import DIGAMMA, digamma
from torchnp.random import Generator, default_generator
from torchnp.threads import blocks
from torchnp.thresholds import Threshold

ndarray = np.ndarray
_TAKES = (float32, float64)

# ---------------------------------------------------------------- draws


def _gammas(alphas: ndarray, generator: Generator | None) -> ndarray:
    flat = alphas.ravel()
    out = np.empty(flat.shape, flat.dtype)
    rejection.sample(generator or default_generator, lambda part: rejection.gamma(flat[part]), out, 3)
    tiny = np.finfo(out.dtype).tiny
    np.copyto(out, tiny, where=~(out > tiny))  # like `_at_least_tiny`, but without another array
    return out.reshape(alphas.shape)


def _at_least_tiny(x: ndarray) -> ndarray:
    """Raise values to at least the smallest normal number, which also replaces nan."""
    tiny = np.finfo(x.dtype).tiny
    return np.where(x > tiny, x, tiny)


@kernel(
    "_standard_gamma",
    like=np.random.standard_gamma,
    differs=["random-stream", "random-dtype", "gamma-above-zero", "missing-kernel"],
)
def _standard_gamma(self, generator=None):
    """Gamma draws of scale 1, with the shape parameter given by each element."""
    require("gamma_cpu", self.dtype, _TAKES)
    return _gammas(self, generator)


@kernel(
    "_sample_dirichlet",
    like=np.random.dirichlet,
    differs=[
        "random-stream",
        "random-dtype",
        "dirichlet-rows",
        "dirichlet-of-zero",
        "gamma-above-zero",
        "missing-kernel",
    ],
)
def _sample_dirichlet(self, generator=None):
    """Dirichlet draws, with concentrations along the last dimension."""
    require("dirichlet", self.dtype, _TAKES)
    gammas = _gammas(cast(self, float64), generator)
    shares = cast(gammas / (gammas.sum(-1, keepdims=True) if self.ndim else gammas), self.dtype)
    below_one = np.nextafter(self.dtype.type(1), self.dtype.type(0))
    return np.minimum(_at_least_tiny(shares), below_one)


# ---------------------------------------------------------------- the gradient of a gamma value by its shape

_PART: Threshold = 1 << 13  # elements: the arrays of one part stay in cache
Formula = Callable[..., ndarray]


def _by_case(cases: list[tuple[ndarray, Formula]], other: Formula, *operands: ndarray) -> ndarray:
    """For each element of flat operands, compute the formula of the first true case, or ``other`` if none is true."""
    out = np.empty_like(operands[0])
    left = np.ones(out.size, np.bool_)
    for where, formula in [*cases, (left, other)]:
        mine = np.flatnonzero(where & left)
        left[mine] = False
        out[mine] = formula(*(x[mine] for x in operands))
    return out


def _part_by_part(slopes: Formula, shape: tuple[int, ...], *operands: ndarray) -> ndarray:
    """Broadcast operands of one dtype, and compute ``slopes`` part by part."""
    flat = [np.broadcast_to(x, shape).reshape(-1) for x in operands]
    out = np.empty(shape, operands[0].dtype)
    to = out.reshape(-1)
    for part in blocks(out.size, _PART):
        to[part] = slopes(*(x[part] for x in flat))
    return out


# Rows: powers of log(x / alpha). Columns: four coefficients of a numerator in log(alpha), then four of a denominator.
_GAMMA_UV = (
    (0.16009398, -0.094634809, 0.025146376, -0.0030648343, 1, 0.32668115, 0.10406089, 0.0014179084),
    (0.53487893, 0.1298071, 0.065735949, -0.0015649758, 0.16639465, 0.020070113, -0.0035938915, -0.00058392623),
    (0.040121004, -0.0065914022, -0.0026286047, -0.0013441777, 0.017050642, -0.0021309326, 0.00085092367, -1.5247877e-07),
)  # fmt: skip


def _by_series(alpha: ndarray, x: ndarray) -> ndarray:
    """Compute the derivative by a Taylor series for small x."""
    numerator, denominator = np.ones_like(x), alpha
    first, second = 1 / alpha, 1 / (alpha * alpha)
    for i in range(1, 6):
        numerator = numerator * (-x / i)
        denominator = denominator + 1
        first = first + numerator / denominator
        second = second + numerator / (denominator * denominator)
    power = np.power(x, alpha)
    density = np.power(x, alpha - 1) * np.exp(-x)
    by_alpha = (np.log(x) - digamma(alpha)) * (power * first) - power * second
    slope = -by_alpha / density
    return np.where(np.isnan(slope), 0, slope)


def _near_mean(alpha: ndarray, x: ndarray) -> ndarray:
    numerator = 1440 * (alpha * alpha) + 6 * x * (53 - 120 * x) - 65 * x * x / alpha + alpha * (107 + 3600 * x)
    return (1 + 24 * alpha * (1 + 12 * alpha)) * numerator / (1244160 * (alpha * alpha) * (alpha * alpha))


def _by_saddle_point(alpha: ndarray, x: ndarray) -> ndarray:
    """Compute the derivative by Rice's saddle-point expansion for large shape parameters."""
    scale = np.sqrt(8 * alpha)
    ratio = np.log(x / alpha)
    tail = np.power(x - alpha - alpha * ratio, -1.5)
    terms = scale / (alpha - x) + np.where(x < alpha, -tail, tail)
    term = ratio * terms - np.sqrt(2 / alpha) * (alpha + x) / ((alpha - x) * (alpha - x))
    stirling = 1 + 1 / (12 * alpha) * (1 + 1 / (24 * alpha))
    return -stirling * (x * term) / scale


def _by_fraction(alpha: ndarray, x: ndarray) -> ndarray:
    u, v = np.log(x / alpha), np.log(alpha)
    low, middle, high = _GAMMA_UV
    a = [p + u * (q + u * r) for p, q, r in zip(low, middle, high, strict=True)]
    numerator = a[0] + v * (a[1] + v * (a[2] + v * a[3]))
    return np.exp(numerator / (a[4] + v * (a[5] + v * (a[6] + v * a[7]))))


@kernel("_standard_gamma_grad")
def _standard_gamma_grad(self, output):
    """The derivative of a gamma draw with respect to its shape parameter, at a fixed quantile."""
    shape = broadcast_shapes(self.shape, output.shape)
    check_same_dtype(self, output)
    require("_standard_gamma_grad_cpu", self.dtype, _TAKES)
    return _part_by_part(_gamma_slopes, shape, self, output)


def _gamma_slopes(alpha: ndarray, x: ndarray) -> ndarray:
    alpha, x = cast(alpha, float64), cast(x, float64)
    mean = (np.float64(np.float32(0.9)) * alpha <= x) & (x <= np.float64(np.float32(1.1)) * alpha)
    cases = [(x < np.float32(0.8), _by_series), ((alpha > 8) & mean, _near_mean), (alpha > 8, _by_saddle_point)]
    return _by_case(cases, _by_fraction, alpha, x)


# ---------------------------------------------------------------- the gradient of a Dirichlet value

# [numerator, denominator][powers of log(x)][powers of log(alpha / x)][powers of the rest]
_BETA = np.array([
    [[[1.003668233, -0.01061107488, -0.0657888334, 0.01201642863],
      [0.6336835991, -0.3557432599, 0.05486251648, -0.001465281033],
      [-0.03276231906, 0.004474107445, 0.002429354597, -0.0001557569013]],
     [[0.221950385, -0.3187676331, 0.01799915743, 0.01074823814],
      [-0.2951249643, 0.06219954479, 0.01535556598, 0.001550077057],
      [0.02155310298, 0.004170831599, 0.001292462449, 6.976601077e-05]],
     [[-0.05980841433, 0.008441916499, 0.01085618172, 0.002319392565],
      [0.02911413504, 0.01400243777, -0.002721828457, 0.000751041181],
      [0.005900514878, -0.001936558688, -9.495446725e-06, 5.385558597e-05]]],
    [[[1, -0.02924021934, -0.04438342661, 0.007285809825],
      [0.6357567472, -0.3473456711, 0.05454656494, -0.002407477521],
      [-0.03301322327, 0.004845219414, 0.00231480583, -0.0002307248149]],
     [[0.5925320577, -0.1757678135, 0.01505928619, 0.000564515273],
      [0.1014815858, -0.06589186703, 0.01272886114, -0.0007316646956],
      [-0.007258481865, 0.001096195486, 0.0003934994223, -4.12701925e-05]],
     [[0.06469649321, -0.0236701437, 0.002902096474, -5.896963079e-05],
      [0.001925008108, -0.002869809258, 0.0008000589141, -6.063713228e-05],
      [-0.0003477407336, 6.959756487e-05, 1.097287507e-05, -1.650964693e-06]]],
])  # fmt: skip


def _digamma(x: ndarray) -> ndarray:
    """Compute `digamma` as in torch's samplers: for float32, too, quotients are summed in float64."""
    zero, extra = x == 0, np.where(x < 0, -np.pi / np.tan(x.dtype.type(np.pi) * x), 0)
    x = np.where(x < 0, 1 - x, x)
    total = np.zeros(x.shape)
    for _ in range(10):
        low = (x < 10).astype(x.dtype)
        total -= low / x
        x = x + low
    z = 1 / (x * x).astype(float64)
    series = np.where(x < 1e17, z * horner(z, DIGAMMA), 0)
    value = np.where(x == 10, total + 2.25175258906672110764, total + in_double(np.log, x) - 0.5 / x - series)
    return cast(np.where(zero, np.inf, value + extra), x.dtype)


def _power(x: ndarray, exponent: ndarray) -> ndarray:
    return np.power(x, exponent, dtype=np.float64).astype(x.dtype)


def _by_alpha(x: ndarray, alpha: ndarray, beta: ndarray) -> ndarray:
    """Return the derivative of a beta draw with respect to ``alpha``, by Taylor series for x near 0."""
    factor = _digamma(alpha) - _digamma(alpha + beta) - in_double(np.log, x)
    numerator = np.ones_like(x)
    series = numerator / alpha * (factor + 1 / alpha)
    for i in range(1, 11):
        numerator = numerator * ((i - beta) * x / i)
        series = series + numerator / (alpha + i) * (factor + 1 / (alpha + i))
    slope = x * _power(1 - x, -beta) * series
    return np.where(np.isnan(slope), x.dtype.type(0), slope)


def _by_beta(x: ndarray, alpha: ndarray, beta: ndarray) -> ndarray:
    """Return the derivative of a beta draw with respect to ``beta``, by Taylor series for x near 0."""
    factor = _digamma(alpha + beta) - _digamma(beta)
    numerator, product, slopes, series = np.ones_like(x), np.ones_like(x), np.zeros_like(x), factor / alpha
    for i in range(1, 9):
        numerator = numerator * (-x / i)
        slopes = slopes * (beta - i) + product
        product = product * (beta - i)
        series = series + numerator / (alpha + i) * (slopes + factor * product)
    slope = -_power(1 - x, 1 - beta) * series
    return np.where(np.isnan(slope), x.dtype.type(0), slope)


def _of_large(x: ndarray, alpha: ndarray, beta: ndarray, total: ndarray) -> ndarray:
    """The derivative of a beta draw with respect to ``alpha`` if both parameters are large, by Rice's expansion."""
    dtype, x, alpha, total = x.dtype, *(cast(y, float64) for y in (x, alpha, total))
    beta = total - alpha
    total = alpha + beta
    mean = alpha / total
    deviation = np.sqrt(alpha * beta / (total + 1)) / total
    near = (mean - 0.1 * deviation <= x) & (x <= mean + 0.1 * deviation)
    square = beta * beta
    inner = 8 * (1 - x) * (135 * beta - 11)
    inner = (453 + 1620 * beta * (1 - x) - 455 * x) * beta + alpha * inner
    inner = 3 * (59 + 180 * beta - 90 * x) * square + alpha * inner
    polynomial = 47 * x * square * square + alpha * ((43 + 20 * (16 + 27 * beta) * x) * square * beta + alpha * inner)
    scale = 12960 * alpha * alpha * alpha * square * (1 + 12 * total)
    at_mean = (1 + 12 * alpha) * (1 + 12 * beta) / (total * total) / (1 - x) * polynomial / scale
    prefactor = -x / np.sqrt(2 * alpha * beta / total)
    stirling = _stirling(alpha) * _stirling(beta) / _stirling(total)
    distance = alpha * (x - 1) + beta * x
    term = 2 * (alpha * alpha) * (x - 1) + alpha * beta * (x - 1) - x * square
    term = term / (np.sqrt(2 * alpha / beta) * np.power(total, 1.5) * distance * distance)
    by_x = np.log(alpha / (total * x))
    tail = np.power(beta * np.log(beta / (total * (1 - x))) + alpha * by_x, -1.5)
    wings = np.sqrt(8 * alpha * beta / total) / distance + np.where(x < mean, tail, -tail)
    return cast(np.where(near, at_mean, stirling * prefactor * (term + 0.5 * by_x * wings)), dtype)


def _stirling(x: ndarray) -> ndarray:
    return 1 + 1 / (12 * x) + 1 / (288 * x * x)


def _of_middle(x: ndarray, alpha: ndarray, beta: ndarray, total: ndarray) -> ndarray:
    """Return the derivative: an approximation from a difference of digammas, with a rational correction."""
    slope, dtype = _digamma(total) - _digamma(alpha), x.dtype
    x, alpha, total = (cast(y, float64) for y in (x, alpha, total))
    beta = total - alpha
    u = np.log(x)
    a = np.log(alpha) - u
    b = np.log(total) - a
    top, bottom = np.zeros_like(x), np.zeros_like(x)
    for i, of_u in enumerate((np.ones_like(x), u, u * u)):
        for j, of_a in enumerate((np.ones_like(x), a, a * a)):
            p, q = _BETA[:, i, j]
            top = top + of_u * of_a * (p[0] + b * (p[1] + b * (p[2] + b * p[3])))
            bottom = bottom + of_u * of_a * (q[0] + b * (q[1] + b * (q[2] + b * q[3])))
    return cast(top / bottom * (x * slope / beta), dtype)


@kernel("_dirichlet_grad")
def _dirichlet_grad(x, alpha, total):
    """The derivative of a Dirichlet draw with respect to its concentration, through that of a beta draw."""
    shape = broadcast_shapes(x.shape, alpha.shape, total.shape)
    check_same_dtype(x, alpha, total)
    require("_dirichlet_grad_cpu", x.dtype, _TAKES)
    return _part_by_part(_beta_slopes, shape, x, alpha, total)


def _beta_slopes(x: ndarray, alpha: ndarray, total: ndarray) -> ndarray:
    beta = total - alpha
    edge = total * x * (1 - x)
    near_0, near_1 = (x <= 0.5) & (edge < 2.5), (x >= 0.5) & (edge < 0.75)
    cases = [
        (near_0, lambda x, alpha, beta, total: _by_alpha(x, alpha, beta)),
        (near_1, lambda x, alpha, beta, total: -_by_beta(1 - x, beta, alpha)),
        ((alpha > 6) & (beta > 6), _of_large),
    ]
    return _by_case(cases, _of_middle, x, alpha, beta, total)
