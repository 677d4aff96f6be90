"""The same call with special values: NaN, infinities, overflow, subnormals, zeros of both signs, equal values."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import ml_dtypes
import numpy as np

from ...case import DTYPES, Array, Case, is_complex, is_inexact, leaves, schemas
from ...judge.tolerances import rule_for
from ...schema_facts import is_fragile, is_of_matrices, is_out, written_arrays
from ..constraints import constraint as con
from ..constraints.table import constraint_of
from ..drawable import functional_form

KINDS = ("nan", "infinite", "huge", "zero", "tiny", "equal")
# Kinds that replace others in complex arrays, because torch's vector code and the C++ library's functions give
# different results for huge or tiny parts.
COMPLEX = {"infinite": "parts", "lone": "parts", "huge": "equal", "tiny": "parts"}
# Kinds that replace NaN in complex sums, where a factor of 1 may make both parts NaN, and in convolutions, where zero
# padding may be multiplied. Both depend on which of torch's loops runs.
FINITE = ("equal", "zero")
# Kinds that replace others in sums, where the order decides whether terms overflow or infinities cancel; NaN always
# gives NaN. A single infinity is safe only in a plain sum over dimensions. Products also multiply it by zeros, but not
# in all of torch's loops.
SUMS = {"infinite": "nan", "huge": "nan"}
OVER = {"infinite": "lone", "huge": "lone"}


def planted(case: Case, kind: str, which: int | None = None) -> Case | None:
    """Return the case with special values in one inexact array, whose index is ``which`` or depends on the digest.

    Return None if the operator does not allow such values there, if there is no such array, or if nothing changes.
    """
    if case.draws or is_fragile(case.op) or is_of_matrices(case.op):
        return None
    free = takes_any(case.op)
    written = written_arrays(case) if is_out(case.op) else frozenset()
    found = [
        (i, a)
        for i, (name, a) in enumerate(named_arrays(case))
        if name in free
        and which in (None, i)
        and i not in written
        and is_inexact(DTYPES[a.dtype])
        and 0 not in a.shape
        and a.dtype[:6] != "float8"
    ]
    if not found:
        return None
    turn = int(case.digest[6:8], 16)
    _, a = found[turn % len(found)]
    if adds(case.op) and not picks(case):
        kind = (OVER if is_over(case.op) else SUMS).get(kind, kind)
    if is_complex(DTYPES[a.dtype]):
        kind = COMPLEX.get(kind, kind)
    own = kind == "parts" and is_over(case.op)
    if kind in ("nan", "parts") and ("conv" in case.op or (is_complex(DTYPES[a.dtype]) and adds(case.op) and not own)):
        kind = FINITE[turn % 2]
    buffers = list(case.buffers)
    buffers[a.buffer] = buffers[a.buffer].copy()
    view = a.on(buffers)
    put(view, kind, turn)
    made = replace(case, buffers=buffers, digest="")
    return made if made.digest != case.digest else None


def uneven(case: Case) -> Case | None:
    """Return the case with the first row multiplied by 1000, in the first inexact array that has rows, or None."""
    arrays = case.arrays()
    a = next((a for a in arrays if is_inexact(DTYPES[a.dtype]) and len(a.shape) > 1 and 0 not in a.shape), None)
    if a is None or is_fragile(case.op) or is_of_matrices(case.op):
        return None
    buffers = list(case.buffers)
    buffers[a.buffer] = buffers[a.buffer].copy()
    row = a.on(buffers)[0]
    with np.errstate(all="ignore"):
        row[...] = (row * row.dtype.type(1000)).astype(row.dtype)
    return replace(case, buffers=buffers, digest="")


def put(view: np.ndarray, kind: str, turn: int) -> None:
    """Write special values to every third element (fewer in large arrays), or to one for ``lone`` and ``parts``."""
    values = specials(view.dtype, kind)
    if kind in ("lone", "parts"):
        view.flat[view.size // 2 if turn % 2 else view.size - 1] = values[turn // 2 % len(values)]
        return
    places = range(turn % min(3, view.size), view.size, 3 if view.size < 60 else 17)
    for n, place in enumerate(places):
        view.flat[place] = view.flat[0] if kind == "equal" else values[(n + turn) % len(values)]
        if kind == "nan" and n >= turn % 3:
            break


_INF, _NAN = float("inf"), float("nan")
# Complex numbers whose parts are finite, infinite, NaN or zero.
PARTS = tuple(
    complex(re, im)
    for re, im in (
        (_NAN, _INF), (_INF, _NAN), (-_INF, 1), (1, -_INF), (_NAN, 2), (2, _NAN), (_INF, -_INF), (-_INF, -_INF), (-0.0, 0),
        (0, -0.0),
    )
)  # fmt: skip


@cache
def specials(dtype: np.dtype, kind: str) -> list:
    """Return the special values of a kind in a dtype."""
    if kind == "parts":
        return [np.array(value).astype(dtype)[()] for value in PARTS]
    part = np.dtype(np.float32 if dtype.itemsize == 8 else np.float64 if dtype.itemsize == 16 else np.float16)
    real = part if is_complex(dtype) else dtype
    info = ml_dtypes.finfo(real)
    most, least, normal = float(info.max), float(info.smallest_subnormal), float(info.tiny)
    found = {
        "nan": [np.nan, -np.nan],
        "infinite": [np.inf, -np.inf, np.inf],
        "lone": [np.inf],
        "huge": [most, -most, most / 2, most / 3],
        "zero": [-0.0, 0.0],
        "tiny": [least, -least, normal, normal / 2],
        "equal": [0.0],
    }[kind]
    if is_complex(dtype):
        pairs = zip(found, [1.0, *found], strict=False)
        return [np.array(complex(re, im)).astype(dtype)[()] for re, im in pairs]
    return [np.array(v).astype(dtype)[()] for v in found]


PICKS = (
    "max",
    "min",
    "amax",
    "amin",
    "aminmax",
    "sort",
    "argsort",
    "topk",
    "msort",
    "argmax",
    "argmin",
    "cummax",
    "cummin",
)


@cache
def adds(op: str) -> bool:
    """Return whether an operator may add elements: it is not elementwise, and does not only move or select elements."""
    s = schemas()[op]
    base = s.base.removeprefix("_foreach_").removesuffix("_")
    return base.endswith("_backward") or not (
        "pointwise" in s.tags or s.is_view or base in PICKS or rule_for(op).kind in ("exact", "ties", "ulp")
    )


def picks(case: Case) -> bool:
    """Return whether an argument names a reduction that selects an element instead of adding."""
    return bool({"amax", "amin"} & {x for x in (*case.args, *case.kwargs.values()) if isinstance(x, str)})


@cache
def is_over(op: str) -> bool:
    """Return whether an operator has one tensor and a ``dim``, like sums over dimensions, and is not a gradient."""
    s = schemas()[op]
    tensors = [a for a in s.args if a.type.startswith("Tensor")]
    return len(tensors) == 1 and "dim" in {a.name for a in s.args} and not s.base.rstrip("_").endswith("_backward")


@cache
def takes_any(op: str) -> frozenset[str]:
    """Return the arguments of an operator that may have any values, by the constraints of its functional form."""
    row = constraint_of((functional_form(op) if schemas()[op].mutates or is_out(op) else "") or op)
    if row.values != "any":
        return frozenset()
    bound = {
        name
        for name, spec in row.args.items()
        if isinstance(spec, con.Ordered) or (isinstance(spec, (con.T, con.Ts)) and spec.values != "any")
    }
    return frozenset(a.name for a in schemas()[op].args if a.name not in bound)


def named_arrays(case: Case) -> list[tuple[str, Array]]:
    """Return each array of a case with the name of its argument."""
    given = [*zip((a.name for a in schemas()[case.op].args), case.args, strict=False), *case.kwargs.items()]
    return [(name, x) for name, value in given for x in leaves(value) if isinstance(x, Array)]
