"""The tape of a recording: the operators that a function sends, and the handles that it uses."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode

from torchnp.core.code_location import location
from torchnp.engine.tensor.handles import BaseHandleTensor
from torchnp.interop._private import TorchDispatchMode, accumulating, schema_of
from torchnp.rpc import wire
from torchnp.rpc.client.program.outputs import version_of
from torchnp.rpc.client.transports.requests import Where


class _NoObject:
    id = -1


_NO_OBJECT = _NoObject()


class Tape:
    """The operators that one thread sends while a function runs, recorded by the channel.

    Attributes
    ----------
    ops, places : list
        The operators, and the places that issued them.
    made, gone : set of int
        Ids of results, and of objects without handles.
    problem : str
        Why the tape cannot become a program; "" if it can.
    """

    def __init__(self) -> None:
        self.ops: list[wire.Op] = []
        self.places: list[Where] = []
        self.made: set[int] = set()
        self.gone: set[int] = set()
        self.problem = ""
        self._thread = threading.get_ident()

    def note(self, op: wire.Op, where: Where) -> None:
        """Record an operator; ignore operators of other threads, which are not part of the function."""
        if threading.get_ident() == self._thread:
            self.ops.append(op)
            self.places.append(where)
            self.made.update(range(op.first, op.first + op.count))

    def sends(self, where: Where) -> None:
        """Record that the function sends a tensor or opens a dataset, which no program can do."""
        self.invalidate(
            f"it sends a tensor, or opens a dataset, at {location(where)}: do so before, and pass the handle"
        )

    def invalidate(self, problem: str) -> None:
        """Set ``problem`` unless it is set already; do nothing in other threads."""
        if threading.get_ident() == self._thread:
            self.problem = self.problem or problem


class _Met(NamedTuple):
    """State of a handle when it was first met: its object's id, its version, requires_grad, and its gradient.

    ``gradient`` is the id of the gradient's object, or -1 without a gradient.
    """

    tensor: weakref.ref
    id: int
    version: int
    grad: bool
    gradient: int


class _Look(TorchFunctionMode):
    """Tells a `Watch` about the handles whose attributes (such as ``grad``) a function reads or sets."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        if args and isinstance(args[0], BaseHandleTensor):
            self._watch.meet(args[0])
        return func(*args, **(kwargs or {}))


class Watch(TorchDispatchMode):
    """Watches a function's operators: records the handles that they take, and finds what no program could repeat."""

    def __init__(self, session: Any, tape: Tape) -> None:
        super().__init__()
        self.met: dict[int, _Met] = {}  # by id() of the handle
        self._session, self._tape = session, tape
        self._plain: dict[int, torch.Tensor] = {}  # plain tensors that the function made, kept alive until it ends

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        if isinstance(leaf := accumulating(), BaseHandleTensor):  # dispatch gets only the gradient, not the leaf
            self.meet(leaf)
        for argument, value in _given(schema_of(func), args, kwargs or {}):
            self._look(func, argument, value)
        out = func(*args, **(kwargs or {}))
        for t in out if isinstance(out, (list, tuple)) else (out,):
            if isinstance(t, torch.Tensor) and not isinstance(t, BaseHandleTensor):
                self._plain[id(t)] = t
                if torch.Tag.nondeterministic_seeded in func.tags and t.device.type != "meta":
                    self._tape.invalidate(f"{func.name()} draws random numbers here, which would stay as they are")
        return out

    def _look(self, func: Any, argument: Any, value: Any) -> None:
        for x in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(x, BaseHandleTensor):
                self.meet(x)
            elif isinstance(x, torch.Generator):
                self._tape.invalidate(f"{func.name()} has a generator of its own: let it draw from torch's")
            elif isinstance(x, torch.Tensor) and _writes(argument) and id(x) not in self._plain:
                self._tape.invalidate(
                    f"{func.name()} writes a plain tensor, which the server does not have (an optimizer's counter? Then "
                    "session.optimizer(optimizer) keeps it there)"
                )

    def meet(self, handle: Any) -> None:
        """Record the state of a handle that existed before the function ran, before any operator uses the handle."""
        if handle._object.id in self._tape.made:  # results of the function are not kept alive longer
            return
        if handle._session is not self._session:
            self._tape.invalidate(f"it has handles of another session, {handle._session.title}")
            return
        known = self.met.get(id(handle))
        if known is None or known.tensor() is not handle:
            now = version_of(handle), handle.requires_grad, gradient_of(handle)
            self.met[id(handle)] = _Met(weakref.ref(handle), handle._object.id, *now)

    @contextlib.contextmanager
    def everything(self) -> Iterator[None]:
        """Watch attribute accesses and operators."""
        with _Look(self), self:
            yield


def gradient_of(handle: Any) -> int:
    """Return the object id of a leaf's gradient; -1 if there is none."""
    return getattr(handle.grad, "_object", _NO_OBJECT).id if handle.is_leaf else -1


def _writes(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def _given(schema: Any, args: tuple, kwargs: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    for argument, value in zip(schema.arguments, args):
        yield argument, value
    for argument in schema.arguments:
        if argument.name in kwargs:
            yield argument, kwargs[argument.name]
