"""The natural call: a torch call bound to the template that `mapping` has for its counterpart."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from types import CodeType
from typing import Any

import numpy as np

import torchnp

from ..case import DTYPES, Array, Case, Named, Seeded, map_tree, schemas
from . import mapping

FOREIGN = frozenset(n for n, dt in DTYPES.items() if dt.type.__module__.partition(".")[0] != "numpy")


class NoNaturalCallError(Exception):
    """A call that NumPy's counterpart has no words for, or a dtype that NumPy lacks (``foreign``)."""

    def __init__(self, words: str, foreign: bool = False) -> None:
        super().__init__(words)
        self.foreign = foreign


@dataclass(frozen=True)
class Template:
    """A row of `mapping` in pieces: positional and keyword expressions, and what is done to the result."""

    text: str
    args: tuple[tuple[CodeType, frozenset[str], bool], ...]  # the last says whether it is starred
    kwargs: tuple[tuple[str, CodeType, frozenset[str]], ...]
    then: CodeType | None
    after: frozenset[str]
    whole: bool = False  # ``then`` calls ``f`` itself, once for each of a list, or is an operator of Python

    @property
    def names(self) -> frozenset[str]:
        """Return all names of arguments that it speaks of."""
        return self.needed.union(*(n for _, _, n in self.kwargs))

    @property
    def needed(self) -> frozenset[str]:
        """Return the names without which it says nothing."""
        return self.after.union(*(n for _, n, _ in self.args))


