"""Bernoulli draws, and the layers made of them: dropout and its relatives, and randomized leaky ReLU."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check, check_expand, check_type, require
from torchnp.errors import cannot_cast, expected_true, not_implemented, shape_text
from torchnp.kernels._memory import memory_order
from torchnp.kernels._rows import rows
from torchnp.kernels.random import BARE, FLOATS, arrange, fill
from torchnp.random import Generator, default_generator
from torchnp.registry import kernel

ndarray = np.ndarray

# ---------------------------------------------------------------- bernoulli


def bernoulli_values(n: int, dtype: np.dtype, p: float, generator: Generator | None) -> ndarray:
    """`n` flat draws of one probability: a float64 uniform each."""
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
    if not n:
        return np.empty(0, dtype)
    if not _has_bernoulli(dtype):
        raise not_implemented("bernoulli_scalar_cpu_", dtype)
    return (generator or default_generator).below(p, n).astype(dtype, copy=False)


def _has_bernoulli(dtype: np.dtype) -> bool:
    return dtype not in BARE and (dt.is_integral(dtype) or dtype == dt.bool_ or dtype in FLOATS)


def _each(
    shape: tuple[int, ...], dtype: np.dtype, p: ndarray, order: tuple[int, ...] | None, generator: Generator | None
) -> ndarray:
    """Draws of a probability each, walking memory in `order`: uniforms of p's precision, float64 or float32."""
    n = math.prod(shape)
    if not n:
        return np.empty(shape, dtype)
    if not _has_bernoulli(dtype):
        raise not_implemented("bernoulli_tensor_cpu_self_", dtype)
    check_expand(p, shape)
    require("bernoulli_tensor_cpu_p_", p.dtype, FLOATS)
    p = dt.cast(p, dt.opmath(p.dtype))
    check(np.all((p >= 0) & (p <= 1)), expected_true("p_in >= 0 && p_in <= 1"))
    source = generator or default_generator
    u = source.uniform64(n) if p.dtype == dt.float64 else source.uniform32(n)
    return (arrange(u, shape, order) < p).astype(dtype, copy=False)


def _in_order(self, p, generator):
    return fill(self, bernoulli_values(self.size, self.dtype, p, generator), memory_order(self))


def _bernoulli_p(self, p, generator):
    return bernoulli_values(self.size, self.dtype, p, generator).reshape(self.shape)


_declare = partial(rows, like=np.random.binomial, differs=["random-stream"])
_declare(
    "bernoulli", lambda x, source: _each(x.shape, x.dtype, x, None, source),
    "1 with the probability that stands in each place, else 0.",
)  # fmt: skip
_declare("bernoulli.p", _bernoulli_p, "1 with probability p, else 0.")
_declare(
    "bernoulli_.float", _in_order,
    "Write 1 with probability p, else 0, in the order of memory (bernoulli.p goes row by row).",
)  # fmt: skip
_declare(
    "bernoulli.Tensor", lambda x, p, source: _each(x.shape, x.dtype, p, memory_order(x), source),
    "1 with the probability that stands in p, else 0, in the dtype of self.",
)  # fmt: skip

# ---------------------------------------------------------------- dropout


@kernel("native_dropout", differs=["random-stream"])
def native_dropout(input, p, train):
    """Zero with probability p and scale the rest by 1 / (1 - p); also the mask of what stays."""
    if not input.size:
        return input, np.empty_like(input)
    if train is not None and not train:
        return input.copy("K"), arrange(np.ones(input.size, dt.bool_), input.shape, memory_order(input))
    keep = 1.0 - p
    mask = arrange(bernoulli_values(input.size, dt.bool_, keep, None), input.shape, memory_order(input))
    return _scale(_multiply(input, mask), 0.0 if keep == 0 else 1.0 / keep), mask


def _multiply(x: ndarray, noise: ndarray) -> ndarray:
    dtype = dt.result_type(x, noise)
    if dt.is_floating(dtype) and dtype not in FLOATS:
        raise not_implemented("mul_cpu_reduced_float", dtype)
    wide = dt.opmath(dtype)
    return dt.cast(dt.cast(x, wide) * dt.cast(noise, wide), dtype)


def _scale(x: ndarray, factor: float) -> ndarray:
    return _number(np.multiply, x, factor, rounded=True)


def _number(ufunc: np.ufunc, x: ndarray, number: float, rounded: bool = False) -> ndarray:
    """x.op_(number); torch's C++ rounds the number to x's dtype first in products and sums, not in quotients."""
    dtype = dt.result_type(x, number)
    if not dt.can_cast(dtype, x.dtype):
        raise cannot_cast(dtype, x.dtype)
    wide = dt.opmath(dtype)
    factor = np.array(number)
    return dt.cast(ufunc(dt.cast(x, wide), dt.cast(dt.cast(factor, dtype) if rounded else factor, wide)), x.dtype)


