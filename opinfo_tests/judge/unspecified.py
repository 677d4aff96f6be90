"""Unspecified results: if torch's own results differ, for example between memory layouts, each of them passes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ..backends.backend import Backend, Seen
from ..case import BITS, DTYPES, NAMES, Array, Case, Named, is_complex, is_inexact, map_tree, widen
from ..schema_facts import all_schemas, bound, is_fragile, is_out
from .aliased_writes import has_no_order
from .collisions import equal_bits, explained
from .tolerances import CLOSE, ToleranceRule, rule_of
from .verdict import Verdict, check_values, computed_dtype, input_scale, same_bits, undeclared_writes


def contiguous(a: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]]:
    copy = np.ascontiguousarray(a)
    return copy, copy.strides if a.ndim else ()


def stepped(a: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]]:
    wide = np.zeros((*a.shape, 2), a.dtype)
    wide[..., 0] = a
    return wide, wide.strides[:-1]


LAYOUTS = {"contiguous": contiguous, "stepped": stepped}


def relayout(case: Case, layout: str) -> Case:
    """Return the same call with each array argument in its own memory, in another layout."""
    buffers: list[np.ndarray] = []

    def leaf(x: Any) -> Any:
        if type(x) is not Array:
            return x
        memory, strides = LAYOUTS[layout](x.on(case.buffers))
        buffers.append(memory.reshape(-1).view(np.uint8))
        return Array(len(buffers) - 1, x.dtype, x.shape, strides)

    args, kwargs = map_tree(leaf, case.args), map_tree(leaf, case.kwargs)
    return replace(case, args=args, kwargs=kwargs, buffers=buffers, digest=case.digest)


def recheck_unspecified(
    case: Case, oracle: Backend, want: Seen, mine: Seen, verdict: Verdict, writes: frozenset[int]
) -> Verdict:
    """Return ``unspecified`` if torch does not promise the result that a failing call missed, else the same verdict."""
    arrays = case.arrays()
    careful = verdict.outcome == "spurious-error" and refuses_overlap(mine)
    if (careful or verdict.outcome in ("wrong-value", "wrong-alias")) and unchecked_out(case, writes):
        return Verdict("unspecified", f"torch does not look at the memory that it writes: {verdict.message}")
    if verdict.outcome in ("wrong-value", "wrong-alias") and has_no_order(case, arrays, writes):
        return Verdict("unspecified", "torch reads what it writes, in no promised order", verdict.max_abs)
    if not verdict.by_element or case.known is not None:
        return verdict
    if any(folds(arrays[i]) for i in writes):
        return Verdict("unspecified", "windows that overlap are written: torch promises no order", verdict.max_abs)
    places = [("results", i) for i in range(len(mine.results))] + [
        ("after", i) for i in sorted(writes | undeclared_writes(case, want))
    ]
    if explained(case, [(getattr(want, kind)[i], getattr(mine, kind)[i]) for kind, i in places]):
        return Verdict("unspecified", "an index repeats: torch promises no order of writes", verdict.max_abs)
    rule, scale = rule_of(case), input_scale(case)
    if rule.kind == "ties":
        # For an expanded input torch's median reads memory beyond it: also compare with its result for a contiguous
        # copy.
        both = (want, oracle.execute(relayout(case, "contiguous")))
        found = any(same_but_for_ties(case, answer, mine) for answer in both)
        return Verdict("unspecified", rule.reason, verdict.max_abs) if found else verdict
    answers = {"as recorded": want} | asked_otherwise(case, oracle, rule)
    pairs = [pair for pair in answers.items() if not pair[1].error]
    needed: set[str] = set()
    truth: Seen | None = None
    nearby: list[Seen] = []
    repeated: list[Seen] = []
    for kind, i in places:
        got = getattr(mine, kind)[i]
        wanted = getattr(want, kind)[i]
        at = target_of(arrays, i, writes) if kind == "after" else i
        options = [(name, getattr(seen, kind)[at]) for name, seen in pairs if len(getattr(seen, kind)) > at]
        used = elementwise(got, options, rule, scale, case)
        errors = ""
        told = rule.half and isinstance(wanted, np.ndarray) and NAMES[wanted.dtype] in HALVES
        if used is None and rule.kind == "close" and (rule.sums or rule.once) and not told:
            truth = truth or oracle.execute(widened(case))
            used, errors = as_true(wanted, got, truth, kind, i, case, rule, scale)
        if used is None and (rule.conditioned or repeated_target(arrays, writes)):
            nearby = nearby or [oracle.execute(nudged(case, seed)) for seed in range(NEARBY)]
            if as_far(wanted, got, answers_of(nearby, kind, i), rule):
                used = {"inputs that differ in their last bits"}
        if used is None and not isinstance(wanted, np.ndarray):
            return verdict
        if used is None:
            repeated = repeated or [in_other_memory(case, oracle, turn) for turn in range(TRIES)]
            steady = told_again(wanted, answers_of(repeated, kind, i))
            if check_values(wanted[steady], got[steady], rule, scale, case).outcome != "pass":
                return replace(verdict, message=f"{verdict.message}; {errors}") if errors else verdict
            used = {"each time"}
        needed |= used
    evidence = ", ".join(sorted(needed - {"as recorded"})) or "again"
    return Verdict(
        "unspecified", f"torch differs from itself ({evidence}): {verdict.message}", verdict.max_abs, verdict.max_ulp
    )


def excused_by_reference(verdict: Verdict, against: Verdict) -> Verdict:
    """Return ``unspecified`` instead of a failure if the backend agrees with its `Backend.reference`.

    The reference runs torch's own kernels through the backend's machinery.
    """
    if against.outcome != "pass":
        return verdict
    return Verdict(
        "unspecified", f"so do torch's kernels in this place: {verdict.message}", verdict.max_abs, verdict.max_ulp
    )


def repeated_target(arrays: list[Array], writes: frozenset[int]) -> bool:
    """Return whether a written list contains the same array twice.

    ``_foreach_tan_`` then computes the tangent of a tangent: the second call magnifies the rounding errors of the
    first, which differ between vector libraries.
    """
    targets = [arrays[i] for i in sorted(writes)]
    return any(a in targets[:n] for n, a in enumerate(targets))


def target_of(arrays: list[Array], i: int, writes: frozenset[int]) -> int:
    """Return the written argument that is the same array as argument ``i``, else ``i``.

    If each argument has its own memory, only the written one changes.
    """
    return i if i in writes else next((w for w in sorted(writes) if arrays[w] == arrays[i]), i)


def asked_otherwise(case: Case, oracle: Backend, rule: ToleranceRule) -> dict[str, Seen]:
    """Return torch's results for the same call: repeated, with the values in other layouts, and without oneDNN.

    On processors that oneDNN supports, oneDNN adds in another order, and either skips or multiplies the padding of an
    image.
    """
    answers = {"again": oracle.execute(case)}
    # Random numbers are generated in memory order: in another layout, elements get other numbers.
    tags = all_schemas()[case.op].tags
    drawn = "nondeterministic_seeded" in tags
    for layout in () if drawn or is_fragile(case.op) else LAYOUTS:
        # Skip the stepped layout for pointwise operators: it shows torch's scalar path, which is known to differ and
        # does not excuse differences in elements of the vector path.
        if layout != "stepped" or "pointwise" not in tags or rule.beside:
            answers[layout] = oracle.execute(relayout(case, layout))
    if not drawn:
        was, *_ = torch.backends.mkldnn.set_flags(False)  # flags() would also set other flags, and warns about them
        try:
            answers["without oneDNN"] = oracle.execute(case)
        finally:
            torch.backends.mkldnn.set_flags(was)
    return answers


TRIES = 5  # number of repetitions of the same call


def in_other_memory(case: Case, oracle: Any, turn: int) -> Seen:
    """Fill freed memory with other bytes in each turn, then run a call: elements that torch does not write differ."""
    used = [torch.full((b.size,), 40 + turn, dtype=torch.uint8) for b in case.buffers for _ in range(3)]
    del used
    return oracle.execute(case)


def answers_of(seen: list[Seen], kind: str, i: int) -> list[Any]:
    """Return, for each of several calls, result number ``i`` (or, by ``kind``, argument ``i`` after the call)."""
    return [getattr(s, kind)[i] for s in seen if len(getattr(s, kind)) > i]


def told_again(want: np.ndarray, again: list[Any]) -> np.ndarray:
    """Return a mask of the elements that are equal in all repetitions of torch's call.

    The other elements are uninitialized, for example some elements of `_fused_sgd_` momentum buffers in half precision.
    """
    same = np.ones(want.shape, bool)
    for a in again:
        if isinstance(a, np.ndarray) and a.shape == want.shape and a.dtype == want.dtype:
            same &= equal_bits(want, a)
    return same


def same_but_for_ties(case: Case, want: Seen, mine: Seen) -> bool:
    """Return whether the values equal torch's (-0 equals 0), and each index selects its value and occurs only once."""
    given = bound(case)
    if "dim" not in given:  # msort, or the median of all elements
        return equal_values(want.results[0], mine.results[0])
    source = np.atleast_1d(given["self"].on(case.buffers))
    dim = given["dim"] % source.ndim
    picked = []
    for index in (want.results[-1], mine.results[-1]):
        index = np.atleast_1d(index)
        index = index if index.ndim == source.ndim else np.expand_dims(index, dim)
        if index.size and not 0 <= index.min() <= index.max() < source.shape[dim]:
            return False
        if (np.diff(np.sort(index, dim), axis=dim) == 0).any():
            return False
        picked.append(np.take_along_axis(source, index, dim))
    if "argsort" not in case.op and not same_bits(picked[1].reshape(mine.results[0].shape), mine.results[0]):
        return False
    if not given.get("sorted", True):
        picked = [np.sort(widen(x), dim) for x in picked]
    return equal_values(*picked)


