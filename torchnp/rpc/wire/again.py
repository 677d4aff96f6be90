"""Operators that a session has had before, sent as a reference to them: the steps of a training loop repeat each other.

Both sides keep the last operators of a session, alike. A run of operators that are those of some time ago is one short
frame part (`Again`): how long ago, how many, and what has changed. Handles need not be told: from one turn to the next a
parameter's id stays, and the id of what the step itself made moves on with the ids of the results. Which of the two it is
both sides remember of each place, and a handle that does neither is a change like another number.

Nothing has to be defined or named by the program: `Shortener` finds what repeats, and `Restorer` gives the operators back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from torchnp.rpc.exceptions import ProtocolError
from torchnp.rpc.wire import LAST, MAX_OPS, MAX_PAST, Again, Bytes, Change, Complex, Handle, Items, Op, decode_request

NEAR = 4096  # ids before an operator's own: what is nearer is taken for a value of its step until it is seen to stay
HEAVY = 4096  # values of an operator that is not repeated, so that a short frame does not ask for much work
OVERHEAD = 8  # what an operator that is repeated weighs beside its values
NOTHING = (None, 0)
LOOKS = 24  # operators that are compared before a run is begun


def values_of(op: Op) -> tuple[list[Any], tuple[int, ...] | None]:
    """What may change from one turn to the next, and how it is laid out.

    Returns
    -------
    values : list
        All values of the arguments, those of lists singly, and the key.
    form : tuple of int or None
        The length of each argument that is a list, -1 for the others; None where none is.
    """
    given = [*op.args, *op.kwargs.values()] if op.kwargs else op.args
    values: list[Any] = []
    form: tuple[int, ...] | None = None
    for a in given:
        if isinstance(a, Items):
            values += a.items
            form = ()
        else:
            values.append(a)
    values.append(op.key)
    if form is not None:
        form = tuple([len(a.items) if isinstance(a, Items) else -1 for a in given])
    return values, form


class Kept:
    """An operator as both sides keep it, for all its turns: a turn is told by the id of its first result.

    Attributes
    ----------
    op, values, form
        Of the turn in which it was new or had changes.
    moving : list of bool
        Which of the values are handles whose ids move on with the first result's.
    direct : list of int or None
        The places of the arguments that are such handles; None where some are in lists or in keyword arguments.
    """

    __slots__ = ("direct", "form", "moving", "op", "values")

    def __init__(self, op: Op, values: list[Any], form: tuple[int, ...] | None, moving: list[bool]) -> None:
        self.op, self.values, self.form, self.moving = op, values, form, moving
        self.direct = _direct(op, form, moving)

    @classmethod
    def new(cls, op: Op, values: list[Any], form: tuple[int, ...] | None) -> Kept | None:
        """An operator that was sent whole; None if it has too many values to be repeated."""
        if len(values) > HEAVY:
            return None
        return cls(op, values, form, [type(v) is Handle and op.first - v.id <= NEAR for v in values])


def _direct(op: Op, form: tuple[int, ...] | None, moving: list[bool]) -> list[int] | None:
    direct, place = [], 0
    for i in range(len(op.args)):
        if form is None or form[i] < 0:
            if moving[place]:
                direct.append(i)
            place += 1
        else:
            place += form[i]
    return direct if len(direct) == sum(moving) else None


class _Sent(NamedTuple):
    """A frame of operators, and the number of the first of them."""

    frame: bytes
    begin: int


class Past:
    """The last operators of a session, by their numbers in it, in frames that weigh `MAX_PAST` together.

    A frame weighs its bytes, and for each operator that it repeats its values. Both sides forget alike, whole frames
    at a time, when the next one has ended.
    """

    def __init__(self) -> None:
        self.begin = self.end = 0  # of what is kept, counted from the session's first operator
        # Operators as they were sent, or the frame that they came in, or what is kept and the first result's id.
        self._turns: list[Any] = []
        self._offset = 0  # the number of the first of these
        self._frames: deque[tuple[int, int]] = deque()  # where each ended, and its weight
        self._weight = self._open = 0  # of all frames, and of the repeated operators of the one that has not ended

    def __getitem__(self, turn: int) -> tuple[Kept | None, int]:
        """The operator of that number and its first result's id; None if it is not kept."""
        if not self.begin <= turn < self.end:
            return NOTHING
        found = self._turns[turn - self._offset]
        if type(found) is _Sent:
            self._unfold(found)
            found = self._turns[turn - self._offset]
        if type(found) is Op:
            found = self._turns[turn - self._offset] = Kept.new(found, *values_of(found)), found.first
        return found

    def add(self, kept: Kept | None, first: int, again: bool = False) -> None:
        """Keep an operator, which may be one that is repeated."""
        self._turns.append((kept, first))
        self.end += 1
        if again:
            self._open += OVERHEAD + len(kept.values)  # type: ignore[union-attr]

    def append(self, op: Op) -> None:
        """Keep an operator that was sent whole."""
        self._turns.append(op)
        self.end += 1

    def extend_by(self, frame: Bytes, count: int) -> None:
        """Keep a frame of nothing but operators that were sent whole.

        Most are never met again, and a frame is a twentieth of what is made of it: so they are made once more if one is.
        """
        self._turns += [_Sent(bytes(frame), self.end)] * count
        self.end += count

    def _unfold(self, sent: _Sent) -> None:
        request: Any = decode_request(sent.frame)
        begin = sent.begin - self._offset  # frames are forgotten whole
        self._turns[begin : begin + len(request.ops)] = request.ops

    def ended(self, nbytes: int) -> None:
        """Say that all operators of a frame of so many bytes are there; the oldest frames are forgotten."""
        weight, self._open = nbytes + self._open, 0
        self._frames.append((self.end, weight))
        self._weight += weight
        while self._weight > MAX_PAST:
            end, weight = self._frames.popleft()
            self._weight -= weight
            self._turns[self.begin - self._offset : end - self._offset] = [None] * (end - self.begin)
            self.begin = end
        gone = self.begin - self._offset
        if 2 * gone > len(self._turns):
            del self._turns[:gone]
            self._offset = self.begin


