"""Imports all modules with amendments, which registers them. `explain_disagreements` describes them."""

from __future__ import annotations

from . import (
    amend_indexing,
    amend_linalg,
    amend_memory,
    amend_order,
    amend_products,
    amend_promotion,
    amend_random,
    amend_ranges,
    amend_refused,
    amend_search_and_statistics,
    amend_shapes,
    amend_special_functions,
    amend_values,
)
from .explain_disagreements import AMENDMENTS, EXPECTATIONS

__all__ = [
    "AMENDMENTS",
    "EXPECTATIONS",
    "amend_indexing",
    "amend_linalg",
    "amend_memory",
    "amend_order",
    "amend_products",
    "amend_promotion",
    "amend_random",
    "amend_ranges",
    "amend_refused",
    "amend_search_and_statistics",
    "amend_shapes",
    "amend_special_functions",
    "amend_values",
]
