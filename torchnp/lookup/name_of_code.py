"""Names for pieces of Python code, as `spellings` and `resolve` use them: ``a[idx, :]`` is named ``x[index, :]``."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

LIBRARIES = {
    "torch",
    "np",
    "numpy",
    "F",
    "nn",
    "scipy",
    "aten",
    "prims",
    "rng",
    "ndarray",
    "Tensor",
    "tensor",
    "linalg",
}
# The name of an index variable suggests what it holds: a mask, several positions, or one position.
MASK = re.compile(r"(?i)m|.*(mask|bool|valid|keep|cond|seen|where|is_?nan|selected).*|is_\w+")
POSITIONS = re.compile(r"(?i)(ii|jj|ix|iy|.*(idx|idcs|index|indices|indexes|inds?|ids|perm|order|pos)\d*|[a-z]\w*s)")
OPERATORS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**", ast.MatMult: "@",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>", ast.Eq: "==", ast.NotEq: "!=",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Invert: "~", ast.USub: "-x", ast.UAdd: "+x", ast.Not: "bool(x)",
}  # fmt: skip
BUILTINS = {
    "sorted": "torch.sort",
    "abs": "abs(x)",
    "bool": "bool(x)",
    "float": "float(x)",
    "int": "int(x)",
    "len": "len(x)",
}
MEMBERS = {"T": "x.T", "mT": "x.mT", "shape": "x.shape", "size": "x.size"}
TO_INTEGER = re.compile(r"int|long|short|u?int\d+|(np|numpy|torch)\.(u?int\d+|long|int_?|short)|['\"]u?int\d*['\"]")


def name_of(code: str) -> str:
    """Return the name of the operation in a piece of code; "" if it is not code, or is only a name."""
    text = code.strip().rstrip(":")
    if re.fullmatch(r"(?=.*[a-z]{3})[\w.]*\w(-\w+)+", text):  # ids and topics such as lower-median and in-place
        return ""
    for form in (text, f"{text}: pass", f"{text} else None"):
        try:
            parsed = ast.parse(form).body
        except (SyntaxError, ValueError):
            continue
        return _statement(parsed[0]) if len(parsed) == 1 else ""
    return ""


def argument_of(code: str) -> str:
    """Return the argument in ``axis=0`` or ``indexing='xy'``; "" if the code is not an argument."""
    found = re.fullmatch(
        r"([A-Za-z_]\w*) ?= ?(-?[\w.]+(?:[-+]\d+)?|'[^']*'|\"[^\"]*\"|\([\d, -]*\)|\[[\d, -]*\])", code.strip()
    )
    return f"{found[1]}=" if found else ""


def _statement(node: ast.stmt) -> str:
    if isinstance(node, ast.Expr):
        return _expression(node.value)
    if isinstance(node, ast.If | ast.While):
        return "bool(x)"
    if isinstance(node, ast.For):
        return "for row in x"
    if isinstance(node, ast.Delete):
        return ""
    if isinstance(node, ast.AugAssign):
        if isinstance(node.target, ast.Subscript):
            kind = _index(node.target.slice)
            if kind in ("x[index]", "x[rows, cols]", "x[index, :]", "x[:, index]", "x[i, :, j]") or _is_letter(
                node.target.slice
            ):
                return "x[index] += v"
            if kind in ("x[mask]", "x[mask, :]"):
                return "x[mask] = v"
        return "" if _mentions(node.target, node.value) else f"{OPERATORS[type(node.op)]}="
    if isinstance(node, ast.Assign):
        target = node.targets[0]
        if isinstance(target, ast.Subscript):
            return "" if _mentions(target, node.value) else _write(target.slice)
        return _expression(node.value)
    return ""


def _mentions(target: ast.expr, value: ast.expr) -> bool:
    """Return whether the value reads the written variable at an index, so that reading and writing may overlap."""
    name = next((n.id for n in ast.walk(target) if isinstance(n, ast.Name)), "")
    parts = (n for n in ast.walk(value) if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name))
    return any(isinstance(n.value, ast.Name) and n.value.id == name for n in parts)


def _expression(node: ast.expr) -> str:
    for kinds, name in _RULES:
        if isinstance(node, kinds):
            return name(node)
    return ""


def _operator(node: ast.BinOp | ast.UnaryOp) -> str:
    if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
        return ""
    return OPERATORS[type(node.op)]


def _compare(node: ast.Compare) -> str:
    if len(node.ops) > 1:  # 0 < x < 1 takes the truth value of 0 < x
        return "bool(x)"
    if isinstance(node.ops[0], ast.In | ast.NotIn):
        return "v in x"
    return OPERATORS.get(type(node.ops[0]), "")


def _dotted(node: ast.expr) -> str:
    """Return a chain of names such as ``np.linalg.norm``; "" if the node is not one."""
    if isinstance(node, ast.Name):
        return node.id
    inner = _dotted(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{inner}.{node.attr}" if isinstance(node, ast.Attribute) and inner else ""


def _is_public(node: ast.expr) -> bool:
    """Return whether the node is a public name of a library; "np.var or np.std" asks about two such names."""
    return isinstance(node, ast.Attribute) and _dotted(node).partition(".")[0] in LIBRARIES


def _attribute(node: ast.Attribute) -> str:
    name = _dotted(node)
    if name.partition(".")[0] in LIBRARIES:
        return name
    return MEMBERS.get(node.attr) or f"x.{node.attr}"


def _call(node: ast.Call) -> str:
    function = node.func
    if isinstance(function, ast.Name):
        return BUILTINS.get(function.id, function.id)
    if not isinstance(function, ast.Attribute):
        return ""
    name = _attribute(function)
    if name == "x.size":
        return "Tensor.size"
    makes = name in ("x.int", "x.long", "x.short") and not node.args
    if makes or (
        name in ("x.astype", "x.to", "x.type") and node.args and TO_INTEGER.fullmatch(ast.unparse(node.args[0]))
    ):
        return "x.astype(int)"
    return name


def _subscript(node: ast.Subscript) -> str:
    name = _dotted(node.value)
    if name.partition(".")[0] in ("np", "numpy"):  # np.s_[1:], np.r_[a, b]
        return name
    if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
        return "x.shape"
    return _index(node.slice)


_RULES: tuple[tuple[type | tuple[type, ...], Callable], ...] = (
    ((ast.BinOp, ast.UnaryOp), _operator),
    (ast.Compare, _compare),
    (ast.BoolOp, lambda node: "" if all(_is_public(v) for v in node.values) else "bool(x)"),
    (ast.IfExp, lambda node: "bool(x)"),
    (ast.Subscript, _subscript),
    (ast.Call, _call),
    (ast.Attribute, _attribute),
    ((ast.ListComp, ast.GeneratorExp), lambda node: "for row in x"),
)  # fmt: skip


# ---------------------------------------------------------------- indices


_CONSTANTS = {"NoneType": "new", "ellipsis": "dots", "int": "number", "bool": "mask"}


def _is_letter(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and len(node.id) == 1 and not MASK.fullmatch(node.id)


def _part(node: ast.expr) -> str:
    """Return the kind of a part of an index: number, letter, slice, step, reversed, new, dots, mask, positions, other."""
    if isinstance(node, ast.Slice):
        step = node.step
        if isinstance(step, ast.UnaryOp) and isinstance(step.op, ast.USub):
            return "reversed"
        return "step" if step is not None and ast.unparse(step) != "1" else "slice"
    if isinstance(node, ast.Constant):
        return _CONSTANTS.get(type(node.value).__name__, "other")
    if isinstance(node, ast.UnaryOp):
        return "mask" if isinstance(node.op, ast.Invert | ast.Not) else _part(node.operand)
    if isinstance(node, ast.Compare | ast.BoolOp):
        return "mask"
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.BitAnd | ast.BitOr | ast.BitXor):
            return "mask"
        return "positions" if "positions" in (_part(node.left), _part(node.right)) else "letter"
    if isinstance(node, ast.List | ast.Tuple):
        is_mask = bool(node.elts) and all(isinstance(e, ast.Constant) and isinstance(e.value, bool) for e in node.elts)
        return "mask" if is_mask else "positions"
    return _part_by_name(node)


def _part_by_name(node: ast.expr) -> str:
    word = _dotted(node.func if isinstance(node, ast.Call) else node).rpartition(".")[2]
    if isinstance(node, ast.Call):
        asks = re.fullmatch(r"is\w+|logical_\w+|bool|greater\w*|less\w*|eq|ne|gt|ge|lt|le|equal|not_equal", word)
        return "mask" if asks else {"slice": "slice", "len": "number", "int": "number"}.get(word, "positions")
    if word == "newaxis":
        return "new"
    if isinstance(node, ast.Subscript):
        return _part(node.value) if isinstance(node.value, ast.Name) else "letter"
    if word and MASK.fullmatch(word):
        return "mask"
    return "letter" if len(word) == 1 else "positions" if POSITIONS.fullmatch(word) else "letter" if word else "other"


def _index(node: ast.expr) -> str:
    """Return the name of reading at an index."""
    is_tuple = isinstance(node, ast.Tuple)
    if isinstance(node, ast.Call) and _dotted(node.func).endswith("ix_"):
        return "np.ix_"
    parts = [_part(e) for e in (node.elts if isinstance(node, ast.Tuple) else [node])]
    kinds = set(parts)
    if "reversed" in kinds:
        return "x[::-1]"
    if "mask" in kinds:
        return "x[mask, :]" if is_tuple and len(parts) > 1 else "x[mask]"
    if "positions" in kinds:
        return _at_positions(parts)
    if is_tuple and "letter" in kinds and not kinds & {"new", "dots", "slice", "step"}:
        return "x[i, j]"
    for kind, name in (("new", "x[None]"), ("step", "x[::2]"), ("dots", "x[...]")):
        if kind in kinds:
            return name
    if "slice" in kinds:
        return "x[...]" if len(parts) > 1 else "x[a:b]"
    return "x[i]" if kinds <= {"number", "letter"} else ""


def _at_positions(parts: list[str]) -> str:
    others = [part for part in parts if part not in ("positions", "letter", "number")]
    many = len(parts) - len(others)
    if len(parts) == 1:
        return "x[index]"
    if not others:
        return "x[rows, cols]"
    if many > 1:  # with a slice between the indices, NumPy moves the indexed dimension to the front
        return "x[i, :, j]"
    return "x[index, :]" if parts[0] == "positions" else "x[:, index]"


def _write(node: ast.expr) -> str:
    """Return the name of writing at an index."""
    read = _index(node)
    if read in ("x[mask]", "x[mask, :]"):
        return "x[mask] = v"
    if read in ("x[index]", "x[rows, cols]", "x[index, :]", "x[:, index]", "x[i, :, j]", "np.ix_"):
        return "x[index] = v"
    if read == "x[i, j]":
        return "x[i, j] = v"
    return "x[i] = v" if read == "x[i]" else "x[a:b] = v" if read else ""
