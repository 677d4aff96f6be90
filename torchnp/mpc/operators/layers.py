"""Matrix products, convolutions, pooling, softmax and batch norm on shares, with the gradient operators of torch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torchnp.engine import Call
from torchnp.mpc import bilinear, functions
from torchnp.mpc.fixed_point import FixedPoint
from torchnp.mpc.operators.registry import PublicArray, op, public, result_bits, secret, shared
from torchnp.mpc.operators.selection import unit_vectors
from torchnp.mpc.shares import SharedSum

# ---------------------------------------------------------------- products


def product(p: FixedPoint, name: str, x: Any, y: Any, **options: Any) -> SharedSum:
    """Compute a bilinear operator; the result has the sum of both fractional bits. One argument may be public."""
    if secret(x) and secret(y):
        return p.bilinear(name, x, y, **options)
    compute = bilinear.function(name, options)
    known = np.asarray(public(y if secret(x) else x))
    bits = p.bits if known.dtype.kind == "f" else 0
    words = p.encode(known, bits)
    if secret(x):
        return p.each(lambda w: compute(w, words), x, bits=x.bits + bits)
    return p.each(lambda w: compute(words, w), y, bits=y.bits + bits)


@op("mm", "bmm")
def mm(p: FixedPoint, call: Call, x: Any, y: Any) -> SharedSum:
    """Return the matrix product."""
    return p.at(product(p, "matmul", x, y), result_bits(p, call))


@op("addmm")
def addmm(p: FixedPoint, call: Call, bias: Any, x: Any, y: Any, *, beta: Any = 1, alpha: Any = 1) -> SharedSum:
    """Return ``beta * bias + alpha * x @ y``."""
    bits = result_bits(p, call)
    total = _scaled_to(
        p, product(p, "matmul", x, y) if secret(x) or secret(y) else _known_product(p, x, y), alpha, bits
    )
    if beta == 0:
        return total
    return _plus(p, total, bias if beta == 1 else _times(p, bias, beta, bits), bits)


def _known_product(p: FixedPoint, x: Any, y: Any) -> SharedSum:
    values = public(x) @ public(y)
    bits = p.bits if values.dtype.kind == "f" else 0
    return p.constant(p.encode(values, bits), bits)


def _scaled_to(p: FixedPoint, x: SharedSum, number: Any, bits: int) -> SharedSum:
    if number == int(number):  # multiply before rounding
        return p.at(p.scaled(x, int(number)), bits)
    return p.scaled(p.at(x, bits), number)


def _times(p: FixedPoint, x: Any, number: Any, bits: int) -> Any:
    return p.scaled(p.at(x, bits), number) if secret(x) else np.asarray(public(x)) * number


def _plus(p: FixedPoint, x: SharedSum, y: Any, bits: int) -> SharedSum:
    if secret(y):
        return p.add(x, p.at(y, bits))
    return p.plus(x, p.encode(public(y), bits))


@op("convolution")
def convolution(
    p: FixedPoint, call: Call, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int,
) -> SharedSum:  # fmt: skip
    """Compute a convolution, with one Beaver triple."""
    options = _options(weight, stride, padding, dilation, transposed, output_padding, groups)
    bits = result_bits(p, call)
    if not secret(x) and not secret(weight):
        x = shared(p, x, bits)
    total = p.at(product(p, "convolution", x, weight, **options), bits)
    if bias is None:
        return total
    ahead = (-1, *[1] * (len(total.shape) - 2))
    if secret(bias):
        return p.add(total, p.each(lambda w: w.reshape(ahead), p.at(bias, bits)))
    return p.plus(total, p.encode(public(bias), bits).reshape(ahead))


def _options(weight: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, extra: Any, groups: int) -> dict:
    n = len((weight if secret(weight) else public(weight)).shape) - 2
    full = lambda values: [int(v) for v in values] * (n if len(values) == 1 else 1)
    return {
        "stride": full(stride), "padding": full(padding), "dilation": full(dilation), "transposed": bool(transposed),
        "output_padding": full(extra), "groups": int(groups),
    }  # fmt: skip


@op("convolution_backward")
def convolution_backward(
    p: FixedPoint, call: Call, grad: Any, x: Any, weight: Any, bias_sizes: Any, stride: Any, padding: Any,
    dilation: Any, transposed: bool, output_padding: Any, groups: int, output_mask: Any,
) -> tuple[SharedSum | None, ...]:  # fmt: skip
    """Return the gradients with respect to input, weight and bias."""
    options = _options(weight, stride, padding, dilation, transposed, output_padding, groups)
    if not secret(grad) and not (secret(x) and secret(weight)):
        grad = shared(p, grad, p.bits)
    shape = lambda a: list((a if secret(a) else public(a)).shape)
    found: list[SharedSum | None] = [None] * 3
    if output_mask[0]:
        found[0] = p.at(product(p, "convolution_of_input", grad, weight, size=shape(x), **options), p.bits)
    if output_mask[1]:
        found[1] = p.at(product(p, "convolution_of_weight", grad, x, size=shape(weight), **options), p.bits)
    if output_mask[2]:
        value = shared(p, grad, p.bits)
        found[2] = p.each(lambda w: w.sum((0, *range(2, w.ndim))), value)
    for i, spec in enumerate(call.results):  # torch gives some gradients that nobody asks for
        if spec is not None and found[i] is None:
            found[i] = p.constant(np.zeros(tuple(spec.size), np.int64), p.bits)
    return tuple(found)


# ---------------------------------------------------------------- pooling windows


def windows(
    shape: tuple, kernel: Any, stride: Any, padding: Any, dilation: Any, out: tuple
) -> tuple[np.ndarray, np.ndarray]:
    """Return the flat indices of the elements of two-dimensional windows in an image, and whether they are inside it.

    Both arrays have shape ``(outputs, elements)``.
    """
    pairs = [
        v if len(v) == 2 else [*v, *v]
        for v in (list(kernel), list(stride) or list(kernel), list(padding), list(dilation))
    ]
    places, inside = [], []
    for n, m, k, s, pad, d in zip(shape, out, *pairs):
        at = (np.arange(m) * s - pad)[:, None] + np.arange(k) * d
        places.append(at)
        inside.append((at >= 0) & (at < n))
    rows, columns = (np.where(ok, at, 0) for at, ok in zip(places, inside))
    flat = rows[:, None, :, None] * shape[1] + columns[None, :, None, :]
    valid = inside[0][:, None, :, None] & inside[1][None, :, None, :]
    count = out[0] * out[1]
    return flat.reshape(count, -1), valid.reshape(count, -1)


def scattered(w: np.ndarray, places: np.ndarray, valid: np.ndarray, shape: tuple) -> np.ndarray:
    """Add window elements at their indices in an image; no column of ``places`` may contain an index twice."""
    total = np.zeros((*w.shape[:-2], shape[0] * shape[1]), np.int64)
    for i in range(places.shape[1]):
        ok = valid[:, i]
        total[..., places[ok, i]] += w[..., ok, i]
    return total.reshape(*w.shape[:-2], *shape)


def _flat(x: SharedSum, p: FixedPoint) -> SharedSum:
    return p.each(lambda w: w.reshape(*w.shape[:-2], w.shape[-2] * w.shape[-1]), x)


@op("max_pool2d_with_indices")
def max_pool2d_with_indices(
    p: FixedPoint, call: Call, x: SharedSum, kernel_size: Any, stride: Any = (), padding: Any = (0,),
    dilation: Any = (1,), ceil_mode: bool = False,
) -> tuple[SharedSum, SharedSum]:  # fmt: skip
    """Return the largest element of each window, and its index in the image; elements outside are never the largest."""
    spec = call.results[0]
    assert spec is not None
    out = tuple(spec.size[-2:])
    places, valid = windows(x.shape[-2:], kernel_size, stride, _two(padding), _two(dilation), out)
    lowest = np.int64(-(1 << 61))
    inside = p.each(lambda w: np.where(valid, w[..., places], 0), _flat(x, p))
    rows = p.plus(inside, np.where(valid, np.int64(0), lowest))
    top, vectors = functions.largest(p, rows, True)
    assert vectors is not None
    shaped = lambda w: w.reshape(*w.shape[:-1], *out)
    index = p.each(lambda w: shaped((w * places).sum(-1)), vectors, bits=0)
    index.hint = vectors
    return p.each(shaped, top), index


def _two(value: Any) -> Any:
    return [value] if isinstance(value, int) else value


@op("max_pool2d_with_indices_backward")
def max_pool2d_with_indices_backward(
    p: FixedPoint, call: Call, grad: Any, x: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool, indices: Any,
) -> SharedSum:  # fmt: skip
    """Return the gradients at the indices of the largest elements."""
    image = (x if secret(x) else public(x)).shape[-2:]
    value = shared(p, grad, p.bits)
    if not secret(indices):
        return _at_known_places(p, value, public(indices), image)
    if not isinstance(indices.hint, SharedSum):
        vectors = unit_vectors(p, indices, image[0] * image[1])
        each = p.multiply(p.each(lambda w: w[..., None], value), vectors)
        return p.each(lambda w: w.sum((-3, -2)).reshape(*w.shape[:-3], *image), each)
    places, valid = windows(image, kernel_size, stride, _two(padding), _two(dilation), value.shape[-2:])
    apart = p.each(lambda w: w.reshape(*w.shape[:-2], -1, 1), value)
    each = p.multiply(apart, SharedSum(indices.hint.parts, 0))
    return p.each(lambda w: scattered(w, places, valid, image), each)


def _at_known_places(p: FixedPoint, value: SharedSum, indices: np.ndarray, image: tuple) -> SharedSum:
    vectors = (indices[..., None] == np.arange(image[0] * image[1])).astype(np.int64)
    return p.each(lambda w: (w[..., None] * vectors).sum((-3, -2)).reshape(*w.shape[:-2], *image), value)


def _counts(valid: np.ndarray, kernel_size: Any, include: bool, override: Any, over: np.ndarray) -> np.ndarray:
    if override:
        return np.full(len(valid), override)
    return over.sum(-1) if include else valid.sum(-1)


def _averages(
    p: FixedPoint, image: tuple, out: tuple, kernel: Any, stride: Any, padding: Any, include: Any, override: Any
) -> Any:
    """Return the indices of the elements in average pooling windows, their validity, and their weights."""
    padding = _two(padding)
    padding = list(padding) if len(padding) == 2 else [*padding, *padding]
    places, valid = windows(image, kernel, stride, padding, [1], out)
    wider = tuple(n + 2 * q for n, q in zip(image, padding))  # padding counts, but not the elements that ceil_mode adds
    _, within = windows(wider, kernel, stride, [0], [1], out)
    return places, valid, 1 / _counts(valid, kernel, include, override, within).astype(np.float64)


@op("avg_pool2d")
def avg_pool2d(
    p: FixedPoint, call: Call, x: SharedSum, kernel_size: Any, stride: Any = (), padding: Any = (0,),
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: Any = None,
) -> SharedSum:  # fmt: skip
    """Return the mean of each window."""
    spec = call.results[0]
    assert spec is not None
    out = tuple(spec.size[-2:])
    places, valid, over = _averages(
        p, x.shape[-2:], out, kernel_size, stride, padding, count_include_pad, divisor_override
    )
    total = p.each(lambda w: np.where(valid, w[..., places], 0).sum(-1), _flat(x, p))
    return p.each(lambda w: w.reshape(*w.shape[:-1], *out), p.scaled(total, over))


@op("avg_pool2d_backward")
def avg_pool2d_backward(
    p: FixedPoint, call: Call, grad: SharedSum, x: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
    count_include_pad: bool, divisor_override: Any,
) -> SharedSum:  # fmt: skip
    """Return the gradient of `avg_pool2d`."""
    image = (x if secret(x) else public(x)).shape[-2:]
    value = shared(p, grad, p.bits)
    out = value.shape[-2:]
    places, valid, over = _averages(p, image, out, kernel_size, stride, padding, count_include_pad, divisor_override)
    each = p.each(lambda w: w[..., None], p.scaled(_flat(value, p), over))
    spread = lambda w: np.broadcast_to(w, (*w.shape[:-1], places.shape[1]))
    return p.each(lambda w: scattered(spread(w), places, valid, image), each)


# ---------------------------------------------------------------- softmax


def _softmax_parts(p: FixedPoint, x: SharedSum, dim: int) -> tuple[SharedSum, SharedSum, SharedSum]:
    """Return ``x`` minus its largest element, the exponentials of that, and their sum; ``dim`` is moved to the end."""
    rows = p.each(lambda w: np.moveaxis(w, dim, -1) if w.ndim else w[None], x)
    top, _ = functions.largest(p, rows)
    below = p.each(lambda w, t: w - t[..., None], rows, top)
    powers = functions.exp(p, below)
    return below, powers, p.each(lambda w: w.sum(-1, keepdims=True), powers)


def _back(p: FixedPoint, x: SharedSum, dim: int, shape: tuple) -> SharedSum:
    return p.each(lambda w: np.moveaxis(w, -1, dim) if shape else w.reshape(()), x)


@op("_softmax")
def softmax(p: FixedPoint, call: Call, x: SharedSum, dim: int, half_to_float: bool) -> SharedSum:
    """Return the exponentials divided by their sum."""
    _, powers, total = _softmax_parts(p, x, dim)
    return _back(p, p.times(powers, functions.reciprocal(p, total), p.bits), dim, x.shape)


@op("_log_softmax")
def log_softmax(p: FixedPoint, call: Call, x: SharedSum, dim: int, half_to_float: bool) -> SharedSum:
    """Return the logarithm of the softmax."""
    below, powers, total = _softmax_parts(p, x, dim)
    result = _back(p, p.subtract(below, functions.log(p, total)), dim, x.shape)
    result.hint = powers, total
    return result


@op("_log_softmax_backward_data")
def log_softmax_backward(p: FixedPoint, call: Call, grad: Any, output: SharedSum, dim: int, dtype: Any) -> SharedSum:
    """Return ``grad - softmax * sum(grad)``."""
    value = shared(p, grad, p.bits)
    if isinstance(output, SharedSum) and output.hint is not None:
        powers, total = output.hint
        last = p.each(lambda w: np.moveaxis(w, dim, -1).sum(-1, keepdims=True) if w.ndim else w[None], value)
        share = p.times(powers, functions.divide(p, last, total), p.bits)  # no small probability is rounded
        return p.subtract(value, _back(p, share, dim, output.shape))
    probabilities = functions.exp(p, shared(p, output, p.bits))
    sums = p.each(lambda w: w.sum(dim, keepdims=True) if w.ndim else w, value)
    return p.subtract(value, p.times(probabilities, sums, p.bits))


# ---------------------------------------------------------------- batch norm


@op("_native_batch_norm_legit_no_training")
def batch_norm_no_training(
    p: FixedPoint, call: Call, x: Any, weight: Any, bias: Any, mean: Any, var: Any, momentum: float, eps: float
) -> tuple[Any, ...]:
    """Return ``(x - mean) / sqrt(var + eps) * weight + bias`` per channel."""
    value = shared(p, x, p.bits)
    ahead = lambda w: w.reshape(-1, *[1] * (len(value.shape) - 2))
    channel = lambda a: p.each(ahead, shared(p, a, p.bits))
    scale = functions.rsqrt(p, p.plus(shared(p, var, p.bits), p.encode(eps, p.bits)))
    if weight is not None:
        scale = p.times(scale, shared(p, weight, p.bits), p.bits)
    apart = p.each(np.subtract, value, channel(mean))
    result = p.times(apart, p.each(ahead, scale), p.bits)
    if bias is not None:
        result = p.each(np.add, result, channel(bias))
    empty = PublicArray(np.zeros(0, np.float32))
    return result, empty, empty


@op("native_batch_norm_backward")
def native_batch_norm_backward(
    p: FixedPoint, call: Call, grad: Any, x: Any, weight: Any, running_mean: Any, running_var: Any, save_mean: Any,
    save_invstd: Any, train: bool, eps: float, output_mask: Any,
) -> tuple[SharedSum | None, ...]:  # fmt: skip
    """Return the gradients with respect to input, weight and bias.

    In training, the gradient is centred before it is multiplied by the centred input, so that the rounding of the mean
    has no effect.
    """
    value, given, bits = shared(p, x, p.bits), shared(p, grad, p.bits), p.bits
    dims = (0, *range(2, len(value.shape)))
    count = math.prod(value.shape[d] for d in dims)
    ahead = lambda w: w.reshape(-1, *[1] * (len(value.shape) - 2))
    channel = lambda a: p.each(ahead, shared(p, a, bits))
    total = lambda a: p.each(lambda w: w.sum(dims), a)
    if train:
        invstd = shared(p, save_invstd, bits)
    else:
        invstd = functions.rsqrt(p, p.plus(shared(p, running_var, bits), p.encode(eps, bits)))
    scale = invstd if weight is None else p.times(invstd, shared(p, weight, bits), bits)
    apart = p.each(np.subtract, value, channel(save_mean if train else running_mean))
    bias_gradient = total(given)
    if train:
        given = p.each(np.subtract, given, channel(p.scaled(bias_gradient, 1 / count)))
    product = p.at(total(p.multiply(given, apart)), bits)
    weight_gradient = p.times(product, invstd, bits)
    if train and output_mask[0]:
        slope = p.times(p.scaled(weight_gradient, 1 / count), invstd, bits)
        given = p.subtract(given, p.times(apart, channel(slope), bits))
    found = (p.times(given, channel(scale), bits) if output_mask[0] else None, weight_gradient, bias_gradient)
    return tuple(f if wanted else None for f, wanted in zip(found, output_mask))
