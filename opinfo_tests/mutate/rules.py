"""Mutation rules: each takes a node of a kernel's syntax tree and returns wrong source texts that may replace it."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torchnp

ROOT = Path(torchnp.__file__).parent
UNSEEN = frozenset({"like", "differs", "reason", "why"})  # keywords that only document
CHECKERS = ("check", "refuse", "require", "need")


@dataclass(frozen=True)
class Mutant:
    """A single change of a module's source.

    Attributes
    ----------
    module : str
        Dotted name of the module.
    function : str
        The outermost function that contains the change; empty if it is in the module's own statements.
    line : int
        Line of the change, counted from 1.
    rule : str
        Name of the rule in `RULES`.
    before, after : str
        The original source text, and its replacement.
    start, end : int
        Byte range of the original text in the module's source.
    """

    module: str
    function: str
    line: int
    rule: str
    before: str
    after: str
    start: int
    end: int

    @property
    def id(self) -> str:
        """A short id, which stays the same as long as the module does not change."""
        text = f"{self.module}:{self.start}:{self.rule}:{self.after}"
        return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()

    @property
    def family(self) -> str:
        """The family (kernel file) of the module, named as in `torchnp.table`."""
        return self.module.removeprefix("torchnp.kernels.").removeprefix("torchnp.")

    def source(self) -> str:
        """Return the module's whole source with the change applied."""
        text = source_of(self.module).encode()
        return (text[: self.start] + self.after.encode() + text[self.end :]).decode()

    def __str__(self) -> str:
        place = f"{self.module.replace('.', '/')}.py:{self.line}"
        return f"{self.id}  {place} {self.function or '(module)'}  {self.rule}: {one_line(self.before)} -> {one_line(self.after)}"


def one_line(text: str, limit: int = 70) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


