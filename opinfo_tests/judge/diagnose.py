"""Diagnoses of wrong results: NumPy's result, the right values in another form, or an ignored argument.

Each diagnosis is computed, not a guess about causes. It says "matches NumPy, not torch" only if the NumPy counterpart,
called in an obvious way with the same arguments, gives the backend's result.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from ..backends.backend import Backend, Seen, error_of, place_ndarray
from ..case import DTYPES, NAMES, Array, Case, Named, is_inexact, leaves, map_tree, schemas, widen
from ..schema_facts import is_fragile
from .verdict import judge, said, special_mismatch, ulp_distance

# torch's argument names -> NumPy's.
SPELLING = {"dim": "axis", "dims": "axis", "keepdim": "keepdims", "dtype": "dtype"}
ROUNDING = ("fused-sum",)  # differences that change only the last digits; they explain no larger error
HALF = ("float16", "bfloat16", "complex32", "bcomplex32")


def diagnose(case: Case, outcome: str, want: Seen, mine: Seen, oracle: Backend) -> str:
    """Return a one-line diagnosis of a failure, or an empty string."""
    if is_fragile(case.op):
        return ""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        known = from_numpy(case, outcome, want, mine)
        if known and "(difference" in known:
            return known
        return from_form(case, outcome, want, mine, oracle) or known


# ---------------------------------------------------------------- NumPy's result


def from_numpy(case: Case, outcome: str, want: Seen, mine: Seen) -> str:
    """Return a diagnosis if the result equals that of the NumPy counterpart, with the difference that explains it."""
    import torchnp

    row = torchnp.table.get(case.op)
    if row is None or not callable(row.like):
        return ""
    namesake = getattr(np, case.op.partition("::")[2].partition(".")[0], None)  # np.repeat is not Tensor.repeat
    likes = dict.fromkeys((row.like, namesake if callable(namesake) else row.like))
    for call in (call for like in likes for call in obvious_calls(case, like)):
        if matches(call, outcome, want, mine, case):
            found = explaining(
                row, outcome, case, not mine.error and rounds(want, mine), want.error[1] if want.error else ""
            )
            return "matches NumPy, not torch" + (f": {found}" if found else "")
    return ""


def obvious_calls(case: Case, like: Callable) -> Iterator[Callable[[], tuple[Any, list[np.ndarray]]]]:
    """Yield the obvious ways to call a NumPy function with the arguments of this operator."""
    declared = schemas()[case.op]
    names = [a.name for a in declared.args]
    values = dict(zip(names, case.args, strict=False)) | case.kwargs
    required = [a.name for a in declared.args if not a.has_default and a.name not in SPELLING and a.name in values]
    spelled = {SPELLING[n]: v for n, v in values.items() if n in SPELLING and v is not None}
    given = [values[n] for n in names if n in values and values[n] is not None]
    for args, kwargs in (
        ([values[n] for n in required], spelled),
        ([values[n] for n in required], {k: v for k, v in spelled.items() if k != "dtype"}),
        (given, {}),
        ([values[n] for n in required], {}),
    ):
        yield partial(call_numpy, like, args, kwargs, case)


def call_numpy(like: Callable, args: list, kwargs: dict[str, Any], case: Case) -> tuple[Any, list[np.ndarray]]:
    buffers = case.fresh_buffers()

    def leaf(x: Any) -> Any:
        if isinstance(x, Array):
            return x.on(buffers)
        return DTYPES.get(x.name, x.name) if isinstance(x, Named) else x

    kwargs = {k: tuple(v) if k == "axis" and isinstance(v, list) else v for k, v in kwargs.items()}
    if kwargs.get("axis") == ():
        kwargs["axis"] = None
    return like(*map_tree(leaf, list(args)), **map_tree(leaf, kwargs)), buffers


def matches(call: Callable[[], tuple[Any, list[np.ndarray]]], outcome: str, want: Seen, mine: Seen, case: Case) -> bool:
    """Return whether a NumPy call gives the backend's result and would get the same outcome."""
    try:
        out, buffers = call()
    except Exception as e:  # an error of NumPy is compared like a result
        if not mine.error:
            return False
        name, message = error_of(e)
        return name == mine.error[0] and said(message) == said(mine.error[1])
    if mine.error:
        return False
    results = [np.asarray(r) if isinstance(r, np.generic) else r for r in leaves(out)]
    theirs = Seen(results=results, structure=mine.structure, alias=[place_ndarray(r, buffers) for r in results])
    theirs.after, theirs.random = mine.after, mine.random
    if len(results) != len(mine.results) or judge(case, want, theirs).outcome != outcome:
        return False
    if outcome == "wrong-alias":
        return [p and p[0] for p in theirs.alias] == [a and a is not ... and a[0] for a in mine.alias]
    return all(map(alike, results, mine.results))