@cache
def parsed(text: str) -> Template:
    """Return a template in pieces."""
    tree = ast.parse(text, mode="eval").body
    found = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "f"]
    if isinstance(tree, ast.ListComp) or not found:
        loops = tree.generators if isinstance(tree, ast.ListComp) else []
        loop = {n.id for g in loops for n in ast.walk(g.target) if isinstance(n, ast.Name)}
        named = frozenset(n.id for n in ast.walk(tree) if isinstance(n, ast.Name)) - WORDS - loop
        return Template(text, (), (), compile(text, text, "eval"), named, whole=True)
    inner = found[0]

    def piece(node: ast.expr) -> tuple[CodeType, frozenset[str]]:
        bound = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        named = frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name)) - WORDS - bound
        return compile(ast.fix_missing_locations(ast.Expression(node)), text, "eval"), named

    class Cut(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> Any:
            return ast.copy_location(ast.Name("_", ast.Load()), node) if node is inner else self.generic_visit(node)

    args = tuple((*piece(a.value), True) if isinstance(a, ast.Starred) else (*piece(a), False) for a in inner.args)
    kwargs = tuple((k.arg or "", *piece(k.value)) for k in inner.keywords)
    whole = tree is inner
    then, after = (None, frozenset[str]()) if whole else piece(Cut().visit(tree))
    return Template(text, args, kwargs, then, after)


@dataclass
class Call:
    """A call of a counterpart that can still be changed: its arguments are made of torch's when it is made.

    Attributes
    ----------
    op : str
        torch's overload.
    given : dict
        torch's arguments as the call gives them, arrays as ndarrays in memory of their own.
    f : callable
        The counterpart.
    template : Template
        How NumPy's arguments are made of torch's.
    kwargs : dict
        Further keywords, in the place of the template's.
    after : list of callable
        What is done to the result, in order.
    """

    op: str
    given: dict[str, Any]
    f: Callable
    template: Template
    buffers: list[np.ndarray]
    kwargs: dict[str, Any] = field(default_factory=dict)
    before: list[Callable[[list[Any], dict[str, Any]], None]] = field(default_factory=list)
    after: list[Callable[[Any], Any]] = field(default_factory=list)

    def __call__(self) -> Any:
        names = {**HELPERS, **self.given, "f": self.f}
        args: list[Any] = []
        for code, _, starred in self.template.args:
            value = eval(code, names)
            args += [*value] if starred else [value]
        kwargs = {k: eval(code, names) for k, code, n in self.template.kwargs if n <= self.given.keys()} | self.kwargs
        for change in self.before:
            change(args, kwargs)
        out = None if self.template.whole else self.f(*args, **kwargs)
        if self.template.then is not None:
            out = eval(self.template.then, {**names, "_": out})
        for step in self.after:
            out = step(out)
        return out

    def full(self) -> dict[str, Any]:
        """Return torch's arguments, defaults filled in."""
        return {a.name: a.default for a in schemas()[self.op].args if a.has_default} | self.given

    @property
    def first(self) -> np.ndarray:
        """The first array argument."""
        return self.arrays()[0]

    def arrays(self) -> list[np.ndarray]:
        """Return the array arguments, those in lists too."""
        return [
            x for v in self.given.values() for x in (v if isinstance(v, list) else [v]) if isinstance(x, np.ndarray)
        ]


def arguments(case: Case) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Return a case's arguments by name, as NumPy has them, and the memory of their own that they are in."""
    buffers = case.fresh_buffers()

    def leaf(x: Any) -> Any:
        if isinstance(x, Array):
            return x.on(buffers)
        if isinstance(x, Named):
            return DTYPES[x.name] if x.kind == "dtype" else x.name
        return None if isinstance(x, Seeded) else x

    declared = [a.name for a in schemas()[case.op].args]
    named = dict(zip(declared, case.args, strict=False)) | case.kwargs
    return {k: tupled(map_tree(leaf, v)) for k, v in named.items() if v is not None}, buffers


def tupled(x: Any) -> Any:
    """Return a sequence of numbers as a tuple, another as a list."""
    if not isinstance(x, (list, tuple)):
        return x
    return tuple(x) if all(isinstance(i, (int, float)) for i in x) else list(x)


def templates_of(op: str, counterpart: str) -> tuple[str, ...]:
    """Return the templates of an overload: its own, its counterpart's, or what the schema requires in its order."""
    required = ", ".join(a.name for a in schemas()[op].args if not a.has_default and a.name not in mapping.UNSAID)
    return mapping.OVERLOADS.get(op, mapping.MAPPING.get(counterpart, (f"f({required})",)))


def said(op: str, given: dict[str, Any]) -> frozenset[str]:
    """Return the names of arguments that a natural call has to speak of: those given that are not their defaults."""
    found = set()
    for a in schemas()[op].args:
        if a.name in given and a.name not in mapping.UNSAID:
            value, default = given[a.name], tupled(a.default) if a.has_default else None
            plain = default is not None and not isinstance(value, (np.ndarray, list))
            if not (plain and value == default):
                found.add(a.name)
    return frozenset(found)


def build(case: Case, f: Callable, counterpart: str, foreign: bool = False, spelling: str = "") -> Call:
    """Return the natural call of a case, in a dtype that NumPy lacks if ``foreign``; raises `NoNaturalCallError` where there is none."""
    if not foreign and (lacking := case.dtypes() & FOREIGN):
        raise NoNaturalCallError(f"NumPy has no {min(lacking)}", foreign=True)
    given, buffers = arguments(case)
    if schemas()[case.op].is_out and source_of(case.op) == case.op:
        raise NoNaturalCallError("a form that writes, of what is no ufunc")
    must = said(case.op, given)
    source = source_of(case.op)
    if source != case.op:
        must -= {a.name for a in schemas()[case.op].args if a.is_out}
    texts = (spelling,) if spelling else templates_of(source, counterpart)
    inplace = source != case.op and not isinstance(f, np.ufunc) and "self" in given and "out" not in given
    if inplace:
        texts = tuple(text.replace("wrote(", "itself(") for text in texts if "wrote(" in text)
    known = [parsed(text) for text in texts]
    fit = [t for t in known if t.needed <= given.keys() and must <= t.names]
    if not fit:
        missed = min((must - t.names for t in known), key=len, default=must)
        raise NoNaturalCallError(f"no words for {', '.join(sorted(missed)) or 'these arguments'}")
    # That which says most of what is given, defaults too; of several the first.
    call = Call(case.op, given, f, max(fit, key=lambda t: len(t.names & given.keys())), buffers)
    if "wrote(" in call.template.text:
        call.given["self"] = given["self"].copy()
    if source != case.op and not inplace:
        if not isinstance(f, np.ufunc):
            raise NoNaturalCallError("a form that writes, of what is no ufunc")
        call.kwargs["out"] = given["out"] if "out" in given else given["self"]
    return call


def source_of(op: str) -> str:
    """Return the overload that a form which writes is made of, itself for others."""
    row = torchnp.table.get(op)
    return (row.derived_from or op) if row is not None else op


# ---------------------------------------------------------------- words of the templates


def wrote(_: Any, x: np.ndarray) -> np.ndarray:
    """Return what a call has written: into a copy, as torch's functional forms leave the input alone."""
    return x.copy()


def itself(_: Any, x: np.ndarray) -> np.ndarray:
    """Return the array that a call has written."""
    return x


def divided(quotient: Any, x: Any, y: Any, mode: str) -> Any:
    """Return a quotient as ``rounding_mode`` asks: x // y, or truncated."""
    if mode not in ("floor", "trunc"):
        raise ValueError(mode)
    return np.floor_divide(x, y) if mode == "floor" else np.trunc(quotient)


def given_or(dtype: Any, x: np.ndarray) -> Any:
    return x.dtype if dtype is None else dtype


def added_axes(x: np.ndarray, size: tuple[int, ...]) -> tuple[int, ...]:
    """Return the dimensions that broadcasting to the shape of ``x`` added or stretched."""
    front = x.ndim - len(size)
    return (*range(front), *(front + i for i, n in enumerate(size) if n == 1 and x.shape[front + i] != 1))


def several(x: Any) -> Any:
    """Return one number as several, as torch takes it."""
    return (x,) if isinstance(x, int) else x


def side_of(right: bool) -> str:
    return "right" if right else "left"


def reversed_along(x: np.ndarray, dim: int, descending: bool) -> np.ndarray:
    return np.flip(x, dim) if descending else x


def kth(x: np.ndarray, k: int, dim: int, keepdim: bool) -> np.ndarray:
    found = np.take(x, k - 1, dim)
    return np.expand_dims(found, dim) if keepdim else found


def pairs_of(x: tuple) -> list[tuple[Any, Any]]:
    """Return a flat list of numbers in pairs, as NumPy takes pads and ranges: the first dimension's first."""
    return list(zip(x[::2], x[1::2]))


def sizes_of(x: np.ndarray, dim: int) -> int:
    return x.shape[dim]


def slot(dim: int, index: Any) -> tuple[Any, ...]:
    """Return an index along one dimension, counted from the front or from the end."""
    return (*(slice(None),) * dim, index) if dim >= 0 else (..., index, *(slice(None),) * (-1 - dim))


def along(x: np.ndarray, index: np.ndarray, dim: int) -> tuple[Any, ...]:
    grid = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    grid[dim] = index
    return tuple(grid)


def slot_index(x: np.ndarray, dim: int, index: np.ndarray) -> np.ndarray:
    """Return a vector of indices with as many dimensions as an array has."""
    return index.reshape([-1 if i == dim % x.ndim else 1 for i in range(x.ndim)])


def index_of(indices: list[Any]) -> tuple[Any, ...]:
    return tuple(slice(None) if i is None else i for i in indices)


def added(x: np.ndarray, index: Any, values: np.ndarray, accumulate: bool) -> np.ndarray:
    return x[index] + values if accumulate else values


def complex_of(x: np.ndarray) -> np.dtype:
    return np.result_type(x.dtype, np.complex64)


def real_of(x: np.ndarray) -> np.dtype:
    return x.real.dtype


def periodic_of(window: np.ndarray, periodic: bool) -> np.ndarray:
    return window[:-1] if periodic else window


HELPERS: dict[str, Any] = {
    f.__name__: f
    for f in (wrote, itself, divided, added_axes, several, side_of, reversed_along, kth, pairs_of, sizes_of, slot, along, slot_index,
              index_of, added, complex_of, real_of, periodic_of)
} | {"np": np, "given": given_or}  # fmt: skip
WORDS = frozenset({*HELPERS, "f", "_", "int", "len", "tuple", "list", "slice"})
