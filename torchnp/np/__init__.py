"""NumPy's meaning on torch tensors and handles: ``torchnp.np.var(t)`` is what ``np.var`` is of an array.

``import torchnp.np as tnp``: each function has NumPy's name, arguments, defaults, promotion and errors, takes tensors,
handles, arrays and numbers, and returns tensors. It calls operators of torch, so gradients, ``torch.compile``,
handles and other devices work. `table` holds the functions with the differences that each undoes.
"""

from __future__ import annotations

import importlib.util
from typing import Any

if importlib.util.find_spec("torch") is None:
    raise ModuleNotFoundError("torchnp.np works on torch's tensors and needs the package torch: pip install torch", name="torch")

from torchnp.np import create, derived, elementwise, fft, linalg, products, reductions, selection, shapes, sorting  # noqa: F401
from torchnp.np.table import TABLE as table


def __getattr__(name: str) -> Any:
    if name in table:
        return table[name].function
    raise AttributeError(name)