def alike(r: Any, m: Any) -> bool:
    if not isinstance(r, np.ndarray) or not isinstance(m, np.ndarray):
        return type(r) is type(m) and r == m
    return r.dtype == m.dtype and r.shape == m.shape and near(r, m)


def rounds(want: Seen, mine: Seen) -> bool:
    """Return whether the results differ only by rounding."""
    pairs = zip(want.results, mine.results, strict=False)
    return all(near(wide(w), wide(m)) for w, m in pairs if numeric(w, m))


def explaining(row: Any, outcome: str, case: Case, rounds: bool = True, refusal: str = "") -> str:
    """Return the title and id of the kernel's listed difference that explains an outcome.

    ``refusal`` is the message of torch's error if torch raises one; the difference must then have this message.
    """
    found = [d for d in row.differences if outcome in shows_as(d) and fits(d, case)]
    found = [d for d in found if rounds or d.id not in ROUNDING]
    base = schemas()[case.op].base.strip("_")
    shows = lambda d: re.search(rf"\b{re.escape(base)}\b", d.torch) is not None
    if refusal:
        same = [d for d in found if opening(d.torch_value.partition(": ")[2]) == opening(refusal)]
        # drop differences whose example uses this operator, because their message differs from this one
        found = same or [d for d in found if not shows(d)]
        found = found if same or len(found) == 1 else []
    like = lambda d: (
        d.torch_value.startswith(HALF) != (case.dtype in HALF),
        not d.torch_value.startswith(f"{case.dtype}["),
    )
    for d in sorted(found, key=lambda d: (*like(d), not shows(d)))[:1]:
        return f"{d.title[0].lower()}{d.title[1:]} (difference: {d.id})"
    listed = {d.id for d in row.differences}
    words = {"wrong-alias": r"cop(y|ies)|view|writ"}.get(outcome)
    loose = [i for i in row.row.differs if words and re.search(words, i) and i not in listed]
    return f"difference: {loose[0]}" if loose else ""


def opening(message: str) -> list[str]:
    """Return the first words of an error message, without quoted names and numbers, which vary between calls."""
    return [word for word in re.sub(r"['\"][^'\"]*['\"]|[-\d.,\[\]]+", "", message).split() if word != ":"][:4]


_VALUE = re.compile(r"^(\w+)\[([\d, ]*)\] (.*)$", re.DOTALL)


def shows_as(difference: Any) -> set[str]:
    """Return the outcomes that a backend gets if it behaves like NumPy's side of a difference."""
    torch_value, numpy_value = difference.torch_value, difference.numpy_value
    raises = [re.match(r"^\w*(Error|Exception)\b", v) is not None for v in (torch_value, numpy_value)]
    if raises == [True, True]:
        return {"wrong-error"}
    if raises[0]:
        return {"no-error"}
    if raises[1]:
        return {"spurious-error"} | ({"wrong-alias"} if "read-only" in numpy_value else set())
    t, n = _VALUE.match(torch_value), _VALUE.match(numpy_value)
    if re.search(r"cop(y|ies)|view|writable", difference.id):
        return {"wrong-alias"}
    if not t or not n:
        return {"wrong-value", "wrong-shape"}
    if t[1] != n[1]:
        return {"wrong-dtype"}
    return {"wrong-shape"} if t[2] != n[2] else {"wrong-value"}


def fits(difference: Any, case: Case) -> bool:
    """Return whether a listed difference could affect this case, judging by its id and the dtype of its example."""
    if re.search(r"\b(inplace|out|overlap)\b", difference.id) and not schemas()[case.op].mutates:
        return False
    wanted = re.match(r"^(\w+)\[", difference.torch_value)
    dtype = case_dtype(case)
    name = NAMES.get(dtype, "") if dtype is not None else ""
    if wanted and wanted[1] in HALF and not difference.torch_value.startswith(name):
        return name in HALF
    if "complex" in difference.id:
        return any(a.dtype.startswith("complex") for a in case.arrays())
    if "integer" in difference.id or difference.id.startswith("int-"):
        return any(not is_inexact(DTYPES[a.dtype]) for a in case.arrays())
    return True


def case_dtype(case: Case) -> np.dtype | None:
    return DTYPES.get(case.dtype)


# ---------------------------------------------------------------- the right values in another form


