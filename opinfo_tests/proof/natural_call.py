"""The natural call: a torch call translated to NumPy with a template of the NumPy function from `numpy_templates`."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from types import CodeType
from typing import Any

import numpy as np

import torchnp

from ..case import DTYPES, Array, Case, Named, Seeded, map_tree, schemas
from . import numpy_templates, numpy_templates_by_overload
from .random_values import python_name, seed_of
from .template_helpers import HELPERS, WORDS

FOREIGN = frozenset(n for n, dt in DTYPES.items() if dt.type.__module__.partition(".")[0] != "numpy")


class NoNaturalCallError(Exception):
    """Raised when NumPy's counterpart cannot express the call, or NumPy lacks a dtype (``foreign``)."""

    def __init__(self, words: str, foreign: bool = False) -> None:
        super().__init__(words)
        self.foreign = foreign


@dataclass(frozen=True)
class Template:
    """A parsed template of `numpy_templates`: expressions of the arguments, and the expression around the call."""

    text: str
    args: tuple[tuple[CodeType, frozenset[str], bool], ...]  # expression, names in it, whether it is starred
    kwargs: tuple[tuple[str, CodeType, frozenset[str]], ...]
    then: CodeType | None
    after: frozenset[str]
    whole: bool = False  # ``then`` is the whole template, which is a list comprehension or does not call ``f`` directly

    @property
    def names(self) -> frozenset[str]:
        """All argument names in the template."""
        return self.needed.union(*(n for _, _, n in self.kwargs))

    @property
    def needed(self) -> frozenset[str]:
        """The argument names that the template requires."""
        return self.after.union(*(n for _, n, _ in self.args))


@cache
def parsed(text: str) -> Template:
    """Parse a template."""
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
class NaturalCall:
    """A NumPy call that amendments can change; when called, it computes NumPy's arguments from torch's.

    Attributes
    ----------
    op : str
        The torch overload.
    given : dict
        The given torch arguments by name; arrays are ndarrays on new memory.
    f : callable
        The NumPy counterpart.
    template : Template
        How to compute NumPy's arguments from torch's.
    kwargs : dict
        Additional keyword arguments, which take precedence over the template's.
    after : list of callable
        Functions that are applied to the result in this order.
    seed : int, optional
        The seed of torch's generator, which NumPy's generator also gets; None if the call uses no random numbers.
    """

    op: str
    given: dict[str, Any]
    f: Callable
    template: Template
    buffers: list[np.ndarray]
    seed: int | None = None
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
        if self.seed is not None:
            np.random.seed(self.seed)
        out = None if self.template.whole else self.f(*args, **kwargs)
        if self.template.then is not None:
            out = eval(self.template.then, {**names, "_": out})
        for step in self.after:
            out = step(out)
        return out

    def full(self) -> dict[str, Any]:
        """Return torch's arguments by name, including defaults."""
        return defaults(self.op) | self.given

    @property
    def target(self) -> np.ndarray | None:
        """The array that the call writes its result to (``out``), or None."""
        return self.kwargs.get("out", self.given.get("out"))

    def without_target(self) -> None:
        """Make the call return a new array instead of writing to ``out``."""
        self.kwargs.pop("out", None)
        self.given["out"] = None

    @property
    def first(self) -> np.ndarray:
        """The first array argument."""
        return self.arrays()[0]

    def arrays(self) -> list[np.ndarray]:
        """Return the array arguments, including those in lists."""
        return [
            x for v in self.given.values() for x in (v if isinstance(v, list) else [v]) if isinstance(x, np.ndarray)
        ]


def defaults(op: str) -> dict[str, Any]:
    """Return the default values of torch's arguments by name."""
    return {python_name(a.name): a.default for a in schemas()[op].args if a.has_default}


def arguments(case: Case) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Return a case's arguments by name, with NumPy types, and the new buffers that hold the arrays."""
    buffers = case.fresh_buffers()

    def leaf(x: Any) -> Any:
        if isinstance(x, Array):
            return x.on(buffers)
        if isinstance(x, Named):
            return DTYPES[x.name] if x.kind == "dtype" else x.name
        return None if isinstance(x, Seeded) else x

    declared = [a.name for a in schemas()[case.op].args]
    named = dict(zip(declared, case.args, strict=False)) | case.kwargs
    return {python_name(k): tupled(map_tree(leaf, v)) for k, v in named.items() if v is not None}, buffers


def tupled(x: Any) -> Any:
    """Return a sequence of numbers as a tuple, and any other sequence as a list."""
    if not isinstance(x, (list, tuple)):
        return x
    return tuple(x) if all(isinstance(i, (int, float)) for i in x) else list(x)


def templates_of(op: str, counterpart: str) -> tuple[str, ...]:
    """Return the templates of an overload: its own, its counterpart's, or the schema's required arguments in order."""
    required = ", ".join(
        a.name for a in schemas()[op].args if not a.has_default and a.name not in numpy_templates.UNSAID
    )
    return numpy_templates_by_overload.OVERLOADS.get(op, numpy_templates.MAPPING.get(counterpart, (f"f({required})",)))


def said(op: str, given: dict[str, Any]) -> frozenset[str]:
    """Return the arguments that a template must contain: those given with another value than the default."""
    found = set()
    for a in schemas()[op].args:
        name = python_name(a.name)
        if name in given and name not in numpy_templates.UNSAID:
            value, default = given[name], tupled(a.default) if a.has_default else None
            plain = default is not None and not isinstance(value, (np.ndarray, list))
            if not (plain and value == default):
                found.add(name)
    return frozenset(found)


def build(case: Case, f: Callable, counterpart: str, foreign: bool = False, spelling: str = "") -> NaturalCall:
    """Return the natural call of a case, or raise `NoNaturalCallError`; ``foreign`` allows dtypes that NumPy lacks."""
    if not foreign and (lacking := case.dtypes() & FOREIGN):
        raise NoNaturalCallError(f"NumPy has no {min(lacking)}", foreign=True)
    given, buffers = arguments(case)
    must = said(case.op, given)
    source = source_of(case.op)
    into = schemas()[case.op].is_out and source == case.op  # an out= form with a counterpart of its own
    if into and not takes_out(f):
        raise NoNaturalCallError("a form that writes, of what is no ufunc")
    if source != case.op or into:
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
    # Take the template that contains the most given arguments, including those that have the default value; of equals,
    # the first.
    call = NaturalCall(case.op, given, f, max(fit, key=lambda t: len(t.names & given.keys())), buffers, seed_of(case))
    if "wrote(" in call.template.text:
        call.given["self"] = given["self"].copy()
    if into:
        call.kwargs["out"] = given["out"]
    elif source != case.op and not inplace:
        if not isinstance(f, np.ufunc):
            raise NoNaturalCallError("a form that writes, of what is no ufunc")
        call.kwargs["out"] = given["out"] if "out" in given else given["self"]
    return call


def takes_out(f: Callable) -> bool:
    """Return whether a function has an ``out`` parameter."""
    return "out" in inspect.signature(f).parameters


def source_of(op: str) -> str:
    """Return the overload that an in-place or ``out=`` form is derived from, or the overload itself."""
    row = torchnp.table.get(op)
    return (row.derived_from or op) if row is not None else op
