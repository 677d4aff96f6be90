"""Second names of operators, which programs saved without decompositions hold."""

from __future__ import annotations

from typing import Any

from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import portable

_SAME_OVERLOADS = {
    "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "greater": "gt", "greater_equal": "ge",
    "less": "lt", "less_equal": "le", "not_equal": "ne",
}  # fmt: skip
ALIASES = {
    **{f"aten::{a}.{kind}": f"aten::{b}.{kind}" for a, b in _SAME_OVERLOADS.items() for kind in ("Tensor", "Scalar")},
    "aten::absolute": "aten::abs",
    "aten::negative": "aten::neg",
    "aten::fix": "aten::trunc",
    "aten::arccos": "aten::acos",
    "aten::arccosh": "aten::acosh",
    "aten::arcsin": "aten::asin",
    "aten::arcsinh": "aten::asinh",
    "aten::arctan": "aten::atan",
    "aten::arctanh": "aten::atanh",
    "aten::arctan2": "aten::atan2",
    "aten::special_expit": "aten::sigmoid",
    "aten::special_exp2": "aten::exp2",
    "aten::special_expm1": "aten::expm1",
    "aten::special_log1p": "aten::log1p",
}
"""Operators that are others."""


def _alias(name: str, target: str) -> None:
    @portable(name)
    def row(lib: ArrayLibrary, *args: Any, **kwargs: Any) -> Any:
        return lib.call(target, *args, **kwargs)


for _name, _target in ALIASES.items():
    _alias(_name, _target)
