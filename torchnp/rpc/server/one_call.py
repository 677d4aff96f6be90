"""A call of an operator: what came, the objects that it is about, and the results that the client is waiting for."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import numpy as np

from torchnp.random import Generator, default_generator
from torchnp.rpc import wire
from torchnp.rpc.server.arrays import laid_out
from torchnp.rpc.server.books import Entry
from torchnp.rpc.server.privacy import replaced
from torchnp.rpc.server.served import Served


class Call(msgspec.Struct, eq=False):
    """One operator with its arguments.

    Attributes
    ----------
    args, kwargs
        As a kernel takes them: arrays in the place of handles.
    entries : list of Entry
        The objects among the arguments, in their order.
    targets : list of Entry
        Those that the operator writes.
    """

    op: wire.Op
    row: Served
    args: list
    kwargs: dict[str, Any]
    entries: list[Entry]
    targets: list[Entry]

    def on(self, arrays: Iterable[Any], targets: bool = False) -> Call:
        """The same call with other arrays in the place of its objects, in their order."""
        left, op = iter(arrays), self.op
        args = [replaced(a, left) for a in op.args]
        kwargs = {name: replaced(a, left) for name, a in op.kwargs.items()}
        return Call(op, self.row, args, kwargs, self.entries, self.targets if targets else [])

    def run(self, generator: Generator) -> Any:
        """What the kernel gives, drawing from the generator if it draws."""
        row, args, kwargs = self.row, self.args, self.kwargs
        if row.finite and any(isinstance(a, np.ndarray) and np.isinf(a).any() for a in args):
            raise RuntimeError("the matrix contains infinities, on which LAPACK may go on without end")
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
        """Fill what the operator writes with zeros."""
        for entry in self.targets:
            entry.array.fill(0)  # type: ignore[union-attr]

    def results(self, generator: Generator) -> list[tuple[np.ndarray, bool]]:
        """`results` of what the kernel gives."""
        return results(self.op, self.row, self.run(generator))

    def plainly(self, args: list, kwargs: dict[str, Any]) -> list[np.ndarray]:
        """What the kernel gives for other arguments, which are no objects of the session."""
        out = Call(self.op, self.row, args, kwargs, [], []).run(Generator(0))
        return [_array(a) for a, _, _ in _picked(self.op, self.row, out)]


def results(op: wire.Op, row: Served, out: Any) -> list[tuple[np.ndarray, bool]]:
    """The tensors that a kernel gave, laid out as the client expects them, and whether each is a view."""
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
    """The tensors that a kernel gave and the client wants, whether each is a view, and its strides there."""
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
    """Let overloads that have no generator argument draw from a session's generator."""
    with _default_in_use:
        own, default_generator.__dict__ = default_generator.__dict__, generator.__dict__
        try:
            yield
        finally:
            default_generator.__dict__ = own
