"""The portable table: rows by operator name, for all array libraries or specific to one."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

Array = Any  # an array of any library
Row = Callable[..., Any]  # takes the library, then the operator's arguments in the schema's order

STANDARD = "standard"
ROWS: dict[str, dict[str, Row]] = {STANDARD: {}}
"""For each kind of library, its rows by operator name; ``standard`` rows run on all libraries."""

HOSTED: set[str] = set()
"""Operators that other rows call, and whose standard row calls the NumPy kernel on the host."""

_MODULES = {
    STANDARD: (
        "activation", "aliases", "arithmetic", "attention", "backward", "compare", "control", "convolution", "copies", "create", "fft",
        "index",
        "join", "linalg", "loss", "matmul", "normalization", "pad", "pool", "prims", "reduce", "resample", "rnn", "scan",
        "shape", "softmax", "sort", "special",
    ),
    "jax": ("control", "convolution", "elementwise", "index", "linalg", "sort"),
    "dask": ("blocks",),
    "torch": (),
}  # fmt: skip


def portable(*names: str, on: str = STANDARD, hosted: bool = False) -> Callable[[Row], Row]:
    """Declare the row of one or more operators.

    A row takes an `ArrayLibrary` and the operator's arguments, in the schema's order and with its names and defaults.
    It may return NotImplemented for arguments that it does not cover; the NumPy kernel then runs on the host.

    Parameters
    ----------
    *names : str
        Full names: ``"aten::topk"``, ``"torch.ops.higher_order.cond"``.
    on : str, optional
        The kind of library for which the row is: ``"jax"``, ``"dask"``, ``"torch"``, or ``"rows"`` (private data).
    hosted : bool, optional
        Whether the row only calls the NumPy kernel on the host.

    Returns
    -------
    callable
        A decorator that returns the function unchanged.
    """

    def keep(row: Row) -> Row:
        rows = ROWS.setdefault(on, {})
        for name in names:
            if name in rows:
                raise ValueError(f"{name} has two rows on {on}")
            rows[name] = row
        if hosted:
            HOSTED.update(names)
        return row

    return keep


def rows_for(kind: str) -> tuple[dict[str, Row], dict[str, Row]]:
    """Return the rows of a kind of library, and the standard rows."""
    for package in dict.fromkeys((STANDARD, kind)):
        for module in _MODULES.get(package, ()):
            importlib.import_module(f"torchnp.portable.{package}.{module}")
    return (ROWS.get(kind, {}) if kind != STANDARD else {}), ROWS[STANDARD]
