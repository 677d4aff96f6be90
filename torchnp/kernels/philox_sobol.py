"""Random numbers without a generator: Philox numbers from a key (in torch on CUDA only), and Sobol points."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torchnp._private_numpy import sobol_directions
from torchnp.core.checks import check, check_fits, check_type, dim_of, require, wrap_dim
from torchnp.core.errors import shape_text
from torchnp.core.inplace_out_spec import Bound, WriteSpec
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.dtypes import BARE_UNSIGNED, FLOATS, INTS, cast, float32, float64, int64, is_integral, scalar_name, uint64
from torchnp.kernels._memory import check_size, factory_dtype

ndarray = np.ndarray
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def _philox(seeds: ndarray, offsets: ndarray) -> list[ndarray]:
    """Return four 32-bit words, as uint64, for each seed and offset: ten rounds of Philox 4x32."""
    k0, k1 = seeds & _LOW, seeds >> _HALF
    a, b, c, d = offsets & _LOW, offsets >> _HALF, np.zeros_like(offsets), np.zeros_like(offsets)
    for _ in range(10):
        first, second = np.uint64(0xD2511F53) * a, np.uint64(0xCD9E8D57) * c
        a, b, c, d = (second >> _HALF) ^ b ^ k0, second & _LOW, (first >> _HALF) ^ d ^ k1, first & _LOW
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & _LOW, (k1 + np.uint64(0xBB67AE85)) & _LOW
    return [a, b, c, d]


def _check_key(name: str, key: ndarray) -> None:
    shape = shape_text(key.shape)
    check(key.ndim and key.shape[-1] == 2, f"{name}: key must have shape (*batch, 2), got shape {shape}")
    check(key.dtype == uint64, f"{name}: key must have dtype uint64, got {scalar_name(key.dtype)}")


def _derived(key: ndarray, steps: ndarray) -> ndarray:
    a, b, c, d = _philox(key[..., 0] + np.zeros_like(steps), key[..., 1] + steps)
    return np.stack([a | b << _HALF, c | d << _HALF], -1)


@kernel("_philox_key_split")
def _philox_key_split(key, num_splits):
    """``num_splits`` new keys, derived from a key."""
    _check_key("_philox_key_split", key)
    check(num_splits > 0, f"_philox_key_split: num_splits must be positive, got {num_splits}")
    return _derived(key, np.arange(num_splits, dtype=uint64).reshape(-1, *(1,) * (key.ndim - 1)))


@kernel("_philox_key_fold_in")
def _philox_key_fold_in(key, data):
    """A new key, derived from a key and the integer ``data``."""
    _check_key("_philox_key_fold_in", key)
    return _derived(key, np.full(key.shape[:-1], data % 2**64, uint64))


@kernel("_philox_key_fold_in.Tensor")
def _philox_key_fold_in_tensor(key, data):
    """A new key, derived from a key and ``data``, a tensor with one uint64."""
    check(data.dtype == uint64, f"_philox_key_fold_in: data must have dtype uint64, got {scalar_name(data.dtype)}")
    check(data.size == 1, f"_philox_key_fold_in: data must be a single value, got {data.size} elements")
    return _philox_key_fold_in(key, int(data.reshape(-1)[0]))


def _draws(name: str, self: ndarray, key: ndarray, sample: Any) -> ndarray:
    """Return random values for each key of a batch; ``sample`` turns the four words of a Philox call into values."""
    check(key.dtype == uint64, f"{name}: key must have dtype uint64, got {scalar_name(key.dtype)}")
    shape, size = shape_text(key.shape), shape_text(self.shape)
    check(key.ndim and key.shape[-1] == 2, f"{name}: key must have shape (2,) or (*batch, 2), got shape {shape}")
    batch = key.shape[:-1]
    if batch:
        found = f"got key shape {shape} with output shape {size}"
        check(key.ndim == self.ndim + 1, f"{name}: batched key must have ndim == output ndim + 1, {found}")
        fits = all(k in (1, n) for k, n in zip(batch, self.shape, strict=True))
        check(fits, f"{name}: key batch shape {shape_text(batch)} is not broadcastable with output shape {size}")
    whole = len(batch)
    while whole and batch[whole - 1] == 1:  # one key fills the trailing dimensions of size 1
        whole -= 1
    keys = np.broadcast_to(key.reshape(*batch[:whole], 2), (*self.shape[:whole], 2)).reshape(-1, 1, 2)
    count = math.prod(self.shape[whole:])
    each = 2 if self.dtype.itemsize == 8 else 4
    steps = np.arange(-(-count // each), dtype=uint64)
    words = _philox(keys[..., 0] + np.zeros_like(steps), keys[..., 1] + steps)
    values = np.stack(sample(words), -1).reshape(len(keys), -1)[:, :count]
    return cast(values, self.dtype).reshape(self.shape)


@kernel("_philox_uniform", writes=WriteSpec(dtype_before_target=True))
def _philox_uniform(self, key, low=0.0, high=1.0):
    """Uniform random numbers between ``low`` and ``high``, from a key."""
    wide = self.dtype == float64
    kind = self.dtype.type
    bits = {8: 53, 4: 24}.get(self.dtype.itemsize, 11 if self.dtype == np.float16 else 8)

    def sample(words: list[ndarray]) -> list[ndarray]:
        a, b, c, d = words
        drawn = [a << _HALF | b, c << _HALF | d] if wide else words
        real: Any = np.float64 if wide else np.float32
        units = [(w & np.uint64(2**bits - 1)).astype(real) * real(2.0**-bits) for w in drawn]
        return [u * real(kind(high) - kind(low)) + real(kind(low)) for u in units]

    require("_philox_uniform_", self.dtype, FLOATS)
    return _draws("_philox_uniform_", self, key, sample)


@kernel("_philox_normal", writes=WriteSpec(dtype_before_target=True))
def _philox_normal(self, key, mean=0.0, std=1.0):
    """Normal random numbers with a mean and a standard deviation, from a key, by the Box-Muller transform."""

    def sample(words: list[ndarray]) -> list[ndarray]:
        unit = 2.0**-32
        real: Any = np.float64 if self.dtype == float64 else np.float32
        if self.dtype == float64:
            a, b, c, d = (w.astype(float64) for w in words)
            units = [(high + low * unit) * unit + unit * unit / 2 for high, low in ((a, b), (c, d))]
        else:
            units = [(w.astype(float32).astype(float64) * unit + unit / 2).astype(float32) for w in words]
        out = []
        for u, v in zip(units[::2], units[1::2]):
            radius, angle = np.sqrt(real(-2) * np.log(u)), real(2 * math.pi) * v
            out += [radius * np.cos(angle), radius * np.sin(angle)]
        return [x * real(std) + real(mean) for x in out]

    require("_philox_normal_", self.dtype, FLOATS)
    return _draws("_philox_normal_", self, key, sample)


_INTEGERS = (*INTS, *BARE_UNSIGNED)


def _of_integers(bound: Bound, targets: list[ndarray]) -> None:
    d = bound["self"].dtype
    check(d in _INTEGERS, f"_philox_randint_: self must have an integer dtype, got {scalar_name(d)}")


@kernel("_philox_randint", writes=WriteSpec(inplace=_of_integers))
def _philox_randint(self, key, low=None, high=None):
    """Random integers in [low, high), from a key; by default from the whole range of the dtype."""
    _of_integers({"self": self}, [])
    info, wide = np.iinfo(self.dtype), self.dtype.itemsize == 8
    first = int(info.min) if low is None else low
    count = ((int(info.max) + 1 if high is None else high) - first) % (2**64 if wide else 2**32)
    words = "[low, high) must be non-empty; pass high=None for the dtype's full range"
    check(count or (high is None and first == info.min), f"_philox_randint_: {words}")
    if not wide and count >= 2**28 and count & (count - 1):
        raise RuntimeError(
            f"_philox_randint_: range (high - low = {count}) does not divide 2^32 evenly and is too large for the output "
            f"dtype {scalar_name(self.dtype)}. Each element draws only 32 random bits, so a non-dividing range >= 2^28 "
            "gives a significantly biased distribution. Use a range that divides 2^32 (a power of two), or a 64-bit dtype "
            "(torch.int64 or torch.uint64)."
        )

    def sample(words: list[ndarray]) -> list[ndarray]:
        a, b, c, d = words
        drawn = [a << _HALF | b, c << _HALF | d] if wide else words
        if not count or (low is None and high is None):
            return drawn
        return [w % np.uint64(count) + np.uint64(first % 2**64) for w in drawn]

    return _draws("_philox_randint_", self, key, sample)


# ---------------------------------------------------------------- Sobol sequences, in Gray code order

_BITS = 30


def _long(**tensors: ndarray) -> None:
    for name, x in tensors.items():
        check(x.dtype == int64, f"{name} needs to be of type Long")


def _check_state(state: ndarray, dimension: int) -> None:
    fits = state.ndim == 2 and state.shape[0] == dimension and state.shape[1] >= _BITS
    words = f"sobolstate must have shape [{dimension}, at least {_BITS}], but got {shape_text(state.shape)}"
    check(fits, words, ValueError)


def _check_advance(quasi: ndarray, n: int, state: ndarray, dimension: int, drawn: int) -> None:
    """Make the checks that torch makes since 2.14; earlier versions read and wrote out of bounds."""
    check(n >= 0, f"n must be non-negative, but got {n}", ValueError)
    words = f"dimension must match the size of quasi, but got dimension {dimension} and quasi with shape"
    check(quasi.shape == (dimension,), f"{words} {shape_text(quasi.shape)}", ValueError)
    _check_state(state, dimension)
    check(0 <= drawn < 2**_BITS - n, f"SobolEngine can generate at most {2**_BITS} points", ValueError)


def _steps(state: ndarray, n: int, drawn: int) -> ndarray:
    """Return the direction number for XOR with each of the next n points: that of its index's lowest zero bit."""
    numbers = np.arange(drawn, drawn + n, dtype=np.int64)
    lowest = np.where(numbers < 0, 0, np.bitwise_count(numbers & ~(numbers + 1)).astype(np.int64))
    rows, columns = dim_of(state, 0), dim_of(state, 1)
    return state.take(lowest, columns).swapaxes(rows, columns)


