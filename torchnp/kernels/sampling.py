"""Draws from named distributions: exponential, Cauchy, log-normal, geometric, multinomial, Poisson, binomial."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from torchnp.core.checks import broadcast_shapes, check, require
from torchnp.core.errors import found_dtype
from torchnp.core.registry import kernel
from torchnp.core.write_spec import Bound, WriteSpec
from torchnp.dtypes import INTS, c_name, cast, float32, float64, int64, is_floating, opmath, scalar_name
from torchnp.kernels._table_rows import rows
from torchnp.kernels.numerics.fma import fma
from torchnp.kernels.random import FLOATS, laid_like
from torchnp.layout.overlap import check_target
from torchnp.random import Generator, default_generator, libm

ndarray = np.ndarray
Sample = Callable[[Generator, int], ndarray]

# ---------------------------------------------------------------- formulas of one uniform or normal value


def _exactly(dtype: np.dtype, function: Callable[[float], float], ufunc: np.ufunc) -> Callable[[ndarray], ndarray]:
    """Return the C library's function where its last bit shows; NumPy's is equal after rounding to float32."""
    return (lambda x: libm(function, x)) if dtype == float64 else ufunc


def _sampled(self: ndarray, *given: float, generator: Generator | None, op: str, draw: Any) -> ndarray:
    values = draw(self, *given)
    if not self.size:
        return self.copy()
    require(f"{op}_cpu", self.dtype, (*INTS, *FLOATS) if op == "geometric" else FLOATS)
    return laid_like(self, cast(values(generator or default_generator, self.size), self.dtype))


def _positive(op: str, name: str, value: float) -> None:
    if not value > 0:
        raise RuntimeError(f"{op}_ expects {name} > 0.0, but found {name}={value:g}")


def _continuous(distribution: str, dtype: np.dtype, spelled: Callable[[np.dtype], str]) -> None:
    words = f"{distribution} distribution is a continuous probability distribution. dtype must be a floating point but"
    check(is_floating(dtype), f"{words} you specified {spelled(dtype)}")


def _exponential(self: ndarray, rate: float) -> Sample:
    _positive("exponential", "lambda", rate)
    if self.size:
        _continuous("Exponential", self.dtype, scalar_name)
    log1p = _exactly(self.dtype, math.log1p, np.log1p)
    return lambda source, n: -1.0 / rate * log1p(-source.uniform64(n))


def _precheck_exponential(bound: Bound, targets: list[ndarray]) -> None:
    _positive("exponential", "lambda", bound.get("lambd", 1.0))
    check_target(targets[0])


def _cauchy(self: ndarray, median: float, sigma: float) -> Sample:
    _positive("cauchy", "sigma", sigma)
    _continuous("Cauchy", self.dtype, c_name)
    tan = _exactly(self.dtype, math.tan, np.tan)
    return lambda source, n: fma(tan(math.pi * (source.uniform64(n) - 0.5)), float(sigma), float(median))


def _log_normal(self: ndarray, mean: float, std: float) -> Sample:
    _positive("log_normal", "std", std)
    exp = _exactly(self.dtype, lambda x: math.exp(x) if x < 709 else float(np.exp(x)), np.exp)
    return lambda source, n: exp(fma(source.normal64(n, self.dtype == float64), float(std), float(mean)))


def _geometric(self: ndarray, p: float) -> Sample:
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    log = lambda u: libm(math.log, u) if u.all() else np.log(u)
    return lambda source, n: np.ceil(log(source.uniform64(n)) / math.log1p(-p))


_DIFFERS = ["random-stream", "random-dtype", "missing-kernel"]
_declare = partial(rows, differs=_DIFFERS)
_like: Any = np.random.exponential
_written = {"writes": WriteSpec(inplace=_precheck_exponential)}
(exponential,) = _declare("exponential", _sampled, "Exponential values.", draw=_exponential, like=_like, **_written)
_DIFFERS = [*_DIFFERS, "random-parameters"]
_like = np.random.standard_cauchy
_declare("cauchy", _sampled, "Cauchy values with a median and a scale.", draw=_cauchy, like=_like, differs=_DIFFERS)
_DOC = "Geometric values: trials up to the first success, each with probability p."
_declare("geometric", _sampled, _DOC, draw=_geometric, like=np.random.geometric, differs=_DIFFERS)
_like, _DIFFERS = np.random.lognormal, [*_DIFFERS, "log-normal-defaults"]
_declare("log_normal", _sampled, "Log-normal values.", draw=_log_normal, like=_like, differs=_DIFFERS)


# ---------------------------------------------------------------- multinomial


_NO_WEIGHT = "invalid multinomial distribution (sum of probabilities <= 0)"


def _check_weights(weights: ndarray) -> None:
    check(0 < weights.ndim <= 2, "prob_dist must be 1 or 2 dim")
    words = f"multinomial only supports floating-point dtypes for input, got: {scalar_name(weights.dtype)}"
    check(is_floating(weights.dtype), words)


def _precheck_multinomial(bound: Bound, outs: list[ndarray]) -> None:
    _check_weights(bound["self"])
    found = scalar_name(outs[0].dtype)
    check(outs[0].dtype == int64, f"multinomial expects Long tensor out, got: {found}")


@kernel(
    "multinomial",
    like=np.random.choice,
    differs=[
        "random-stream",
        "multinomial-weights",
        "multinomial-replacement",
        "multinomial-zero-weights",
        "multinomial-rows",
        "missing-kernel",
    ],
    writes=WriteSpec(out=_precheck_multinomial),
)
def multinomial(self, num_samples, replacement=False, *, generator=None):
    """Indices drawn in proportion to the weights of each row."""
    _check_weights(self)
    check(num_samples > 0, "cannot sample n_sample <= 0 samples")
    categories = self.shape[-1]
    words = "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
    check(replacement or num_samples <= categories, words)
    check(categories <= 1 << 24, "number of categories cannot exceed 2^24")
    shape = (*self.shape[:-1], num_samples)
    if not math.prod(shape):
        return np.empty(shape, int64)
    draw, cpu = (_with_replacement, "multinomial") if replacement and num_samples > 1 else (_race, "aminmax_cpu")
    require(cpu, self.dtype, FLOATS)
    if not categories:
        words = "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
        check(draw is _with_replacement, words)
        raise RuntimeError(_NO_WEIGHT)
    return draw(self.reshape(-1, categories), num_samples, generator).reshape(shape)


def _with_replacement(weights: ndarray, samples: int, generator: Generator | None) -> ndarray:
    wide = cast(weights, opmath(weights.dtype))
    check(np.all(wide >= 0), "invalid multinomial distribution (encountering probability entry < 0)")
    words = "invalid multinomial distribution (encountering probability entry = infinity or NaN)"
    check(np.isfinite(wide).all(), words)
    bounds = np.add.accumulate(wide, -1)  # accumulate adds one by one, as torch does
    total = bounds[:, -1:].copy()
    check((total > 0).all(), _NO_WEIGHT)
    bounds /= total
    bounds[:, -1] = 1
    u = (generator or default_generator).uniform64(weights.shape[0] * samples).reshape(-1, samples)
    bounds = bounds.astype(np.float64)
    return np.stack([np.searchsorted(row, drawn) for row, drawn in zip(bounds, u, strict=True)])


def _race(weights: ndarray, samples: int, generator: Generator | None) -> ndarray:
    wide = cast(weights, opmath(weights.dtype))
    fair = np.max(wide) < math.inf and np.min(wide) >= 0
    check(fair, "probability tensor contains either `inf`, `nan` or element < 0")
    check(np.all(np.any(wide != 0, -1)), _NO_WEIGHT)
    # The largest of p / Exp(1) is at i in proportion to p[i].
    race = cast(wide / cast(exponential(weights, generator=generator), wide.dtype), weights.dtype)
    if samples == 1:
        return np.argmax(race, -1)[:, None]
    return np.argsort(-cast(race, wide.dtype), -1, kind="stable")[:, :samples]


# ---------------------------------------------------------------- rejection: the number of words depends on their values


@kernel("poisson", like=np.random.poisson, differs=["random-stream", "random-dtype", "missing-kernel"])
def poisson(self, generator=None):
    """Poisson values, each of its own rate."""
    require("poisson_cpu", self.dtype, FLOATS)
    rates = cast(self, float64).ravel().tolist()
    with (generator or default_generator).one_by_one(2 * len(rates)) as uniform:
        counts = [_poisson(rate, uniform) for rate in rates]
    return cast(np.array(counts, np.float64), self.dtype).reshape(self.shape)


def _poisson(rate: float, uniform: Callable[[], float]) -> float:
    check(rate >= 0, "invalid Poisson rate, expected rate to be non-negative")
    if rate == 0:
        return 0
    if rate < 10:
        limit, product, count = math.exp(-rate), uniform(), 0
        while product > limit:
            count += 1
            product *= uniform()
        return count
    log_rate, b = math.log(rate), 0.931 + 2.53 * math.sqrt(rate)
    log_scale = math.log(1.1239 + 1.1328 / (b - 3.4))

    def accepts(k: int, v: float, us: float, spread: float) -> bool:
        bound = -rate + k * log_rate - math.lgamma(k + 1)
        return not (us < 0.013 and v > us) and _log(v) + log_scale - math.log(spread) <= bound

    return _transformed(uniform, -0.059 + 0.02483 * b, b, rate + 0.43, 0.9277 - 3.6224 / (b - 2), math.inf, accepts)


def _log(v: float) -> float:
    return math.log(v) if v else -math.inf


def _transformed(
    uniform: Callable[[], float], a: float, b: float, center: float, v_r: float, most: float,
    accepts: Callable[[int, float, float, float], bool],
) -> float:  # fmt: skip
    """Hoermann's transformed rejection."""
    while True:
        u = uniform() - 0.5
        v = uniform()
        us = 0.5 - abs(u)
        if us == 0:  # the quotient is infinite, so its integer part is not a count
            continue
        k = math.floor((2 * a / us + b) * u + center)
        if 0 <= k <= most and ((us >= 0.07 and v <= v_r) or accepts(k, v, us, a / (us * us) + b)):
            return k