def changed(kept: Kept, op: Op, values: list[Any], changes: Iterable[tuple[int, Any]]) -> Kept:
    """A kept operator after a turn in which some values changed: of these it is seen whether they move on."""
    moving = kept.moving.copy()
    for place, value in changes:
        before = kept.values[place]
        if type(value) is not Handle:
            moving[place] = False
        elif type(before) is not Handle:
            moving[place] = op.first - value.id <= NEAR
        elif value.id == before.id:
            moving[place] = False
        elif value.id - before.id == op.first - kept.op.first:
            moving[place] = True
    return Kept(op, values, kept.form, moving)


def _same(a: Any, b: Any) -> bool:
    """Whether two values that are no handles are one: 1, 1.0 and True are three, 0.0 and -0.0 two."""
    kind = type(a)
    if kind is not type(b):
        return False
    if kind is float:
        return a == b and (a != 0.0 or str(a) == str(b))
    return str(a) == str(b) if kind is Complex else a == b


def _changes(kept: Kept, op: Op, values: list[Any], form: tuple[int, ...] | None) -> list[tuple[int, Any]] | None:
    """The places and values in which an operator differs from a kept one, None if it is another operator."""
    old = kept.op
    if (
        old.index != op.index
        or old.count != op.count
        or len(kept.values) != len(values)
        or kept.form != form
        or old.expected != op.expected
        or old.kwargs.keys() != op.kwargs.keys()
        or (len(op.kwargs) > 1 and list(old.kwargs) != list(op.kwargs))
    ):
        return None
    shift = op.first - old.first
    changes: list[tuple[int, Any]] = []
    for place, (a, b, moving) in enumerate(zip(kept.values, values, kept.moving)):
        if moving:
            if type(b) is Handle and b.id - a.id == shift:
                continue
        elif a is b or (b.id == a.id if type(a) is Handle is type(b) else _same(a, b)):
            continue
        changes.append((place, b))
    return changes


