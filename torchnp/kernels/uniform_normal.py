"""Uniform and normal random numbers: the values that torch's CPU generator gives for the same seed.

torch's kernels differ by CPU: with AVX2 or AVX-512 they compute a * b + c with one rounding (FMA), otherwise with two.
The functions here round as with AVX2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import broadcast_shapes, check, check_normal, check_real, check_strides, require
from torchnp.core.inplace_out_spec import WriteSpec, resize, resize_out
from torchnp.core.python_scalars import single
from torchnp.core.registry import kernel
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._elementwise import in_place
from torchnp.kernels._memory import check_options, check_size, factory_dtype, memory_order, new_like
from torchnp.kernels.arithmetic import add, mul
from torchnp.kernels.extrema import min_all
from torchnp.kernels.numerics.fma import fma
from torchnp.layout.overlap import check_apart, check_target
from torchnp.random import TILE, Generator, default_generator
from torchnp.threads import blocks

ndarray = np.ndarray
FLOATS = (dt.float16, dt.bfloat16, dt.float32, dt.float64)
BARE = (dt.uint16, dt.uint32, dt.uint64)
LARGEST = {dt.float16: 65504.0, dt.bfloat16: 3.3895313892515355e38, dt.float32: float(np.finfo(np.float32).max)}
DIGITS = {dt.float16: 11, dt.bfloat16: 8, dt.float32: 24, dt.float64: 53}

# ---------------------------------------------------------------- layout


def arrange(values: ndarray, shape: Sequence[int], order: tuple[int, ...] | None) -> ndarray:
    """Return flat values, given in memory order, as a dense array; ``order`` lists its axes from the outermost."""
    if order is None:
        return values.reshape(shape)
    return values.reshape([shape[axis] for axis in order]).transpose(np.argsort(order))


def laid_like(x: ndarray, values: ndarray) -> ndarray:
    """Return flat values, given in memory order, in the shape and memory order of ``x``."""
    return arrange(values, x.shape, memory_order(x))


def fill(x: ndarray, draw: Callable[..., ndarray]) -> ndarray:
    """Write random values into ``x`` in memory order.

    ``draw()`` returns them as a flat array; ``draw(out=...)`` writes them into dense memory without a copy.
    """
    order = memory_order(x)
    memory = x if order is None else x.transpose(order)
    if x.size > TILE and memory.flags.c_contiguous:
        draw(out=memory.reshape(-1))
    else:
        values = draw()  # checks the parameters, which torch does before it checks the target's memory
        check_target(x)
        x[...] = arrange(values, x.shape, order)
    return x


def in_tiles(draw: Callable[..., ndarray]) -> Callable[..., ndarray]:
    """Wrap a function that returns ``n`` random values of a dtype: it draws many in tiles, into ``out`` if given."""

    @wraps(draw)
    def run(n: int, dtype: np.dtype, *given: Any, out: ndarray | None = None) -> ndarray:
        if n <= TILE:
            return draw(n, dtype, *given)
        out = np.empty(n, dtype) if out is None else out
        for part in blocks(n, TILE):
            out[part] = draw(part.stop - part.start, dtype, *given)
        return out

    return run


def strided_size(
    size: Sequence[int], layout: str | None, device: str | None, pin_memory: bool | None
) -> tuple[int, ...]:
    """Return the shape of a factory function; raise torch's errors about options that only torch has."""
    check_options(layout, device, pin_memory)
    return check_size([int(n) for n in size])


# ---------------------------------------------------------------- random values as flat arrays


@in_tiles
def uniform_values(n: int, dtype: np.dtype, low: float, high: float, generator: Generator | None) -> ndarray:
    """Return ``n`` uniform random values in [low, high)."""
    source = generator or default_generator
    unit = low == 0.0 and high == 1.0
    if unit and dtype == dt.float32:
        return source.uniform32(n)
    if dt.is_complex(dtype):
        if not n:
            return np.empty(0, dtype)
        return uniform_values(2 * n, dt.to_real(dtype), low, high, generator).view(dtype)
    require("check_uniform_bounds", dtype, FLOATS)
    _check_range(dtype, low, high)
    if dtype == dt.float64:
        u, low, high = source.uniform64(n), float(low), float(high)
        span = high - low
    else:
        u, low32, high32 = source.uniform32(n), np.float32(low), np.float32(high)
        low, high, span = float(low32), float(high32), float(high32 - low32)
    if not unit:
        u = fma(u, span, low)
    elif not dt.is_half(dtype):
        return u
    values = dt.cast(u, dtype)
    top = dt.cast(np.array(high), dtype)
    values[values == top] = dt.cast(np.array(low), dtype)  # these values were rounded up to the excluded end
    return values


def _check_range(dtype: np.dtype, low: float, high: float) -> None:
    limit = LARGEST.get(dtype, float(np.finfo(np.float64).max))
    for bound, name in ((low, "from"), (high, "to")):
        check(-limit <= bound <= limit, f"{name} is out of bounds for {dt.c_name(dtype)}")
    check(not low > high, f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}")
    if high - low > limit:
        words = f"uniform_ expects to-from <= std::numeric_limits<{dt.scalar_name(dtype)}>::max(), but found"
        raise RuntimeError(f"{words} to={high:g} and from={low:g} which result in to-from to exceed the limit")