@kernel("binomial", like=np.random.binomial, differs=["random-stream", "random-dtype", "missing-kernel"])
def binomial(count, prob, generator=None):
    """Successes in `count` trials of probability `prob`."""
    for name, x in (("count", count), ("prob", prob)):
        words = f"binomial only supports floating-point dtypes for {name}, got: {scalar_name(x.dtype)}"
        check(is_floating(x.dtype), words, ValueError)
    shape = broadcast_shapes(count.shape, prob.shape)
    dtype = count.dtype
    check(prob.dtype == dtype, found_dtype(prob.dtype, dtype))
    require("binomial_cpu", dtype, (float32, float64))
    counts, probs = (np.broadcast_to(x, shape).ravel() for x in (count, prob))
    with (generator or default_generator).one_by_one(4 * counts.size) as uniform:
        values = [_binomial(n, p, dtype.type, uniform) for n, p in zip(counts, probs, strict=True)]
    return np.array(values, dtype).reshape(shape)


def _binomial(count: np.floating, prob: np.floating, scalar: type, uniform: Callable[[], float]) -> float:
    if count <= 0 or prob <= 0:
        return 0.0
    if prob >= 1:
        return float(count)
    if prob != prob or count != count:
        return math.nan
    small = prob if prob <= 0.5 else scalar(1.0 - float(prob))
    draw = _rejection if count * small >= 10 else _inversion
    drawn = draw(count, small, uniform)
    return drawn if prob <= 0.5 else count - scalar(drawn)


