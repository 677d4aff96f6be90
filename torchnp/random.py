"""torch's CPU random engine: the same random words in the same order, and the same cached normal values.

torch's generator is the Mersenne Twister (MT19937) that NumPy also has, seeded as by `np.random.RandomState`. torch's
CPU kernels draw 32-bit words from it, and 64-bit words that are made of two of them, high word first. A `Generator`
here consumes them exactly as torch does, so that long mixed sequences of operators stay in step with torch's.
"""

from __future__ import annotations

import ctypes
import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from torchnp._private_numpy import seed_engine
from torchnp.kernels.numerics.box_muller import PAIRS, box_muller32, box_muller64, libm
from torchnp.threads import blocks
from torchnp.thresholds import Threshold

__all__ = [
    "Generator",
    "default_generator",
    "get_rng_state",
    "initial_seed",
    "libm",
    "manual_seed",
    "seed",
    "set_rng_state",
]

DEFAULT_SEED = 67280421310721  # c10's default_rng_seed_val
TILE: Threshold = 1 << 15  # values per pass, so that intermediate arrays stay in cache

_LOW_24, _TO_UNIT_24 = np.uint32(0xFFFFFF), np.float32(2.0**-24)
# 21 bits of the first word are used.
_HIGH_21, _WORD, _TO_UNIT_53 = np.uint64(0x1FFFFF), np.uint64(32), np.float64(2.0**-53)

# CPUGeneratorImplState, the C++ struct that torch.get_rng_state() returns
_LEGACY_STATE = np.dtype(
    [
        ("seed", np.uint64),
        ("left", np.int32),
        ("seeded", np.int32),
        ("next", np.uint64),
        ("key", np.uint64, 624),
        ("normal_x", np.float64),
        ("normal_y", np.float64),
        ("normal_rho", np.float64),
        ("normal_is_valid", np.int32),
    ],
    align=True,
)
STATE = np.dtype([("legacy", _LEGACY_STATE), ("next_float", np.float32), ("next_float_is_valid", np.bool_)], align=True)


