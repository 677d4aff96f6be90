"""Compares random values: NumPy and torch generate different numbers, so results are compared as samples.

Two samples are **alike** if both lie in the support of the distribution, including its open and closed ends, neither is
complex while the other is real, and the Kolmogorov-Smirnov test does not distinguish them. Alike samples that are not
equal disagree only in the *stream* of random numbers. Dtype, shape, memory and errors are compared as for other
operators.
"""

from __future__ import annotations

import keyword
from typing import Any

import numpy as np
from scipy.stats import ks_2samp

import torchnp
from torchnp.lookup.public_name import public_name

from ..backends.backend import Seen
from ..case import Case, Seeded, leaves

APART = 1e-6  # p-value; among some thousands of calls, equal distributions hardly ever give a smaller one
MANY = 1000  # from this number of values on, the test's asymptotic form is as good as the exact one

# Conditions on all values x by counterpart, written with torch's arguments. The first condition whose arguments are
# given applies.
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
    """Return an argument's name as a Python identifier: ``from`` becomes ``from_``."""
    return name + "_" * keyword.iskeyword(name)


def seed_of(case: Case) -> int | None:
    """Return the seed of the generator that a call uses, or None if it uses no random numbers."""
    given = [leaf.seed for leaf in leaves((case.args, case.kwargs)) if isinstance(leaf, Seeded)]
    return [*given, case.seed][0] % 2**32 if case.draws else None


def distinct(x: np.ndarray) -> bool:
    """Return whether the elements of each row are distinct."""
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
    """Return a list of the array itself if it is real, else of its real and imaginary parts."""
    return [x.real, x.imag] if x.dtype.kind == "c" else [x]


def alike(op: str, given: dict[str, Any], want: Seen, mine: Seen) -> bool:
    """Return whether two results of the same form look like samples of one distribution."""
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
