"""What a function does to handles, noted while it runs: what a program is made of."""

from __future__ import annotations

import dataclasses
import gc
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from torchnp.interop._private import TorchDispatchMode, schema_of
from torchnp.rpc import wire
from torchnp.rpc.client.failures import location
from torchnp.rpc.client.handles import BaseHandleTensor
from torchnp.rpc.client.objects import RemoteObject
from torchnp.rpc.client.rpctensor import RPCTensor
from torchnp.rpc.client.specs import Spec
from torchnp.rpc.client.tasks import Playable, Where
from torchnp.rpc.client.trees import mapped
from torchnp.rpc.wire.bodies import Body, body_of, hash_of, written

_CONSTANTS = (int, float, complex, bool, str, bytes, type(None))


class Tape:
    """What a thread sends while a function runs; the channel notes it.

    Attributes
    ----------
    ops, places : list
        Operators, and where they were issued.
    made, gone : set of int
        Ids of results, and of objects that no handle has any more.
    problem : str
        Why they are no program, or "".
    """

    def __init__(self) -> None:
        self.ops: list[wire.Op] = []
        self.places: list[Where] = []
        self.made: set[int] = set()
        self.gone: set[int] = set()
        self.problem = ""
        self._thread = threading.get_ident()

    def note(self, op: wire.Op, where: Where) -> None:
        """Take an operator; other threads' are no part of the function."""
        if threading.get_ident() == self._thread:
            self.ops.append(op)
            self.places.append(where)
            self.made.update(range(op.first, op.first + op.count))

    def spoil(self, problem: str) -> None:
        """Say why there is no program."""
        if threading.get_ident() == self._thread:
            self.problem = self.problem or problem


class _Met(NamedTuple):
    """A handle that an operator was given: what it stood for, and its version, before."""

    tensor: weakref.ref
    object: RemoteObject
    version: int


class Watch(TorchDispatchMode):
    """Looks at the operators of a function: what they are given, and what no recording could repeat."""

    def __init__(self, session: Any, tape: Tape) -> None:
        super().__init__()
        self.met: dict[int, _Met] = {}  # by the Python object
        self.objects: dict[int, RemoteObject] = {}
        self._session, self._tape = session, tape
        self._plain: dict[int, torch.Tensor] = {}  # tensors of the function's own, which stay until it ends

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        for argument, value in _given(schema_of(func), args, kwargs or {}):
            self._look(func, argument, value)
        out = func(*args, **(kwargs or {}))
        for t in out if isinstance(out, (list, tuple)) else (out,):
            if isinstance(t, torch.Tensor) and not isinstance(t, BaseHandleTensor):
                self._plain[id(t)] = t
                if torch.Tag.nondeterministic_seeded in func.tags and t.device.type != "meta":
                    self._tape.spoil(f"{func.name()} draws random numbers here, which would stay as they are")
        return out

    def _look(self, func: Any, argument: Any, value: Any) -> None:
        for x in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(x, BaseHandleTensor):
                self.meet(x)
            elif isinstance(x, torch.Generator):
                self._tape.spoil(f"{func.name()} has a generator of its own: let it draw from torch's")
            elif isinstance(x, torch.Tensor) and _writes(argument) and id(x) not in self._plain:
                self._tape.spoil(
                    f"{func.name()} writes a plain tensor, which the server does not have (an optimizer's counter? Then "
                    "session.optimizer(optimizer) keeps it there)"
                )

    def meet(self, handle: Any) -> None:
        """Note a handle that was there before, and before anything is done to it."""
        if handle._object.id in self._tape.made:  # these live no longer than they would
            return
        if handle._session is not self._session:
            self._tape.spoil(f"it has handles of another session, {handle._session.title}")
            return
        known = self.met.get(id(handle))
        if known is None or known.tensor() is not handle:
            self.met[id(handle)] = _Met(weakref.ref(handle), handle._object, version_of(handle))
        self.objects[handle._object.id] = handle._object