@kernel("_sobol_engine_draw")
def _sobol_engine_draw(quasi, n, sobolstate, dimension, num_generated, dtype):
    """The next n points in the unit cube, and the last of them as integers, from which the next call continues."""
    _long(sobolstate=sobolstate, quasi=quasi)
    if since("2.14"):
        _check_advance(quasi, n, sobolstate, dimension, num_generated)
    wanted = factory_dtype(dtype)
    check_size((n, dimension))
    require("_sobol_engine_draw", wanted, (float32, float64))
    points = np.bitwise_xor.accumulate(np.concatenate([quasi[None], _steps(sobolstate, n, num_generated)]), 0)
    return cast(points[1:], wanted) * wanted.type(2.0**-_BITS), points[-1].copy()


@kernel("_sobol_engine_ff_")
def _sobol_engine_ff_(self, n, sobolstate, dimension, num_generated):
    """Advance the integers of the last point by n points."""
    _long(sobolstate=sobolstate, quasi=self)
    if since("2.14"):
        _check_advance(self, n, sobolstate, dimension, num_generated)
    dim_of(self, 0)
    dim_of(sobolstate, 0), dim_of(sobolstate, 1)
    if n <= 0 or dimension <= 0:
        return self
    # If a tensor has too many dimensions, torch uses index 0 of the excess ones. If ``self`` has too few elements,
    # torch writes beyond them.
    state = sobolstate[(..., *[0] * (sobolstate.ndim - 2))]
    moved = np.bitwise_xor.reduce(_steps(state, n, num_generated), 0)[: min(dimension, len(self))]
    point = self[(..., *[0] * (self.ndim - 1))][: len(moved)]
    point ^= moved
    return self


