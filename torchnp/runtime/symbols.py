"""Symbolic sizes without SymPy: expressions of symbols such as ``Symbol('s77', ...)``, which stand for input sizes.

An expression is an integer, the name of a symbol, or a tuple of a function's name and its operands.
"""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

from torchnp.runtime.json_fields import ProgramError, as_kind, field, optional, union

Expression = int | str | tuple
MAX_TEXT = 10_000


def _power(base: int, exponent: int) -> int:
    if not 0 <= exponent <= 64:
        raise ProgramError(f"a size is to the power of {exponent}")
    return base**exponent


FUNCTIONS: dict[str, Callable[..., int]] = {
    "Add": lambda *xs: sum(xs),
    "Mul": lambda *xs: functools.reduce(operator.mul, xs),
    "Pow": _power,
    "PowByNatural": _power,
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "CeilDiv": lambda a, b: -(-a // b),
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "Max": lambda *xs: max(xs),
    "Min": lambda *xs: min(xs),
}
_BINARY = {"Pow", "PowByNatural", "FloorDiv", "CleanDiv", "CeilDiv", "Mod", "PythonMod"}
_CONSTANTS = {"Zero": 0, "One": 1, "NegativeOne": -1}


def parse_size(record: Any, where: str) -> Expression:
    """Parse a tensor size from the graph's JSON: ``as_int`` or ``as_expr``."""
    kind, value = union(record, where)
    if kind == "as_int":
        return as_kind(value, int, where)
    if kind != "as_expr":
        raise ProgramError(f"{where} has a field {kind!r}, which is no size")
    return parse(field(value, "expr_str", str, where), where)


def parse(text: str, where: str) -> Expression:
    """Parse an expression from SymPy's text: ``Mul(Integer(2), Symbol('s77', positive=True, integer=True))``."""
    if len(text) > MAX_TEXT:
        raise ProgramError(f"{where} is an expression of {len(text)} characters")
    try:
        found = _read(ast.parse(text, mode="eval").body, where)
        return found if symbols(found) else evaluate(found, {})
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, ProgramError):
            raise
        raise ProgramError(f"{where} is no expression: {text[:80]!r}") from error


def _read(node: ast.AST, where: str) -> Expression:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise ProgramError(f"{where} has {ast.unparse(node)[:80]!r}, which is no expression of sizes")
    name, args = node.func.id, node.args
    first = args[0] if args else None
    if name in ("Symbol", "Integer") and len(args) == 1:
        value = _literal(first)
        if type(value) is (str if name == "Symbol" else int):
            return value
    if name in _CONSTANTS and not args:
        return _CONSTANTS[name]
    if name not in FUNCTIONS or not args or (name in _BINARY and len(args) != 2):
        raise ProgramError(f"{where} has {ast.unparse(node)[:80]!r}, which torchnp cannot compute")
    return (name, *(_read(arg, where) for arg in args))


def _literal(node: ast.AST | None) -> Any:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        return -node.operand.value if type(node.operand.value) is int else None
    return node.value if isinstance(node, ast.Constant) else None


def symbols(expression: Expression) -> set[str]:
    """Return the names of the symbols in an expression."""
    found, left = set(), [expression]
    while left:
        part = left.pop()
        if isinstance(part, tuple):
            left += part[1:]
        elif isinstance(part, str):
            found.add(part)
    return found


def evaluate(expression: Expression, values: Mapping[str, int]) -> int:
    """Return the value of an expression.

    Raises
    ------
    ProgramError
        The expression divides by zero, or its value does not fit in 64 bits.
    """
    if isinstance(expression, int):
        return expression
    if isinstance(expression, str):
        return values[expression]
    try:
        found = FUNCTIONS[expression[0]](*(evaluate(x, values) for x in expression[1:]))
    except ZeroDivisionError as error:
        raise ProgramError(f"the size {spell(expression)} divides by zero") from error
    if not -(2**63) <= found < 2**63:
        raise ProgramError(f"the size {spell(expression)} does not fit 64 bits")
    return found


def solve(expression: Expression, symbol: str, size: int) -> int | None:
    """Return the value of ``symbol`` at which a linear expression in it equals ``size``; None if there is none."""
    zero, one = (evaluate(expression, {symbol: n}) for n in (0, 1))
    if one == zero:
        return None
    found, rest = divmod(size - zero, one - zero)
    return found if not rest and evaluate(expression, {symbol: found}) == size else None


_SIGNS = {"Add": " + ", "Mul": "*", "Pow": "**", "PowByNatural": "**"}


def spell(expression: Expression) -> str:
    """Return an expression as SymPy prints it: ``2*s77``."""
    if not isinstance(expression, tuple):
        return str(expression)
    name, *args = expression
    if name not in _SIGNS:
        return f"{name}({', '.join(map(spell, args))})"
    tight = name != "Add"
    return _SIGNS[name].join(f"({spell(x)})" if tight and isinstance(x, tuple) else spell(x) for x in args)


def parse_ranges(record: Any, where: str) -> dict[str, tuple[int | None, int | None]]:
    """Return the lower and upper bound of each symbol; None means no bound."""
    return {
        name: tuple(
            optional(as_kind(r, dict, where), bound, int, f"{where}.{name}") for bound in ("min_val", "max_val")
        )
        for name, r in as_kind(record, dict, where).items()
    }
