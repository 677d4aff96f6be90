"""The conformance harness: is an operator what torch says it is?

Every aten call under torch's OpInfo samples, forward and backward, is recorded below autograd and replayed alone on a
backend: ours first, anybody's by the same code. ``python -m opinfo_tests --ops 'aten::var*'``,
``torchnp conform --backend mylib``, ``pytest --pyargs opinfo_tests --backend package.module:object``.

A backend is one line for a torch device (``device("mydev")``), for a dict of functions on ndarrays (``table(mine)``),
for a ``torch.compile`` backend (``compile("inductor")``) and for an array API library (``array_api("array_api_strict")``);
anything else is a subclass of ``Backend``.

``case`` and ``schemas`` say what a call is; the rooms, each of which imports from those before it alone:

- ``backends``: what is judged, and torch as the oracle
- ``judge``: the verdict on one call: outcomes, tolerances, torch's own disagreements, diagnoses
- ``generate``: where calls come from: torch's samples and our own, calls drawn from schemas, and changes of these
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

# oneDNN convolves float16 where the processor has instructions for that, and torch itself does elsewhere, with other
# checks, words and strides: it is held to what most processors have, so that torch says the same on all. oneDNN reads
# this at its first use.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

# Looked up on first use: the pytest plugin must not import NumPy, nor a dict of functions torch.
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
