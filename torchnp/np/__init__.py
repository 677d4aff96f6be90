"""NumPy's functions on torch tensors and handles: ``torchnp.np.var(t)`` computes what ``np.var`` does for arrays.

After ``import torchnp.np as tnp``, each function of ``tnp`` has NumPy's name, arguments, defaults, promotion and errors.
It takes tensors, handles, arrays and numbers, and returns tensors. It calls operators of torch, so gradients, ``torch.compile``,
handles and other devices work. `table` maps NumPy's names to rows: a function, and the ids of the differences between
NumPy and torch that it undoes. `refused` maps the other public names of NumPy to the reason. `semantics` gives
operators NumPy's meaning. ``python -m torchnp.np FILE.py`` runs a script on tensors.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

if importlib.util.find_spec("torch") is None:
    raise ModuleNotFoundError(
        "torchnp.np works on torch's tensors: it needs the package torch: pip install torch", name="torch"
    )

from torchnp.np.create import CONSTANTS, DTYPES
from torchnp.np.semantics import semantics
from torchnp.np.table import TABLE, NumpyRow, refused

# Importing each module adds its rows to the table.
for _module in (
    "elementwise", "reductions", "sorting", "shapes", "create", "selection", "products", "linalg_rows", "fft_rows", "derived", "without_values", "sets",
):  # fmt: skip
    importlib.import_module(f"torchnp.np.{_module}")

table = TABLE

__all__ = ["NumpyRow", "refused", "semantics", "table"]


class NumpySpace:
    """The functions of a submodule of NumPy, such as ``tnp.linalg.norm``."""

    def __init__(self, space: str) -> None:
        self._space = space

    def __getattr__(self, name: str) -> Any:
        return _found(f"{self._space}.{name}")

    def __dir__(self) -> list[str]:
        return sorted(n.removeprefix(f"{self._space}.") for n in TABLE if n.startswith(f"{self._space}."))


_SPACES = {name: NumpySpace(name) for name in ("linalg", "fft", "lib", "lib.stride_tricks")}


def _found(name: str) -> Any:
    if name in TABLE:
        return TABLE[name].function
    if name in _SPACES:
        return _SPACES[name]
    why = refused().get(name)
    raise AttributeError(
        f"torchnp.np has no {name}: it {why}" if why else f"module 'torchnp.np' has no attribute {name!r}"
    )


def __getattr__(name: str) -> Any:
    for known in (DTYPES, CONSTANTS):
        if name in known:
            return known[name]
    return _found(name)


def __dir__() -> list[str]:
    return sorted(
        {*__all__, *DTYPES, *CONSTANTS, *(n for n in TABLE if "." not in n), *(n for n in _SPACES if "." not in n)}
    )
