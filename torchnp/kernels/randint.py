"""Random integers: `random_`, `randint`, `randperm`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, require
from torchnp.core.errors import not_implemented
from torchnp.core.inplace_out_spec import WriteSpec
from torchnp.core.python_scalars import item, scalar, whole
from torchnp.core.registry import kernel
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._memory import factory_dtype
from torchnp.kernels.uniform_normal import (
    BARE,
    DIGITS,
    FLOATS,
    LARGEST,
    filled,
    filled_like,
    filled_out,
    in_tiles,
    laid_like,
    strided_size,
)
from torchnp.layout.overlap import check_target
from torchnp.random import TILE, Generator, default_generator
from torchnp.threads import blocks
from torchnp.thresholds import Threshold

ndarray = np.ndarray


@in_tiles
def integer_values(n: int, dtype: np.dtype, low: int, span: int, generator: Generator | None) -> ndarray:
    """Return ``n`` random integers, low + word % span; words have 32 bits for spans below 2**28, else 64 bits."""
    source = generator or default_generator
    words = source.random64(n) if span >= 1 << 28 else source.random32(n)
    words = _modulo(words, span).astype(np.uint64)
    return _from_int64((words + np.uint64(low % 2**64)).view(np.int64), dtype)


def _modulo(words: ndarray, span: int) -> ndarray:
    if span & (span - 1) == 0:
        return words & words.dtype.type(span - 1)
    # NumPy has a SIMD loop for floor division by a constant, but none for the remainder.
    quotient = words // words.dtype.type(span)
    quotient *= words.dtype.type(span)
    return np.subtract(words, quotient, quotient)


def _from_int64(values: ndarray, dtype: np.dtype) -> ndarray:
    return values if dtype == dt.int64 else dt.cast(values, dtype)


@kernel("random", like=np.random.randint, differs=["random-stream", "random-dtype", "missing-kernel"])
def random(self, *, generator=None):
    """Random integers from 0 to the dtype's maximum, or in floating dtypes to 2 ** (digits of the mantissa)."""
    dtype, n, source = self.dtype, self.size, generator or default_generator
    if not n:
        return self.copy()
    require("random_kernel_cpu", dtype, (dt.bool_, *dt.INTS, *FLOATS))
    return laid_like(self, _to_largest(n, dtype, source))


@in_tiles
def _to_largest(n: int, dtype: np.dtype, source: Generator) -> ndarray:
    words = source.random64(n) if dtype in (dt.int64, dt.float64) else source.random32(n)
    if dtype == dt.bool_:
        return (words & np.uint32(1)).astype(dt.bool_)
    span = (1 << DIGITS[dtype]) + 1 if dt.is_floating(dtype) else np.iinfo(dtype).max + 1
    return _from_int64(_modulo(words, span).astype(np.int64), dtype)


def _random_from(self, *, from_=0, to, generator):
    return laid_like(self, _random_values(self.size, self.dtype, from_, to, generator))


_DOC = "Random integers in [from, to), by default from 0; without ``to``, up to the dtype's maximum."
_DIFFERS = ["random-stream", "random-dtype", "random-bounds", "missing-kernel"]
_WRITES = WriteSpec(inplace=lambda bound, targets: check_target(targets[0]))  # torch checks the target before the range
rows("random.from random.to", _random_from, _DOC, like=np.random.randint, differs=_DIFFERS, writes=_WRITES)


