#!/usr/bin/env python
"""Check whether NumPy's ufuncs give the same results for strided and for contiguous memory; print those that do not.

    scripts/check_ufuncs.py            # exit status 1 if a ufunc is wrong and torchnp has no guard against that
    scripts/check_ufuncs.py --raw      # call NumPy's ufuncs without torchnp's guards

Each ufunc is called with each dtype for which it has a loop and each pair of input and output strides, and compared
with the same values in contiguous memory.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from torchnp.ufunc_workarounds import trusted

KINDS = "?bBhHiIlLefdFD"
STRIDES = (1, 2, 3, 4, 5, 8, 16, -1, -2)  # in elements
LENGTHS = (1, 7, 37, 130)
SKIPPED = frozenset({"matmul", "vecdot", "matvec", "vecmat"})  # these have core dimensions


def ufuncs() -> Iterator[np.ufunc]:
    """Yield NumPy's ufuncs, by name."""
    names = sorted(n for n in dir(np) if isinstance(getattr(np, n), np.ufunc))
    yield from {getattr(np, n).__name__: getattr(np, n) for n in names if n not in SKIPPED}.values()


def values(kind: str, length: int, seed: int) -> np.ndarray:
    """Return numbers of both signs; floats include NaN, infinities and zeros."""
    draw = np.random.default_rng(seed)
    if kind == "?":
        return draw.integers(0, 2, length).astype(kind)
    if kind in "bBhHiIlL":
        return draw.integers(0 if kind.isupper() else -100, 100, length).astype(kind)
    numbers = draw.standard_normal(length) * 3
    rare = numbers[:: max(length // 5, 1)]
    rare[...] = draw.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], len(rare))
    if kind in "FD":
        return (numbers + 1j * np.roll(numbers, 1)).astype(kind)
    return numbers.astype(kind)


def strided(x: np.ndarray, stride: int) -> np.ndarray:
    """Return the same values with a stride (in elements), in memory that has other values between them."""
    memory = np.full(len(x) * abs(stride) + 3, 99, x.dtype)
    view = memory[1 : 1 + len(x) * abs(stride) : abs(stride)]
    view = view[::-1] if stride < 0 else view
    view[...] = x
    return view


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether arrays are equal, up to differences between vector and scalar loops if they are floats."""
    if a.dtype.kind not in "fc":
        return bool(np.array_equal(a, b))
    tolerance = 64 * float(np.finfo(a.dtype).eps)
    return bool(np.isclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True).all())


def wrong_strides(function: Any, ufunc: np.ufunc, kinds: str, results: str) -> list[tuple[int, ...]]:
    """Return the (input, output) strides for which one loop of a ufunc gives wrong results."""
    found = []
    for length in LENGTHS:
        inputs = [values(k, length, i) for i, k in enumerate(kinds)]
        if ufunc.__name__ == "ldexp":
            inputs[1] = inputs[1] % 5
        try:
            expected = ufunc(*inputs, dtype=None)
        except (TypeError, ValueError):
            return []
        expected = expected if isinstance(expected, tuple) else (expected,)
        if [e.dtype.char for e in expected] != list(results):
            return []
        for steps in itertools.product(STRIDES, repeat=2):
            outs = tuple(strided(np.zeros(length, e.dtype), steps[1]) for e in expected)
            function(*(strided(x, steps[0]) for x in inputs), out=outs if len(outs) > 1 else outs[0])
            if steps not in found and not all(map(same, outs, expected)):
                found.append(steps)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--raw", action="store_true", help="look past the guards")
    raw = parser.parse_args().raw
    bad = 0
    with np.errstate(all="ignore"):
        for ufunc in ufuncs():
            function = ufunc if raw else trusted(ufunc)
            for loop in ufunc.types:
                kinds, results = loop.split("->")
                if set(kinds + results) <= set(KINDS) and (found := wrong_strides(function, ufunc, kinds, results)):
                    bad += 1
                    pairs = ", ".join(f"{a}->{b}" for a, b in sorted(found)[:4])
                    print(f"{ufunc.__name__} {loop}: wrong at {len(found)} pairs of strides: {pairs}, ...")
    print(f"NumPy {np.__version__}: {bad} loops are wrong" + ("" if raw else " and not guarded"))
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
