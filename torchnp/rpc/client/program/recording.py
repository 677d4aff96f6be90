"""Recordings of a function's operations on handles, from which programs are made."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

import torchnp
from torchnp.core.code_location import location
from torchnp.engine.tensor.random_keys import drawn_in_order
from torchnp.rpc import wire
from torchnp.rpc.client.program.outputs import Made, Output, detached, filled, template_of, unreturnable, version_of
from torchnp.rpc.client.program.signature import Arguments, memory_of, mode
from torchnp.rpc.client.program.tape import Tape, Watch, gradient_of
from torchnp.rpc.client.tensor.rpctensor import RPCTensor
from torchnp.rpc.client.transports.requests import CompiledProgram
from torchnp.rpc.wire.programs import Body, body_of, handles_of, hash_of, written

OVERLAP = "an argument shares memory with what it uses beside its arguments: pass that as well, or a clone()"


class Beside(NamedTuple):
    """A captured handle (used by a function, but no argument), its object's id, and whether it requires a gradient."""

    tensor: weakref.ref
    id: int
    grad: bool


class Gradient(NamedTuple):
    """A leaf whose gradient changes, and the index of the new gradient among the kept results; -1 if it is cleared."""

    leaf: weakref.ref
    made: int


class Recording:
    """A recording of a function's operations on handles.

    Parameters
    ----------
    given : Arguments
        The function's arguments.
    result : nest
        The function's return value.

    Attributes
    ----------
    problem : str
        Why the recording cannot become a program, or "".
    """

    def __init__(self, session: Any, tape: Tape, watch: Watch, given: Arguments, result: Any) -> None:
        self.session, self.problem = session, tape.problem
        arguments = given.handles
        found: list[Any] = []
        self._template = template_of(result, found)
        new = [t for t in found if isinstance(t, RPCTensor) and t._object.id in tape.made]
        gradients = _gradients(watch, tape)
        kept = list(dict.fromkeys(t._object.id for t in (*new, *gradients)))
        left = _left(tape, tape.made - set(kept))  # first, because it may collect handles that are met below
        there = {id(t): n for n, t in reversed(list(enumerate(arguments)))}
        self.beside: list[Beside] = []
        self.memories: set[int] = set()
        self._look_at(watch, there, len(arguments))
        there |= {id(b.tensor()): n for n, b in enumerate(self.beside, len(arguments))}
        owner = _owners(tape, session._names)
        self.problem = self.problem or unreturnable(result, found, tape.made, owner, set(there), gradients) or left
        if self.problem:
            return
        for t in found:  # a returned handle that no operator was given
            if id(t) not in there and t._object.id not in tape.made:
                there[id(t)] = len(arguments) + len(self.beside)
                self.beside.append(Beside(weakref.ref(t), t._object.id, t.requires_grad))
        self._write(tape, given, kept)
        if self.problem:
            return
        made = {id_: n for n, id_ in enumerate(kept)}
        handles = {t._object.id: t for t in (*new, *gradients)}
        self.kept = [Made.of(handles[id_]) for id_ in kept]
        self.outputs = [Output(made.get(t._object.id, -1), there.get(id(t), -1)) for t in found]
        self._look_at_gradients(watch, made)

    def _look_at_gradients(self, watch: Watch, made: dict[int, int]) -> None:
        """Record which leaves got other gradients, and on which earlier gradients the function depends.

        These earlier gradients are stored by their leaf, because its gradient may be another object in the next call.
        """
        self.gradients: list[Gradient] = []
        self.without: set[int] = set()  # id() of leaves without a gradient afterwards
        self.free: list[weakref.ref] = []  # leaves that had no gradient; an existing one would be added to
        self.added_to: list[tuple[weakref.ref, int]] = []
        for met in watch.met.values():
            if (t := met.tensor()) is None:
                continue
            then, now = met.gradient, gradient_of(t)
            if now == -1:
                self.without.add(id(t))
            if now in made or now == -1 != then:
                self.gradients.append(Gradient(met.tensor, made.get(now, -1)))
            elif now != then:
                self.problem = "it has a handle from before for the gradient of a leaf: clone() it"
            if then in made:
                self.problem = "it has made a gradient before it has used the leaf"
            if then == -1 and t.is_leaf and (t.requires_grad or isinstance(t, torch.nn.Parameter)):
                self.free.append(met.tensor)
            elif then in self.inputs:
                self.added_to.append((met.tensor, then))

    def _look_at(self, watch: Watch, places: dict[int, int], count: int) -> None:
        """Record the captured handles, and the version increments of all handles that existed before."""
        changed: list[tuple[int, int, int]] = []  # memory, place, version increments
        for met in watch.met.values():
            tensor = met.tensor()
            if tensor is None:
                continue
            if tensor._object.id != met.id:
                self.problem = (
                    self.problem or "it has a handle go over to another object (.data = ...): copy_() the values"
                )
            if tensor.grad_fn is not None or tensor.requires_grad != met.grad:
                self.problem = self.problem or (
                    "it has a handle from before require a gradient, or what was computed from such: detach() that, or "
                    "write under torch.no_grad()"
                )
            # Positions are counted through the arguments first, then through the captured handles.
            place = places.get(id(tensor), count + len(self.beside))
            if id(tensor) not in places:
                self.beside.append(Beside(met.tensor, met.id, met.grad))
            if on := version_of(tensor) - met.version:
                changed.append((memory_of(tensor), place, on))
        shared = Counter(memory for memory, _, _ in changed)
        self._changed = [(place, on) for memory, place, on in changed if shared[memory] == 1]
        self._changed_together = [(place, on) for memory, place, on in changed if shared[memory] > 1]

    def _write(self, tape: Tape, given: Arguments, kept: list[int]) -> None:
        """Make the program, and record where a call gets the program's inputs from."""
        self.given = [t._object.id for t in given.handles]
        self.pinned: dict[int, int] = {}
        ids = list(dict.fromkeys(self.given))
        whole = written(tape.ops, ids, kept)
        self._refs = [b.tensor for b in self.beside]
        self._ids, self._grads = [b.id for b in self.beside], [b.grad for b in self.beside]
        self.inputs = whole.inputs[len(ids) :]
        if not set(self.inputs) <= set(self._ids):
            self.problem = (
                "it uses values through a handle that is gone when it ends: a gradient that it clears "
                "(zero_grad(set_to_none=False) keeps it), .data (use the handle under torch.no_grad()), or a lazy conjugate"
            )
        self.memories = {memory_of(b.tensor()) for b in self.beside}
        if not self.memories.isdisjoint(given.memories):
            self.problem = self.problem or OVERLAP
        names = self.session._names
        self._counts = Counter(op.index for op in tape.ops)
        by_offset = any("as_strided" in names[index] for index in self._counts)
        self._offsets = [t._spec.offset for t in given.handles] if by_offset else None
        self.keys = whole.keys
        self.playable = CompiledProgram(hash_of(whole.raw), whole.raw, tape.places, whole.made, whole.kept)

    def graphs(self) -> str:
        """Return why a captured handle's autograd graph, which a backward pass would follow, prevents a program.

        Return "" if it does not.
        """
        if any((t := b.tensor()) is not None and t.grad_fn is not None for b in self.beside):
            return "it uses a handle that was computed from what requires a gradient: detach() it before"
        return ""

    def live_captures(self) -> list[Any] | None:
        """Return the captured handles, or None if their state is not the recorded one."""
        if any((t := ref()) is None or t.grad is not None for ref in self.free):
            return None
        there: list[Any] = [ref() for ref in self._refs]
        try:
            alike = [t._object.id for t in there] == self._ids and [t.requires_grad for t in there] == self._grads
        except AttributeError:  # one handle is gone
            return None
        if not alike or any((t := ref()) is None or gradient_of(t) != id_ for ref, id_ in self.added_to):
            return None
        return there

    def takes(self, arguments: list[Any]) -> bool:
        """Return whether the program accepts these arguments: offsets and pinned objects must equal the recorded."""
        if self._offsets is not None and self._offsets != [t._spec.offset for t in arguments]:
            return False
        return all(arguments[n]._object.id == id_ for n, id_ in self.pinned.items())

    def pin(self, before: Recording) -> None:
        """Pin the arguments that were the same in two calls, because the function may also capture their objects."""
        self.pinned = {n: a for n, (a, b) in enumerate(zip(self.given, before.given)) if a == b}

    def difference(self, other: Recording) -> str:
        """Describe how another recording differs from this one; return "" if no difference matters."""
        if self.playable.raw != other.playable.raw:
            return _other_operator(self, other)
        if self.inputs != other.inputs:
            return "it uses other handles beside its arguments each time: pass them as arguments"
        if not self._returns_as(other):
            return "it returns something else each time"
        cleared = self._cleared() <= other.without and other._cleared() <= self.without
        if self._gradients() != other._gradients() or not cleared:
            return "it leaves other gradients each time"
        return ""

    def _returns_as(self, other: Recording) -> bool:
        same = repr(self._template) == repr(other._template) and self.kept == other.kept
        return same and self._outputs() == other._outputs()

    def _gradients(self) -> list[tuple[int, int]]:
        return [(id(g.leaf()), g.made) for g in self.gradients if g.made >= 0]

    def _cleared(self) -> set[int]:
        return {id(g.leaf()) for g in self.gradients if g.made < 0}

    def _outputs(self) -> list[tuple[int, int]]:
        """Return the outputs, with captured handles identified by ``id()``."""
        n = len(self.given)
        return [(o.made, o.place if o.place < n else id(self._refs[o.place - n]())) for o in self.outputs]

    def play(self, arguments: list[Any], beside: list[Any], keys: list[int]) -> Any:
        """Call the program, and return the function's result with handles on the new objects."""
        there = [*arguments, *beside]
        ids = [*dict.fromkeys([t._object.id for t in arguments]), *self.inputs]
        objects = self.session.channel.play(self.playable, ids, keys, make=self.session._object)
        for index, n in self._counts.items():
            self.session.calls[index] += n
        self._count_writes(there)
        inference = torch.is_inference_mode_enabled()
        handles = [made.again(objects[place], inference) for place, made in enumerate(self.kept)]
        for leaf, place in self.gradients:
            if (t := leaf()) is not None:
                t.grad = handles[place] if place >= 0 else None
        return filled(self._template, [there[o.place] if o.made < 0 else handles[o.made] for o in self.outputs])

    def _count_writes(self, there: list[Any]) -> None:
        """Increment version counters as in eager execution; aliases share one counter."""
        increment = torch.autograd.graph.increment_version
        together = [(there[n], version_of(there[n]) + on) for n, on in self._changed_together]
        most = max([on for _, on in self._changed], default=0)
        for i in range(most):
            increment([there[n] for n, on in self._changed if on > i])
        for t, version in together:
            while version_of(t) < version:
                increment(t)