def version_of(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _writes(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def _given(schema: Any, args: tuple, kwargs: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    for argument, value in zip(schema.arguments, args):
        yield argument, value
    for argument in schema.arguments:
        if argument.name in kwargs:
            yield argument, kwargs[argument.name]


class Output(NamedTuple):
    """A handle that a function returns.

    Attributes
    ----------
    made, given, argument : int
        What it is: a handle on a result that is kept, on what a call gives, or an argument itself; by its place, else -1.
    spec : Spec
    itself : Tensor or None
        A handle that is no argument, and was there before.
    """

    made: int
    given: int
    argument: int
    spec: Spec
    itself: Any


class Gradient(NamedTuple):
    """A leaf whose gradient is made anew: where that is among the results that are kept, and if there was none before."""

    leaf: weakref.ref
    made: int
    spec: Spec
    free: bool


class Recording:
    """What a function did to handles.

    Parameters
    ----------
    before : dict
        The objects of leaves' gradients when the function began, None for no gradient, by the leaves' Python objects.
    arguments : list
        The handles among the function's arguments.
    result : nest
        What it returned.

    Attributes
    ----------
    problem : str
        Why that is no program, or "".
    """

    def __init__(
        self, session: Any, tape: Tape, watch: Watch, before: dict[int, Any], arguments: list[Any], result: Any
    ) -> None:
        self.session, self.problem = session, tape.problem
        ids = list(dict.fromkeys(t._object.id for t in arguments))
        found: list[Any] = []
        self._template = mapped(lambda t: _placeholder(t, found), result)
        self._look_at(watch, arguments)
        leaves: list[Any] = [t for ref, _ in self.fixed if _grad_of(t := ref()) in tape.made]
        new = [t for t in found if isinstance(t, RPCTensor) and t._object.id in tape.made]
        kept = list(dict.fromkeys(t._object.id for t in (*new, *(t.grad for t in leaves))))
        self.problem = self.problem or _returned(result, found) or _left(tape, tape.made - set(kept))
        if self.problem:
            return
        whole = written(tape.ops, ids, kept)
        if missing := [id_ for id_ in whole.inputs if id_ not in watch.objects]:
            self.problem = f"it uses object {missing[0]} through a handle that no operator is given (a lazy conjugate)"
            return
        self.keys = whole.keys
        self.objects = [watch.objects[id_] for id_ in whole.inputs[len(ids) :]]
        self._counts = Counter(op.index for op in tape.ops)
        self.playable = Playable(hash_of(whole.raw), whole.raw, tape.places, whole.made, whole.kept)
        given = {id_: n for n, id_ in enumerate(whole.inputs)}
        made = {id_: n for n, id_ in enumerate(kept)}
        places = {id(t): n for n, t in reversed(list(enumerate(arguments)))}
        self.outputs = [_output(t, made, given, places, watch) for t in found]
        self.gradients = [
            Gradient(weakref.ref(t), made[t.grad._object.id], t.grad._spec, before.get(id(t), NotImplemented) is None)
            for t in leaves
        ]
        # What a function adds to is found by its leaf: it may be another by the next call.
        self.added_to = [
            (ref, grad)
            for ref, _ in self.fixed
            if (grad := before.get(id(ref()))) is not None and grad.id in given and ref() is not None
        ]
        self.looked = all(id(t) in before for t in leaves)

    def _look_at(self, watch: Watch, arguments: list[Any]) -> None:
        """Note which handles were there before: of which of them the values changed, and what they all stand for."""
        places = {id(t): n for n, t in reversed(list(enumerate(arguments)))}
        self.changed_arguments: list[tuple[int, int]] = []  # the place among them, and how many versions it goes on
        self.changed: list[tuple[weakref.ref, int]] = []
        self.fixed: list[tuple[weakref.ref, RemoteObject]] = []
        for met in watch.met.values():
            tensor = met.tensor()
            if tensor is None:
                continue
            if tensor._object is not met.object:
                self.problem = "it has a handle go over to another object (.data = ...): copy_() the values"
            place = places.get(id(tensor))
            if place is None:
                self.fixed.append((met.tensor, met.object))
            if on := version_of(tensor) - met.version:
                if place is None:
                    self.changed.append((met.tensor, on))
                else:
                    self.changed_arguments.append((place, on))

    def gradients_now(self) -> dict[int, Any]:
        """The objects of the gradients of the leaves that the function uses beside its arguments."""
        there: list[Any] = [t for ref, _ in self.fixed if (t := ref()) is not None]
        return {id(t): getattr(t.grad, "_object", None) for t in there if t.is_leaf}

    def stands(self) -> bool:
        """Whether what the function uses beside its arguments is what it was."""
        if any(g.free and ((t := g.leaf()) is None or t.grad is not None) for g in self.gradients):
            return False  # the function would add to it
        if any((t := ref()) is None or getattr(t.grad, "_object", None) is not grad for ref, grad in self.added_to):
            return False
        return all((t := ref()) is not None and t._object is object_ for ref, object_ in self.fixed)

    def difference(self, other: Recording) -> str:
        """What of another recording is not as here, "" if nothing that matters is."""
        if self.keys and self.keys == other.keys:
            return "it draws the same random numbers each time: seed outside"
        if self.playable.raw != other.playable.raw:
            return _other_operator(self, other)
        if [o.id for o in self.objects] != [o.id for o in other.objects]:
            return "it uses other handles beside its arguments each time: pass them as arguments"
        returned = [([(*o[:-1], id(o.itself)) for o in r.outputs], repr(r._template)) for r in (self, other)]
        if returned[0] != returned[1]:
            return "it returns something else each time"
        if [(id(g.leaf()), g.made) for g in self.gradients] != [(id(g.leaf()), g.made) for g in other.gradients]:
            return "it leaves other gradients each time"
        if not other.looked:
            return "it leaves gradients of tensors that it has not used before"
        return ""

    def play(self, arguments: list[Any], keys: list[int]) -> Any:
        """Call the program, and return what the function would: with handles on the new results."""
        ids = [*dict.fromkeys(t._object.id for t in arguments), *(o.id for o in self.objects)]
        objects = self.session.channel.play(self.playable, ids, keys, make=self.session._object)
        for index, n in self._counts.items():
            self.session.calls[index] += n
        given = [*{t._object.id: t._object for t in arguments}.values(), *self.objects]
        changed = [(arguments[i], on) for i, on in self.changed_arguments]
        changed += [(t, on) for ref, on in self.changed if (t := ref()) is not None]
        for tensor, on in changed:
            for _ in range(0 if tensor.is_inference() else on):
                torch.autograd.graph.increment_version(tensor)
        for g in self.gradients:
            if (leaf := g.leaf()) is not None:
                leaf.grad = self.session.kind._wrap(g.spec, objects[g.made])
        handles = iter([self._handle(o, objects, given, arguments) for o in self.outputs])
        return mapped(lambda placeholder: next(handles), self._template)

    def _handle(self, output: Output, objects: list[Any], given: list[Any], arguments: list[Any]) -> Any:
        if output.made >= 0:
            return self.session.kind._wrap(output.spec, objects[output.made])
        if output.argument >= 0:
            return arguments[output.argument]
        return output.itself if output.given < 0 else self.session.kind._wrap(output.spec, given[output.given])


def _grad_of(leaf: Any) -> int:
    """The id of the object that is a leaf's gradient, -1 if it has none."""
    grad = leaf.grad if leaf is not None and leaf.is_leaf else None
    return grad._object.id if isinstance(grad, RPCTensor) else -1


def _output(t: Any, numbers: dict[int, int], given: dict[int, int], arguments: dict[int, int], watch: Watch) -> Output:
    id_ = t._object.id
    if id_ in numbers:
        return Output(numbers[id_], -1, -1, t._spec, None)
    if id(t) in arguments:
        return Output(-1, -1, arguments[id(t)], t._spec, None)
    if id(t) in watch.met or id_ not in given:
        return Output(-1, -1, -1, t._spec, t)
    return Output(-1, given[id_], -1, t._spec, None)


def _placeholder(tensor: Any, found: list[Any]) -> torch.Tensor:
    found.append(tensor)
    return torch.empty(0)


def _returned(result: Any, found: list[Any]) -> str:
    """What of a result a program could not give back."""
    for t in found:
        if not isinstance(t, BaseHandleTensor):
            return "it returns a plain tensor or an array, which would stay as it is"
        if t.is_conj() or t.is_neg():
            return "it returns a lazy conjugate or negative: resolve_conj(), resolve_neg()"
    return _constant(result)


def _constant(x: Any) -> str:
    if isinstance(x, dict):
        return next((why for v in x.values() if (why := _constant(v))), "")
    if isinstance(x, (list, tuple)):
        return next((why for v in x if (why := _constant(v))), "")
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        return _constant([getattr(x, field.name) for field in dataclasses.fields(x)])
    if isinstance(x, (torch.Tensor, *_CONSTANTS)):
        return ""
    return f"it returns a value of type {type(x).__name__}"


def _left(tape: Tape, made: set[int]) -> str:
    """What stays of a function's results beside what it returns: a program leaves nothing else."""
    if not made <= tape.gone:
        gc.collect()
    left = made - tape.gone
    for op, where in zip(tape.ops, tape.places):
        if left.intersection(range(op.first, op.first + op.count)):
            return (
                f"a result that it does not return lives on, of the operator issued at {location(where)} ({len(left)} in all). "
                "Return it, or let go of it"
            )
    return ""


def _other_operator(one: Recording, other: Recording) -> str:
    """The first operator in which two recordings differ, in words."""
    names = one.session._names
    ops, others = (_operators(body_of(r.playable.raw)) for r in (one, other))
    for a, b, where in zip(ops, others, other.playable.places):
        if a != b:
            what = f"{names[b.index]} issued at {location(where)}"
            if a.index != b.index:
                return f"{what} stands where {names[a.index]} stood"
            pairs = zip([*a.args, *a.kwargs.values()], [*b.args, *b.kwargs.values()])
            values = next(((x, y) for x, y in pairs if x != y), None)
            return f"{what} has {values[1]} where it had {values[0]}" if values else f"{what} is given something else"
    return f"it has {len(others)} operators where it had {len(ops)}"


def _operators(body: Body) -> list[wire.Op]:
    return [step for step in body.steps if type(step) is wire.Op]


def record(
    session: Any, function: Callable[[], Any], arguments: list[Any], last: Recording | None
) -> tuple[Any, Recording]:
    """Run a function; what it returns, with what was noted. ``last`` is what was noted the last time."""
    before = last.gradients_now() if last is not None else {}
    tape, channel = Tape(), session.channel
    watch = Watch(session, tape)
    for t in arguments:
        watch.meet(t)
    channel.tape = tape
    try:
        with watch:
            result = detached(function())
        return result, Recording(session, tape, watch, before, arguments, result)
    finally:
        channel.tape = None


def detached(result: Any) -> Any:
    """A function's result without what autograd keeps for it; leaves, as parameters are, stay what they are."""
    return mapped(
        lambda t: t.detach() if isinstance(t, BaseHandleTensor) and t.requires_grad and not t.is_leaf else t, result
    )