class Generator:
    """torch's CPU generator.

    Parameters
    ----------
    seed : int, optional
        Any integer from -2**63 to 2**64 - 1; the engine uses its low 32 bits. The default is that of a new
        torch.Generator.
    device : str, optional
        Only ``"cpu"``.

    Raises
    ------
    RuntimeError
        The device is not the CPU, or the seed is not an integer.
    ValueError
        The seed is out of range.
    """

    device = "cpu"

    def __init__(self, seed: int | None = None, *, device: str = "cpu") -> None:
        if str(device) != "cpu":
            raise RuntimeError(
                f"Device type {str(device).split(':')[0].upper()} is not supported for torch.Generator() api."
            )
        self._lock = threading.RLock()
        self._engine: np.random.MT19937 | None = None
        self.manual_seed(DEFAULT_SEED if seed is None else seed)

    # seeding and state -------------------------------------------------------------------------------------------

    def manual_seed(self, seed: int) -> Generator:
        """Restart the random numbers from `seed` and return the generator."""
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
        seed = int(seed)
        if not -(2**63) <= seed < 2**64:
            raise ValueError("Overflow when unpacking long long")
        with self._lock:
            self._seed = seed % 2**64
            self._seeded = False
            self._fresh = True
            self._next_double: float | None = None
            self._next_float: np.float32 | None = None
        return self

    def seed(self) -> int:
        """Restart the random numbers from a seed of the operating system and return that seed."""
        value = int.from_bytes(os.urandom(8), "little") & (2**53 - 1)
        self.manual_seed(value)
        return value

    def initial_seed(self) -> int:
        """Return the seed with which the random numbers started."""
        return self._seed

    def get_offset(self) -> int:
        """Raise RuntimeError: only generators of other devices have an offset."""
        raise RuntimeError("CPU Generator does not use offset")

    def set_offset(self, offset: int) -> Generator:
        """Raise RuntimeError: only generators of other devices have an offset."""
        raise RuntimeError("CPU Generator does not use offset")

    def get_state(self) -> np.ndarray:
        """Return the state as torch stores it: a uint8 array of 5056 bytes, which ``torch.Generator`` accepts."""
        state = np.zeros((), STATE)
        with self._lock:
            self._bits()
            position = int(self._memory[624])
            legacy = state["legacy"]
            legacy["seed"], legacy["seeded"] = self._seed, 1
            legacy["left"] = 625 - position
            legacy["next"] = 0 if self._fresh else position
            legacy["key"] = self._memory[:624]
            if self._next_double is not None:
                legacy["normal_is_valid"], legacy["normal_y"] = 1, self._next_double
            if self._next_float is not None:
                state["next_float_is_valid"], state["next_float"] = True, self._next_float
        return state.reshape(1).view(np.uint8)

    def set_state(self, new_state: np.ndarray) -> Generator:
        """Continue from a state that `get_state` returned, here or in torch."""
        if not isinstance(new_state, np.ndarray):
            raise TypeError(f"expected a torch.ByteTensor, but got {type(new_state).__name__}")
        if new_state.dtype != np.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        if new_state.size != STATE.itemsize:
            raise RuntimeError(
                f"Expected a CPUGeneratorImplState of size {STATE.itemsize} but found the input RNG state size to be "
                f"{new_state.size}"
            )
        state = np.ascontiguousarray(new_state).reshape(-1).view(STATE)[0]
        legacy = state["legacy"]
        left, following = int(legacy["left"]), int(legacy["next"])
        fresh = left == 1 and following == 0
        if not (legacy["seeded"] and 0 < left <= 624 and (fresh or left + following == 625)):
            raise RuntimeError("Invalid mt19937 state")
        with self._lock:
            self.manual_seed(int(legacy["seed"]))
            self._start()
            self._seeded = True
            self._memory[:624] = legacy["key"]
            self._memory[624] = 625 - left
            self._fresh = fresh
            self._next_double = float(legacy["normal_y"]) if legacy["normal_is_valid"] else None
            self._next_float = state["next_float"] if state["next_float_is_valid"] else None
        return self

    def clone_state(self) -> Generator:
        """Return a new generator that continues from the same state."""
        return Generator().set_state(self.get_state())

    def __deepcopy__(self, memo: object) -> Generator:
        return self.clone_state()

    def __reduce__(self) -> tuple:
        return _restore, (self.get_state(),)

    def __repr__(self) -> str:
        return f"<torchnp.Generator seed={self._seed}>"

    # words -------------------------------------------------------------------------------------------------------

    def _bits(self) -> np.random.MT19937:
        if not self._seeded:
            seed_engine(self._start(), self._seed & 0xFFFFFFFF)
            self._seeded = True
        assert self._engine is not None
        return self._engine

    def _start(self) -> np.random.MT19937:
        if self._engine is None:  # import numpy.random only at the first draw
            self._engine = np.random.MT19937(0)
            self._integers = np.random.Generator(self._engine).integers
            # access the engine's words and position directly, because its `state` property takes 30 us each way
            words = (ctypes.c_uint32 * 625).from_address(self._engine.ctypes.state_address)
            self._memory = np.frombuffer(memoryview(words), np.uint32)
        return self._engine

    def random32(self, n: int) -> np.ndarray:
        """Return the next `n` words as uint32."""
        bits = self._bits()
        if n:
            self._fresh = False
        if n < 512:  # random_raw is cheaper per call, `integers` is cheaper per word
            return bits.random_raw(n).astype(np.uint32)
        return self._integers(0, 1 << 32, n, np.uint32)

    def random64(self, n: int) -> np.ndarray:
        """Return the next `n` double words as uint64; the word that is drawn first is the high one."""
        pairs = self.random32(2 * n).view(np.uint64)
        return pairs << np.uint64(32) | pairs >> np.uint64(32)

    def uniform32(self, n: int) -> np.ndarray:
        """Return `n` float32 values in [0, 1), of 24 random bits each."""
        return self._tiled(self._few_uniform32, n, np.float32)

    def uniform64(self, n: int) -> np.ndarray:
        """Return `n` float64 values in [0, 1), of 53 random bits each."""
        return self._tiled(self._few_uniform64, n, np.float64)

    def below(self, p: float, n: int) -> np.ndarray:
        """Return `n` bools, each true with probability `p`: uniform64() < p, computed on integers."""
        bound = np.uint64(math.ceil(p * 2.0**53))
        return self._tiled(lambda few: self._few_random53(few) < bound, n, np.bool_)

    def _tiled(self, draw: Callable[[int], np.ndarray], n: int, dtype: type) -> np.ndarray:
        if n <= TILE:
            return draw(n)
        out: np.ndarray = np.empty(n, dtype)
        for part in blocks(n, TILE):
            out[part] = draw(part.stop - part.start)
        return out

    def _few_uniform32(self, n: int) -> np.ndarray:
        words = self.random32(n)
        words &= _LOW_24
        out = words.view(np.int32).astype(np.float32)  # processors convert int32 to float directly, but not uint32
        out *= _TO_UNIT_24
        return out

    def _few_uniform64(self, n: int) -> np.ndarray:
        out = self._few_random53(n).view(np.int64).astype(np.float64)
        out *= _TO_UNIT_53
        return out

    def _few_random53(self, n: int) -> np.ndarray:
        pairs = self.random32(2 * n).view(np.uint64)
        words = pairs & _HIGH_21
        words <<= _WORD
        pairs >>= _WORD
        words |= pairs
        return words

    @contextmanager
    def read_ahead(self) -> Iterator[ReadAhead]:
        """Yield the uniform64 values as a list, for samplers whose number of draws depends on the values."""
        with self._lock:
            ahead = ReadAhead(self)
            try:
                yield ahead
            finally:
                ahead.close()

    # normals -----------------------------------------------------------------------------------------------------

    def normal64(self, n: int, exact: bool = True) -> np.ndarray:
        """Return `n` standard normals in float64. The second value of a pair, if not needed, is kept for the next call.

        With `exact`, they equal the C library's to the last bit. Otherwise NumPy's vector functions compute them, which
        are faster and give equal values after rounding to float32.
        """
        out = np.empty(n, np.float64)
        with self._lock:
            start = 0
            if n and self._next_double is not None:
                out[0], self._next_double, start = self._next_double, None, 1
            pairs = (n - start + 1) // 2
            if not pairs:
                return out
            u = self.uniform64(2 * pairs).reshape(pairs, 2)
            log1p = libm(math.log1p, -u[:, 1]) if exact or pairs < 16 else np.log1p(-u[:, 1])
            radius = np.sqrt(-2.0 * log1p)
            theta = 2.0 * math.pi * u[:, 0]
            values = np.empty((pairs, 2))
            if exact or pairs < 16:
                values[:, 0] = radius * libm(math.cos, theta)
                values[:, 1] = radius * libm(math.sin, theta)
            else:
                values[:, 0] = radius * np.cos(theta)
                values[:, 1] = radius * np.sin(theta)
            out[start:] = values.reshape(-1)[: n - start]
            if (n - start) % 2:
                last = math.sqrt(-2.0 * math.log1p(-u[-1, 1]))  # the kept value may be read as float64 later
                self._next_double = last * math.sin(theta[-1])
        return out

    def normal_blocks32(self, n: int) -> np.ndarray:
        """Return `n` standard normals (n a multiple of 16) in float32, in torch's blocks of 16."""
        out = np.empty(n, np.float32)
        for part in blocks(n, 2 * PAIRS):
            box_muller32(self.uniform32(part.stop - part.start), out[part])
        return out

    def normal_blocks64(self, n: int) -> np.ndarray:
        """Return `n` standard normals (n a multiple of 16) in float64, in torch's blocks of 16."""
        return box_muller64(self.uniform64(n))