def equal_values(a: np.ndarray, b: np.ndarray) -> bool:
    a, b = widen(a), widen(b)
    return bool(((a == b) | ((a != a) & (b != b))).all())


WIDER = {"float16": "float64", "bfloat16": "float64", "float32": "float64", "complex32": "complex128", "bcomplex32": "complex128",
         "complex64": "complex128"}  # fmt: skip


REAL = {"complex32": "float16", "bcomplex32": "bfloat16", "complex64": "float32", "complex128": "float64"}


def held(case: Case) -> dict[int, set[str]]:
    """Return the dtypes of the arrays that use each buffer."""
    found: dict[int, set[str]] = {}
    for a in case.arrays():
        found.setdefault(a.buffer, set()).add(a.dtype)
    return found


def widened(case: Case) -> Case:
    """Return the same call with the same values in double precision and in the same layout."""
    there = held(case)
    buffers = []
    for i, memory in enumerate(case.buffers):
        dtype = next(iter(there[i]))
        if dtype in WIDER and len(there[i]) == 1:
            values = memory[: memory.size // DTYPES[dtype].itemsize * DTYPES[dtype].itemsize].view(DTYPES[dtype])
            memory = widen(values).astype(DTYPES[WIDER[dtype]]).view(np.uint8)
        buffers.append(memory)

    def leaf(x: Any) -> Any:
        if type(x) is Named and x.kind == "dtype":
            return Named("dtype", WIDER.get(x.name, x.name))
        if type(x) is not Array or x.dtype not in WIDER or len(there[x.buffer]) > 1:
            return x
        times = DTYPES[WIDER[x.dtype]].itemsize // DTYPES[x.dtype].itemsize
        return Array(x.buffer, WIDER[x.dtype], x.shape, tuple(s * times for s in x.strides), x.offset * times)

    args, kwargs = map_tree(leaf, case.args), map_tree(leaf, case.kwargs)
    return in_double(replace(case, args=args, kwargs=kwargs, buffers=buffers, digest=case.digest))


def in_double(case: Case) -> Case:
    """Return the call; if its operator has no double precision, replace it by an equivalent operator that has."""
    if case.op.partition(".")[0] != "aten::mkldnn_convolution":
        return case
    given = bound(case)
    names = ("self", "weight", "bias", "stride", "padding", "dilation")
    args = (*(given[name] for name in names), False, [0], given["groups"])
    out = {"out": given["out"]} if is_out(case.op) else {}
    return replace(case, op=case.op.replace("mkldnn_", ""), args=args, kwargs=out)


def as_true(
    want: Any, got: Any, truth: Seen, kind: str, i: int, case: Case, rule: ToleranceRule, scale: float
) -> tuple[set[str] | None, str]:
    """Compare the errors of ``got`` and of torch's result, both measured against torch's result in double precision.

    Return evidence that ``got`` is as accurate as torch's result, or None if it is not, and the errors as text. The
    largest and the mean error may be at most twice torch's, or 1.1 times if a half-precision result is rounded once. If
    the terms of a sum cancel, no order of additions is the right one: errors of a few roundings of the largest input
    (``scale``) are allowed. A random operator may generate other numbers in double precision: then None is returned.
    Where the double precision zero has the sign of torch's zero, ``got`` must have this sign, too.
    """
    answers = getattr(truth, kind)
    if truth.error or len(answers) <= i or not is_inexact(want.dtype):
        return None, ""
    narrow = NAMES[computed_dtype(want.dtype, case)]
    if narrow not in WIDER:
        return None, ""
    true = answers[i]
    if not isinstance(true, np.ndarray) or true.shape != want.shape:
        return None, ""
    finite = np.isfinite(true)
    if not finite.any() or not np.array_equal(widen(want)[~finite], widen(got)[~finite], equal_nan=True):
        return None, ""
    if rule.zero_sign and sign_lost(want, got, true):
        return None, ""
    # Where only torch's result overflows, no error can be measured: ``got`` must equal torch's there or, except for
    # pointwise operators, the double precision result.
    lost = finite & ~np.isfinite(widen(want))
    if lost.any():
        theirs, mine = widen(want)[lost], widen(got)[lost]
        alike = (theirs == mine) | ((theirs != theirs) & (mine != mine))
        if "pointwise" not in all_schemas()[case.op].tags:
            alike |= np.isclose(mine, true[lost], np.sqrt(CLOSE[narrow][0]), 0)
        if not alike.all():
            return None, ""
    finite &= ~lost
    if not finite.any():
        return {"the double precision result is finite"}, ""
    true, wide = true[finite], true.dtype
    theirs = np.abs(widen(want)[finite].astype(wide) - true)
    mine = np.abs(widen(got)[finite].astype(wide) - true)
    if case.draws and theirs.max() > np.sqrt(CLOSE[narrow][0]) * np.abs(true).max():
        return None, ""
    few = (
        4 * max(scale, float(np.abs(true).max())) * np.finfo(np.float32).eps
    )  # float32, because sums of half-precision values are also computed in single precision
    if narrow in HALVES and not rule.nearer and precise(mine, theirs, np.abs(true), narrow):
        return None, "as if in another precision than torch's: " + errors_of(mine, theirs)
    times = 1.1 if rule.once else 2
    as_near = mine.max() <= max(times * theirs.max(), few) and mine.mean() <= max(times * theirs.mean(), few)
    errors = errors_of(mine, theirs)
    return ({errors} if as_near else None), errors


HALVES = frozenset({"float16", "bfloat16", "complex32", "bcomplex32"})
NEARER = 8  # summing in another order cannot explain errors that differ by this factor
VISIBLE = 4  # in ulp: if torch's error is larger, torch rounds intermediate results


def precise(mine: np.ndarray, theirs: np.ndarray, true: np.ndarray, narrow: str) -> bool:
    """Return whether torch visibly rounds intermediates to half precision, while ``mine`` is far more accurate."""
    unit = 2.0**-7 if narrow == "bfloat16" else 2.0**-10
    worst = theirs.argmax()
    return bool(theirs.flat[worst] > VISIBLE * unit * true.flat[worst] and NEARER * mine.max() < theirs.flat[worst])


def errors_of(mine: np.ndarray, theirs: np.ndarray) -> str:
    return f"off the double precision result by {mine.max():.2g}, torch by {theirs.max():.2g}"


NEARBY = 8  # number of calls with slightly changed inputs
# The error allowed, as a multiple of the change in torch's result. It is more than 1 because another order of additions
# changes the rounding of every term, whereas the nearby calls change only the inputs.
FURTHER = 8


def nudged(case: Case, seed: int) -> Case:
    """Return the same call with each floating-point value's magnitude changed by one ulp, up or down at random."""
    rng = np.random.default_rng(seed)
    buffers = list(case.buffers)
    for b, dtypes in held(case).items():
        dtype = DTYPES[REAL.get(*dtypes, *dtypes)] if len(dtypes) == 1 else np.dtype(bool)
        if is_inexact(dtype):
            memory = buffers[b] = case.buffers[b].copy()
            bits = memory[: memory.size // dtype.itemsize * dtype.itemsize].view(BITS[dtype.itemsize])
            moved = np.isfinite(widen(bits.view(dtype))) & (bits << 1 != 0)
            up = rng.integers(0, 2, bits.shape, bool)
            bits[moved & up] += 1
            bits[moved & ~up] -= 1
    return replace(case, buffers=buffers, digest=case.digest)


def as_far(want: Any, got: Any, around: list[Any], rule: ToleranceRule) -> bool:
    """Return whether each element differs from torch's about as little as torch's results for nearby inputs do.

    Where a value is infinite, reciprocals are compared. NaN matches only NaN.
    """
    alike = [a for a in around if isinstance(a, np.ndarray) and a.shape == want.shape and a.dtype == want.dtype]
    if not alike:
        return False
    if not is_inexact(want.dtype):
        return bool(np.logical_or.reduce([got == a for a in (want, *alike)]).all())
    w, g, *others = (widen(a) for a in (want, got, *alike))
    infinite = ~np.isfinite(w) | ~np.isfinite(g)
    with np.errstate(all="ignore"):
        w, g, *others = (np.where(infinite, 1 / a, a) for a in (w, g, *others))
        reach = np.max([np.where(np.isfinite(a), np.abs(a - w), 0) for a in others], axis=0)
        rtol = CLOSE[NAMES[want.dtype]][0]
        near = np.abs(g - w) <= FURTHER * reach + rtol * np.abs(w)
    return bool((near | equal_bits(want, got)).all())


def sign_lost(want: np.ndarray, got: np.ndarray, true: np.ndarray) -> bool:
    """Return whether a zero's sign differs from torch's, although torch's double precision result has the same sign."""
    for part in ("real", "imag") if is_complex(true.dtype) else ("real",):
        w, g, t = (getattr(widen(x), part) for x in (want, got, true))
        zero = (w == 0) & (g == 0) & (t == 0)
        if (zero & (np.signbit(w) == np.signbit(t)) & (np.signbit(w) != np.signbit(g))).any():
            return True
    return False


def elementwise(got: Any, options: list[tuple[str, Any]], rule: Any, scale: float, case: Case) -> set[str] | None:
    """Return the names of the torch results that together explain every element of ``got``, or None if they do not."""
    if not isinstance(got, np.ndarray):
        return {name for name, o in options[:1] if check_values(o, got, rule, scale, case).outcome == "pass"} or None
    left = np.ones(got.shape, bool)
    used: set[str] = set()
    for name, o in options:
        if not left.any():
            break
        if not isinstance(o, np.ndarray) or o.shape != got.shape:
            continue
        if check_values(o[left], got[left], rule, scale, case).outcome == "pass":
            return used | {name}
        same = equal_bits(o, got)
        if (same & left).any():
            used.add(name)
            left &= ~same
    return used if not left.any() else None


def folds(a: Array) -> bool:
    """Return whether elements of an array overlap although no dimension is expanded.

    torch's documentation of ``as_strided`` says that in-place operations on such views may give incorrect results.
    """
    if 0 in a.strides or 0 in a.shape:
        return False
    places = np.zeros(1, np.int64)
    for n, stride in zip(a.shape, a.strides, strict=True):
        places = np.add.outer(places, np.arange(n) * stride).reshape(-1)
    return np.unique(places).size < places.size


def unchecked_out(case: Case, writes: frozenset[int]) -> bool:
    """Return whether ``out=`` overlaps itself or partly overlaps an input, and torch writes it while it reads.

    torch's generated overloads are excluded: they copy a finished result into ``out=``.
    """
    schema, arrays = all_schemas()[case.op], case.arrays()
    if not schema.is_out or "generated" in schema.tags:
        return False
    return any(is_expanded(arrays[i]) or read_elsewhere(arrays, i) for i in writes)


def is_expanded(a: Array) -> bool:
    return any(stride == 0 and n > 1 for n, stride in zip(a.shape, a.strides, strict=True))


def refuses_overlap(mine: Seen) -> bool:
    """Return whether the backend raises torch's error for a write to overlapping memory."""
    words = mine.error[1] if mine.error else ""
    return words.startswith("unsupported operation: ") and "memory" in words


def read_elsewhere(arrays: list[Array], i: int) -> bool:
    """Return whether another argument's memory overlaps that of argument ``i`` without being the same view."""
    mine, size = arrays[i], DTYPES[arrays[i].dtype].itemsize
    for j, other in enumerate(arrays):
        same = (other.offset, other.shape, other.strides) == (mine.offset, mine.shape, mine.strides)
        if j == i or other.buffer != mine.buffer or same or 0 in mine.shape or 0 in other.shape:
            continue
        (first, last), (start, end) = extent(mine), extent(other)
        if first < end + size and start < last + size:
            return True
    return False


def extent(a: Array) -> tuple[int, int]:
    """Return the byte offsets of the lowest and the highest element."""
    reach = [(n - 1) * s for n, s in zip(a.shape, a.strides, strict=True)]
    return a.offset + sum(r for r in reach if r < 0), a.offset + sum(r for r in reach if r > 0)
