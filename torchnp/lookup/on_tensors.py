"""The functions of `torchnp.np` by NumPy's names, read from data files, so that the lookup needs no torch.

``torchnp/data/numpy_rows.tsv`` lists the rows with the differences that they undo. ``numpy_refused.toml`` says why
NumPy's other names have no row. ``scripts/make_lookup.py`` writes the first; a test compares it with the table.
"""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path

DATA = Path(__file__).parent.parent / "data"
ROWS_FILE, REFUSED_FILE = DATA / "numpy_rows.tsv", DATA / "numpy_refused.toml"


@functools.cache
def rows() -> dict[str, tuple[str, ...]]:
    """Return the differences that each row undoes, by the name below ``np``: ``"linalg.norm"``."""
    lines = (line.split("\t") for line in ROWS_FILE.read_text(encoding="utf-8").splitlines()[1:])
    return {name: tuple(ids.split()) for name, ids in lines}


@functools.cache
def refused() -> dict[str, str]:
    """Return the public names of NumPy that have no row, each with the reason."""
    groups = tomllib.loads(REFUSED_FILE.read_text(encoding="utf-8"))
    return {name: group["reason"] for group in groups.values() for name in group["names"].split()}


def spelling(name: str) -> str:
    """Return ``tnp.var`` for ``np.var`` or ``np.ndarray.var``, "" if `torchnp.np` has no such function."""
    known = name.removeprefix("np.").removeprefix("ndarray.").strip("_") if name.startswith("np.") else ""
    return f"tnp.{known}" if known in rows() else ""


def text(table: dict[str, tuple[str, ...]]) -> str:
    """Return the text of ``numpy_rows.tsv``."""
    return "".join(["name\tundoes\n", *(f"{name}\t{' '.join(ids)}\n" for name, ids in sorted(table.items()))])
