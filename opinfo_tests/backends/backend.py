"""What is judged, and the oracle: a backend runs a case and says what could be seen.

A backend declares the overloads that it claims in ``ops`` and has three methods: ``put`` makes its own array of an
ndarray, ``get`` makes an ndarray of its own array, ``run`` calls an operator. What it claims it cannot excuse by
raising: absence is declared, never inferred from an exception.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..case import DTYPES, USUAL, Array, Case, Named, Seeded, leaves, map_tree, schemas
from ..schemas import resizable_buffers


@dataclass
class Seen:
    """What a run of a case showed.

    Attributes
    ----------
    results : list
        Flat: arrays; None, numbers and booleans stay as they are.
    structure : str
        How the results were nested.
    alias : list
        For each result the window ``(buffer, offset, strides)`` on an argument's memory, in bytes, None where there is
        none, or ``...`` where the backend cannot tell.
    after : list
        Each array argument after the call.
    buffers : list of ndarray, optional
        The raw memory of the arguments after the call, where that is visible.
    error : tuple of str, optional
        Class and message of what was raised.
    refused : str
        By what policy of the backend it was raised, as `Backend.refuses` says.
    seconds : float
        How long the call took.
    strides : list
        Of each result, in elements; None for what is no array. Empty where the backend promises none.
    random : list of bytes
        States of the default generator and of generator arguments after the call.
    """

    results: list = field(default_factory=list)
    structure: str = ""
    alias: list = field(default_factory=list)
    after: list = field(default_factory=list)
    buffers: list | None = None
    error: tuple[str, str] | None = None
    refused: str = ""
    seconds: float = 0.0
    strides: list = field(default_factory=list)
    random: list[bytes | None] = field(default_factory=list)


def structure_of(out: Any) -> str:
    if isinstance(out, (list, tuple)):
        return "(" + ",".join(structure_of(o) for o in out) + ")"
    if out is None:
        return "None"
    return type(out).__name__ if isinstance(out, (bool, int, float, complex, str)) else "T"


class Backend:
    """The base class of all backends.

    A subclass gives ``ops`` (the full names of the overloads that it claims, ``aten::add.Tensor``), ``put``, ``get`` and
    ``run``, and perhaps a ``name`` for reports. What is claimed is judged, and an exception never excuses it. Where memory
    can be seen, ``place`` says on which argument a result is a view; where random numbers are torch's own, ``seed``,
    ``generator`` and ``state`` have them compared. With ``strides = True`` results promise torch's memory layout as well.
    """

    name = "backend"
    ops: Container[str] = frozenset()
    dtypes: frozenset[str] | None = (
        None  # of arrays, as torch names them: calls with others are not judged; None is all
    )
    strides = False  # whether the strides of what ``get`` returns are torch's
    loaded_by = ""  # the name by which a worker process loads it again; without one it is pickled

    def put(self, a: np.ndarray) -> Any:
        """Return this backend's array with the dtype, shape and values of ``a``; it is no tuple, list or number."""
        return a

    def get(self, x: Any) -> np.ndarray:
        """Return an ndarray with the dtype, shape and values of ``x``."""
        return x

    def run(self, op: str, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Call overload ``op`` and return its results (one, a tuple or a list)."""
        raise TypeError(f"{type(self).__name__} does not define run()")

    def named(self, leaf: Named) -> Any:
        """Return this backend's form of a dtype, layout, device or memory format."""
        return DTYPES.get(leaf.name, leaf.name) if leaf.kind == "dtype" else leaf.name

    def exempt(self, case: Case) -> str:
        """Return why a call is not judged, though its overload is claimed, or nothing."""
        return "it has no other default dtype" if case.default_dtype != USUAL and not self.sets_default_dtype else ""

    @property
    def sets_default_dtype(self) -> bool:
        """Whether `set_default_dtype` does what it says."""
        return type(self).set_default_dtype is not Backend.set_default_dtype

    def set_default_dtype(self, name: str) -> None:
        """Set the dtype of Python's floats, by torch's name for it; of a backend without, such calls are not judged."""
        raise TypeError(f"{type(self).__name__} has no default dtype")

    def refuses(self, error: Exception) -> str:
        """Return by what policy a call was refused, or nothing: such calls are counted apart, by these words."""
        return ""

    def reference(self, case: Case) -> Seen | None:
        """Return what torch's own kernels show behind the same machinery, None where there is none.

        Asked of calls that fail: where torch is another one there than on its CPU device, both answers are torch's.
        """
        return None

    def seed(self, seed: int) -> None:
        """Seed the default generator."""

    def generator(self, seed: int) -> Any:
        """Return a new generator."""
        raise TypeError(f"{type(self).__name__} has no generators")

    def state(self, generator: Any = None) -> bytes | None:
        """Return the state of a generator (of the default one) as torch writes it, None where that cannot be told."""
        return None

    def place(self, result: Any, buffers: list[np.ndarray]) -> Any:
        """Return the window of ``result`` on an argument's buffer, None, or ``...`` where that cannot be told."""
        return ...

    def execute(self, case: Case) -> Seen:
        """Run ``case`` on fresh copies of its buffers, under its default dtype."""
        if case.default_dtype == USUAL:
            return self._execute(case)
        self.set_default_dtype(case.default_dtype)
        try:
            return self._execute(case)
        finally:
            self.set_default_dtype(USUAL)

    def _execute(self, case: Case) -> Seen:
        buffers = case.fresh_buffers()
        mine: list[Any] = []
        generators: list[Any] = []
        resizable = resizable_buffers(case)
        writes = schemas()[case.op].mutates
        owned: dict[int, np.ndarray] = {}

        def leaf(x: Any) -> Any:
            if type(x) is Array:
                a = x.on(buffers)
                if x.buffer in resizable:
                    a = owned[x.buffer] = a.copy()
                elif writes and not a.size:
                    a = np.empty(x.shape, a.dtype)  # with memory of its own it can be resized
                mine.append(self.put(a))
                return mine[-1]
            if type(x) is Named:
                return self.named(x)
            if type(x) is Seeded:
                generators.append(self.generator(x.seed))
                return generators[-1]
            return x

        start = time.perf_counter()
        try:
            args, kwargs = map_tree(leaf, case.args), map_tree(leaf, case.kwargs)
            self.seed(case.seed)
            start = time.perf_counter()
            out = self.run(case.op, args, kwargs)
            seen = Seen(structure=structure_of(out), seconds=time.perf_counter() - start)
            for i, a in owned.items():
                buffers[i] = np.ascontiguousarray(a).reshape(-1).view(np.uint8)
            for r in leaves(out):
                plain = r is None or isinstance(r, (bool, int, float, complex, str, np.dtype))
                seen.alias.append(None if plain else self.place(r, buffers))
                seen.results.append(r if plain else self.get(r))
                if self.strides:
                    # An ndarray that is resized in place is row-major, and an empty one has NumPy's own strides.
                    given = any(r is x for x in mine) or (writes and not plain and not seen.results[-1].size)
                    seen.strides.append(None if plain or given else in_elements(seen.results[-1]))
            seen.after = [self.get(x) for x in mine]
        except Exception as e:  # of put and get too: what a backend cannot hold or hand back it does not compute
            seconds = time.perf_counter() - start
            return Seen(error=error_of(e), refused=self.refuses(e), seconds=seconds, buffers=self.memory(buffers))
        seen.buffers = self.memory(buffers)
        if case.draws:
            seen.random = [self.state(g) for g in (None, *generators)]
        return seen

    def memory(self, buffers: list[np.ndarray]) -> list[np.ndarray] | None:
        """Return the arguments' raw memory after a call, None where ``put`` copies."""
        return None


def in_elements(a: np.ndarray) -> tuple[int, ...]:
    return tuple(s // a.itemsize for s in a.strides)


def error_of(e: BaseException) -> tuple[str, str]:
    return type(e).__name__.lstrip("_"), str(e)


def place_ndarray(result: Any, buffers: list[np.ndarray]) -> Any:
    if not isinstance(result, np.ndarray) or result.size == 0:
        return None
    low, high = np.lib.array_utils.byte_bounds(result)
    for i, b in enumerate(buffers):
        start, stop = np.lib.array_utils.byte_bounds(b)
        if b.size and low < stop and start < high:
            first = result.__array_interface__["data"][0]
            return (i, first - start, result.strides)
    return None


class Table(Backend):
    """A Mapping from overload names to functions on ndarrays, such as ``torchnp.table``.

    Parameters
    ----------
    table : mapping of str to callable
        Its keys are what the backend claims.
    name : str, optional
        What reports call the backend.
    scalars : bool, optional
        Whether a NumPy scalar as a result counts as a 0-d array, as plain NumPy functions return it.
    strides : bool, optional
        Whether results promise torch's memory layout: other strides are then a failure.
    """

    def __init__(
        self, table: Mapping[str, Any], name: str = "table", scalars: bool = False, strides: bool = False
    ) -> None:
        self.table, self.name, self.ops = table, name, table.keys()
        self.scalars, self.strides = scalars, strides
        self._torchnp: Any = None
        with suppress(ImportError):
            self._torchnp = importlib.import_module("torchnp")

    def run(self, op: str, args: tuple, kwargs: dict[str, Any]) -> Any:
        out = self.table[op](*args, **kwargs)
        return np.asarray(out) if self.scalars and isinstance(out, np.generic) else out

    def seed(self, seed: int) -> None:
        if self._torchnp is not None:
            self._torchnp.manual_seed(seed)

    @property
    def sets_default_dtype(self) -> bool:
        """Of functions on ndarrays there is no such thing, but of torchnp's own."""
        return self._torchnp is not None and self.table is self._torchnp.table

    def set_default_dtype(self, name: str) -> None:
        self._torchnp.set_default_dtype(name)

    def state(self, generator: Any = None) -> bytes | None:
        if self._torchnp is None:
            return None
        return (generator or self._torchnp.default_generator).get_state().tobytes()

    def generator(self, seed: int) -> Any:
        return self._torchnp.Generator(seed)

    def place(self, result: Any, buffers: list[np.ndarray]) -> Any:
        return place_ndarray(result, buffers)

    def memory(self, buffers: list[np.ndarray]) -> list[np.ndarray]:
        return buffers


def table(mapping: Mapping[str, Any], name: str = "table", strides: bool = False) -> Table:
    """Return the backend of a dict ``{"aten::add.Tensor": f(ndarray, ...) -> ndarray}``.

    Functions are called as the schema is: 0-d arrays for 0-d tensors, NumPy dtypes for dtypes, lists for ``int[]``. A
    NumPy scalar as a result counts as a 0-d array. The keys are what the backend claims.

    Parameters
    ----------
    mapping : mapping of str or OpOverload to callable
        Functions on ndarrays by the overload's full name, as torch's dispatcher spells it, or by the overload itself.
    name : str, optional
        What reports call the backend.
    strides : bool, optional
        Whether the functions promise torch's memory layout: other strides are then a failure.

    Returns
    -------
    Table
        A `Backend`.

    Raises
    ------
    ValueError
        torch registers no overload of one of the names, or a key is no overload.
    """
    mapping = {name_of(key): function for key, function in mapping.items()}
    unknown = sorted(set(mapping) - set(schemas()))
    if unknown:
        raise ValueError(f"torch registers no overload {', '.join(unknown[:4])}")
    return Table(mapping, name, scalars=True, strides=strides)


def name_of(key: Any) -> str:
    """Return the full name of an overload that is named or, as ``torch.ops.aten.add.Tensor``, is the overload itself.

    Raises
    ------
    ValueError
        It is several overloads, as ``torch.ops.aten.add``, or anything else.
    """
    if isinstance(key, str):
        return key
    if type(key).__name__ == "OpOverload":
        return str(key.name())
    if type(key).__name__ == "OpOverloadPacket":
        every = ", ".join(f"{key}.{name}" for name in key.overloads()[:3])
        raise ValueError(f"torch.ops.{key} is several overloads: name one of them, as {every}")
    raise ValueError(f"an overload is named as 'aten::add.Tensor' or given as torch.ops.aten.add.Tensor, not {key!r}")