def from_form(case: Case, outcome: str, want: Seen, mine: Seen, oracle: Backend) -> str:
    """Return a diagnosis if the result differs from torch's in only one respect."""
    if want.error or mine.error:
        return from_error(want, mine)
    if outcome not in ("wrong-value", "wrong-dtype", "wrong-shape", "wrong-alias") or len(want.results) != len(
        mine.results
    ):
        return ""
    if outcome == "wrong-alias" and same_results(want, mine):
        return ""
    for w, g in zip(want.results, mine.results, strict=True):
        if isinstance(w, np.ndarray) and isinstance(g, (np.ndarray, np.generic)) and not identical(w, g):
            found = form(w, np.asarray(g))
            if found:
                return found
    known = argument_ignored(case, want, mine, oracle) or returned_input(case, mine)
    if known or outcome != "wrong-value":
        return known
    pairs = zip(want.results, mine.results, strict=True)
    return next(filter(None, (off_by(wide(w), wide(g)) for w, g in pairs if numeric(w, g))), "")


def from_error(want: Seen, mine: Seen) -> str:
    if not (want.error and mine.error):
        return ""
    if said(want.error[1]) == said(mine.error[1]):
        return f"torch's words in another class: {mine.error[0]} for {want.error[0]}"
    if mine.error[0] == "NotImplementedError":
        return "raises NotImplementedError where torch has its own error: absence is declared, not raised"
    return ""


def form(want: np.ndarray, got: np.ndarray) -> str:
    """Return how ``got`` follows from ``want`` (cast, transposed, negated, reordered, ...), or an empty string."""
    if want.dtype != got.dtype:
        if want.shape == got.shape and near(want, cast(got, want.dtype)):
            return f"the right values in another dtype: {NAMES.get(got.dtype, got.dtype)} for {NAMES[want.dtype]}"
        return ""
    if want.shape != got.shape:
        return other_shape(want, got)
    if want.size < 1 or want.dtype == np.bool_:
        return "the opposite" if want.size and (want != got).all() else ""
    w, g = wide(want), wide(got)
    if near(w, g) and is_inexact(want.dtype):
        parts = ((w.real, g.real), (w.imag, g.imag)) if np.iscomplexobj(w) else ((w, g),)
        if any(special_mismatch(a, b, False).any() for a, b in parts):
            return "equal but for nan or infinity in one part of complex values"
        if any(special_mismatch(a, b, True).any() for a, b in parts):
            return "equal but for the sign of zeros"
        return rounding(want, got)
    for text, same in (
        ("transposed", want.ndim == 2 and want.shape[0] == want.shape[1] and near(want, got.T)),
        ("the same values in another order", want.size > 1 and near(np.sort(w, axis=None), np.sort(g, axis=None))),
        ("the opposite sign", (np.isfinite(w) & (w != 0)).sum() > 1 and near(w, -g)),
    ):
        if same:
            return text
    if not is_inexact(want.dtype):
        return ""
    nan_w, nan_g = np.isnan(w), np.isnan(g)
    if (nan_w != nan_g).any():
        both = ~nan_w & ~nan_g
        if near(w[both], g[both]):
            side = (
                "torch gives nan and this does not" if (nan_w & ~nan_g).any() else "this gives nan and torch does not"
            )
            return f"equal except where {side}"
        return ""
    return rounding(want, got)


def identical(w: np.ndarray, g: Any) -> bool:
    return w.dtype == g.dtype and w.shape == g.shape and w.tobytes() == np.asarray(g).tobytes()


def numeric(w: Any, g: Any) -> bool:
    """Return whether two results are arrays of the same dtype and shape whose values can be subtracted."""
    arrays = isinstance(w, np.ndarray) and isinstance(g, np.ndarray)
    return arrays and w.dtype == g.dtype != np.bool_ and w.shape == g.shape


def other_shape(want: np.ndarray, got: np.ndarray) -> str:
    squeezed = [tuple(n for n in a.shape if n != 1) for a in (want, got)]
    if squeezed[0] == squeezed[1] and near(want.reshape(-1), got.reshape(-1)):
        return "the right values with other dimensions of size 1 (keepdim?)"
    if want.ndim == got.ndim and want.shape == got.shape[::-1] and near(want, got.T):
        return "transposed"
    if want.size == got.size and near(want.reshape(-1), got.reshape(-1)):
        return "the right values in another shape"
    try:
        if near(want, np.broadcast_to(got, want.shape)):
            return "the right values, not broadcast"
    except ValueError:
        pass
    return ""


