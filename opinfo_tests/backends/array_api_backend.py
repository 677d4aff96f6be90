"""An array API library as a backend: torchnp's portable rows, including those of prims, run on its arrays."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from .backend import Backend

JUDGED = ("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "bfloat16",
          "float32", "float64", "complex64", "complex128")  # fmt: skip

_REPRO = """class Library(Ndarrays):
    def put(self, a):
        return library.data(a)

    def get(self, x):
        return np.array(library.to_numpy(x))

    def place(self, r, buffers):
        return ...

    def state(self):
        return None


BACKEND = Library()


def mine(args, kwargs):
    return library.run({op!r}, args, kwargs)
"""


class NoRow(NotImplementedError):
    """Raised when a portable row does not cover a call's arguments."""


class ArrayAPI(Backend):
    """The portable rows of torchnp on a library's arrays; they return arrays of the same library.

    Calls with dtypes that the library lacks are not judged. Calls whose arguments a row does not cover are counted
    separately.
    """

    def __init__(self, xp: str | ModuleType) -> None:
        import torchnp
        from torchnp.portable.libraries import library_for, prepare
        from torchnp.portable.rows import HOSTED

        self.spec = xp if isinstance(xp, str) else xp.__name__
        prepare(self.spec)
        self.library = library_for(xp)
        short = self.library.name.removesuffix(".array").replace("_", "-")
        self.name = f"array-api-{short.removeprefix('array-api-')}"
        rows = {*self.library.own, *(n for n in self.library.standard if n not in HOSTED)}
        schemas = torchnp.table.schemas
        self.ops = frozenset(n for n in rows if n in torchnp.table and not schemas[n].mutates)
        self.dtypes = self.library.dtypes & frozenset(JUDGED)

    def __reduce__(self) -> tuple[Any, ...]:
        return array_api, (self.spec,)  # a module cannot be pickled, but its name can

    def repro(self, op: str) -> tuple[str, str]:
        """Return the imports and the code that call ``op`` in a repro script."""
        imports = "from torchnp.portable.libraries import library_for, prepare"
        made = f"prepare({self.spec!r})\nlibrary = library_for({self.spec!r})"
        return imports, f"{made}\n\n\n{_REPRO.format(op=op)}"

    def put(self, a: np.ndarray) -> Any:
        return self.library.data(a)

    def get(self, x: Any) -> np.ndarray:
        if not self.library.is_array(x) and not isinstance(x, np.generic):
            raise TypeError(f"{self.name}: a row returned a {type(x).__name__}")
        return np.array(self.library.to_numpy(x))

    def generator(self, seed: int) -> Any:
        import torchnp

        return torchnp.Generator(seed)

    def run(self, op: str, args: tuple, kwargs: dict[str, Any]) -> Any:
        found = self.library.run(op, args, kwargs)
        if found is NotImplemented:
            raise NoRow(op)
        return found

    def refuses(self, error: Exception) -> str:
        from torchnp.portable.library import ValueNeeded

        if isinstance(error, NoRow):
            return "a row does not cover these arguments: the NumPy kernel runs"
        return (
            "it needs the value of an array, and the library computes later" if isinstance(error, ValueNeeded) else ""
        )


def array_api(namespace: str | ModuleType) -> ArrayAPI:
    """Return the backend of an array library: a module, or a name such as ``strict``, ``jax``, ``dask`` or ``torch``.

    It claims the operators and prims that have a portable row, in the library's dtypes.

    Parameters
    ----------
    namespace : str or module
        The library, or its name as `torchnp.load` takes it with ``xp=``.

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
    try:
        return ArrayAPI(namespace.replace("-", "_"))
    except (ModuleNotFoundError, TypeError) as error:
        raise ValueError(f"no module {namespace!r} that follows the array API standard: {error}") from error
