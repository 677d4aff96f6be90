"""All uses of private names of NumPy and SciPy.

Each has a public fallback, or raises a clear error if the name disappears.
"""

from __future__ import annotations

import contextvars
import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

ndarray = np.ndarray


# ---------------------------------------------------------------- NumPy's error state

# np.errstate costs 1 us per call. NumPy keeps its error state in a context variable, and setting and restoring that
# directly takes 0.2 us: token = enter(); leave(token).


def quiet_state(umath: Any) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """Return functions that enter and leave a state without floating point warnings.

    They use NumPy's context variable if it exists.
    """
    state = getattr(umath, "_extobj_contextvar", None)
    if not isinstance(state, contextvars.ContextVar):
        return _enter_errstate, _leave_errstate
    with np.errstate(all="ignore"):
        enter = functools.partial(state.set, state.get())
    return enter, state.reset


def _enter_errstate() -> np.errstate:
    entered = np.errstate(all="ignore")
    entered.__enter__()
    return entered


def _leave_errstate(entered: np.errstate) -> None:
    entered.__exit__(None, None, None)


enter_quiet, leave_quiet = quiet_state(getattr(getattr(np, "_core", None), "umath", None))


# ---------------------------------------------------------------- SciPy's loop over a sparse matrix


@functools.cache
def add_rows_of() -> Callable[[ndarray, ndarray, ndarray], None]:
    """Return a loop that adds ``rows[i]`` to ``out[index[i]]`` in order: SciPy's, or NumPy's if SciPy's is missing."""
    try:
        from scipy.sparse._sparsetools import csc_matvecs
    except ImportError:
        return add_rows_at

    def add(out: ndarray, index: ndarray, rows: ndarray) -> None:
        # Multiply by the sparse matrix with ones at (index[i], i). Real and imaginary parts are added separately,
        # because a complex factor would spread nan and infinities from one part to the other.
        real = out.real.dtype
        n, m, width = len(out), len(index), out.shape[1] * (out.itemsize // real.itemsize)
        ends, places = np.arange(m + 1, dtype=np.int64), index.astype(np.int64, copy=False)
        flat = np.ascontiguousarray(rows).reshape(-1).view(real)
        csc_matvecs(n, m, width, ends, places, np.ones(m, real), flat, out.reshape(-1).view(real))

    return add


def add_rows_at(out: ndarray, index: ndarray, rows: ndarray) -> None:
    """Run the same loop with NumPy's ``ufunc.at``, which takes ten times as long."""
    np.add.at(out, index, rows.reshape(len(index), out.shape[1]))


# ---------------------------------------------------------------- generators


def seed_engine(engine: np.random.MT19937, seed: int) -> None:
    """Seed a Mersenne Twister as torch does.

    MT19937's constructor hashes its seed; torch and `np.random.RandomState` do not.
    """
    seed_plainly = getattr(engine, "_legacy_seeding", None)
    if seed_plainly is None:
        state: Any = np.random.RandomState(seed).get_state(legacy=False)
        engine.state = state
    else:
        seed_plainly(seed)


def sobol_directions(dimension: int, bits: int) -> ndarray:
    """Return Joe and Kuo's direction numbers from SciPy. No public function returns the last of them."""
    import scipy
    from scipy.stats.qmc import Sobol

    numbers = getattr(Sobol(dimension, scramble=False, bits=bits), "_sv", None)
    if numbers is None:
        raise RuntimeError(f"SciPy {scipy.__version__} does not show its Sobol direction numbers: use SciPy 1.17")
    return numbers


# ---------------------------------------------------------------- arguments that torchnp.np takes as NumPy does

NO_VALUE: Any = getattr(np, "_NoValue", None)  # NumPy's mark for an argument that is not given


def parse_einsum_input(operands: Any) -> tuple[str, str, Any]:
    """Return the subscripts of np.einsum's operands, those of its result, and the arrays, as NumPy reads them."""
    return importlib.import_module("numpy._core.einsumfunc")._parse_einsum_input(operands)
