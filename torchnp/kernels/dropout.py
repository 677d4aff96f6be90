"""Bernoulli samples, and the layers that use random numbers: dropout and randomized leaky ReLU."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, check_expand, check_type, require
from torchnp.core.errors import expected_true, shape_text
from torchnp.core.inplace_out_spec import Bound, Step, WriteSpec, resize
from torchnp.core.python_scalars import number, real, scalar
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._elementwise import in_place
from torchnp.kernels._memory import memory_order
from torchnp.kernels.arithmetic import add, div, mul
from torchnp.kernels.copy import clone
from torchnp.kernels.uniform_normal import FLOATS, arrange, fill, in_tiles, laid_like
from torchnp.layout import stride_rules
from torchnp.layout.overlap import check_apart, check_target
from torchnp.random import TILE, Generator, default_generator
from torchnp.threads import blocks

ndarray = np.ndarray

# ---------------------------------------------------------------- bernoulli


_DRAWN = frozenset((dt.bool_, *dt.INTS, *FLOATS))


@in_tiles
def bernoulli_values(n: int, dtype: np.dtype, p: float, generator: Generator | None) -> ndarray:
    """Return ``n`` Bernoulli samples with one probability, each from one float64 uniform number."""
    check(0 <= p <= 1, f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
    if not n:
        return np.empty(0, dtype)
    require("bernoulli_scalar_cpu_", dtype, _DRAWN)
    return (generator or default_generator).below(p, n).astype(dtype, copy=False)


def _each(
    shape: tuple[int, ...], dtype: np.dtype, p: ndarray, order: tuple[int, ...] | None, generator: Generator | None
) -> ndarray:
    """Return Bernoulli samples with one probability per element, drawn in the memory order ``order``.

    The uniform numbers have p's compute precision: float64 or float32.
    """
    n = math.prod(shape)
    if not n:
        return np.empty(shape, dtype)
    require("bernoulli_tensor_cpu_self_", dtype, _DRAWN)
    check_expand(p, shape)
    require("bernoulli_tensor_cpu_p_", p.dtype, FLOATS)
    flat, wide = p.reshape(-1), dt.opmath(p.dtype)
    for part in blocks(p.size, TILE):
        tile = dt.cast(flat[part], wide)
        check(np.all((tile >= 0) & (tile <= 1)), expected_true("p_in >= 0 && p_in <= 1"))
    p = np.broadcast_to(p, shape)
    flat, out = (p if order is None else p.transpose(order)).reshape(-1), np.empty(n, dtype)
    source = generator or default_generator
    draw = source.uniform64 if wide == dt.float64 else source.uniform32
    for part in blocks(n, TILE):
        out[part] = (draw(part.stop - part.start) < dt.cast(flat[part], wide)).astype(dtype, copy=False)
    return arrange(out, shape, order)


_declare = partial(rows, like=np.random.binomial, differs=["random-stream", "random-dtype", "missing-kernel"])
_DOC = "1 with the probability that each element gives, else 0."
_declare("bernoulli", lambda x, source: _each(x.shape, x.dtype, x, None, source), _DOC)
_DOC = "1 with probability p, else 0."
_declare("bernoulli.p", lambda x, p, source: bernoulli_values(x.size, x.dtype, p, source).reshape(x.shape), _DOC)
_DOC = "Fill with 1 (with probability p) or 0, drawn in memory order; `bernoulli.p` draws in row-major order."
_write = lambda x, p, source: fill(x, partial(bernoulli_values, x.size, x.dtype, p, source))
_declare("bernoulli_.float", _write, _DOC, differs=["random-stream", "overlap-inplace", "missing-kernel"])
_DOC = "1 with the probability in ``p``, else 0, in the dtype of ``self``."
_declare("bernoulli.Tensor", lambda x, p, source: _each(x.shape, x.dtype, p, memory_order(x), source), _DOC)


@kernel("bernoulli.out", differs=["random-stream"])
def bernoulli_out(self, *, generator=None, out):
    """1 with the probability that each element gives, else 0, drawn in the memory order of ``out``."""
    out = out if out.shape == self.shape else resize(out, self.shape)
    check_target(out)
    check_apart(out, self)
    out[...] = _each(out.shape, out.dtype, self, memory_order(out), generator)
    return out


# ---------------------------------------------------------------- dropout


@kernel("native_dropout", differs=["random-stream"])
def native_dropout(input, p, train):
    """The elements, set to zero with probability p, else scaled by 1 / (1 - p); also the mask of kept elements."""
    if not input.size:
        return input, np.empty_like(input)
    if train is not None and not train:
        return clone(input), laid_like(input, np.ones(input.size, dt.bool_))
    keep = 1.0 - p
    mask = laid_like(input, bernoulli_values(input.size, dt.bool_, keep, None))
    strides = stride_rules.iterated((stride_rules.layout_of(input), stride_rules.layout_of(mask)))
    return stride_rules.place(_stepped(mul, mul(input, mask), 0.0 if keep == 0 else 1.0 / keep), strides), mask


def _stepped(op: Callable[..., ndarray], x: ndarray, value: float) -> ndarray:
    """Compute ``x.op_(value)``. Before a product or sum, but not a quotient, torch rounds the number to x's dtype."""
    return in_place(x, op(x, value if op is div else number(value, dt.result_type(x, value))))


