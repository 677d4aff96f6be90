"""The conformance harness: it tests whether a backend's operators do what torch's do.

The harness runs torch's OpInfo samples, forward and backward, and records every aten call that they make below
autograd. It then runs each recorded call separately on a backend (torchnp's or yours) and compares the results with
torch's.
It is started by ``python -m opinfo_tests --ops 'aten::var*'``, ``torchnp conform --backend mylib`` or ``pytest --pyargs
opinfo_tests --backend package.module:object``.

A backend takes one line for a torch device (``device("mydev")``), for a dict of functions on ndarrays
(``table(mine)``), for a ``torch.compile`` backend (``compile("inductor")``) and for an array API library
(``array_api("array_api_strict")``). Any other backend is a subclass of ``Backend``.

``case`` and ``schemas`` define a call. Each subpackage imports only from the subpackages listed before it:

- ``backends``: the backends under test, and torch as the oracle
- ``judge``: the verdict on one call: outcomes, tolerances, results that torch does not specify, diagnoses
- ``generate``: sources of calls: torch's samples, our own samples, random calls from schemas, and variations of these
- ``report``: report rows and totals, known gaps, the HTML page, the badge, repro scripts, shrinking
- ``run``: the runner, its worker processes, the control experiment, the command line
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

# oneDNN computes float16 convolutions only on processors with float16 instructions. On others torch's own kernel runs,
# which has other checks, messages and strides. This variable limits oneDNN to instructions that most processors have,
# so that torch gives the same results on all. oneDNN reads it at its first use.
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