class ReadAhead:
    """The next uniform64 values of a generator as a list.

    `close` sets the generator to the state after the last used value.

    Attributes
    ----------
    values : list of float
        The values that are not used yet.
    normal : float or None
        The normal value that `Generator.normal64` keeps.
    """

    def __init__(self, source: Generator) -> None:
        self.values: list[float] = []
        self.normal = source._next_double
        self._source, self._drawn = source, 0
        self._bits = source._bits()
        self._before, self._fresh = source._memory.copy(), source._fresh

    def extend(self, n: int) -> None:
        """Draw `n` more values. Call it only if the remaining values do not suffice for the next element."""
        source = self._source
        self._before, self._fresh, self._drawn = source._memory.copy(), source._fresh, n
        self.values += source.uniform64(n).tolist()

    def drop(self, used: int) -> None:
        """Remove the first ``used`` values from the list."""
        del self.values[:used]

    def close(self) -> None:
        source, used = self._source, self._drawn - len(self.values)
        source._memory[:], source._fresh = self._before, self._fresh
        if used > 0:
            self._bits.random_raw(2 * used, output=False)
            source._fresh = False
        source._next_double = self.normal


def _restore(state: np.ndarray) -> Generator:
    return Generator().set_state(state)


# the default generator --------------------------------------------------------------------------------------------

default_generator = Generator()
default_generator.seed()


def manual_seed(seed: int) -> Generator:
    """Seed the default generator, which random operators use if they are given none, as `torch.manual_seed` does.

    Parameters
    ----------
    seed : int
        Any integer from -2**63 to 2**64 - 1; the engine uses its low 32 bits.

    Returns
    -------
    Generator
        The default generator. Its random numbers then equal those of torch's CPU generator, value for value.

    Raises
    ------
    ValueError
        The seed is out of range.
    """
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Seed the default generator from the operating system and return the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """Return the seed with which the default generator started."""
    return default_generator.initial_seed()


def get_rng_state() -> np.ndarray:
    """Return the default generator's state, in the format of torch.get_rng_state()."""
    return default_generator.get_state()


def set_rng_state(new_state: np.ndarray) -> None:
    """Set the default generator's state."""
    default_generator.set_state(new_state)
