"""PyTorch's operators, implemented in NumPy.

`torchnp.table` maps each aten overload and prim to a NumPy function with torch's exact semantics. `torchnp.aten` and
`torchnp.prims` have the same functions as attributes. `torchnp.kernel` declares rows for other libraries' operators.
``import torchnp`` never imports torch. Code that needs torch is in `torchnp.interop`, `torchnp.device`,
`torchnp.compiler` and the client of `torchnp.rpc`.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from torchnp.dtypes import can_cast, get_default_dtype, promote_types, result_type, set_default_dtype

if TYPE_CHECKING:
    from torchnp.core.errors import MissingKernelError
    from torchnp.core.libraries import kernel
    from torchnp.core.table import table, table_for
    from torchnp.core.target import target
    from torchnp.portable.dask.map_batches import map_batches
    from torchnp.portable.load import load
    from torchnp.random import Generator, default_generator, manual_seed
    from torchnp.threads import get_num_threads, set_num_threads
    from torchnp.typed import aten, prims  # a stub, only for type checkers and editors

__version__ = "0.1.0"
__all__ = [
    "Generator",
    "MissingKernelError",
    "aten",
    "can_cast",
    "default_generator",
    "get_default_dtype",
    "get_num_threads",
    "kernel",
    "load",
    "manual_seed",
    "map_batches",
    "prims",
    "promote_types",
    "result_type",
    "set_default_dtype",
    "set_num_threads",
    "table",
    "table_for",
    "target",
]

# These names are loaded at their first use, because the table reads 3,236 schemas and all kernel families.
_LAZY = {
    "aten": "torchnp.core.table",
    "prims": "torchnp.core.table",
    "table": "torchnp.core.table",
    "table_for": "torchnp.core.table",
    "target": "torchnp.core.target",
    "MissingKernelError": "torchnp.core.errors",
    "Generator": "torchnp.random",
    "default_generator": "torchnp.random",
    "manual_seed": "torchnp.random",
    "load": "torchnp.portable.load",
    "map_batches": "torchnp.portable.dask.map_batches",
    "get_num_threads": "torchnp.threads",
    "set_num_threads": "torchnp.threads",
    "kernel": "torchnp.core.libraries",
}


def __getattr__(name: str) -> Any:
    home = _LAZY.get(name)
    if home is None:
        return _library(name)
    module = importlib.import_module(home)
    found = getattr(module, name)
    # Store the object as a global: later accesses do not call this function.
    globals()[name] = found
    return found


def _library(name: str) -> Any:
    """Return the operators of another library that has rows, declared here or by a package: ``torchnp.torchvision``."""
    # Python also calls this for modules of this package that are not imported yet.
    own = name.startswith("_") or importlib.util.find_spec(f"torchnp.{name}") is not None
    if not own and importlib.import_module("torchnp.core.libraries").import_rows(name):
        return importlib.import_module("torchnp.core.table").namespace(name)
    raise AttributeError(f"module 'torchnp' has no attribute {name!r}")


def __dir__() -> list[str]:
    modules = (
        "compiler",
        "device",
        "differences",
        "dtypes",
        "interop",
        "np",
        "rpc",
    )  # listed only after they are imported
    return sorted({*__all__, *(name for name in globals() if name.startswith("__") or name in modules)})
