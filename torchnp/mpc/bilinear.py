"""Bilinear operators on 64-bit words, computed by the table's kernels; Beaver triples contain products of these."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import torchnp


def _kernel(name: str) -> Callable[..., np.ndarray]:
    return torchnp.table[f"aten::{name}"]


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the elementwise product, with broadcasting."""
    return _kernel("mul.Tensor")(a, b)


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the matrix product of stacks of matrices."""
    return _kernel("matmul")(a, b)


def convolution(
    x: np.ndarray, w: np.ndarray, *, stride: Any, padding: Any, dilation: Any, transposed: Any, output_padding: Any, groups: Any
) -> np.ndarray:  # fmt: skip
    """Compute a convolution without bias."""
    return _kernel("convolution")(x, w, None, stride, padding, dilation, transposed, output_padding, groups)


def convolution_of_input(g: np.ndarray, w: np.ndarray, *, size: Any, **options: Any) -> np.ndarray:
    """Return the gradient of `convolution` with respect to its input, which has shape ``size``."""
    if options["transposed"]:
        found = convolution(g, w, **{**options, "transposed": False, "output_padding": [0] * (g.ndim - 2)})
        return found[tuple(map(slice, size))]  # an output padding above the stride gives more elements
    extra = _output_padding(g, w, size, options)
    return convolution(g, w, **{**options, "transposed": True, "output_padding": extra})


def _output_padding(g: np.ndarray, w: np.ndarray, size: Any, options: dict[str, Any]) -> list[int]:
    each = zip(size[2:], g.shape[2:], w.shape[2:], options["stride"], options["padding"], options["dilation"])
    return [n - ((m - 1) * s - 2 * p + d * (k - 1) + 1) for n, m, k, s, p, d in each]


def convolution_of_weight(g: np.ndarray, x: np.ndarray, *, size: Any, **options: Any) -> np.ndarray:
    """Return the gradient of `convolution` with respect to its weight, which has shape ``size``."""
    if options["transposed"]:
        x, g = g, x
    groups, apart = options["groups"], {**options, "stride": options["dilation"], "dilation": options["stride"]}
    apart |= {"transposed": False, "output_padding": [0] * (g.ndim - 2), "groups": 1}
    parts = [
        convolution(a.swapaxes(0, 1), b.swapaxes(0, 1), **apart).swapaxes(0, 1)
        for a, b in zip(np.split(x, groups, 1), np.split(g, groups, 1))
    ]
    return np.concatenate(parts)[tuple(slice(n) for n in (None, None, *size[2:]))]


_FUNCTIONS: dict[str, Callable[..., np.ndarray]] = {
    f.__name__: f for f in (multiply, matmul, convolution, convolution_of_input, convolution_of_weight)
}


def function(op: str, options: dict[str, Any]) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Return the operator with a name, with its options bound; raise KeyError if there is none."""
    return functools.partial(_FUNCTIONS[op], **options)


@functools.lru_cache(4096)
def _shape(op: str, left: tuple, right: tuple, options: tuple) -> tuple[int, ...]:
    a, b = (np.broadcast_to(np.zeros((), np.int64), s) for s in (left, right))
    return function(op, dict(options))(a, b).shape


def shape(op: str, left: tuple, right: tuple, options: dict[str, Any]) -> tuple[int, ...]:
    """Return the shape of a product."""
    if op == "multiply":
        return np.broadcast_shapes(left, right)
    if op == "matmul":
        return (*np.broadcast_shapes(left[:-2], right[:-2]), left[-2], right[-1])
    if op.endswith(("input", "weight")):
        return tuple(options["size"])
    return _shape(op, left, right, tuple((k, tuple(v) if isinstance(v, list) else v) for k, v in options.items()))
