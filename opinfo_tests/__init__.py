"""The conformance harness: is an operator what torch says it is?

The harness records every aten call that torch's OpInfo samples make, forward and backward, below autograd, and replays
each alone on a backend: ours, or anybody's by the same code. ``python -m opinfo_tests --ops 'aten::var*'``,
``torchnp conform --backend mylib``, ``pytest --pyargs opinfo_tests --backend package.module:object``.

A backend is one line for a torch device (``device("mydev")``), for a dict of functions on ndarrays (``table(mine)``),
for a ``torch.compile`` backend (``compile("inductor")``) and for an array API library (``array_api("array_api_strict")``);
anything else is a subclass of ``Backend``.

``case`` and ``schemas`` define a call. Each subpackage imports only from those listed before it:

- ``backends``: the backends under test, and torch as the oracle
- ``judge``: the verdict on one call: outcomes, tolerances, torch's own disagreements, diagnoses
- ``generate``: sources of calls: torch's samples, rows of our own, calls drawn from schemas, and variations of these
- ``report``: rows and totals, known gaps, the page, the badge, repro scripts, shrinking
- ``run``: the runner, its worker processes, the control, the command line
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .backends.array_api_backend import array_api
    from .backends.backend import Backend, Seen, Table, table
    from .backends.compile_backend import compile
    from .backends.torch_backend import device
    from .case import Array, Case, Named, Seeded

# oneDNN convolves float16 only on processors with float16 instructions. Elsewhere torch's own kernel runs, with other
# checks, messages and strides. This caps oneDNN at what most processors have, so that torch answers the same on all.
# oneDNN reads this at its first use.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

# Imported on first use: the pytest plugin must not import NumPy, and judging a dict of functions must not import torch.
_PLACES = {
    "Array": "case", "Backend": "backends.backend", "Case": "case", "Named": "case", "Seeded": "case",
    "Seen": "backends.backend", "Table": "backends.backend", "array_api": "backends.array_api_backend",
    "compile": "backends.compile_backend", "device": "backends.torch_backend", "table": "backends.backend",
}  # fmt: skip

__all__ = ["Array", "Backend", "Case", "Named", "Seeded", "Seen", "Table", "array_api", "compile", "device", "table"]


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(importlib.import_module(f".{_PLACES[name]}", __name__), name)
    raise AttributeError(f"module 'opinfo_tests' has no attribute {name!r}")