def _gradients(watch: Watch, tape: Tape) -> list[Any]:
    """Return the gradients that the function made for leaves that are still alive."""
    there = [met.tensor() for met in watch.met.values()]
    return [t.grad for t in there if t is not None and gradient_of(t) in tape.made]


def _owners(tape: Tape, names: Any) -> Callable[[int], int]:
    """Return a function that maps an object's id to the id of the object whose memory it uses (the base of a view)."""
    owners: dict[int, int] = {}
    for op in tape.ops:
        schema = torchnp.table.schemas.get(names[op.index])
        of = next(handles_of(op), None) if schema is not None and schema.is_view else None
        if of is not None:
            owners.update((i, owners.get(of.id, of.id)) for i in range(op.first, op.first + op.count))
    return lambda id_: owners.get(id_, id_)


def _left(tape: Tape, made: set[int]) -> str:
    """Describe results that outlive the function without being returned, which a program cannot keep.

    Return "" if there are none.
    """
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
    """Describe the first operator in which two recordings differ."""
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
    session: Any, function: Callable[[], Any], given: Arguments, last: Recording | None
) -> tuple[Any, Recording | None]:
    """Run a function; return its result and its recording. ``last`` is the previous recording.

    The recording is None if another thread is recording a function.
    """
    if not session.recording.acquire(blocking=False):
        return detached(function()), None
    channel = session.channel
    try:
        tape = Tape()
        watch = Watch(session, tape)
        for t in given.handles:
            watch.meet(t)
        if last is not None and (problem := last.graphs()):
            tape.invalidate(problem)
        state, how = torch.get_rng_state(), mode()
        channel.tape = tape
        with watch.everything():
            result = detached(function())
        if mode() != how:
            tape.invalidate("it changes torch's modes: do so outside")
        if not drawn_in_order(state, list(dict.fromkeys(op.key for op in tape.ops if op.key is not None))):
            tape.invalidate("it seeds or restores torch's generator, or draws from it for itself: do so outside")
        return result, Recording(session, tape, watch, given, result)
    finally:
        channel.tape = None
        session.recording.release()
