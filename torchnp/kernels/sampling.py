"""Draws from named distributions: exponential, Cauchy, log-normal, geometric, multinomial, Poisson, binomial."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from torchnp.checks import broadcast_shapes, check, require
from torchnp.dtypes import INTS, c_name, cast, float32, float64, int64, is_floating, opmath, scalar_name
from torchnp.errors import found_dtype, not_implemented
from torchnp.kernels._memory import memory_order
from torchnp.kernels.numerics.fma import fma
from torchnp.kernels.random import FLOATS, arrange
from torchnp.random import Generator, default_generator, libm
from torchnp.registry import kernel

ndarray = np.ndarray

# ---------------------------------------------------------------- one formula of a uniform or a normal


def _exactly(dtype: np.dtype, function: Callable[[float], float], ufunc: np.ufunc) -> Callable[[ndarray], ndarray]:
    """The C library's function where its last bit shows; NumPy's is equal after rounding to float32."""
    return (lambda x: libm(function, x)) if dtype == float64 else ufunc


def _sampled(
    self: ndarray, name: str, sample: Callable[[Generator, int], ndarray], generator: Generator | None, takes: Any = FLOATS
) -> ndarray:  # fmt: skip
    if not self.size:
        return self.copy()
    require(f"{name}_cpu", self.dtype, takes)
    values = cast(sample(generator or default_generator, self.size), self.dtype)
    return arrange(values, self.shape, memory_order(self))


@kernel("exponential", like=np.random.exponential, differs=["random-stream"])
def exponential(self, lambd=1.0, *, generator=None):
    """Exponential values of rate lambd."""
    if not lambd > 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd:g}")
    if self.size and not is_floating(self.dtype):
        words = "Exponential distribution is a continuous probability distribution."
        raise RuntimeError(f"{words} dtype must be a floating point but you specified {scalar_name(self.dtype)}")
    log1p = _exactly(self.dtype, math.log1p, np.log1p)
    return _sampled(self, "exponential", lambda source, n: -1.0 / lambd * log1p(-source.uniform64(n)), generator)


@kernel("cauchy", like=np.random.standard_cauchy, differs=["random-stream"])
def cauchy(self, median=0.0, sigma=1.0, *, generator=None):
    """Cauchy values around a median."""
    if not sigma > 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
    if not is_floating(self.dtype):
        words = "Cauchy distribution is a continuous probability distribution."
        raise RuntimeError(f"{words} dtype must be a floating point but you specified {c_name(self.dtype)}")
    tan = _exactly(self.dtype, math.tan, np.tan)
    values = lambda source, n: fma(tan(math.pi * (source.uniform64(n) - 0.5)), float(sigma), float(median))
    return _sampled(self, "cauchy", values, generator)


@kernel("log_normal", like=np.random.lognormal, differs=["random-stream"])
def log_normal(self, mean=1.0, std=2.0, *, generator=None):
    """Exponentials of normal values."""
    if not std > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std:g}")
    exp = _exactly(self.dtype, lambda x: math.exp(x) if x < 709 else float(np.exp(x)), np.exp)
    exact = self.dtype == float64
    values = lambda source, n: exp(fma(source.normal64(n, exact), float(std), float(mean)))
    return _sampled(self, "log_normal", values, generator)


@kernel("geometric", like=np.random.geometric, differs=["random-stream"])
def geometric(self, p, *, generator=None):
    """Trials up to the first success, each of probability p."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    scale = math.log1p(-p)
    log = lambda u: libm(math.log, u) if u.all() else np.log(u)
    values = lambda source, n: np.ceil(log(source.uniform64(n)) / scale)
    return _sampled(self, "geometric", values, generator, (*INTS, *FLOATS))


# ---------------------------------------------------------------- multinomial


@kernel("multinomial", like=np.random.choice, differs=["random-stream"])
def multinomial(self, num_samples, replacement=False, *, generator=None):
    """Indices drawn in proportion to the weights of each row."""
    check(0 < self.ndim <= 2, "prob_dist must be 1 or 2 dim")
    if not is_floating(self.dtype):
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {scalar_name(self.dtype)}")
    check(num_samples > 0, "cannot sample n_sample <= 0 samples")
    categories = self.shape[-1]
    words = "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
    check(replacement or num_samples <= categories, words)
    check(categories <= 1 << 24, "number of categories cannot exceed 2^24")
    shape = (*self.shape[:-1], num_samples)
    if not math.prod(shape):
        return np.empty(shape, int64)
    if self.dtype not in FLOATS:
        raise not_implemented("multinomial" if replacement and num_samples > 1 else "aminmax_cpu", self.dtype)
    draw = _with_replacement if replacement and num_samples > 1 else _without_replacement
    return draw(self.reshape(-1, categories), num_samples, generator).reshape(shape)


