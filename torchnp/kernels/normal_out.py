"""Normal values drawn in the out itself: its dtype and its strides decide which words of the stream they take."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import broadcast_shapes
from torchnp.kernels import random
from torchnp.kernels._rows import rows
from torchnp.overlap import check_apart, check_target
from torchnp.registry import kernel
from torchnp.writes import resize, resize_out

ndarray = np.ndarray


@kernel("normal.float_float_out", differs=["random-stream"])
def normal_float_float_out(mean, std, size, *, generator=None, out):
    """Normal values of one mean and deviation."""
    size = tuple(random.strided_size(size, None, None, None))
    out = out if out.shape == size else resize(out, size)
    return _written(out, mean, std, generator)


_standard = partial(normal_float_float_out, 0.0, 1.0)
rows("randn.out randn.generator_out", _standard, "Standard normal values.", differs=["random-stream"])


@kernel("normal.Tensor_float_out", differs=["random-stream"])
def normal_tensor_float_out(mean, std=1.0, *, generator=None, out):
    """Normal values of a mean each, which broadcast with the out."""
    if not std >= 0.0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    check_apart(out, mean)
    out = _written(_sized(out, broadcast_shapes(mean.shape, out.shape)), 0.0, std, generator)
    out[...] = random._inplace(np.add, out, mean)
    return out


@kernel("normal.Tensor_Tensor_out", "normal.float_Tensor_out", differs=["random-stream"])
def normal_tensor_tensor_out(mean, std, *, generator=None, out):
    """Normal values of a mean and a deviation each."""
    random._check_std(std)
    mean = mean if isinstance(mean, ndarray) else dt.cast(np.array(mean, np.float64), out.dtype)
    for x in (mean, std):
        check_apart(out, x)
    out = _written(_sized(out, broadcast_shapes(mean.shape, std.shape)), 0.0, 1.0, generator)
    out[...] = random._inplace(np.multiply, out, std)
    out[...] = random._inplace(np.add, out, mean)
    return out


def _sized(out: ndarray, shape: Sequence[int]) -> ndarray:
    return out if out.shape == tuple(shape) else resize_out(out, tuple(shape))


def _written(out: ndarray, mean: float, std: float, generator: random.Generator | None) -> ndarray:
    check_target(out)
    return random._write_normal(out, mean, std, generator)