def _pays(changes: list[tuple[int, Any]], values: list[Any]) -> bool:
    return 2 * len(changes) <= len(values) + 2


def _change_of(run: Again, value: Any) -> Change:
    """The change of a run to that value: optimizers have the same new number for each parameter."""
    for change in run.changes[-3:]:
        if change.value is value or (type(value) is float and _same(change.value, value)):
            return change
    run.changes.append(Change(value, []))
    return run.changes[-1]


Valued = tuple[Op, list[Any], "tuple[int, ...] | None"]


class Shortener:
    """The client's side: finds operators that the session has had before.

    Each frame of what `shortened` gives is followed by `sent`.
    """

    def __init__(self) -> None:
        self._past = Past()
        self._back = 0  # of the run that is open, or was last
        self._places: dict[tuple, int] = {}  # where an operator with such a first handle was last

    def shortened(self, ops: list[Op]) -> list[Op | Again]:
        """The operators of one frame, runs of known ones replaced."""
        past, found = self._past, list[Op | Again]()
        valued: list[Valued] = [(op, *values_of(op)) for op in ops]
        run: Again | None = None
        ahead = 0  # what the run's results are numbered ahead of those that it repeats
        for i, (op, values, form) in enumerate(valued):
            changes, kept = None, None
            if run is not None:
                kept, first = past[past.end - self._back]
                if kept is not None and op.first - first == ahead:
                    changes = _changes(kept, op, values, form)
            if changes is None or (changes and not _pays(changes, values)):
                run = None
                self._back = self._best(valued, i)
                kept, first = past[past.end - self._back] if self._back else (None, 0)
                changes = _changes(kept, op, values, form) if kept is not None else None
                self._note(op, values)
            if kept is None or changes is None:
                found.append(op)
                past.add(Kept.new(op, values, form), op.first)
                continue
            if run is None:
                run, ahead = Again(self._back, 0, op.first, []), op.first - first
                found.append(run)
            for place, value in changes:
                _change_of(run, value).where.extend((run.count, place))
            run.count += 1
            past.add(changed(kept, op, values, changes) if changes else kept, op.first, again=True)
        return found

    def sent(self, nbytes: int) -> None:
        """Say how long the frame of the operators has become."""
        self._past.ended(nbytes)

    def _note(self, op: Op, values: list[Any]) -> None:
        """Remember where an operator is that is kept next."""
        for key in _keys(op, values):
            self._places[key] = self._past.end
        if len(self._places) > MAX_PAST:
            self._places = {k: n for k, n in self._places.items() if n >= self._past.begin}

    def _best(self, valued: list[Valued], i: int) -> int:
        """How long ago the operators from ``i`` on were most alike; 0 if never."""
        past, (op, values, _) = self._past, valued[i]
        backs = [self._back, *(past.end - self._places.get(key, past.end) for key in _keys(op, values))]
        best, length = 0, 0
        for back in dict.fromkeys(backs):
            alike = self._length(islice(valued, i, i + LOOKS), back) if back else 0
            if alike > length:
                best, length = back, alike
        return best

    def _length(self, valued: Iterable[Valued], back: int) -> int:
        """How many operators in turn are those of ``back`` operators ago, of which as many are looked at."""
        past, n, ahead = self._past, 0, None
        for (op, values, form), turn in zip(valued, range(past.end - back, past.end)):
            kept, first = past[turn]
            if kept is None or (n and op.first - first != ahead):
                break
            changes = _changes(kept, op, values, form)
            if changes is None or not _pays(changes, values):
                break
            ahead, n = op.first - first, n + 1
        return n