def _with_replacement(weights: ndarray, samples: int, generator: Generator | None) -> ndarray:
    wide = cast(weights, opmath(weights.dtype))
    check(np.all(wide >= 0), "invalid multinomial distribution (encountering probability entry < 0)")
    words = "invalid multinomial distribution (encountering probability entry = infinity or NaN)"
    check(np.isfinite(wide).all(), words)
    bounds = np.add.accumulate(wide, -1)  # accumulate adds one by one, as torch does
    total = bounds[:, -1:].copy()
    check((total > 0).all(), "invalid multinomial distribution (sum of probabilities <= 0)")
    bounds /= total
    bounds[:, -1] = 1
    u = (generator or default_generator).uniform64(weights.shape[0] * samples).reshape(-1, samples)
    bounds = bounds.astype(np.float64)
    return np.stack([np.searchsorted(row, drawn) for row, drawn in zip(bounds, u, strict=True)])


def _without_replacement(weights: ndarray, samples: int, generator: Generator | None) -> ndarray:
    wide = cast(weights, opmath(weights.dtype))
    weights_ = np.max(wide) < math.inf and np.min(wide) >= 0
    check(weights_, "probability tensor contains either `inf`, `nan` or element < 0")
    check(np.all(np.any(wide != 0, -1)), "invalid multinomial distribution (sum of probabilities <= 0)")
    # The largest of p / Exp(1) is at i in proportion to p[i].
    race = cast(wide / cast(exponential(weights, generator=generator), wide.dtype), weights.dtype)
    if samples == 1:
        return np.argmax(race, -1)[:, None]
    return np.argsort(-cast(race, wide.dtype), -1, kind="stable")[:, :samples]


# ---------------------------------------------------------------- rejection: the number of words depends on their values


@kernel("poisson", like=np.random.poisson, differs=["random-stream"])
def poisson(self, generator=None):
    """Poisson values of the rates that stand in each place."""
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
    # Hoermann's transformed rejection
    log_rate = math.log(rate)
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)
    while True:
        u = uniform() - 0.5
        v = uniform()
        us = 0.5 - abs(u)
        if us == 0:  # the quotient is infinite: its integer part is no count
            continue
        k = math.floor((2 * a / us + b) * u + rate + 0.43)
        if us >= 0.07 and v <= v_r:
            return k
        if k < 0 or (us < 0.013 and v > us) or v == 0:
            continue
        if math.log(v) + math.log(inverse_alpha) - math.log(a / (us * us) + b) <= (
            -rate + k * log_rate - math.lgamma(k + 1)
        ):
            return k


@kernel("binomial", like=np.random.binomial, differs=["random-stream"])
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
    draw = _transformed_rejection if count * small >= 10 else _inversion
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


def _transformed_rejection(count: np.floating, prob: np.floating, uniform: Callable[[], float]) -> float:
    n, p = float(count), float(prob)
    failure = type(count)(1) - prob
    deviation = float(np.sqrt(count * prob * failure))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = float(count * prob) + 0.5
    v_r = 0.92 - 4.2 / b
    r = float(prob / failure)
    alpha = (2.83 + 5.1 / b) * deviation
    m = math.floor(float((count + type(count)(1)) * prob))
    while True:
        u = uniform() - 0.5
        v = uniform()
        us = 0.5 - abs(u)
        if us == 0:
            continue
        k = math.floor((2 * a / us + b) * u + c)
        if k < 0 or k > n:
            continue
        if us >= 0.07 and v <= v_r:
            return k
        v = math.log(v * alpha / (a / (us * us) + b)) if v else -math.inf
        bound = (
            (m + 0.5) * math.log((m + 1) / (r * (n - m + 1)))
            + (n + 1) * math.log((n - m + 1) / (n - k + 1))
            + (k + 0.5) * math.log(r * (n - k + 1) / (k + 1))
            + _stirling_tail(m)
            + _stirling_tail(n - m)
            - _stirling_tail(k)
            - _stirling_tail(n - k)
        )
        if v <= bound:
            return k


_TAILS = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211,
    0.0138761288230707, 0.0118967099458917, 0.0104112652619720, 0.00925546218271273, 0.00833056343336287,
)  # fmt: skip


def _stirling_tail(k: float) -> float:
    if k < len(_TAILS):
        return _TAILS[int(k)]
    square = (k + 1) * (k + 1)
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1)
