"""The base class of backends, including the oracle: a backend runs a case and returns what can be observed of it.

A backend declares in ``ops`` the overloads that it claims, and has three methods: ``put`` converts an ndarray to its
own array type, ``get`` converts back, ``run`` calls an operator. An exception from a claimed overload counts as a
failure: what a backend lacks it must leave out of ``ops``.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..case import DTYPES, USUAL, Array, Case, Named, Seeded, leaves, map_tree, schemas
from ..schema_facts import resizable_buffers


@dataclass
class Seen:
    """What was observed in one run of a case.

    Attributes
    ----------
    results : list
        The flattened results: arrays as ndarrays; None, numbers and booleans unchanged.
    structure : str
        How the results are nested.
    alias : list
        For each result, its window ``(buffer, offset, strides)`` on an argument's memory, in bytes; None if it is not a
        view, or ``...`` if the backend cannot tell.
    after : list
        The value of each array argument after the call.
    buffers : list of ndarray, optional
        The raw memory of the arguments after the call, if it is visible.
    error : tuple of str, optional
        Class and message of the exception, if the call raised one.
    refused : str
        The policy for which the backend refused the call, as `Backend.refuses` returns it.
    seconds : float
        How long the call took.
    strides : list
        Strides of each result, in elements; None for a non-array. Empty if the backend does not promise strides.
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

    A subclass defines ``ops`` (the full names of the overloads that it claims, such as ``aten::add.Tensor``), ``put``,
    ``get`` and ``run``, and optionally a ``name`` for reports. The harness judges everything that is claimed; an
    exception is a failure. If the arrays' memory is visible, ``place`` says which argument a result is a view of. If
    random numbers are equal to torch's, ``seed``, ``generator`` and ``state`` let the harness compare them. ``strides =
    True`` promises torch's strides, too.
    """

    name = "backend"
    ops: Container[str] = frozenset()
    dtypes: frozenset[str] | None = (
        None  # supported array dtypes by torch's names: calls with others are not judged; None means all
    )
    strides = False  # whether arrays from ``get`` have torch's strides
    in_this_process = True  # whether its calls run in this process, so that its processor time measures them
    loaded_by = ""  # the name by which worker processes load it; a backend without a name is pickled

    def put(self, a: np.ndarray) -> Any:
        """Return this backend's array with the dtype, shape and values of ``a``; not a tuple, list or number."""
        return a

    def get(self, x: Any) -> np.ndarray:
        """Return an ndarray with the dtype, shape and values of ``x``."""
        return x

    def run(self, op: str, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Call overload ``op`` and return its results: one result, or a tuple or list of them."""
        raise TypeError(f"{type(self).__name__} does not define run()")

    def named(self, leaf: Named) -> Any:
        """Return this backend's form of a dtype, layout, device or memory format."""
        return DTYPES.get(leaf.name, leaf.name) if leaf.kind == "dtype" else leaf.name

    def exempt(self, case: Case) -> str:
        """Return why a call of a claimed overload is not judged, or an empty string."""
        return "it has no other default dtype" if case.default_dtype != USUAL and not self.sets_default_dtype else ""

    @property
    def sets_default_dtype(self) -> bool:
        """Whether the backend implements `set_default_dtype`."""
        return type(self).set_default_dtype is not Backend.set_default_dtype

    def set_default_dtype(self, name: str) -> None:
        """Set the default dtype by torch's name. Backends without this method skip calls with other default dtypes."""
        raise TypeError(f"{type(self).__name__} has no default dtype")

    def fitted(self, case: Case) -> Case:
        """Return the case with its values rounded to values that the backend can hold; torch gets this case, too.

        By default the case is unchanged.
        """
        return case

    def out_of_range(self, case: Case, want: Callable[[], Seen]) -> str:
        """Return why a call with these values is not judged, or an empty string; ``want`` returns torch's result."""
        return ""

    def refuses(self, error: Exception) -> str:
        """Return the policy by which the backend refused a call, or an empty string if the error is a failure.

        Reports count refused calls separately, by this text.
        """
        return ""

    def reference(self, case: Case) -> Seen | None:
        """Return the result of torch's own kernels, run through the backend's machinery, or None if this is impossible.

        The harness calls this when a case fails. If torch's result there differs from its result on the CPU device, the
        harness accepts both.
        """
        return None

    def tolerates(self, case: Case, want: Seen, mine: Seen) -> bool:
        """Return whether results that differ from torch's are within tolerances that the backend declares."""
        return False

    def seed(self, seed: int) -> None:
        """Seed the default generator."""

    def generator(self, seed: int) -> Any:
        """Return a new generator."""
        raise TypeError(f"{type(self).__name__} has no generators")

    def state(self, generator: Any = None) -> bytes | None:
        """Return the state of a generator (the default one if None) in torch's format, or None if unknown."""
        return None

    def place(self, result: Any, buffers: list[np.ndarray]) -> Any:
        """Return the window of ``result`` on an argument's buffer, None if it is not a view, or ``...`` if unknown."""
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
                    a = np.empty(x.shape, a.dtype)  # it owns its memory, so it can be resized
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
                    # Exempt these: an ndarray resized in place is row-major, and an empty one has NumPy's strides.
                    given = any(r is x for x in mine) or (writes and not plain and not seen.results[-1].size)
                    seen.strides.append(None if plain or given else in_elements(seen.results[-1]))
            seen.after = [self.get(x) for x in mine]
        except Exception as e:  # This includes put and get: an array that a backend cannot hold or return is a failure.
            seconds = time.perf_counter() - start
            return Seen(error=error_of(e), refused=self.refuses(e), seconds=seconds, buffers=self.memory(buffers))
        seen.buffers = self.memory(buffers)
        if case.draws:
            seen.random = [self.state(g) for g in (None, *generators)]
        return seen

    def memory(self, buffers: list[np.ndarray]) -> list[np.ndarray] | None:
        """Return the arguments' raw memory after a call, or None if ``put`` copies."""
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
    """A backend from a mapping of overload names to functions on ndarrays, such as ``torchnp.table``.

    Parameters
    ----------
    table : mapping of str to callable
        Its keys are the overloads that the backend claims.
    name : str, optional
        What reports call the backend.
    scalars : bool, optional
        Whether a NumPy scalar counts as a 0-d array; plain NumPy functions return scalars.
    strides : bool, optional
        Whether results have torch's strides; if promised, other strides are a failure.
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
        """Whether this is torchnp's own table; other tables have no default dtype."""
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

    Functions take arguments as in the schema: 0-d arrays for 0-d tensors, NumPy dtypes for dtypes, lists for ``int[]``.
    A NumPy scalar result counts as a 0-d array. The keys are the overloads that the backend claims.

    Parameters
    ----------
    mapping : mapping of str or OpOverload to callable
        Functions on ndarrays by the overload's full name, as torch's dispatcher spells it, or by the overload itself.
    name : str, optional
        What reports call the backend.
    strides : bool, optional
        Whether the functions return torch's strides; if promised, other strides are a failure.

    Returns
    -------
    Table
        A `Backend`.

    Raises
    ------
    ValueError
        torch registers no overload with one of the names, or a key is not an overload.
    """
    mapping = {name_of(key): function for key, function in mapping.items()}
    unknown = sorted(set(mapping) - set(schemas()))
    if unknown:
        raise ValueError(f"torch registers no overload {', '.join(unknown[:4])}")
    return Table(mapping, name, scalars=True, strides=strides)


def name_of(key: Any) -> str:
    """Return the full name of an overload, given by name or as an object such as ``torch.ops.aten.add.Tensor``.

    Raises
    ------
    ValueError
        The key is an overload packet, such as ``torch.ops.aten.add``, or another object.
    """
    if isinstance(key, str):
        return key
    if type(key).__name__ == "OpOverload":
        return str(key.name())
    if type(key).__name__ == "OpOverloadPacket":
        every = ", ".join(f"{key}.{name}" for name in key.overloads()[:3])
        raise ValueError(f"torch.ops.{key} is several overloads: name one of them, as {every}")
    raise ValueError(f"an overload is named as 'aten::add.Tensor' or given as torch.ops.aten.add.Tensor, not {key!r}")
