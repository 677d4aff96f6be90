"""Draws from gamma and Dirichlet distributions, and the gradients of such draws by their parameters."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from torchnp.checks import broadcast_shapes, check_type, require
from torchnp.dtypes import cast, float32, float64
from torchnp.kernels._memory import memory_order
from torchnp.kernels.random import arrange
from torchnp.kernels.special import digamma
from torchnp.random import Generator, default_generator
from torchnp.registry import kernel

ndarray = np.ndarray
_TAKES = (float32, float64)

# ---------------------------------------------------------------- draws

_SQUEEZE = float(np.float32(0.0331))


def _gammas(alphas: ndarray, generator: Generator | None) -> list[float]:
    source = generator or default_generator
    with source.one_by_one(3 * alphas.size) as uniform:
        return [_gamma(alpha, lambda: source.normal_of(uniform), uniform) for alpha in alphas.ravel()]


def _gamma(alpha: np.floating, normal: Callable[[], float], uniform: Callable[[], float]) -> float:
    """Marsaglia and Tsang's rejection; below 1, a draw for alpha + 1 is scaled."""
    one = alpha.dtype.type(1)
    scale = 1.0
    if alpha < 1:
        if alpha == 0:
            return 0.0
        scale = float(np.power(1 - uniform(), float(one / alpha)))
        alpha = alpha + one
    d = float(alpha - one.dtype.type(np.float32(1) / np.float32(3)))
    c = 1.0 / math.sqrt(9.0 * d) if d > 0 else math.nan
    while True:
        y = 0.0
        while not y > 0:
            x = normal()
            y = 1.0 + c * x
            if y != y:
                return math.nan
        v = y * y * y
        u = 1 - uniform()
        square = x * x
        if u < 1.0 - _SQUEEZE * square * square or math.log(u) < 0.5 * square + d * (1.0 - v + math.log(v)):
            return scale * d * v


def _tiny(dtype: np.dtype) -> np.floating:
    return np.finfo(dtype).tiny


@kernel("_standard_gamma", like=np.random.standard_gamma, differs=["random-stream"])
def _standard_gamma(self, generator=None):
    """Gamma values of the shapes that stand in each place, and of scale 1."""
    require("gamma", self.dtype, _TAKES)
    values = np.array(_gammas(self, generator), float64)
    return np.maximum(cast(values, self.dtype), _tiny(self.dtype)).reshape(self.shape)


@kernel("_sample_dirichlet", like=np.random.dirichlet, differs=["random-stream"])
def _sample_dirichlet(self, generator=None):
    """Dirichlet values of the concentrations along the last dimension."""
    require("dirichlet", self.dtype, _TAKES)
    gammas = np.maximum(np.array(_gammas(cast(self, float64), generator), float64), _tiny(float64)).reshape(self.shape)
    shares = cast(gammas / (gammas.sum(-1, keepdims=True) if self.ndim else gammas), self.dtype)
    below_one = np.nextafter(self.dtype.type(1), self.dtype.type(0))
    return np.minimum(np.maximum(shares, _tiny(self.dtype)), below_one)


# ---------------------------------------------------------------- the gradient of a gamma value by its shape

# Rows are powers of log(x / alpha); the first four columns a numerator in log(alpha), the others a denominator.
_GAMMA_UV = (
    (0.16009398, -0.094634809, 0.025146376, -0.0030648343, 1, 0.32668115, 0.10406089, 0.0014179084),
    (0.53487893, 0.1298071, 0.065735949, -0.0015649758, 0.16639465, 0.020070113, -0.0035938915, -0.00058392623),
    (0.040121004, -0.0065914022, -0.0026286047, -0.0013441777, 0.017050642, -0.0021309326, 0.00085092367, -1.5247877e-07),
)  # fmt: skip


def _by_series(alpha: ndarray, x: ndarray) -> ndarray:
    """Taylor's series for small x."""
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
    """Rice's expansion for large shapes."""
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
    """The derivative of a gamma value by its shape, where its place in the distribution is kept."""
    check_type(self.dtype, output)
    require("_standard_gamma_grad_cpu", self.dtype, _TAKES)
    broadcast_shapes(self.shape, output.shape)
    x, alpha = cast(output, float64), cast(self, float64)
    mean = (np.float64(np.float32(0.9)) * alpha <= x) & (x <= np.float64(np.float32(1.1)) * alpha)
    cases = [(x < np.float32(0.8), _by_series), ((alpha > 8) & mean, _near_mean), (alpha > 8, _by_saddle_point)]
    slope = np.select([where for where, _ in cases], [f(alpha, x) for _, f in cases], _by_fraction(alpha, x))
    return arrange(
        cast(slope, self.dtype).ravel(), slope.shape, memory_order(self) if self.shape == slope.shape else None
    )
