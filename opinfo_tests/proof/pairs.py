"""Pairs of torch's result for a call and NumPy's result for the natural call, and how the two disagree.

The harness's judge compares them with the operator's tolerance: results that it would pass agree.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends.backend import Backend, Seen, error_of, place_ndarray
from ..case import Case, is_inexact, leaves, schemas
from ..judge.tolerances import ToleranceRule, rule_of
from ..judge.unspecified import recheck_unspecified
from ..judge.verdict import Verdict, check_all_values, check_form, check_values, input_scale
from .natural_call import NaturalCall, arguments, defaults
from .random_values import alike

# How two results disagree, in the order of the checks. If both sides raise errors they agree, whatever the messages.
KINDS = ("torch refuses", "numpy refuses", "results", "dtype", "shape", "value", "alias", "read-only", "strides")
# Kinds of disagreeing values: only signs of zeros differ, only infinite values or nan, only by rounding ("rounding"),
# or for float64 in about half of the digits ("coarse"). "stream" is for random values that differ, but that
# `random_values` accepts as samples of the same distribution.
VALUES = ("stream", "zero sign", "not finite", "rounding", "coarse", "value")
# tolerance as a share of the largest value, by the number of bytes of a real number
NEARLY = {2: 2e-2, 4: 1e-3, 8: 1e-9}
COARSE = NEARLY | {8: 1e-5}  # for float64, about float32 precision
OF_EQUALS = ("fmax", "fmin")  # in NumPy, the processor determines whether these return 0 or -0
NONE = frozenset[int]()
EXACT = ToleranceRule("exact", "looked at bit by bit")


@dataclass(frozen=True)
class Disagreement:
    """How two results disagree: a kind, and a message that describes it."""

    kind: str
    message: str


def answer_of(call: NaturalCall) -> Seen:
    """Run a NumPy call and return its results or its error."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            out = call()
        except Exception as e:
            return Seen(error=error_of(e))
    return seen_of(out, call.buffers)


def seen_of(out: Any, buffers: list[np.ndarray]) -> Seen:
    """Return the results of a NumPy call in the harness's form: flattened, with scalars as 0-d arrays."""
    seen = Seen()
    for r in leaves(out if not isinstance(out, tuple) else list(out)):
        if isinstance(r, np.generic):
            r = np.asarray(r)
        seen.results.append(r)
        seen.alias.append(place_ndarray(r, buffers))
    return seen


def is_view(seen: Seen, i: int) -> bool | None:
    """Return whether a result is a view of an argument's memory, or None if that is unknown."""
    place = seen.alias[i] if i < len(seen.alias) else ...
    return None if place is ... else place is not None


def compare(
    case: Case, want: Seen, mine: Seen, oracle: Backend | None = None, exact: bool = False
) -> Disagreement | None:
    """Return how NumPy's result differs from torch's, or None if they agree.

    With an ``oracle``, values are excused if torch itself gives other values in other memory. ``exact`` compares every
    bit and the strides, for differences that are within the operator's tolerance.
    """
    if want.error or mine.error:
        if want.error and mine.error:
            return None
        kind, (name, words) = ("torch refuses", want.error) if want.error else ("numpy refuses", mine.error or ("", ""))
        return Disagreement(kind, f"{name}: {words.partition(chr(10))[0][:120]}")
    if len(want.results) != len(mine.results):
        return Disagreement("results", f"{len(mine.results)} results, torch gives {len(want.results)}")
    for i, (w, m) in enumerate(zip(want.results, mine.results, strict=True)):
        if not isinstance(w, np.ndarray) and isinstance(m, np.ndarray) and not m.ndim:
            m = mine.results[i] = m[()].item()
        if isinstance(w, np.ndarray) and not isinstance(m, np.ndarray):
            m = mine.results[i] = np.asarray(m)
        form = check_form(w, m)
        if form:
            return Disagreement(form.outcome.removeprefix("wrong-"), form.message)
    mine.after = want.after
    verdict = check_all_values(case, want, mine, EXACT if exact else rule_of(case), NONE)
    if verdict.outcome != "pass":
        promised = case.draws or oracle is None or not settled(case, oracle, want, mine, verdict)
        kind = kind_of_values(case, want, mine) if promised else ""
        if kind == "zero sign" and schemas()[case.op].base in OF_EQUALS and not exact:
            return compare_memory(case, want, mine, exact)
        return Disagreement(kind, verdict.message) if promised else None
    return compare_memory(case, want, mine, exact)