def _random_values(
    n: int, dtype: np.dtype, low: int, high: int | None, generator: Generator | None, out: ndarray | None = None
) -> ndarray:
    low, floating = int(low), dt.is_floating(dtype)
    if high is None and low == -(2**63):
        return _full_range(n, dtype, generator, out=out)
    if high is not None:
        high = int(high)
        check(low < high, f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
        if floating:
            require("random_update_from_to", dtype, FLOATS)
            low, high = _nearest(low, 1, dtype), _nearest(high, -1, dtype)
            words = "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype,"
            check(low < high, f"{words} but got from={low} >= to={high}")
        last = high - 1
    elif floating:
        require("random_from_to_range_calc", dtype, FLOATS)
        last, low = 1 << DIGITS[dtype], _nearest(low, 1, dtype)
        words = "random_ expects 'from' casted to dtype to be less than or equal to 'to_inc' casted to dtype,"
        check(low < last, f"{words} but got from={low} > to_inc={last}")
    elif dt.is_complex(dtype):
        raise RuntimeError("random_from_to_impl handles only integral, floating-point and boolean types")
    else:
        # torch computes the bound in int64, in which the maximum of uint64 is -1
        last = 1 if dtype == dt.bool_ else -1 if dtype == dt.uint64 else int(np.iinfo(dtype).max)
    _check_bounds(low, last, dtype)
    if not n:
        return np.empty(0, dtype)
    return integer_values(n, dtype, low, last - low + 1, generator, out=out)


@in_tiles
def _full_range(n: int, dtype: np.dtype, generator: Generator | None) -> ndarray:
    if not n:
        return np.empty(0, dtype)
    if dtype not in (dt.int64, dt.float64, dt.float32, dt.bfloat16):
        if dt.is_integral(dtype) and dtype not in BARE:
            raise RuntimeError("random_full_64_bits_range_kernel_cpu handles only int64, double, float and bfloat16")
        raise not_implemented("random_full_64_bits_range_kernel_cpu", dtype)
    return _from_int64((generator or default_generator).random64(n).view(np.int64), dtype)


def _check_bounds(low: int, last: int, dtype: np.dtype) -> None:
    if dt.is_complex(dtype):
        raise RuntimeError("check_random_bounds handles only integral, floating-point and boolean types")
    smallest, largest = _bounds(dtype)
    for name, bound in (("from", low), ("to - 1", last)):
        check(smallest <= bound <= largest, f"{name} is out of bounds for {dt.c_name(dtype)}")


@functools.cache
def _bounds(dtype: np.dtype) -> tuple[float, float]:
    if dt.is_floating(dtype):
        limit = LARGEST.get(dtype, float(np.finfo(np.float64).max))
        return -limit, limit
    if dtype == dt.bool_:
        return 0, 1
    return int(np.iinfo(dtype).min), min(int(np.iinfo(dtype).max), 2**63 - 1)


def _rounded(value: int, dtype: np.dtype) -> float:
    return float(dt.cast(np.array(value, np.int64), dtype))


def _nearest(bound: int, step: int, dtype: np.dtype) -> int:
    """Return ``bound``, or the dtype's next value above (``step`` 1) or below (-1) if rounding would pass the bound."""
    beside = _rounded(bound + step, dtype)
    if math.isfinite(beside) and (beside < bound if step > 0 else beside >= bound):
        return int(beside) + step * (1 << (abs(bound + step).bit_length() - DIGITS[dtype]))
    return bound


def _between(low: int, high: Any) -> Callable[..., ndarray]:
    return lambda n, dtype, contiguous, generator, out=None: _random_values(n, dtype, low, high, generator, out)


def _randint(*, low=0, high, size, **options):
    return filled(size, values=_between(low, high), **options)


def _randint_out(*, low=0, high, size, generator=None, out):
    return filled_out(size, values=_between(low, high), generator=generator, out=out)


def _randint_like(self, *, low=0, high, **options):
    if isinstance(high, ndarray):
        check(high.ndim == 0, "high must be a scalar tensor and on CPU")
        high = whole(item(high))
    return filled_like(self, values=_between(low, high), **options)


_DOC = "Random integers in [low, high), by default from 0"
_DIFFERS = ["randint-modulo", "randint-of-floats", "randint-is-float"]
_FORMS = "randint randint.generator randint.low randint.low_generator"
rows(_FORMS, _randint, f"{_DOC}.", like=np.random.randint, differs=_DIFFERS)
_FORMS = "randint.out randint.generator_out randint.low_out randint.low_generator_out"
rows(_FORMS, _randint_out, f"{_DOC}, drawn in the memory order of ``out``.", differs=["random-stream"])
_FORMS = (
    "randint_like randint_like.generator randint_like.Tensor randint_like.Tensor_generator randint_like.low_dtype "
    "randint_like.low_generator_dtype"
)
rows(_FORMS, _randint_like, f"{_DOC}, in another tensor's shape and layout.", differs=["random-stream"])

# ---------------------------------------------------------------- permutations


def _randperm(n, *, generator=None, dtype, layout, device, pin_memory):
    (n,) = strided_size((n,), layout, device, pin_memory)
    dtype = dt.int64 if dtype is None else factory_dtype(dtype)
    if dtype in (dt.float16, dt.float32, dt.float64):
        most = (1 << DIGITS[dtype]) + 1
        check(n <= most, f"n cannot be greater than {most} for {dt.scalar_name(dtype)} type.")
    elif dt.is_integral(dtype) or dtype == dt.complex32:
        scalar(n - 1, dtype)  # the largest element has to fit
    require("randperm", dtype, (*dt.INTS, *FLOATS))
    source = generator or default_generator
    return _from_int64(_inside_out(n, source) if n >= _MANY else _shuffled(n, source), dtype)


_DOC = "A random permutation of 0 to n - 1: Fisher-Yates from the front, one random word per step."
_DIFFERS = ["randperm-swaps-forward", "randperm-fits", "missing-kernel"]
rows("randperm randperm.generator", _randperm, _DOC, like=np.random.permutation, differs=_DIFFERS)

_MANY = (2**32 - 1) // 20  # from this ``n`` on, torch uses 64-bit random words
_FEW: Threshold = 4096  # if at most this many elements are left, they are swapped one after the other


def _shuffled(n: int, source: Generator) -> ndarray:
    if n < 2:
        return np.arange(n)
    partners = np.empty(n - 1, np.uint32)
    for part in blocks(n - 1, TILE):
        steps = np.arange(part.start, part.stop, dtype=np.uint32)
        partners[part] = source.random32(steps.size) % (np.uint32(n) - steps) + steps
    items = np.arange(n)
    start = 0
    if n > _FEW:
        seen = np.empty(n, np.int32)
        shared = np.zeros(n, dt.bool_)
        while n - start > _FEW:
            stop = start + ((n - start) >> 6)
            _swap_block(items, start, partners[start:stop].astype(np.int64), seen, shared)
            start = stop
    tail = items[start:].tolist()
    for i, j in enumerate((partners[start:] - np.uint32(start)).tolist()):
        tail[i], tail[j] = tail[j], tail[i]
    items[start:] = tail
    return items


def _swap_block(items: ndarray, start: int, partners: ndarray, seen: ndarray, shared: ndarray) -> None:
    """Swap items[start + i] with items[partners[i]], in order of i.

    Swaps that share no position with another swap commute, and are done at once; the few others are done in order.
    """
    own = np.arange(start, start + partners.size)
    order = np.arange(partners.size, dtype=np.int32)
    seen[own] = -1  # a partner inside the block also has a swap of its own
    inside = partners < start + partners.size
    seen[partners] = order
    again = seen[partners] != order
    again |= inside
    touched = partners[again]
    shared[touched] = True
    chained = shared[partners]
    chained |= shared[own]
    shared[touched] = False
    alone = ~chained
    a, b = own[alone], partners[alone]
    items[a], items[b] = items[b], items[a]
    for i, j in zip(own[chained].tolist(), partners[chained].tolist(), strict=True):
        items[i], items[j] = items[j], items[i]


def _inside_out(n: int, source: Generator) -> ndarray:
    items = np.empty(n, np.int64)
    chunk = 1 << 20
    for start in range(0, n, chunk):
        places = np.arange(start, min(start + chunk, n))
        draws = (source.random64(places.size) % (places + 1).astype(np.uint64)).tolist()
        for i, j in enumerate(draws, start):
            items[i] = items[j] if j < i else i
            items[j] = i
    return items