@cache
def source_of(module: str) -> str:
    path = ROOT.parent / Path(*module.split("."))
    return (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8")


def kernel_modules() -> list[str]:
    """Return the dotted names of the kernel modules."""
    paths = sorted((ROOT / "kernels").rglob("*.py"))
    return [".".join(p.relative_to(ROOT.parent).with_suffix("").parts) for p in paths if p.stem != "__init__"]


# ---------------------------------------------------------------- rules: from a node to sources that may replace it

Rule = Callable[[ast.AST], list[str]]


def flipped(table: dict[type, type], field: str) -> Callable[[ast.AST], list[str]]:
    """Return a rule that replaces one operator of a node by another."""

    def rule(node: ast.AST) -> list[str]:
        operator: Any = getattr(node, field, None)
        many = isinstance(operator, list)
        first = operator[0] if many and len(operator) == 1 else operator
        if type(first) not in table:
            return []
        other = table[type(first)]()
        return [unparsed(node, **{field: [other] if many else other})]

    return rule


def unparsed(node: ast.AST, **changes: object) -> str:
    fields = {name: getattr(node, name, None) for name in node._fields} | changes
    text = ast.unparse(ast.fix_missing_locations(type(node)(**fields)))
    return f"({text})" if isinstance(node, (ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.UnaryOp)) else text


def constants(node: ast.AST) -> list[str]:
    """Add or subtract 1 from an integer, multiply a float by 1.1 or 2, negate a boolean."""
    if not isinstance(node, ast.Constant):
        return []
    v = node.value
    if isinstance(v, bool):
        return [repr(not v)]
    if isinstance(v, int):
        return [str(v + 1), f"({v - 1})"]
    if isinstance(v, float) and v == v and abs(v) != float("inf"):
        return [repr(v * 1.1 if v else 1.0), repr(v * 2 if v else -1.0)]
    return []


def words(node: ast.AST) -> list[str]:
    """Prefix an error message with ``Bad:``."""
    if isinstance(node, (ast.Raise, ast.Expr)):
        call = node.exc if isinstance(node, ast.Raise) else node.value
        if isinstance(call, ast.Call) and (isinstance(node, ast.Raise) or is_check(node)):
            for i, a in enumerate(call.args):
                if isinstance(a, ast.Constant) and isinstance(a.value, str) and " " in a.value:
                    args = [*call.args[:i], ast.Constant(f"Bad: {a.value}"), *call.args[i + 1 :]]
                    new = ast.Call(call.func, args, call.keywords)
                    return [ast.unparse(ast.Raise(new, None) if isinstance(node, ast.Raise) else ast.Expr(new))]
    return []


def swapped_operands(node: ast.AST) -> list[str]:
    """Swap the operands of a non-commutative operator."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)):
        return [unparsed(node, left=node.right, right=node.left)]
    return []


def swapped_arguments(node: ast.AST) -> list[str]:
    """Swap the last two positional arguments of a call."""
    if isinstance(node, ast.Call) and len(node.args) > 1 and not any(isinstance(a, ast.Starred) for a in node.args):
        if is_check(node):
            return []
        return [unparsed(node, args=[*node.args[:-2], node.args[-1], node.args[-2]])]
    return []


def lost_keyword(node: ast.AST) -> list[str]:
    """Drop a keyword argument."""
    if not isinstance(node, ast.Call):
        return []
    kept = [k for k in node.keywords if k.arg and k.arg not in UNSEEN]
    return [unparsed(node, keywords=[k for k in node.keywords if k is not gone]) for gone in kept]


def lost_operand(node: ast.AST) -> list[str]:
    """Keep only the first or the last condition of an ``and`` or ``or``."""
    if isinstance(node, ast.BoolOp):
        return [f"({ast.unparse(v)})" for v in (node.values[0], node.values[-1])]
    return []


def lost_sign(node: ast.AST) -> list[str]:
    """Drop a unary operator: minus, ``not`` or inversion."""
    return [f"({ast.unparse(node.operand)})"] if isinstance(node, ast.UnaryOp) else []


def lost_call(node: ast.AST) -> list[str]:
    """Replace a copy, a cast or a similar call by the object or the argument that it is applied to."""
    if not isinstance(node, ast.Call):
        return []
    if isinstance(node.func, ast.Attribute) and node.func.attr in (
        "copy",
        "astype",
        "ravel",
        "reshape",
        "conj",
        "squeeze",
    ):
        module = isinstance(node.func.value, ast.Name) and node.func.value.id == "np"
        return [] if module else [ast.unparse(node.func.value)]
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if (
        name in ("cast", "abs", "sqrt", "widen", "promote", "ascontiguousarray", "contiguous", "exp", "log", "conj")
        and node.args
    ):
        return [ast.unparse(node.args[0])]
    return []


def swapped_branches(node: ast.AST) -> list[str]:
    """Swap the two values of a conditional expression."""
    if isinstance(node, ast.IfExp):
        return [unparsed(node, body=node.orelse, orelse=node.body)]
    return []


def turned(node: ast.AST) -> list[str]:
    """Negate the test of an ``if`` or ``while`` statement."""
    return [f"not ({ast.unparse(node)})"] if getattr(node, "_is_test", False) else []


def lost_statement(node: ast.AST) -> list[str]:
    """Drop a check, a guarded ``raise``, or an in-place write."""
    if isinstance(node, ast.If) and not node.orelse and len(node.body) == 1 and isinstance(node.body[0], ast.Raise):
        return ["pass"]
    if isinstance(node, ast.AugAssign) or (isinstance(node, ast.Expr) and is_check(node)):
        return ["pass"]
    if isinstance(node, ast.Assign) and all(isinstance(t, ast.Subscript) for t in node.targets):
        return ["pass"]
    return []


def is_check(node: ast.AST) -> bool:
    call = node.value if isinstance(node, ast.Expr) else node
    if not isinstance(call, ast.Call):
        return False
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name.lstrip("_").startswith(CHECKERS)


OTHERS = {
    "maximum": "minimum", "fmax": "maximum", "fmin": "minimum", "amax": "amin", "max": "min", "any": "all",
    "argmax": "argmin", "floor": "ceil", "trunc": "floor", "rint": "floor", "round": "floor", "sum": "prod",
    "mean": "sum", "zeros": "ones", "zeros_like": "ones_like", "sin": "cos", "sinh": "cosh", "less": "less_equal",
    "greater": "greater_equal", "isnan": "isinf", "isfinite": "isnan", "logical_and": "logical_or",
    "bitwise_and": "bitwise_or", "cumsum": "cumprod", "expm1": "exp", "log1p": "log", "remainder": "fmod",
    "left": "right", "float32": "float64", "float64": "float32", "complex64": "complex128", "int64": "int32",
    "int32": "int64", "uint8": "int8", "real": "imag", "ndim": "size", "shape": "strides", "inf": "nan",
}  # fmt: skip
OTHERS |= {b: a for a, b in OTHERS.items() if b not in OTHERS}


def other_name(node: ast.AST) -> list[str]:
    """Replace a function, dtype or attribute by a similar one."""
    if isinstance(node, ast.Attribute) and node.attr in OTHERS:
        return [unparsed(node, attr=OTHERS[node.attr])]
    return []


COMPARED: dict[type, type] = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
                              ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn,
                              ast.NotIn: ast.In}  # fmt: skip
MIRRORED: dict[type, type] = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE}
COMPUTED: dict[type, type] = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
                              ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr,
                              ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitAnd, ast.LShift: ast.RShift,
                              ast.RShift: ast.LShift, ast.MatMult: ast.Mult}  # fmt: skip
JOINED: dict[type, type] = {ast.And: ast.Or, ast.Or: ast.And}

RULES: dict[str, Rule] = {
    "constant": constants,
    "comparison": flipped(COMPARED, "ops"),
    "mirrored comparison": flipped(MIRRORED, "ops"),
    "operator": flipped(COMPUTED, "op"),
    "and for or": flipped(JOINED, "op"),
    "operands swapped": swapped_operands,
    "arguments swapped": swapped_arguments,
    "keyword lost": lost_keyword,
    "condition lost": lost_operand,
    "sign lost": lost_sign,
    "call lost": lost_call,
    "branches swapped": swapped_branches,
    "test turned": turned,
    "statement lost": lost_statement,
    "name": other_name,
    "words": words,
}


# ---------------------------------------------------------------- places


def mutants(module: str) -> list[Mutant]:
    """Return every mutant of a module."""
    text = source_of(module)
    lines = [0]
    for line in text.encode().splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    raw = text.encode()
    found: list[Mutant] = []
    for node, function in places(ast.parse(text)):
        start, end = lines[node.lineno - 1] + node.col_offset, lines[node.end_lineno - 1] + node.end_col_offset
        before = raw[start:end].decode()
        for name, rule in RULES.items():
            for after in rule(node):
                if ast_text(after) != ast_text(before):
                    found.append(Mutant(module, function, node.lineno, name, before, after, start, end))
    return found


def ast_text(text: str) -> str:
    try:
        return ast.unparse(ast.parse(text.strip()))
    except SyntaxError:
        return text


def places(tree: ast.Module) -> Iterator[tuple[Any, str]]:
    """Yield the nodes to mutate, each with its outermost function; leave out docstrings, types and imports."""
    for statement in tree.body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            continue
        name = statement.name if isinstance(statement, (ast.FunctionDef, ast.ClassDef)) else ""
        for node in below(statement):
            yield node, name


def below(node: ast.AST) -> Iterator[ast.AST]:
    if hasattr(node, "lineno"):
        yield node
    hidden: set[str] = {"decorator_list", "annotation", "returns", "keywords"}
    if isinstance(node, (ast.If, ast.While)):
        node.test._is_test = True  # type: ignore[attr-defined]
    for name, value in ast.iter_fields(node):
        if name in hidden and name != "keywords":
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.keyword):
                if child.arg not in UNSEEN:
                    yield from below(child.value)
            elif (isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)) or isinstance(
                child, ast.JoinedStr
            ):
                continue
            elif isinstance(child, ast.AST):
                yield from below(child)