def compare_memory(case: Case, want: Seen, mine: Seen, exact: bool) -> Disagreement | None:
    """Return how two results with the same values disagree in memory: in aliasing, writability or strides."""
    resized = any(w.shape != a.shape for w, a in zip(want.after, case.arrays()))
    for i, m in enumerate(mine.results):
        if not isinstance(m, np.ndarray) or not m.size or resized:
            continue
        w_view, m_view = is_view(want, i), is_view(mine, i)
        if w_view is not None and m_view is not None and w_view != m_view:
            return Disagreement("alias", f"torch gives {'a view' if w_view else 'a copy'}, NumPy does not")
        if not m.flags.writeable:
            return Disagreement("read-only", "torch's result may be written")
        steps = tuple(s // m.itemsize for s in m.strides)
        if exact and want.strides and steps != tuple(want.strides[i]):
            return Disagreement("strides", f"{steps}, torch gives {want.strides[i]}")
    return None


def kind_of_values(case: Case, want: Seen, mine: Seen) -> str:
    """Return which of the kinds in `VALUES` describes how the values of two results disagree."""
    rule = rule_of(case)
    if case.draws:
        return "stream" if alike(case.op, defaults(case.op) | arguments(case)[0], want, mine) else "value"
    pairs = [(w, m) for w, m in zip(want.results, mine.results, strict=True) if isinstance(w, np.ndarray)]
    if rule.kind == "factors" or not all(is_inexact(w.dtype) for w, _ in pairs):
        return "value"

    def passes(change: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> bool:
        return all(
            check_values(w, by_parts(change, w, m), rule, input_scale(case), case).outcome == "pass" for w, m in pairs
        )

    if passes(lambda w, m: np.where((w == 0) & (m == 0), w, m)):
        return "zero sign"
    if passes(lambda w, m: np.where((w == 0) & (m == 0) | ~np.isfinite(w) | ~np.isfinite(m), w, m)):
        return "not finite"
    for kind, digits in (("rounding", NEARLY), ("coarse", COARSE)):
        if all(nearly(w, m, digits) for w, m in pairs):
            return kind
    return "value"


def by_parts(change: Callable[[np.ndarray, np.ndarray], np.ndarray], w: np.ndarray, m: np.ndarray) -> np.ndarray:
    """Apply ``change`` to two arrays; for complex arrays, separately to the real and imaginary parts."""
    if w.dtype.kind != "c":
        return change(w, m).astype(w.dtype)
    out = m.copy()
    out.real, out.imag = change(w.real, m.real), change(w.imag, m.imag)
    return out


def nearly(w: np.ndarray, m: np.ndarray, digits: dict[int, float]) -> bool:
    """Return whether arrays differ by at most ``digits[itemsize]`` times the largest absolute value.

    nan and infinity must be at the same positions.
    """
    finite = np.isfinite(w) & np.isfinite(m)
    if not np.array_equal(np.where(finite, 0, w), np.where(finite, 0, m), equal_nan=True):
        return False
    wide = np.complex128 if w.dtype.kind == "c" else np.float64
    w, m, size = w[finite].astype(wide), m[finite].astype(wide), w.real.dtype.itemsize
    return not w.size or bool((abs(w - m) <= digits[size] * max(abs(w).max(), 1e-30)).all())


def settled(case: Case, oracle: Backend, want: Seen, mine: Seen, verdict: Verdict) -> bool:
    """Return whether torch itself gives other values for the same arguments, as in other memory."""
    return recheck_unspecified(case, oracle, want, mine, verdict, NONE).outcome == "unspecified"


def is_contract(want: Seen) -> bool:
    """Return whether torch's result can be compared; internal errors and errors about malformed calls cannot."""
    none = (
        "INTERNAL ASSERT",
        "is missing value for argument",
        "_meta() missing",
        "got an unexpected keyword",
        "NoneType",
    )
    return not (want.error and (want.error[0] == "OutOfContract" or any(words in want.error[1] for words in none)))