def _matrix(x: ndarray) -> None:
    check(x.ndim == 2, f"TensorAccessor expected 2 dims but tensor has {x.ndim}")


def _check_rows(state: ndarray, count: int) -> None:
    """Raise an error if the state has fewer rows than dimensions: torch would write beyond it."""
    check(count <= len(state), f"sobolstate has {len(state)} rows, and {count} dimensions need one each")


@kernel("_sobol_engine_initialize_state_")
def _sobol_engine_initialize_state_(self, dimension):
    """Write Joe and Kuo's direction numbers, as in SciPy, one row per dimension; scale further rows by powers of 2."""
    _long(sobolstate=self)
    if since("2.14"):
        check(1 <= dimension <= 21201, f"dimension must be between 1 and 21201, but got {dimension}", ValueError)
        _check_state(self, dimension)
    _matrix(self)
    powers = 1 << np.arange(_BITS - 1, -1, -1)
    check_fits(powers, self)
    count = max(dimension, 1)
    _check_rows(self, count)
    self[count:] *= powers
    self[:count] = sobol_directions(count, _BITS)
    return self


@kernel("_sobol_engine_scramble_")
def _sobol_engine_scramble_(self, ltm, dimension):
    """Multiply the bits of each direction number by a lower triangular matrix of bits with a unit diagonal."""
    _long(sobolstate=self)
    _matrix(self)
    wrap_dim(-2, ltm.ndim)
    require("arange_cpu", ltm.dtype, (*INTS, *FLOATS))
    matrix = ltm.copy()
    edge = np.arange(min(ltm.shape[-2:]))
    matrix[..., edge, edge] = 1
    powers = cast(1 << np.arange(ltm.shape[-1] - 1, -1, -1), ltm.dtype)
    rows = np.sum(matrix * powers, -1, dtype=int64 if is_integral(ltm.dtype) else ltm.dtype)
    _matrix(rows)
    check_type(int64, rows)
    count = max(dimension, 0)
    _check_rows(self, count)
    common = self[:count, :_BITS, None] & rows[:count, None, :_BITS] & ((1 << _BITS) - 1)
    odd = np.bitwise_count(common).astype(np.int64) & 1
    self[:count, :_BITS] = (odd << np.arange(_BITS - 1, -1, -1)).sum(-1)
    return self
