"""Minimal examples: for an operator and a difference, the simplest call that shows it, shrunk and written as source.

The catalogue shows most differences with one operator. For other operators that list a difference, this module looks
for an example among the proof's calls: the simplest one for which torch and NumPy disagree only by this difference.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np

import torchnp
from torchnp.differences import Difference, run

from ..case import Array, Case, Named, Seeded, schemas
from ..judge.tolerances import rule_of
from ..report.shrink import shrink, weight
from .explain_disagreements import explain
from .natural_call import NaturalCall, NoNaturalCallError
from .prove import NAMES, counterpart, listed_of, oracle, pair, recorded
from .targeted_calls import packet_of
from .template_helpers import HELPERS
from .tier import DRAWS

TRIES = 6  # number of a pair's simplest calls to try until one can be written as source
SECONDS = 1.0  # seconds for shrinking one call
LONGEST = 150  # maximum number of characters of a call


class NotShownError(Exception):
    """Raised for a call that source cannot express: random numbers, uninitialized memory, or private helpers."""


BUILTINS = frozenset({"int", "len", "tuple", "list"})
Pair = tuple[str, str]  # an operator's name without the overload, and the id of a difference


def shown(pairs: frozenset[Pair], names: Callable[[str], list[str]]) -> Iterator[tuple[Pair, Difference]]:
    """Yield an example for each pair of operator and difference; ``names`` returns an operator's Python names."""
    for (op, id), cases in sightings(pairs).items():
        for case in cases:
            simple = shrink(case, partial(shows, id), SECONDS)
            if explained_by(simple)[0] != (id,):
                continue
            try:
                yield (op, id), written(simple, id, names(op))
            except NotShownError:
                continue
            break


def sightings(pairs: frozenset[Pair]) -> dict[Pair, list[Case]]:
    """Return for each pair the simplest calls that show the difference, preferably calls that show only this one."""
    ops = frozenset(op for op in torchnp.table if counterpart(op) and any(packet_of(op) == p for p, _ in pairs))
    found: dict[Pair, list[tuple[Any, Case]]] = {}
    for case, want in recorded(ops, DRAWS):
        packet = packet_of(case.op)
        if case.draws or not any((packet, d.id) in pairs for d in listed_of(case.op)):
            continue
        ids, _ = explained_by(case, want)
        for key in pairs & {(packet, id) for id in ids}:
            found[key] = sorted([*found.get(key, []), ((len(ids), *weight(case)), case)], key=lambda t: t[0])[:TRIES]
    return {key: [case for _, case in cases] for key, cases in found.items()}


def shows(id: str, case: Case) -> tuple[str, str]:
    return str(id in explained_by(case)[0]), ""


def explained_by(case: Case, want: Any = None) -> tuple[tuple[str, ...], str]:
    """Return the differences that explain a call's disagreement, and its kind; both empty if there is none."""
    side = counterpart(case.op)
    want = want or oracle().execute(case)
    try:
        p = pair(case, want, *side) if side else None
    except NoNaturalCallError:
        p = None
    if p is None or p.found is None:
        return (), ""
    explained = explain(case, want, p.found, listed_of(case.op), p.make, oracle())
    return explained.ids, p.found.kind


# ---------------------------------------------------------------- writing source


def written(case: Case, id: str, spelled: list[str]) -> Difference:
    """Return an example whose expressions are the case's calls as source, or raise `NotShownError`."""
    side = counterpart(case.op)
    assert side
    like = side[1].replace("numpy.", "np.", 1)
    if not like.startswith("np."):  # results of SciPy depend more often on its version
        raise NotShownError(like)
    want = oracle().execute(case)
    if want.error is None and rule_of(case).kind == "uninitialised":
        raise NotShownError("memory that nothing has written")
    numpy = numpy_text(pair(case, want, *side).make(), like)
    space, _, base = case.op.partition("::")
    name = base.partition(".")[0]
    theirs = spelled[0] if space == "aten" else f"torch.ops.{space}.{name}"
    ours = f"aten.{name}" if space == "aten" else f"torchnp.{space}.{name}"
    exact = f"{ours}.{base.partition('.')[2] or 'default'}"
    torch, *kernels = (
        call_text(called, case, literal)
        for called, literal in ((theirs, torch_literal), (ours, numpy_literal), (exact, numpy_literal))
    )
    made = [Difference(id, "", torch, "", numpy, "", kernel) for kernel in kernels]
    return next((d for d in made if agrees(d)), made[-1])


def agrees(example: Difference) -> bool:
    """Return whether an example's kernel call gives torch's result."""
    try:
        values = run(example)
    except AssertionError as e:  # an assertion in torch's Python code is not an error worth showing
        raise NotShownError(str(e)) from None
    return values["kernel"] == values["torch"]


def call_text(name: str, case: Case, literal: Callable[[Any], str]) -> str:
    """Return a call as source, with arguments in the order of torch's schema."""
    held = lambda x: x.on(case.buffers) if isinstance(x, Array) else x
    args = [text_of(x, held, literal) for x in case.args]
    declared = {a.name for a in schemas()[case.op].args}
    kwargs = [f"{k}={text_of(v, held, literal)}" for k, v in case.kwargs.items() if k in declared and v is not None]
    return shortened(f"{name}({', '.join([*args, *kwargs])})")