def normal_values(
    n: int, dtype: np.dtype, mean: float, std: float, contiguous: bool, generator: Generator | None,
    out: ndarray | None = None,
) -> ndarray:  # fmt: skip
    """Return ``n`` normal random values; if the target is contiguous, torch draws 16 or more of them in blocks."""
    if not std >= 0.0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    if not n:
        return np.empty(0, dtype)
    if dt.is_complex(dtype):
        real = dt.to_real(dtype)
        parts = None if out is None else out.view(real)
        return normal_values(2 * n, real, mean, std / math.sqrt(2), contiguous, generator, parts).view(dtype)
    require("normal_kernel_cpu", dtype, FLOATS)
    source = generator or default_generator
    if n < 16 or not contiguous:
        return _single_normals(n, dtype, mean, std, source, out=out)
    out = np.empty(n, dtype) if out is None else out
    if dtype != dt.float64:
        std, mean = float(np.float32(std)), float(np.float32(mean))
    draw = source.normal_blocks64 if dtype == dt.float64 else source.normal_blocks32
    for part in blocks(n - n % 16, TILE):
        out[part] = dt.cast(_affine(draw(part.stop - part.start), std, mean), dtype)
    if n % 16:
        # For float32 and float64, torch first uses random numbers for an incomplete block, then makes the last 16
        # values anew.
        source.random32((n % 16) * {dt.float32: 1, dt.float64: 2}.get(dtype, 0))
        out[n - 16 :] = dt.cast(_affine(draw(16), std, mean), dtype)
    return out


@in_tiles
def _single_normals(n: int, dtype: np.dtype, mean: float, std: float, source: Generator) -> ndarray:
    z = source.normal64(n, exact=dtype == dt.float64)
    return dt.cast(_affine(z, float(std), float(mean)), dtype)


def _affine(z: ndarray, std: float, mean: float) -> ndarray:
    return z + z.dtype.type(0) if std == 1.0 and mean == 0.0 else fma(z, std, mean)


# ---------------------------------------------------------------- of a given size, or like a tensor


@kernel(
    "uniform",
    like=np.random.uniform,
    differs=["random-stream", "random-dtype", "random-complex", "random-parameters", "random-bounds", "missing-kernel"],
    writes=WriteSpec(dtype_before_target=True),
)
def uniform(self, from_=0.0, to=1.0, *, generator=None):
    """Uniform random values in [from, to); complex numbers have both parts in this range."""
    return laid_like(self, uniform_values(self.size, self.dtype, from_, to, generator))


def filled(size, *, values, generator=None, dtype, layout, device, pin_memory):
    size = strided_size(size, layout, device, pin_memory)
    return values(math.prod(size), factory_dtype(dtype), True, generator).reshape(size)


def filled_like(
    self, *, values, generator=None, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None
):
    strided_size((), layout, device, pin_memory)
    out = new_like(self, self.dtype if dtype is None else dt.as_dtype(dtype), memory_format)
    return fill(out, partial(values, out.size, out.dtype, out.flags.c_contiguous, generator))


def filled_out(size, *, values, generator=None, out):
    """Draw into ``out``, whose dtype and memory order decide the values."""
    size = strided_size(size, None, None, None)
    out = out if out.shape == size else resize(out, size)
    return fill(out, partial(values, out.size, out.dtype, out.flags.c_contiguous, generator))


_units = lambda n, dtype, contiguous, generator, **out: uniform_values(n, dtype, 0.0, 1.0, generator, **out)


def _normals(mean: float, std: float) -> Callable[..., ndarray]:
    return lambda n, dtype, contiguous, generator, out=None: normal_values(
        n, dtype, mean, std, contiguous, generator, out
    )


_MADE = ["default-dtype", "random-complex", "missing-kernel"]
for _names, _out_names, _like_names, _like, _values, _differs, _doc in (
    (
        "rand rand.generator",
        "rand.out rand.generator_out",
        "rand_like rand_like.generator",
        np.random.rand,
        _units,
        "random-float64",
        "Uniform values in [0, 1)",
    ),
    (
        "randn randn.generator",
        "randn.out randn.generator_out",
        "randn_like randn_like.generator",
        np.random.randn,
        _normals(0.0, 1.0),
        "randn-box-muller",
        "Standard normal values",
    ),
):
    _of = {"like": _like, "differs": ["random-stream", _differs, *_MADE], "values": _values}
    rows(_names, filled, f"{_doc}.", **_of)
    rows(
        _out_names,
        filled_out,
        f"{_doc}, drawn in the memory order of ``out``.",
        differs=["random-stream"],
        values=_values,
    )
    _doc = f"{_doc}, in another tensor's shape and layout."
    rows(_like_names, filled_like, _doc, differs=["random-stream"], values=_values)