def _keys(op: Op, values: list[Any]) -> tuple[tuple, ...]:
    """What an operator is found by: with the same first handle, or with one as far back."""
    for value in values:
        if type(value) is Handle:
            return (op.index, value.id, len(values)), (op.index, value.id - op.first, len(values))
    return ((op.index, None, len(values)),)


class Restorer:
    """The server's side: gives the operators of a frame back, whole."""

    def __init__(self) -> None:
        self._past = Past()

    def restored(self, parts: list[Op | Again], frame: Bytes) -> list[Op]:
        """The operators of a frame; ProtocolError for a reference to what is not there."""
        past, found = self._past, list[Op]()
        if Again not in set(map(type, parts)):
            found = parts  # type: ignore[assignment]
            past.extend_by(frame, len(found))
        else:
            if len(parts) + sum(part.count - 1 for part in parts if type(part) is Again) > MAX_OPS:
                raise ProtocolError(f"a frame has more than {MAX_OPS} operators")
            for part in parts:
                if type(part) is Op:
                    past.append(part)
                    found.append(part)
                else:
                    found += self._repeated(part)  # type: ignore[arg-type]
        past.ended(len(frame))
        return found

    def _repeated(self, run: Again) -> list[Op]:
        past = self._past
        changes: dict[int, list[tuple[int, Any]]] = {}
        for change in run.changes:
            if len(change.where) % 2:
                raise ProtocolError("the places of a change come in pairs")
            for i, place in zip(change.where[::2], change.where[1::2], strict=True):
                changes.setdefault(i, []).append((place, change.value))
        if any(i >= run.count for i in changes):
            raise ProtocolError("a change of an operator that is not repeated")
        ahead = run.first - past[past.end - run.back][1]
        found: list[Op] = []
        for i in range(run.count):
            kept, first = past[past.end - run.back]
            if kept is None:
                raise ProtocolError(f"the operator of {run.back} operators ago is not kept")
            if i in changes or kept.direct is None:
                op, kept = _changed_turn(kept, first + ahead, changes.get(i, []))
            else:
                op = _turn(kept, first + ahead)
            past.add(kept, op.first, again=True)
            found.append(op)
        return found


def _turn(kept: Kept, first: int) -> Op:
    """A kept operator with results from the id ``first`` on."""
    old, shift = kept.op, first - kept.op.first
    assert kept.direct is not None
    args = old.args.copy()
    for i in kept.direct:
        args[i] = Handle(args[i].id + shift)  # type: ignore[union-attr]
    _check_ids(first, shift, args)
    return Op(old.index, first, old.count, args, old.kwargs, old.expected, old.key)


def _changed_turn(kept: Kept, first: int, changes: list[tuple[int, Any]]) -> tuple[Op, Kept]:
    """A kept operator with results from the id ``first`` on and some other values, and what is kept of it."""
    old, shift = kept.op, first - kept.op.first
    values = [Handle(v.id + shift) if moving else v for v, moving in zip(kept.values, kept.moving)]
    for place, value in changes:
        if place >= len(values):
            raise ProtocolError("a change of a value that an operator does not have")
        values[place] = value
    key = values[-1]
    if key is not None and (type(key) is not int or key < 0):
        raise ProtocolError("a key is a number from 0 on")
    _check_ids(first, shift, values)
    rest = iter(values)
    args = [_next(rest, a) for a in old.args]
    kwargs = {name: _next(rest, a) for name, a in old.kwargs.items()}
    op = Op(old.index, first, old.count, args, kwargs, old.expected, key)
    return op, changed(kept, op, values, changes) if changes else kept


def _check_ids(first: int, shift: int, values: list[Any]) -> None:
    if not 0 <= first <= LAST or (shift < 0 and any(type(v) is Handle and v.id < 0 for v in values)):
        raise ProtocolError("a repeated operator has an id that is none")


def _next(rest: Iterator[Any], like: Any) -> Any:
    """The next value, or a list of the next ones, which may be others than integers now."""
    return Items(list(islice(rest, len(like.items)))) if isinstance(like, Items) else next(rest)
