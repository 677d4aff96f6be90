"""Sobol's sequence: direction numbers, their scrambling, and points drawn in Gray code's order."""

from __future__ import annotations

import numpy as np

from torchnp import dtypes as dt
from torchnp._private import sobol_directions
from torchnp.checks import check
from torchnp.errors import not_implemented
from torchnp.kernels._memory import factory_dtype
from torchnp.registry import kernel

ndarray = np.ndarray
_BITS = 30


def _steps(state: ndarray, n: int, drawn: int) -> ndarray:
    """What each of the next n points is exclusive-ored with: the direction of the lowest zero bit of its number."""
    numbers = np.arange(drawn, drawn + n, dtype=np.int64)
    lowest = np.bitwise_count(numbers & ~(numbers + 1)).astype(np.int64)
    return state[:, lowest].T


@kernel("_sobol_engine_draw")
def _sobol_engine_draw(quasi, n, sobolstate, dimension, num_generated, dtype):
    """The next n points in the unit cube, and the integers of the last of them."""
    check(quasi.dtype == dt.int64, "quasi needs to be of type Long")
    check(sobolstate.dtype == dt.int64, "sobolstate needs to be of type Long")
    wanted = factory_dtype(dtype)
    if wanted not in (dt.float32, dt.float64):
        raise not_implemented("_sobol_engine_draw", wanted)
    points = np.bitwise_xor.accumulate(np.concatenate([quasi[None], _steps(sobolstate, n, num_generated)]), 0)
    return dt.cast(points[1:], wanted) * wanted.type(2.0**-_BITS), points[-1].copy()


@kernel("_sobol_engine_ff_")
def _sobol_engine_ff_(self, n, sobolstate, dimension, num_generated):
    """The integers of a point moved on by n points."""
    check(self.dtype == dt.int64, "quasi needs to be of type Long")
    check(sobolstate.dtype == dt.int64, "sobolstate needs to be of type Long")
    self ^= np.bitwise_xor.reduce(_steps(sobolstate, n, num_generated), 0)
    return self


@kernel("_sobol_engine_initialize_state_")
def _sobol_engine_initialize_state_(self, dimension):
    """The direction numbers of Joe and Kuo, which SciPy has too."""
    check(self.dtype == dt.int64, "sobolstate needs to be of type Long")
    self[...] = sobol_directions(dimension, _BITS)
    return self


@kernel("_sobol_engine_scramble_")
def _sobol_engine_scramble_(self, ltm, dimension):
    """Each direction's bits times a lower triangular matrix of bits, with ones on the diagonal."""
    check(self.dtype == dt.int64, "sobolstate needs to be of type Long")
    matrix = (ltm | np.eye(_BITS, dtype=np.int64)) & 1
    places = np.arange(_BITS - 1, -1, -1)
    bits = self[:, None, :] >> places[:, None] & 1
    self[...] = ((matrix @ bits & 1) << places[:, None]).sum(1)
    return self
