"""Array API libraries as backends: torchnp's portable kernels (the prims) run on a library's arrays."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np

from .backend import Backend

# Prims that the array API standard cannot express: strided memory, in-place writes, random numbers, array creation.
NOT_PORTABLE = frozenset(
    f"prims::{name}"
    for name in (
        "as_strided", "as_strided_scatter", "copy_strided", "copy_to", "resize", "view_of_dtype", "normal", "uniform",
        "empty", "empty_strided", "empty_permuted", "full", "iota", "scalar_tensor", "_make_token", "_sink_tokens",
        "maximum_value", "minimum_value",
    )
)  # fmt: skip
STANDARD = ("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64",
            "float32", "float64", "complex64", "complex128")  # fmt: skip


_REPRO = """class Library(Ndarrays):
    def put(self, a):
        return library.asarray(np.array(a, order="C"))

    def get(self, x):
        try:
            return np.array(np.from_dlpack(x))
        except (TypeError, BufferError, RuntimeError, AttributeError):
            return np.array(x)

    def place(self, r, buffers):
        return ...

    def state(self):
        return None


BACKEND = Library()
"""


class ArrayAPI(Backend):
    """The portable kernels of ``torchnp.table``, run on a library's own arrays."""

    def __init__(self, library: ModuleType) -> None:
        import torchnp

        short = library.__name__.removeprefix("array_api_compat.").replace("_", "-")
        self.library, self.table, self.name = library, torchnp.table, f"array-api-{short.removeprefix('array-api-')}"
        self.ops = frozenset(n for n in self.table if n.startswith("prims::")) - NOT_PORTABLE
        self.dtypes = frozenset(n for n in STANDARD if hasattr(library, n))

    def __reduce__(self) -> tuple[Any, ...]:
        return array_api, (self.library.__name__,)  # a module cannot be pickled, but its name can

    def repro(self, op: str) -> tuple[str, str]:
        """Return the imports and the code that call ``op`` in a repro script."""
        mine = f"def mine(args, kwargs):\n    return torchnp.table[{op!r}](*args, **kwargs)"
        imports = f"import importlib\n\nimport torchnp\n\nlibrary = importlib.import_module({self.library.__name__!r})"
        return imports, f"{_REPRO}\n\n{mine}\n"

    def put(self, a: np.ndarray) -> Any:
        return self.library.asarray(np.array(a, order="C"))

    def get(self, x: Any) -> np.ndarray:
        if not hasattr(x, "__array_namespace__") and not hasattr(x, "__dlpack__"):
            raise TypeError(f"{self.name}: a kernel returned a {type(x).__name__}")
        try:
            return np.array(np.from_dlpack(x))
        # some libraries cannot export booleans and complex numbers
        except (TypeError, BufferError, RuntimeError, AttributeError):
            return np.array(x)

    def run(self, op: str, args: tuple, kwargs: dict[str, Any]) -> Any:
        return self.table[op](*args, **kwargs)


def array_api(namespace: str | ModuleType) -> ArrayAPI:
    """Return the backend of an array API namespace: a module, or a name such as ``array_api_strict`` or ``torch``.

    The backend claims the prims whose kernels use only functions of the standard, in the standard's dtypes. A library
    that does not follow the standard itself is wrapped by ``array_api_compat``. On ndarrays torchnp runs its ordinary
    kernels, so the backend ``numpy`` judges those and not the portable code.

    Parameters
    ----------
    namespace : str or module
        The library, or its name as imported or as ``array_api_compat`` knows it.

    Returns
    -------
    ArrayAPI
        A `Backend` on the library's own arrays.

    Raises
    ------
    ValueError
        No such module follows the standard.
    """
    if isinstance(namespace, ModuleType):
        return ArrayAPI(namespace)
    module = namespace.replace("-", "_")
    for name in (f"array_api_compat.{module}", module, f"array_api_{module}"):
        try:
            found = importlib.import_module(name)
        except ModuleNotFoundError as e:
            if e.name and name.startswith(e.name):
                continue
            raise
        if hasattr(found, "asarray") and hasattr(found, "permute_dims"):
            return ArrayAPI(found)
    raise ValueError(f"no module {namespace!r} that follows the array API standard")