def off_by(w: np.ndarray, g: np.ndarray) -> str:
    """Return a diagnosis if the results differ by a constant factor or offset."""
    finite = np.isfinite(w) & np.isfinite(g)
    if finite.sum() < 2 or near(w, g):
        return ""
    w, g = w[finite].astype(np.complex128), g[finite].astype(np.complex128)
    nonzero = w != 0
    if nonzero.sum() > 1 and near(w[~nonzero], g[~nonzero]):
        factor = g[nonzero] / w[nonzero]
        if np.allclose(factor, factor[0], rtol=1e-3, atol=0) and np.ptp(abs(w)) > 0 and abs(factor[0] - 1) > 1e-2:
            return f"torch's times {number(factor[0])}"
    step = g - w
    if np.allclose(step, step[0], rtol=1e-3, atol=0):
        return f"torch's plus {number(step[0])}"
    return ""


def number(x: complex) -> str:
    return f"{x.real:.6g}" if x.imag == 0 else f"{x:.6g}"


def rounding(want: np.ndarray, got: np.ndarray) -> str:
    finite = np.isfinite(wide(want)) & np.isfinite(wide(got))
    ulps = float(ulp_distance(want, got, finite).max())
    return f"rounding: at most {ulps:.0f} units in the last place" if 0 < ulps <= 64 else ""


# ---------------------------------------------------------------- an argument ignored, swapped or returned


def argument_ignored(case: Case, want: Seen, mine: Seen, oracle: Backend) -> str:
    """Return the argument without which torch gives the backend's result, or the two that must be swapped."""
    if case.draws:
        return ""
    declared = schemas()[case.op]
    names = [a.name for a in declared.args]
    trials: list[tuple[str, Case]] = []
    optional = [i for i, a in enumerate(declared.args) if a.has_default and i < len(case.args) and not a.kwonly]
    for i in optional:
        args = list(case.args)
        args[i] = declared.args[i].default
        if args[i] != case.args[i]:
            trials.append((f"equal to torch's without {names[i]}", other(case, tuple(args), case.kwargs)))
    for k in case.kwargs:
        if k in names and declared.args[names.index(k)].has_default:
            rest = {n: v for n, v in case.kwargs.items() if n != k}
            trials.append((f"equal to torch's without {k}", other(case, case.args, rest)))
    arrays = [i for i, a in enumerate(case.args) if isinstance(a, Array)]
    for i, j in pairwise(arrays):
        args = list(case.args)
        args[i], args[j] = args[j], args[i]
        trials.append(
            (f"equal to torch's with {names[i]} and {names[j]} swapped", other(case, tuple(args), case.kwargs))
        )
    for text, trial in trials:
        seen = oracle.execute(trial)
        if not seen.error and same_results(seen, mine) and not same_results(seen, want):
            return text
    return ""


def other(case: Case, args: tuple, kwargs: dict[str, Any]) -> Case:
    return replace(case, args=args, kwargs=kwargs, digest=case.digest)


def same_results(a: Seen, b: Seen) -> bool:
    pairs = list(zip(a.results, b.results, strict=False))
    return len(a.results) == len(b.results) > 0 and all(
        isinstance(x, np.ndarray)
        and isinstance(y, np.ndarray)
        and (x.dtype, x.shape) == (y.dtype, y.shape)
        and near(x, y)
        for x, y in pairs
    )


def returned_input(case: Case, mine: Seen) -> str:
    if len(mine.results) != 1 or not isinstance(mine.results[0], np.ndarray):
        return ""
    got = mine.results[0]
    for i, a in enumerate(case.arrays()):
        held = a.on(case.buffers)
        if held.size and held.shape == got.shape and held.dtype == got.dtype and near(held, got):
            return f"array argument {i} handed back unchanged"
    return ""


# ---------------------------------------------------------------- comparing


def wide(a: np.ndarray) -> np.ndarray:
    a = widen(a)
    if a.dtype == np.bool_ or a.dtype.kind in "iu":
        return a.astype(np.float64)
    return a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)


def cast(a: np.ndarray, dt: np.dtype) -> np.ndarray:
    if np.iscomplexobj(widen(a)) and "complex" not in NAMES[dt]:
        a = widen(a).real
    return widen(a).astype(dt) if NAMES.get(a.dtype) else a.astype(dt)


def near(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether two arrays have the same shape and, up to rounding, the same values; NaNs are equal."""
    if a.shape != b.shape:
        return False
    narrow = any(NAMES.get(x.dtype) in HALF or (x.dtype.itemsize == 1 and is_inexact(x.dtype)) for x in (a, b))
    exact = not (is_inexact(a.dtype) and is_inexact(b.dtype))
    rtol = 0 if exact else 1e-2 if narrow else 1e-5
    return bool(np.allclose(wide(a), wide(b), rtol=rtol, atol=0, equal_nan=True))
