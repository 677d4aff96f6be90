"""Random numbers of named distributions: exponential, Cauchy, log-normal, geometric, multinomial, Poisson, binomial."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from torchnp.core.checks import broadcast_shapes, check, require
from torchnp.core.errors import found_dtype
from torchnp.core.inplace_out_spec import Bound, WriteSpec
from torchnp.core.registry import kernel
from torchnp.dtypes import INTS, c_name, cast, float32, float64, int64, is_floating, opmath, scalar_name
from torchnp.kernels._declare_rows import rows
from torchnp.kernels.numerics import rejection
from torchnp.kernels.numerics.fma import fma
from torchnp.kernels.uniform_normal import FLOATS, in_tiles, laid_like
from torchnp.layout.overlap import check_target
from torchnp.random import Generator, default_generator, libm

ndarray = np.ndarray
Sample = Callable[[Generator, int], ndarray]

# ---------------------------------------------------------------- functions of one uniform or normal value


def _exactly(dtype: np.dtype, function: Callable[[float], float], ufunc: np.ufunc) -> Callable[[ndarray], ndarray]:
    """Return the C library's function for float64, else NumPy's, whose results are equal after rounding."""
    return (lambda x: libm(function, x)) if dtype == float64 else ufunc


def _sampled(self: ndarray, *given: float, generator: Generator | None, op: str, draw: Any) -> ndarray:
    values = draw(self, *given)
    if not self.size:
        return self.copy()
    require(f"{op}_cpu", self.dtype, (*INTS, *FLOATS) if op == "geometric" else FLOATS)
    source = generator or default_generator
    draw_tile = in_tiles(lambda n, dtype: cast(values(source, n), dtype))
    return laid_like(self, draw_tile(self.size, self.dtype))


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
    """Random indices, with probabilities proportional to the weights of each row."""
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
    # The index of the largest p / Exp(1) is i with a probability proportional to p[i].
    race = cast(wide / cast(exponential(weights, generator=generator), wide.dtype), weights.dtype)
    if samples == 1:
        return np.argmax(race, -1)[:, None]
    return np.argsort(-cast(race, wide.dtype), -1, kind="stable")[:, :samples]


# ---------------------------------------------------------------- rejection sampling


@kernel("poisson", like=np.random.poisson, differs=["random-stream", "random-dtype", "missing-kernel"])
def poisson(self, generator=None):
    """Poisson random numbers, each with its own rate."""
    require("poisson_cpu", self.dtype, FLOATS)
    rates = self.ravel()
    bad = np.flatnonzero(~(rates >= 0))
    some = rates[: bad[0]] if bad.size else rates  # torch samples these before it reaches the invalid rate
    out = np.empty(some.shape, self.dtype if self.dtype == float32 else float64)
    counts = lambda part: rejection.poisson(cast(some[part], float64))
    rejection.sample(generator or default_generator, counts, out, 3)
    check(not bad.size, "invalid Poisson rate, expected rate to be non-negative")
    return cast(out, self.dtype).reshape(self.shape)


@kernel("binomial", like=np.random.binomial, differs=["random-stream", "random-dtype", "missing-kernel"])
def binomial(count, prob, generator=None):
    """Numbers of successes in ``count`` trials with probability ``prob``."""
    for name, x in (("count", count), ("prob", prob)):
        words = f"binomial only supports floating-point dtypes for {name}, got: {scalar_name(x.dtype)}"
        check(is_floating(x.dtype), words, ValueError)
    shape = broadcast_shapes(count.shape, prob.shape)
    dtype = count.dtype
    check(prob.dtype == dtype, found_dtype(prob.dtype, dtype))
    require("binomial_cpu", dtype, (float32, float64))
    counts, probs = (np.broadcast_to(x, shape).ravel() for x in (count, prob))
    out = np.empty(counts.shape, dtype)
    parameters = lambda part: rejection.binomial(counts[part], probs[part])
    rejection.sample(generator or default_generator, parameters, out, 4)
    np.subtract(counts, out, out, where=(counts > 0) & (probs > 0.5) & (probs < 1))
    return out.reshape(shape)
