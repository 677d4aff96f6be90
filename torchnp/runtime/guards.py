"""Guards: a program's assumptions about its arguments.

The archive stores Python expressions, which are parsed but never executed.

torch writes a guard when the traced module branches on a dynamic size. For ``if x.shape[0] > 4`` the archive has the
guard ``L['x'].size()[0] > 4``, and the graph has only one branch. An expression may have comparisons, boolean
operators, arithmetic, a few functions, sizes, strides, arguments and constants; nothing else is accepted.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torchnp.runtime.json_fields import ProgramError
from torchnp.runtime.symbols import FUNCTIONS

Compiled = Callable[[Sequence[Any]], Any]
MAX_TEXT = 10_000

_COMPARISONS: dict[type, Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Div: operator.truediv,
    ast.Pow: FUNCTIONS["Pow"],
}
_UNARY: dict[type, Callable[[Any], Any]] = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_}
_CALLS: dict[str, Callable[..., Any]] = FUNCTIONS | {
    "max": max,
    "min": min,
    "abs": abs,
    "int": int,
    "float": float,
    "torch.sym_max": max,  # guards have used this name since torch 2.14
    "torch.sym_min": min,
    "math.floor": math.floor,
    "math.ceil": math.ceil,
    "math.trunc": math.trunc,
}


class Guard:
    """One condition on the arguments.

    Parameters
    ----------
    text : str
        The expression in the archive.
    paths : mapping of str to int
        The arguments' positions among the values of a call, by the spelling of the argument in the expression
        (``['x']['a']``).
    where : str
        The location in the archive, for error messages.

    Raises
    ------
    ProgramError
        The text is not a supported expression.
    """

    def __init__(self, text: str, paths: Mapping[str, int], where: str) -> None:
        self._paths, self._where = paths, f"{where}: the guard {text[:100]!r}"
        if len(text) > MAX_TEXT:
            raise ProgramError(f"{where}: a guard of {len(text)} characters")
        try:
            tree = ast.parse(text, mode="eval").body
            self._holds, self._text = self._compile(tree), text
        except ProgramError:
            raise
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ProgramError(f"{self._where} is no expression") from error

    @property
    def text(self) -> str:
        """The condition as torch's messages spell it, with the bare names of the arguments."""
        return re.sub(r"\bL\['(\w+)'\]", r"\1", ast.unparse(ast.parse(self._text, mode="eval")))

    def check(self, given: Sequence[Any]) -> None:
        """Raise torch's AssertionError if the condition does not hold for the values of a call."""
        try:
            holds = self._holds(given)
        except (ArithmeticError, LookupError, AttributeError, TypeError, ProgramError):
            holds = False  # the arguments have no such size
        if not holds:
            raise AssertionError(f"Guard failed: {self.text}")

    def _compile(self, node: ast.AST) -> Compiled:
        if isinstance(node, ast.Constant) and type(node.value) in (int, float, bool, str):
            return lambda given, value=node.value: value  # type: ignore[misc]
        if isinstance(node, ast.Compare) and all(type(op) in _COMPARISONS for op in node.ops):
            parts = [self._compile(x) for x in (node.left, *node.comparators)]
            return functools.partial(_compare, [_COMPARISONS[type(op)] for op in node.ops], parts)
        if isinstance(node, ast.BoolOp):
            tests, every = [self._compile(x) for x in node.values], isinstance(node.op, ast.And)
            return lambda given: (all if every else any)(test(given) for test in tests)
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            return self._call(_ARITHMETIC[type(node.op)], [node.left, node.right])
        if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
            return self._call(_UNARY[type(node.op)], [node.operand])
        if isinstance(node, ast.Call) and not node.keywords and (called := _called(node.func)) is not None:
            return self._call(called, node.args)
        if isinstance(node, (ast.Subscript, ast.Call)):
            return self._look_up(node)
        raise ProgramError(f"{self._where} has {ast.unparse(node)[:60]!r}, which torchnp cannot check")

    def _call(self, function: Callable[..., Any], args: Sequence[ast.AST]) -> Compiled:
        parts = [self._compile(x) for x in args]
        return lambda given: function(*(part(given) for part in parts))

    def _look_up(self, node: ast.AST) -> Compiled:
        """Compile a reference: ``L['x']``, ``L['x'].size()[0]`` or ``L['x'].stride()[0]``."""
        found = _PLACE.fullmatch(ast.unparse(node))
        place = self._place(found["path"]) if found else None
        if found is None or place is None:
            raise ProgramError(f"{self._where} has {ast.unparse(node)[:60]!r}, which torchnp cannot check")
        if found["what"] is None:
            return lambda given: given[place]
        dim = int(found["dim"])
        if found["what"] == "size":
            return lambda given: given[place].shape[dim]
        return lambda given: given[place].strides[dim] // given[place].itemsize

    def _place(self, path: str) -> int | None:
        found = self._paths.get(path)
        if found is None:  # an item of *args, which the graph calls args_0
            found = self._paths.get(re.sub(r"^\['(\w+)'\]\[(\d+)\]", r"['\1_\2']", path))
        return found


_PLACE = re.compile(r"L(?P<path>(\[[^][]{1,200}\])+?)(\.(?P<what>size|stride)\(\)\[(?P<dim>\d{1,3})\])?")


def _called(node: ast.AST) -> Callable[..., Any] | None:
    """Return the function for a name or a dotted name, or None."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return _CALLS.get(f"{node.value.id}.{node.attr}")
    return _CALLS.get(node.id) if isinstance(node, ast.Name) else None


def _compare(ops: list[Callable[[Any, Any], bool]], parts: list[Compiled], given: Sequence[Any]) -> bool:
    values = [part(given) for part in parts]
    return all(op(a, b) for op, a, b in zip(ops, values, values[1:]))