@kernel("prims::uniform", like=np.random.uniform, differs=["random-stream", "missing-kernel"])
def prims_uniform(shape, *, low, high, dtype, device, stride, generator=None):
    """Uniform random values in [low, high), in memory with the given strides."""
    shape, dtype = strided_size(shape, None, device, None), dt.as_dtype(dtype)
    check_strides(shape, stride)
    check_real("uniform_", **{"from": low, "to": high})
    extent = 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
    strides = [step * dtype.itemsize for step in stride]
    out = np.ndarray(shape, dtype, np.empty(max(extent, 1), dtype), strides=strides)
    return fill(out, partial(uniform_values, out.size, dtype, low, high, generator))


@kernel("prims::normal", like=np.random.normal, differs=["random-stream", "random-complex", "missing-kernel"])
def prims_normal(shape, *, mean, std, dtype, device, requires_grad, generator=None):
    """Normal random values; ``requires_grad`` is ignored."""
    check_normal(shape, mean, std, dt.as_dtype(dtype))
    options = {"layout": None, "device": device, "pin_memory": None}
    return filled(shape, values=_normals(mean, std), dtype=dtype, generator=generator, **options)


# ---------------------------------------------------------------- normal

_DIFFERS = ["random-stream", "random-complex", "missing-kernel"]
_declare = partial(rows, like=np.random.normal, differs=[*_DIFFERS, "random-dtype"])


def _write_normal(self, mean, std, generator):
    draw = partial(normal_values, self.size, self.dtype, mean, std, self.flags.c_contiguous, generator)
    return fill(self, draw)


def _normal_around(mean, std, generator):
    z = normal_values(mean.size, mean.dtype, 0.0, std, True, generator).reshape(mean.shape)
    return in_place(z, add(z, mean))


def _normal_each(mean, std, generator):
    _check_std(std)
    mean = _mean_tensor(mean, std.dtype)
    shape = broadcast_shapes(mean.shape, std.shape)
    z = normal_values(math.prod(shape), mean.dtype, 0.0, 1.0, True, generator).reshape(shape)
    z = in_place(z, mul(z, std))
    return in_place(z, add(z, mean))


def _check_std(std: ndarray) -> None:
    check(not dt.is_complex(std.dtype), "normal expects standard deviation to be non-complex")
    check(not std.size or min_all(std) >= 0, "normal expects all elements of std >= 0.0")


def _mean_tensor(mean: Any, dtype: np.dtype) -> ndarray:
    return mean if isinstance(mean, ndarray) else single(mean, dtype)


_numbers = lambda mean, std, size, **options: filled(size, values=_normals(mean, std), **options)
_declare(
    "normal.float_float", _numbers, "Normal values with one mean and deviation.", differs=[*_DIFFERS, "default-dtype"]
)
_DOC = "Fill with normal values; a tensor that is not contiguous gets other values, drawn one at a time."
_declare("normal_", _write_normal, _DOC, differs=[*_DIFFERS, "overlap-inplace"])
_like_tensor = lambda x, mean, std, generator: filled_like(x, values=_normals(mean, std), generator=generator)
_DOC = "Normal values in another tensor's shape and layout; each part of a complex number has half the variance."
_declare("normal_functional", _like_tensor, _DOC)
_declare("normal.Tensor_float", _normal_around, "Normal values, each with its own mean.")
_DOC = "Normal values, each with its own standard deviation; if ``mean`` is a tensor, in its dtype."
_declare("normal.float_Tensor normal.Tensor_Tensor", _normal_each, _DOC)

# ---------------------------------------------------------------- normal with out=, whose dtype and strides decide the
# values


@kernel("normal.float_float_out", differs=["random-stream"])
def normal_float_float_out(mean, std, size, *, generator=None, out):
    """Normal random values with one mean and standard deviation."""
    return filled_out(size, values=_normals(mean, std), generator=generator, out=out)


def _written(out: ndarray, shape: tuple[int, ...], std: float, generator: Generator | None) -> ndarray:
    return _write_normal(out if out.shape == shape else resize_out(out, shape), 0.0, std, generator)


@kernel("normal.Tensor_float_out", differs=["random-stream"])
def normal_tensor_float_out(mean, std=1.0, *, generator=None, out):
    """Normal random values, each with its own mean; the means broadcast with ``out``."""
    if not std >= 0.0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    check_apart(out, mean)
    out = _written(out, broadcast_shapes(mean.shape, out.shape), std, generator)
    out[...] = in_place(out, add(out, mean))
    return out


@kernel("normal.Tensor_Tensor_out", "normal.float_Tensor_out", differs=["random-stream"])
def normal_tensor_tensor_out(mean, std, *, generator=None, out):
    """Normal random values, each with its own mean and standard deviation."""
    _check_std(std)
    mean = _mean_tensor(mean, out.dtype)
    for x in (mean, std):
        check_apart(out, x)
    out = _written(out, broadcast_shapes(mean.shape, std.shape), 1.0, generator)
    out[...] = in_place(out, mul(out, std))
    out[...] = in_place(out, add(out, mean))
    return out