def _dropout(input: ndarray, p: float, train: bool, feature: bool = False, alpha: bool = False) -> ndarray:
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p:g}")
    if p == 0 or not train or not input.size:
        return input
    if p == 1:
        return _multiply(input, np.zeros((), input.dtype))
    shape = input.shape
    if feature:
        check(input.ndim >= 2, "Feature dropout requires at least 2 dimensions in the input")
        shape = shape[:2] + (1,) * (input.ndim - 2)
    values = bernoulli_values(math.prod(shape), input.dtype, 1.0 - p, None)
    noise = arrange(values, shape, None if feature else memory_order(input))
    if not alpha:
        return _multiply(input, _number(np.divide, noise, 1.0 - p))
    limit = 1.7580993408473766  # minus the value that SELU tends to
    a = 1.0 / math.sqrt((limit * limit * p + 1.0) * (1.0 - p))
    shift = noise.astype(np.int64) - 1 if noise.dtype == dt.bool_ else _number(np.add, noise, -1, rounded=True)
    shift = _number(np.add, _scale(shift, limit * a), limit * a * p, rounded=True)
    product = _multiply(input, _scale(noise, a))
    wide = dt.opmath(product.dtype)
    return dt.cast(dt.cast(product, wide) + dt.cast(shift, wide), product.dtype)


_declare = partial(rows, differs=["random-stream"])
(dropout,) = _declare(
    "dropout", _dropout,
    "Zero with probability p and divide the rest by 1 - p; the input itself when there is nothing to do.",
)  # fmt: skip
_declare("feature_dropout", _dropout, "Dropout of whole channels.", feature=True)
_declare("alpha_dropout", _dropout, "Dropout to SELU's limit, with mean and variance kept.", alpha=True)
_declare("feature_alpha_dropout", _dropout, "Alpha dropout of whole channels.", feature=True, alpha=True)

# ---------------------------------------------------------------- randomized leaky ReLU


@kernel("rrelu_with_noise_functional", differs=["random-stream"])
def rrelu_with_noise_functional(self, noise, lower=0.125, upper=0.3333333333333333, training=False, generator=None):
    """Scale what is not positive, in training by a slope drawn for each value; also those slopes."""
    if self.shape != noise.shape:
        raise RuntimeError(
            "noise tensor shape must match self tensor shape. "
            f"Got self.shape = {shape_text(self.shape)} noise.shape = {shape_text(noise.shape)}"
        )
    dtype = self.dtype
    wide = dt.opmath(dtype)
    if not training:
        require("leaky_relu_cpu", dtype, FLOATS)
        x = dt.cast(self, wide)
        return dt.cast(np.where(x > 0, x, x * wide.type((lower + upper) / 2)), dtype), noise.copy("K")
    if dtype not in FLOATS or dtype == dt.float16:
        raise not_implemented("rrelu_with_noise_out_cpu", dtype)
    check_type(dtype, noise)
    low, high = float(wide.type(lower)), float(wide.type(upper))
    drawn = self <= 0
    u = (generator or default_generator).uniform64(int(np.count_nonzero(drawn)))
    slopes = np.ones(self.shape, wide)
    slopes[drawn] = u * (high - low) + low
    return np.where(drawn, dt.cast(dt.cast(self, wide) * slopes, dtype), self), dt.cast(slopes, dtype)


@kernel("rrelu_with_noise", differs=["random-stream"])
def rrelu_with_noise(self, noise, lower=0.125, upper=0.3333333333333333, training=False, generator=None):
    """`rrelu_with_noise_functional`, with the slopes written into noise."""
    out, slopes = rrelu_with_noise_functional(self, noise, lower, upper, training, generator)
    noise[...] = slopes
    return out


@kernel("rrelu_with_noise_", differs=["random-stream"])
def rrelu_with_noise_(self, noise, lower=0.125, upper=0.3333333333333333, training=False, generator=None):
    """`rrelu_with_noise` written into self."""
    self[...] = rrelu_with_noise(self, noise, lower, upper, training, generator)
    return self


@kernel("rrelu", differs=["random-stream"])
def rrelu(self, lower=0.125, upper=0.3333333333333333, training=False, generator=None):
    """Leaky ReLU, in training with a slope drawn for each value."""
    for name, bound in (("lower", lower), ("upper", upper)):
        check(math.isfinite(bound), f"rrelu: {name} bound must be finite, got {bound}")
    check(lower <= upper, "Lower bound should be less than or equal to the upper bound")
    return rrelu_with_noise_functional(self, np.empty_like(self), lower, upper, training, generator)[0]
