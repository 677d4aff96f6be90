"""Inserts faults in torch's results on purpose, and counts how many of them the listed differences would excuse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

import numpy as np

from ..backends.backend import Seen
from ..case import Case, is_inexact
from .explain_disagreements import explain
from .natural_call import NoNaturalCallError
from .pairs import answer_of, compare, is_contract
from .prove import Paired, counterpart, listed_of, pair, recorded


def larger(x: np.ndarray) -> np.ndarray | None:
    """Return the values with the last one changed by more than any tolerance, or None."""
    if not x.size or x.dtype.kind not in "iufc":
        return None
    y = x.copy()
    with np.errstate(all="ignore"):
        y.flat[-1] = y.flat[-1] * 2 + 3
    return None if not np.isfinite(y.flat[-1]) or y.flat[-1] == x.flat[-1] else y


def swapped(x: np.ndarray) -> np.ndarray | None:
    """Return the values in reversed order, or None if that changes nothing."""
    y = np.flip(x).copy()
    return y if x.size > 1 and not np.array_equal(x, y, equal_nan=is_inexact(x.dtype)) else None


def otherwise_typed(x: np.ndarray) -> np.ndarray | None:
    """Return the values in another dtype, or None."""
    if x.dtype.kind not in "iufc":
        return None
    with np.errstate(all="ignore"):
        return x.astype(
            {"i": np.uint8, "u": np.int16, "f": np.float16, "c": np.complex64}[x.dtype.kind]
            if x.dtype.itemsize > 1 + (x.dtype.kind == "f") and x.dtype != np.complex64
            else np.float32
            if x.dtype.kind != "c"
            else np.complex128
        )


def transposed(x: np.ndarray) -> np.ndarray | None:
    """Return the values transposed, or with one more dimension if that keeps the shape."""
    return x.T.copy() if x.shape != x.shape[::-1] else x[None].copy()


def opposite(x: np.ndarray) -> np.ndarray | None:
    """Return the values negated (logically for bool), or None if that changes nothing."""
    y = ~x if x.dtype.kind == "b" else -x if x.dtype.kind in "ifc" else None
    return y if y is not None and x.size and not np.array_equal(x, y, equal_nan=x.dtype.kind in "fc") else None


FAULTS: dict[str, Callable[[np.ndarray], np.ndarray | None]] = {
    "a value off": larger, "another order": swapped, "another dtype": otherwise_typed, "another shape": transposed,
      "the opposite": opposite,
}  # fmt: skip


def planted(want: Seen) -> Iterator[tuple[str, Seen]]:
    """Yield an error instead of torch's result, and copies of the result with one fault each."""
    refused = Seen(error=("RuntimeError", "planted"), after=want.after)
    yield "a refusal", refused
    for name, fault in FAULTS.items():
        for i, x in enumerate(want.results):
            changed = fault(x) if isinstance(x, np.ndarray) and x.dtype.kind in "biufc" else None
            if changed is not None:
                other = copy(want)
                other.results = [changed if j == i else r for j, r in enumerate(want.results)]
                yield name, other
                break


def excused(case: Case, want: Seen, listed: Any, side: tuple[Callable, str]) -> Iterator[tuple[str, bool]]:
    """For each fault in torch's result, yield its name and whether the listed differences explain it."""
    try:
        p: Paired = pair(case, want, *side)
    except NoNaturalCallError:
        return
    for name, wrong in planted(want):
        found = compare(case, wrong, answer_of(p.make()))
        if found is not None:  # faults within the tolerance, or in parts that are not compared, do not count
            # Pass no oracle to `explain`: in other memory torch would not repeat the fault, and so would seem to differ
            # from itself.
            yield name, bool(explain(case, wrong, found, listed, p.make).ids)


def plant(ops: frozenset[str], draws: int, each: int = 3) -> dict[str, tuple[int, int]]:
    """Insert faults in the first calls of each overload that NumPy can express.

    Return for each fault how often it was inserted, and how often it was excused.
    """
    taken: Counter[str] = Counter()
    planted_, excused_ = Counter[str](), Counter[str]()
    for case, want in recorded(ops, draws):
        side = counterpart(case.op)
        if (
            side is None
            or want.error
            or not is_contract(want)
            or taken[case.op] >= each
            or sum(a.size for a in case.fresh_buffers()) > 4096
        ):
            continue
        found = list(excused(case, want, listed_of(case.op), side))
        taken[case.op] += bool(found)
        for name, was in found:
            planted_[name] += 1
            excused_[name] += was
    return {name: (n, excused_[name]) for name, n in planted_.items()}