def _dropout(input: ndarray, p: float, train: bool, feature: bool = False, alpha: bool = False) -> ndarray:
    check(0 <= p <= 1, f"dropout probability has to be between 0 and 1, but got {p:g}")
    if p == 0 or not train or not input.size:
        return input
    if p == 1:
        return mul(input, np.zeros((), input.dtype))
    shape = input.shape
    if feature:
        check(input.ndim >= 2, "Feature dropout requires at least 2 dimensions in the input")
        shape = shape[:2] + (1,) * (input.ndim - 2)
    drawn = dt.to_real(input.dtype) if since("2.15") and dt.is_complex(input.dtype) else input.dtype
    order = None if feature else memory_order(input)
    noise = arrange(bernoulli_values(math.prod(shape), drawn, 1.0 - p, None), shape, order)
    if not alpha:
        noise = _stepped(div, noise, 1.0 - p)
        return mul(input, noise)
    limit = 1.7580993408473766  # minus SELU's limit at -inf
    a = 1.0 / math.sqrt((limit * limit * p + 1.0) * (1.0 - p))
    shift = noise.astype(np.int64) - 1 if noise.dtype == dt.bool_ else _stepped(add, noise, -1)
    shift = _stepped(add, _stepped(mul, shift, limit * a), limit * a * p)
    return add(mul(input, _stepped(mul, noise, a)), shift)


def _write_expanded(bound: Bound, target: ndarray, step: Step) -> None:
    """Refuse an expanded target, because torch multiplies it in place, unless there is nothing to do."""
    step(bound | {next(iter(bound)): target.copy()})
    if bound["train"] and bound["p"]:
        check_target(target)


_declare = partial(rows, differs=["random-stream"], writes=WriteSpec(expanded=_write_expanded))
_DOC = "Zero elements with probability p and divide the rest by 1 - p; the input itself if there is nothing to do."
(dropout,) = _declare("dropout", _dropout, _DOC)
_declare("feature_dropout", _dropout, "Dropout of whole channels.", feature=True)
_declare("alpha_dropout", _dropout, "Dropout to SELU's lower limit; mean and variance are kept.", alpha=True)
_declare("feature_alpha_dropout", _dropout, "Alpha dropout of whole channels.", feature=True, alpha=True)


_RRELU, _RRELU_TAKES = "rrelu_with_noise_out_cpu", (dt.bfloat16, dt.float32, dt.float64)


@kernel("rrelu_with_noise_functional", differs=["random-stream"])
def rrelu_with_noise_functional(self, noise, lower=0.125, upper=0.3333333333333333, training=False, generator=None):
    """Leaky ReLU, in training with a random slope for each element; also the slopes."""
    found = f"Got self.shape = {shape_text(self.shape)} noise.shape = {shape_text(noise.shape)}"
    check(self.shape == noise.shape, f"noise tensor shape must match self tensor shape. {found}")
    dtype = self.dtype
    wide = dt.opmath(dtype)
    if not training:
        require("leaky_relu_cpu", dtype, FLOATS)
        x = dt.cast(self, wide)
        both = lower + upper
        if isinstance(lower, bool) and isinstance(upper, bool):
            both = int(lower or upper)  # torch adds bools as bools
        elif isinstance(both, int):
            both = int(np.add(int(lower), int(upper), dtype=np.int64))  # torch adds integers as int64, which may wrap
        return dt.cast(np.where(x > 0, x, x * scalar(both / 2, wide)), dtype), noise.copy("K")
    require(_RRELU, dtype, _RRELU_TAKES)
    low, high = (float(scalar(bound, wide)) for bound in (lower, upper))
    check_type(dtype, noise)
    drawn = self <= 0
    if drawn.any():
        check(low <= high, expected_true("from <= to"))
        check(math.isfinite(high - low), expected_true("to - from <= std::numeric_limits<T>::max()"))
    u = (generator or default_generator).uniform64(int(np.count_nonzero(drawn)))
    slopes = np.ones(self.shape, wide)
    slopes[drawn] = u * (high - low) + low
    out = np.where(drawn, dt.cast(dt.cast(self, wide) * slopes, dtype), self)
    # torch writes the slopes in sequence into noise's memory, whatever its order of dimensions.
    return out, laid_like(noise, dt.cast(slopes, dtype).reshape(-1))


@kernel("rrelu_with_noise", differs=["random-stream"])
def rrelu_with_noise(self, noise, lower=0.125, upper=0.3333333333333333, training=False, generator=None):
    """`rrelu_with_noise_functional`, with the slopes written into ``noise``."""
    out, slopes = rrelu_with_noise_functional(self, noise, lower, upper, training, generator)
    noise[...] = slopes
    return out


@kernel("rrelu_with_noise_", differs=["random-stream"])
def rrelu_with_noise_(self, noise, lower=0.125, upper=0.3333333333333333, training=False, generator=None):
    """`rrelu_with_noise`, written into ``self``."""
    if not training and self.shape == noise.shape:
        check_target(self)
    out = rrelu_with_noise(self, noise, lower, upper, training, generator)
    check_target(self)
    self[...] = out
    return self


def _check_bounds(lower: float, upper: float) -> None:
    for name, bound in (("lower", real(lower)), ("upper", real(upper))):
        check(math.isfinite(bound), f"rrelu: {name} bound must be finite, got {bound}")
    check(lower <= upper, "Lower bound should be less than or equal to the upper bound")


def _precheck_inplace(bound: Bound, targets: list[ndarray]) -> None:
    """Check the bounds and, in training, the dtype: torch checks these before the target's memory."""
    _check_bounds(bound["lower"], bound["upper"])
    if bound["training"]:
        require(_RRELU, targets[0].dtype, _RRELU_TAKES)


@kernel("rrelu", differs=["random-stream"], writes=WriteSpec(inplace=_precheck_inplace))
def rrelu(self, lower=0.125, upper=0.3333333333333333, training=False, generator=None):
    """Leaky ReLU, in training with a random slope for each element."""
    _check_bounds(lower, upper)
    return rrelu_with_noise_functional(self, np.empty_like(self), lower, upper, training, generator)[0]