def _inversion(count: np.floating, prob: np.floating, uniform: Callable[[], float]) -> float:
    log_failure = float(np.log1p(-prob))
    total, successes = 0.0, 0
    while True:
        u = uniform()
        total += math.ceil(math.log(u) / log_failure) if u else math.inf
        if total > count:
            return successes
        successes += 1


def _rejection(count: np.floating, prob: np.floating, uniform: Callable[[], float]) -> float:
    n, p = float(count), float(prob)
    failure = type(count)(1) - prob
    deviation = float(np.sqrt(count * prob * failure))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    r = float(prob / failure)
    alpha = (2.83 + 5.1 / b) * deviation
    m = math.floor(float((count + type(count)(1)) * prob))

    def accepts(k: int, v: float, us: float, spread: float) -> bool:
        bound = (m + 0.5) * math.log((m + 1) / (r * (n - m + 1))) + (n + 1) * math.log((n - m + 1) / (n - k + 1))
        bound = bound + (k + 0.5) * math.log(r * (n - k + 1) / (k + 1)) + _tail(m) + _tail(n - m) - _tail(k)
        return _log(v * alpha / spread) <= bound - _tail(n - k)

    return _transformed(uniform, a, b, float(count * prob) + 0.5, 0.92 - 4.2 / b, n, accepts)


_TAILS = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211,
    0.0138761288230707, 0.0118967099458917, 0.0104112652619720, 0.00925546218271273, 0.00833056343336287,
)  # fmt: skip


def _tail(k: float) -> float:
    """Return the difference between log(k!) and Stirling's formula."""
    if k < len(_TAILS):
        return _TAILS[int(k)]
    square = (k + 1) * (k + 1)
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1)
