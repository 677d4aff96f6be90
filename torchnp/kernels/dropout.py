"""Bernoulli draws, and the layers made of them: dropout and its relatives, and randomized leaky ReLU."""

from __future__ import annotations

import math

import numpy as np

from torchnp.checks import check, check_expand, check_type
from torchnp.dtypes import (
    bool_,
    can_cast,
    cast,
    float16,
    float64,
    is_floating,
    is_integral,
    opmath,
    result_type,
)
from torchnp.errors import cannot_cast, not_implemented, shape_text
from torchnp.kernels._memory import memory_order
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
    return dtype not in BARE and (is_integral(dtype) or dtype == bool_ or dtype in FLOATS)


def _bernoulli_each(
    shape: tuple[int, ...], dtype: np.dtype, p: ndarray, order: tuple[int, ...] | None, generator: Generator | None
) -> ndarray:
    """Draws of a probability each, walking memory in `order`: uniforms of p's precision, float64 or float32."""
    n = math.prod(shape)
    if not n:
        return np.empty(shape, dtype)
    if not _has_bernoulli(dtype):
        raise not_implemented("bernoulli_tensor_cpu_self_", dtype)
    check_expand(p, shape)
    if p.dtype not in FLOATS:
        raise not_implemented("bernoulli_tensor_cpu_p_", p.dtype)
    p = cast(p, opmath(p.dtype))
    check(
        np.all((p >= 0) & (p <= 1)),
        "Expected p_in >= 0 && p_in <= 1 to be true, but got false.  "
        "(Could this error message be improved?  If so, please report an enhancement request to PyTorch.)",
    )
    source = generator or default_generator
    u = source.uniform64(n) if p.dtype == float64 else source.uniform32(n)
    return (arrange(u, shape, order) < p).astype(dtype, copy=False)


@kernel("bernoulli", like=np.random.binomial, differs=["random-stream"])
def bernoulli(self, *, generator=None):
    """1 with the probability that stands in each place, else 0."""
    return _bernoulli_each(self.shape, self.dtype, self, None, generator)


@kernel("bernoulli.p", like=np.random.binomial, differs=["random-stream"])
def bernoulli_p(self, p, *, generator=None):
    """1 with probability p, else 0."""
    return bernoulli_values(self.size, self.dtype, p, generator).reshape(self.shape)


@kernel("bernoulli_.float", like=np.random.binomial, differs=["random-stream"])
def bernoulli__float(self, p=0.5, *, generator=None):
    """Write 1 with probability p, else 0, in the order of memory (bernoulli.p goes row by row)."""
    return fill(self, bernoulli_values(self.size, self.dtype, p, generator), memory_order(self))


@kernel("bernoulli.Tensor", like=np.random.binomial, differs=["random-stream"])
def bernoulli_tensor(self, p, *, generator=None):
    """1 with the probability that stands in p, else 0, in the dtype of self."""
    return _bernoulli_each(self.shape, self.dtype, p, memory_order(self), generator)


# ---------------------------------------------------------------- dropout


@kernel("native_dropout", differs=["random-stream"])
def native_dropout(input, p, train):
    """Zero with probability p and scale the rest by 1 / (1 - p); also the mask of what stays."""
    if not input.size:
        return input, np.empty_like(input)
    if train is not None and not train:
        return input.copy("K"), arrange(np.ones(input.size, bool_), input.shape, memory_order(input))
    keep = 1.0 - p
    mask = arrange(bernoulli_values(input.size, bool_, keep, None), input.shape, memory_order(input))
    return _scale(_multiply(input, mask), 0.0 if keep == 0 else 1.0 / keep), mask


def _multiply(x: ndarray, noise: ndarray) -> ndarray:
    dtype = result_type(x, noise)
    if is_floating(dtype) and dtype not in FLOATS:
        raise not_implemented("mul_cpu_reduced_float", dtype)
    wide = opmath(dtype)
    return cast(cast(x, wide) * cast(noise, wide), dtype)


def _scale(x: ndarray, factor: float) -> ndarray:
    return _number(np.multiply, x, factor, rounded=True)


def _number(ufunc: np.ufunc, x: ndarray, number: float, rounded: bool = False) -> ndarray:
    """x.op_(number); torch's C++ rounds the number to x's dtype first in products and sums, not in quotients."""
    dtype = result_type(x, number)
    if not can_cast(dtype, x.dtype):
        raise cannot_cast(dtype, x.dtype)
    wide = opmath(dtype)
    factor = np.array(number)
    return cast(ufunc(cast(x, wide), cast(cast(factor, dtype) if rounded else factor, wide)), x.dtype)


def _dropout(input: ndarray, p: float, train: bool, feature: bool, alpha: bool) -> ndarray:
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
    shift = noise.astype(np.int64) - 1 if noise.dtype == bool_ else _number(np.add, noise, -1, rounded=True)
    shift = _number(np.add, _scale(shift, limit * a), limit * a * p, rounded=True)
    product = _multiply(input, _scale(noise, a))
    wide = opmath(product.dtype)
    return cast(cast(product, wide) + cast(shift, wide), product.dtype)


@kernel("dropout", differs=["random-stream"])
def dropout(input, p, train):
    """Zero with probability p and divide the rest by 1 - p; the input itself when there is nothing to do."""
    return _dropout(input, p, train, feature=False, alpha=False)


@kernel("feature_dropout", differs=["random-stream"])
def feature_dropout(input, p, train):
    """Dropout of whole channels."""
    return _dropout(input, p, train, feature=True, alpha=False)


@kernel("alpha_dropout", differs=["random-stream"])
def alpha_dropout(input, p, train):
    """Dropout to SELU's limit, with mean and variance kept."""
    return _dropout(input, p, train, feature=False, alpha=True)


@kernel("feature_alpha_dropout", differs=["random-stream"])
def feature_alpha_dropout(input, p, train):
    """Alpha dropout of whole channels."""
    return _dropout(input, p, train, feature=True, alpha=True)


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
    wide = opmath(dtype)
    if not training:
        if dtype not in FLOATS:
            raise not_implemented("leaky_relu_cpu", dtype)
        x = cast(self, wide)
        return cast(np.where(x > 0, x, x * wide.type((lower + upper) / 2)), dtype), noise.copy("K")
    if dtype not in FLOATS or dtype == float16:
        raise not_implemented("rrelu_with_noise_out_cpu", dtype)
    check_type(dtype, noise)
    low, high = float(wide.type(lower)), float(wide.type(upper))
    drawn = self <= 0
    u = (generator or default_generator).uniform64(int(np.count_nonzero(drawn)))
    slopes = np.ones(self.shape, wide)
    slopes[drawn] = u * (high - low) + low
    return np.where(drawn, cast(cast(self, wide) * slopes, dtype), self), cast(slopes, dtype)


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