def shortened(text: str) -> str:
    if len(text) > LONGEST:
        raise NotShownError("a long call")
    return text


def text_of(x: Any, held: Callable[[Any], Any], literal: Callable[[Any], str]) -> str:
    if isinstance(x, (list, tuple)):
        return "[" + ", ".join(text_of(v, held, literal) for v in x) + "]"
    return literal(held(x))


def torch_literal(x: Any) -> str:
    """Return a value as torch source code."""
    if isinstance(x, Named) and x.kind == "dtype":
        return f"torch.{x.name}"
    if not isinstance(x, np.ndarray):
        return plain(x)
    dtype = NAMES[x.dtype]
    usual = (x.size and dtype in ("float32", "int64", "bool")) or dtype == "float32"
    more = "" if usual else f"dtype=torch.{dtype}"
    if not x.size:
        return f"torch.zeros({', '.join(filter(None, [*map(str, x.shape), more]))})"
    return f"torch.tensor({', '.join(filter(None, [numbers(x), more]))})"


def numpy_literal(x: Any) -> str:
    """Return a value as NumPy source code."""
    if isinstance(x, Named) and x.kind == "dtype":
        return repr(x.name)
    if isinstance(x, np.dtype):
        return f"np.{x.name}" if x.name != "bool" else "np.bool_"
    if not isinstance(x, np.ndarray):
        return plain(x)
    if x.dtype.isbuiltin != 1:
        raise NotShownError(f"NumPy has no {x.dtype}")
    usual = x.size and NAMES[x.dtype] in ("float64", "int64", "bool", "complex128")
    dtype = "" if usual else numpy_literal(x.dtype)
    if not x.size:
        return f"np.zeros({', '.join(filter(None, [repr(x.shape), dtype]))})"
    return f"np.array({', '.join(filter(None, [numbers(x), dtype]))})"


def numbers(x: np.ndarray) -> str:
    """Return an array's elements as source code, with the fewest digits that identify them in its dtype."""
    if x.ndim:
        return "[" + ", ".join(map(numbers, x)) + "]"
    if x.dtype.kind == "f":
        return plain(float(str(x[()])))  # NumPy's shortest text for the dtype
    return plain(x[()].item())


def plain(x: Any) -> str:
    if isinstance(x, complex):
        if repr(eval(repr(x), {"nan": 0, "inf": 0, "nanj": 0, "infj": 0})) == repr(x):  # repr shows the signs of zeros
            return repr(x).strip("()")
        return f"complex({plain(x.real)}, {plain(x.imag)})"
    if isinstance(x, float) and not math.isfinite(x):
        return f"float('{x}')"
    if isinstance(x, (Seeded, Named)):
        raise NotShownError(repr(x))
    return repr(x)


# ---------------------------------------------------------------- NumPy's call


def numpy_text(call: NaturalCall, like: str) -> str:
    """Return the natural call as source code: its template with values instead of torch's arguments."""
    if call.kwargs or call.seed is not None or call.before or call.after:
        raise NotShownError("more than the template says")
    tree = ast.parse(call.template.text, mode="eval").body
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id in ("wrote", "itself"):
        done, target = tree.args
        if not isinstance(target, ast.Name):
            raise NotShownError(call.template.text)
        first = numpy_literal(call.given[target.id])
        inner = Fill(call, like, {target.id}).visit(deepcopy(done))
        body = re.sub(rf"\b{target.id}\b", "x", ast.unparse(inner))
        return shortened(f"(x := {first}, {body})[0]")
    return shortened(ast.unparse(Fill(call, like, set()).visit(deepcopy(tree))))


class Fill(ast.NodeTransformer):
    """Replaces names in a template by values, and calls of the proof's helper functions by their results."""

    def __init__(self, call: NaturalCall, like: str, kept: set[str]) -> None:
        self.given, self.like, self.kept = call.given, like, kept

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id == "f":
            return expression(self.like)
        if node.id in self.given and node.id not in self.kept:
            return expression(value_text(self.given[node.id]))
        if node.id in HELPERS and node.id != "np":
            raise NotShownError(node.id)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id != "f":
            return self.valued(node)
        given = self.given.keys() | HELPERS.keys() | BUILTINS | {"f"}
        named = lambda k: {n.id for n in ast.walk(k) if isinstance(n, ast.Name)}
        node.keywords = [k for k in node.keywords if named(k) <= given]
        return self.generic_visit(node)

    def valued(self, node: Any) -> ast.AST:
        if "f" in {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}:
            if node.func.id in BUILTINS:
                return self.generic_visit(node)
            raise NotShownError(ast.unparse(node))
        code = compile(ast.fix_missing_locations(ast.Expression(node)), "template", "eval")
        try:
            return expression(value_text(eval(code, {**HELPERS, **self.given})))
        except Exception as e:  # a helper around NumPy's call raises an error
            raise NotShownError(str(e)) from None


def value_text(x: Any) -> str:
    if isinstance(x, tuple):
        return "(" + "".join(f"{value_text(v)}, " for v in x).rstrip(" ") + ")" if x else "()"
    return "[" + ", ".join(map(value_text, x)) + "]" if isinstance(x, list) else numpy_literal(x)


def expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body
