"""Size thresholds, at which a kernel or a loaded program changes to another algorithm.

A module constant of this type is such a size, and its comment gives the unit::

    _FEW: Threshold = 1 << 12  # elements

The conformance tests find these constants, and judge calls just below, at and above each of them (``--tier
thresholds``). A test of the project refuses code that compares sizes with other constants.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType
from typing import TypeAlias

Threshold: TypeAlias = int

PLACES = (
    "core", "derived", "kernels", "layout", "parallel_elementwise", "random", "threads", "runtime.elementwise_chains",
    "runtime.fast_conv_pooling", "runtime.fast_linear_sdpa", "runtime.recurrent",
)  # fmt: skip


def modules() -> list[ModuleType]:
    """Return the modules that contain the table's kernels and the fast operators of programs."""
    roots = [importlib.import_module(f"{__package__}.{place}") for place in PLACES]
    inner = [m for root in roots for m in pkgutil.walk_packages(getattr(root, "__path__", []), f"{root.__name__}.")]
    return roots + [importlib.import_module(m.name) for m in inner]


def thresholds() -> dict[tuple[str, str], int]:
    """Return the value of every threshold, by its module and name."""
    return {
        (module.__name__, name): getattr(module, name)
        for module in modules()
        for name, kind in vars(module).get("__annotations__", {}).items()
        if kind == "Threshold"
    }
