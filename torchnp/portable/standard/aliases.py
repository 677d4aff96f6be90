"""Aliases of operators, which programs saved without decompositions contain; other aliases are declared with rows."""

from __future__ import annotations

from typing import Any

from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import portable

_COMPARISONS = {"greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le", "not_equal": "ne"}
ALIASES = {
    **{f"aten::{a}.{kind}": f"aten::{b}.{kind}" for a, b in _COMPARISONS.items() for kind in ("Tensor", "Scalar")},
    "aten::negative": "aten::neg",
    "aten::arccos": "aten::acos",
    "aten::arccosh": "aten::acosh",
    "aten::arcsin": "aten::asin",
    "aten::arcsinh": "aten::asinh",
    "aten::arctan": "aten::atan",
    "aten::arctanh": "aten::atanh",
    "aten::arctan2": "aten::atan2",
    "aten::special_expm1": "aten::expm1",
    "aten::special_log1p": "aten::log1p",
}
"""The operator that each alias names."""


def _alias(name: str, target: str) -> None:
    @portable(name)
    def row(lib: ArrayLibrary, *args: Any, **kwargs: Any) -> Any:
        return lib.call(target, *args, **kwargs)


for _name, _target in ALIASES.items():
    _alias(_name, _target)
