"""Random values are no pairs: NumPy and torch draw from other streams, so two results are held against each other as samples.

Two samples are **alike** if both lie in the support of the distribution (which ends belong to it), neither is complex
where the other is real, and the test of Kolmogorov and Smirnov does not tell them apart. What is alike and not equal
disagrees in its *stream* alone; dtype, shape, memory and refusals are compared as everywhere.
"""

from __future__ import annotations

import keyword
from typing import Any

import numpy as np
from scipy.stats import ks_2samp

import torchnp
from torchnp.lookup.numpy_names import public_name

from ..backends.backend import Seen
from ..case import Case, Seeded, leaves

APART = 1e-6  # calls are some thousands: samples of one distribution hardly ever come out so far apart
MANY = 1000  # from so many values on the test's limit is as good as its exact form

# By counterpart, what is true of all values x, in the words of torch's arguments; the first whose words are given.
SUPPORT: dict[str, tuple[str, ...]] = {
    "numpy.random.rand": ("(0 <= x) & (x < 1)",),
    "numpy.random.uniform": ("(from_ <= x) & ((x < to) | (from_ == to))", "(low <= x) & ((x < high) | (low == high))"),
    "numpy.random.randint": (
        "(low <= x) & (x < high)",
        "(0 <= x) & (x < high)",
        "(from_ <= x) & (x < to)",
        "(from_ <= x)",
        "(0 <= x) & (x < to)",
        "0 <= x",
    ),
    "numpy.random.permutation": ("np.sort(x) == np.arange(n)",),
    "numpy.random.binomial": ("(0 <= x) & (x <= count) & (x == np.floor(x))", "(x == 0) | (x == 1)"),
    "numpy.random.poisson": ("(x >= 0) & (x == np.floor(x))",),
    "numpy.random.geometric": ("(x >= 1) & (x == np.floor(x))",),
    "numpy.random.standard_gamma": ("x >= 0",),
    "numpy.random.exponential": ("x >= 0",),
    "numpy.random.lognormal": ("x >= 0",),
    "numpy.random.dirichlet": ("(0 <= x) & (x <= 1)",),
    "numpy.random.choice": ("(0 <= x) & (x < self.shape[-1]) & (replacement or distinct(x))",),
}


def python_name(name: str) -> str:
    """Return an argument's name as Python can say it: ``from`` is ``from_``."""
    return name + "_" * keyword.iskeyword(name)


def seed_of(case: Case) -> int | None:
    """Return the seed of the generator that a call draws from, None of a call that does not draw."""
    given = [leaf.seed for leaf in leaves((case.args, case.kwargs)) if isinstance(leaf, Seeded)]
    return [*given, case.seed][0] % 2**32 if case.draws else None


def distinct(x: np.ndarray) -> bool:
    """Return whether no row has an element twice."""
    return not (np.diff(np.sort(x, axis=-1), axis=-1) == 0).any()


def inside(op: str, given: dict[str, Any], x: np.ndarray) -> bool:
    """Return whether all values lie in the support of an operator's distribution."""
    names = given | {"x": x, "np": np, "distinct": distinct}
    for text in SUPPORT.get(public_name(torchnp.table[op].like), ()):
        code = compile(text, text, "eval")
        if {n for n in code.co_names if n not in ("shape", "sort", "arange", "floor")} <= names.keys():
            return bool(np.all(eval(code, names)))
    return True


def parts(x: np.ndarray) -> list[np.ndarray]:
    """Return the numbers of an array, of complex ones the real and the imaginary parts."""
    return [x.real, x.imag] if x.dtype.kind == "c" else [x]


def alike(op: str, given: dict[str, Any], want: Seen, mine: Seen) -> bool:
    """Return whether two results of one form are samples of one distribution, as far as they tell."""
    for w, m in zip(want.results, mine.results, strict=True):
        if w.dtype.kind == "c" and w.imag.any() != m.imag.any():
            return False
        for x, y in zip(parts(w), parts(m), strict=True):
            if not inside(op, given, x) or not inside(op, given, y) or (np.isnan(x) != np.isnan(y)).any():
                return False
            a, b = (z[~np.isnan(z)].astype(np.float64) for z in (x, y))
            method = "exact" if a.size < MANY else "asymp"
            if a.size and ks_2samp(a, b, method=method).pvalue < APART:
                return False
    return True
