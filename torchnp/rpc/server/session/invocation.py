"""Invocation of an operator: its arguments, the objects among them, and the results that the client expects."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from torchnp.random import Generator, default_generator
from torchnp.rpc import wire
from torchnp.rpc.server.privacy import row_calls
from torchnp.rpc.server.privacy.disclosure import substitute
from torchnp.rpc.server.privacy.row_labels import Label
from torchnp.rpc.server.session.match_client_strides import laid_out
from torchnp.rpc.server.session.object_store import StoredObject
from torchnp.rpc.server.session.overload_info import Served


class Invocation(msgspec.Struct, eq=False):
    """One call of an operator.

    Its arguments are stored by parameter name, whether the frame sent them by position or by name.

    Attributes
    ----------
    given : dict
        The frame's argument for each parameter, in the schema's order.
    names : list of str
        The parameter to which each object belongs.
    entries : list of StoredObject
        The objects, in the order of ``names``.
    targets : list of StoredObject
        The objects that the operator writes.
    values : dict
        The arguments for a kernel, with arrays instead of handles.
    """

    op: wire.Op
    row: Served
    given: dict[str, Any]
    names: list[str]
    entries: list[StoredObject]
    targets: list[StoredObject]
    values: dict[str, Any] = {}

    def named(self, arrays: Iterable[Any]) -> dict[str, Any]:
        """Return the arguments by name, with arrays instead of the objects, in the objects' order."""
        left = iter(arrays)
        return {name: substitute(a, left) for name, a in self.given.items()}

    def on(self, arrays: Iterable[Any], targets: bool = False) -> Invocation:
        """Return the same call with other arrays instead of its objects, in the objects' order."""
        return Invocation(
            self.op, self.row, self.given, self.names, self.entries, self.targets if targets else [], self.named(arrays)
        )

    def run(self, generator: Generator) -> Any:
        """Run the kernel, with the generator if it is random; return its raw output."""
        row = self.row
        if row.finite:
            _check_finite(self.values.values())
        args, kwargs = row.arguments(self.values)
        if row.generator:
            kwargs["generator"] = generator
        if row.random and not row.generator:
            with _as_default(generator):
                out = row.run(*args, **kwargs)
        else:
            out = row.run(*args, **kwargs)
        if row.empty:
            self.clear()
        return out

    def clear(self) -> None:
        """Fill everything that the operator writes with zeros."""
        for entry in self.targets:
            entry.array.fill(0)  # type: ignore[union-attr]

    def results(self, generator: Generator) -> list[tuple[np.ndarray, bool]]:
        """Run the kernel and return its `results`."""
        return results(self.op, self.row, self.run(generator))

    def picked(self, out: Any) -> list[Any]:
        """Return those results in a kernel's raw output that the client requests."""
        return [value for value, _, _ in _picked(self.op, self.row, out)]

    def by_rows(self, results: Sequence[row_calls.Shaped], labels: Sequence[Label]) -> list[np.ndarray | None]:
        """Compute the results that have a row label with the portable kernel; all other results are None."""
        return row_calls.values(self, results, labels)


def _check_finite(values: Iterable[Any]) -> None:
    for value in values:
        if isinstance(value, list):
            _check_finite(value)
        elif isinstance(value, np.ndarray) and np.isinf(value).any():
            raise RuntimeError("the matrix contains infinities, on which LAPACK may go on without end")


def results(op: wire.Op, row: Served, out: Any) -> list[tuple[np.ndarray, bool]]:
    """Return a kernel's tensors in the layout that the client expects, and whether each is a view."""
    made = []
    for array, view, strides in _picked(op, row, out):
        if type(array) is not np.ndarray:
            array = _array(array)
        if not view:
            if row.empty:
                array.fill(0)
            array = laid_out(array, strides or None)
        made.append((array, view))
    return made


def _picked(op: wire.Op, row: Served, out: Any) -> list[tuple[Any, bool, Any]]:
    """Return the results that the client requests, whether each is a view, and its expected strides."""
    fresh: list[tuple[Any, bool, Any]] = []
    for i, view in row.returns:
        value = out if row.single else out[i]
        if isinstance(value, (list, tuple)):
            fresh += [(v, view, None) for v in value]
        else:
            fresh.append((value, view, None))
    expected = op.expected
    if expected:
        if len(expected) != len(fresh):
            raise RuntimeError(f"{len(fresh)} results came where the client expects {len(expected)}")
        fresh = [(v, view, e) for (v, view, _), e in zip(fresh, expected) if e is not wire.HOLE]
    if len(fresh) != op.count:
        raise RuntimeError(f"{len(fresh)} results came where the client expects {op.count}")
    return fresh


def _array(value: Any) -> np.ndarray:
    if value is None:
        raise RuntimeError("no tensor came where the client expects one")
    return np.asarray(value)


_default_in_use = threading.Lock()


@contextlib.contextmanager
def _as_default(generator: Generator) -> Iterator[None]:
    """Make overloads without a generator argument draw from a session's generator."""
    with _default_in_use:
        own, default_generator.__dict__ = default_generator.__dict__, generator.__dict__
        try:
            yield
        finally:
            default_generator.__dict__ = own
