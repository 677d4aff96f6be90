"""One operator at a time: its arguments, the gate, the kernel and its results."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from torchnp.random import Generator, default_generator
from torchnp.rpc import wire
from torchnp.rpc.exceptions import KERNEL_ERRORS, ProtocolError, QuotaError
from torchnp.rpc.server import privacy, rowlabels
from torchnp.rpc.server.arguments import END, MOST
from torchnp.rpc.server.arrays import laid_out
from torchnp.rpc.server.books import Entry, Failure, Store
from torchnp.rpc.server.counters import Count
from torchnp.rpc.server.pace import Pace
from torchnp.rpc.server.privacy import RAISED, Outcome, replaced
from torchnp.rpc.server.served import Served
from torchnp.rpc.server.service import Service
from torchnp.rpc.server.tokens import Rights
from torchnp.rpc.wire import Handle, Ints


class Refusal(RuntimeError):
    """What the server itself does not do; its text tells no values."""


class Executor:
    """Runs a session's operators on its store.

    Attributes
    ----------
    pace : Pace
        Is told how long operators on private data took, and says when the reply is due.
    """

    def __init__(self, service: Service, store: Store, rights: Rights, count: Count) -> None:
        self.service, self.store, self.rights, self.count = service, store, rights, count
        self.pace = Pace(service.bucket, service.late)
        self._generator = Generator()  # seeded for each operator: no operator moves another's numbers
        self._rows: dict[int, Served] = {}
        self._foreseen: dict[tuple, Outcome] = {}
        self._labels: dict[tuple, list[rowlabels.Label]] = {}

    def run(self, op: wire.Op, seq: int) -> Failure | None:
        """Run one operator; the failure if it is the first on its way, None if it worked or an input had failed."""
        row = self._rows.get(op.index)
        if row is None:
            row = self._rows[op.index] = self.service.row(op.index)
        self.store.claim(op.first, op.count)
        if op.count == row.quick and not op.kwargs and not op.expected and op.key is None:
            values = self._quickly(op, row)
            if values is not None:
                try:
                    out = row.run(*values)
                    if type(out) is np.ndarray and row.fresh and out.base is None and out.flags.c_contiguous:
                        self.store.add(op.first, out)
                    else:
                        self._keep(op, row, out)
                except RAISED as error:
                    return self._failed(op, row, error, seq)
                return None
        entries: list[Entry] = []
        args, kwargs = self._values(op.args, entries), {}
        if op.kwargs:
            kwargs = dict(zip(op.kwargs, self._values(op.kwargs.values(), entries)))
        targets = self._targets(op, row) if row.written else []
        public = True
        for entry in entries:
            buffer = entry.buffer
            if buffer is None or buffer.poison is not None:
                self._poison(op, targets, min((e.poison for e in entries if e.poison), key=lambda f: f.seq))
                return None
            public = public and buffer.public
        try:
            if self.rights.allowed is not None and op.index not in self.rights.allowed:
                self.count("operator")
                raise Refusal(self.rights.why_not(op.index, row.name))
            if words := row.problem(op.args, op.kwargs):
                raise Refusal(words)
            if targets or row.checked:
                self._check(op, row, args, kwargs, targets)
            if (op.key is None) == row.random:
                raise Refusal("a random operator comes with a key, and no other does")
            if public:
                plain = row.plain
                out = row.run(*args, **kwargs) if plain else self._call(row, args, kwargs, targets, self._seeded(op))
                self._keep(op, row, out)
                return None
            problem = self._run_on_private(op, row, args, kwargs, entries, targets)
        except RAISED as error:
            problem = error
        return None if problem is None else self._failed(op, row, problem, seq)

    def _quickly(self, op: wire.Op, row: Served) -> list | None:
        """Arguments as a kernel takes them; None if they have to be looked at more closely.

        They were found good before, and the objects among them are public and have not failed.
        """
        allowed = self.rights.allowed
        if allowed is not None and op.index not in allowed:
            return None
        objects, good = self.store.entries, row.good
        values: list[Any] = []
        arg: Any
        for arg in op.args:
            kind = type(arg)
            if kind not in good:
                return None
            good = good[kind]
            if kind is Handle:
                entry = objects.get(arg.id)
                if entry is None or (buffer := entry.buffer) is None or not buffer.public or buffer.poison is not None:
                    return None
                arg = entry.array
            elif kind is int:
                if arg > MOST:
                    return None
            elif kind is Ints:
                arg = arg.items.copy()
            elif kind is wire.Dtype:
                arg = wire.dtype_of(arg.name)
            elif kind is wire.Complex:
                arg = complex(arg.real, arg.imag)
            values.append(arg)
        return values if END in good else None

    def _failed(self, op: wire.Op, row: Served, problem: Exception, seq: int) -> Failure:
        failure = _failure(row, problem, seq)
        self._poison(op, self._targets(op, row), failure)
        return failure

    def _values(self, given: Iterable[Any], entries: list[Entry]) -> list:
        """Arguments as a kernel takes them; the objects in them join ``entries``."""
        values = []
        for arg in given:
            kind = type(arg)
            if kind is wire.Handle:
                entry = self.store.get(arg.id)
                entries.append(entry)
                arg = entry.array
            elif kind is wire.Ints:
                arg = arg.items.copy()
            elif kind is wire.Items:
                arg = self._values(arg.items, entries)
            elif kind is wire.Dtype:
                arg = wire.dtype_of(arg.name)
            elif kind is wire.Complex:
                arg = complex(arg.real, arg.imag)
            values.append(arg)
        return values

    def _targets(self, op: wire.Op, row: Served) -> list[Entry]:
        """The objects that an operator writes."""
        targets = []
        for place, arg in (*enumerate(op.args), *op.kwargs.items()):
            if place in row.written:
                handles = arg.items if isinstance(arg, wire.Items) else (arg,)
                targets += [self.store.get(h.id) for h in handles if type(h) is wire.Handle]
        return targets

    def _check(self, op: wire.Op, row: Served, args: list, kwargs: dict[str, Any], targets: list[Entry]) -> None:
        """What the server refuses whatever the values are, before a kernel sees them."""
        for entry in targets:
            if entry.buffer is not None and entry.buffer.readonly:
                raise Refusal(
                    f"the server's dataset {entry.buffer.readonly!r} is read-only: clone() it and change the copy"
                )
        for place, name in row.sized:
            self._check_size(row, name, args[place] if place < len(args) else kwargs.get(name), args)
        if row.masks:
            for index in args[1] if len(args) > 1 and isinstance(args[1], list) else ():
                if isinstance(index, np.ndarray) and index.dtype in (np.bool_, np.uint8):
                    raise Refusal("a mask as an index gives a shape that depends on values; use torch.where")
        if row.revealing is not None:
            place, name = row.revealing
            value = op.args[place] if place < len(op.args) else op.kwargs.get(name)
            if type(value) is wire.Handle and not self.store.get(value.id).buffer.public:  # type: ignore[union-attr]
                raise Refusal(f"shapes, places or time depend on the values of {name}, which are an owner's here")

    def _check_size(self, row: Served, name: str, size: Any, args: list) -> None:
        """QuotaError where an argument alone says that too much would be made."""
        sizes = size if isinstance(size, list) else [size]
        if not sizes or not all(type(n) is int and n >= 0 for n in sizes):
            return  # for the kernel to refuse
        of = next((a.size for a in args if isinstance(a, np.ndarray)), 1) if row.name == "aten::repeat" else 1
        self.store.check_bytes(math.prod(sizes) * of)
        if name in ("sections", "chunks") and sizes[0] > wire.MAX_ITEMS:
            raise Refusal(f"{sizes[0]:,} pieces are more than the {wire.MAX_ITEMS:,} results that an operator may have")

    def _seeded(self, op: wire.Op) -> Generator:
        """What an operator draws from; the client knows its key, so that the numbers tell of no values."""
        if op.key is not None:
            self._generator.manual_seed(op.key)
        return self._generator

    def _call(self, row: Served, args: list, kwargs: dict[str, Any], targets: list[Entry], generator: Generator) -> Any:
        """What the kernel gives, drawing from the generator if it draws."""
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
            for entry in targets:
                entry.array.fill(0)  # type: ignore[union-attr]
        return out

    # ------------------------------------------------------------ private data

    def _run_on_private(
        self, op: wire.Op, row: Served, args: list, kwargs: dict[str, Any], entries: list[Entry], targets: list[Entry]
    ) -> Exception | None:
        """Run an operator on private data: what of it can be seen is decided before the kernel meets a value.

        Returns
        -------
        Exception or None
            Why the operator fails, whatever the values are.
        """
        facts = privacy.facts(op, entries, row.whole)
        if row.views:  # looks at no value
            made = _results(op, row, self._call(row, args, kwargs, targets, self._seeded(op)))
            rows = self._label(op, row, args, kwargs, entries, facts, [a.shape for a, _ in made])
            for id_, (array, view) in enumerate(made, op.first):
                self.store.put(id_, array, False, view=view, rows=rows[id_ - op.first])
            return None
        # No kernel writes a public buffer that its schema does not mark: it would keep private values and stay public.
        free = [not e.buffer.public or any(e is t for t in targets) for e in entries]  # type: ignore[union-attr]

        def given(arrays: Iterable[Any]) -> tuple[list, dict[str, Any]]:
            left = iter([a if f else privacy.locked(a) for a, f in zip(arrays, free)])
            return [replaced(a, left) for a in op.args], {k: replaced(a, left) for k, a in op.kwargs.items()}

        key = (facts, *free)
        outcome = self._foreseen.get(key)
        if outcome is None:

            def on(arrays: list[np.ndarray]) -> list[np.ndarray]:
                return [a for a, _ in _results(op, row, self._call(row, *given(arrays), [], Generator(0)))]

            outcome = privacy.foresee(entries, row.whole, on)
            if len(self._foreseen) >= privacy.REMEMBERED:
                self._foreseen.clear()
            self._foreseen[key] = outcome
        if outcome.problem is not None:
            return outcome.problem
        self.store.check_bytes(sum(f.nbytes for f in outcome.results))
        self.store.check_objects(len(outcome.results))
        rows = self._label(op, row, args, kwargs, entries, facts, [f.shape for f in outcome.results])
        if not rowlabels.stays(row, args, kwargs, [e.label for e in entries]):
            for entry in targets:
                entry.buffer.public, entry.buffer.mixed = False, row.name  # type: ignore[union-attr]
        if not all(free):
            args, kwargs = given(e.array for e in entries)
        start = time.perf_counter()
        found = self._on_values(op, row, args, kwargs, entries, targets, outcome, rows)
        for id_, (array, fresh) in enumerate(zip(found, outcome.results, strict=True), op.first):
            own = array is not None and self.store.is_new(array, fresh.nbytes)
            self.store.put(id_, privacy.held(array, fresh, own), False, rows=rows[id_ - op.first])
        self.pace.ran(row.name, outcome.seconds, time.perf_counter() - start)
        return None

    def _on_values(
        self,
        op: wire.Op,
        row: Served,
        args: list,
        kwargs: dict[str, Any],
        entries: list[Entry],
        targets: list[Entry],
        outcome: Outcome,
        rows: list[rowlabels.Label],
    ) -> list[Any]:
        """What the kernel gives on the private values; where it fails, the rows on which it does not, or nothing."""
        try:
            return [a for a, _ in _results(op, row, self._call(row, args, kwargs, targets, self._seeded(op)))]
        except RAISED:
            for entry in targets:
                entry.array.fill(0)  # type: ignore[union-attr]
        labels = [e.label for e in entries]
        if not rowlabels.apart(labels, rows):
            return [None] * len(outcome.results)
        found = [f.zeros() for f in outcome.results]
        rowlabels.by_parts(args, kwargs, labels, rows, found, self._plainly(op, row))
        return found

    def _label(
        self,
        op: wire.Op,
        row: Served,
        args: list,
        kwargs: dict[str, Any],
        entries: list[Entry],
        key: tuple,
        shapes: list,
    ) -> list[rowlabels.Label]:
        """The labels of the results; they depend on what the client knows, and on public indices."""
        given = [e.label for e in entries]
        public = any(label is None for label in given)
        full = (*key, *given)
        made = None if public and row.rule in ("lookup", "move") else self._labels.get(full)
        if made is None:
            made = rowlabels.labels(row, args, kwargs, given, shapes, self._plainly(op, row))
            if len(self._labels) >= privacy.REMEMBERED:
                self._labels.clear()
            self._labels[full] = made
        return made

    def _plainly(self, op: wire.Op, row: Served) -> Callable[[list, dict[str, Any]], list[np.ndarray]]:
        """The kernel on arguments that are no objects of the session."""

        def call(args: list, kwargs: dict[str, Any]) -> list[np.ndarray]:
            out = self._call(row, args, kwargs, [], Generator(0))
            return [_array(a) for a, _, _ in _picked(op, row, out)]

        return call

    # ------------------------------------------------------------ results

    def _keep(self, op: wire.Op, row: Served, out: Any) -> None:
        """Store public results under the ids that the client chose."""
        if row.one and op.count == 1 and not op.expected and type(out) is np.ndarray:
            view = row.returns[0][1]
            self.store.put(op.first, out if view else laid_out(out, None), True, "", view)
        elif row.returns or op.count or op.expected:
            for id_, (array, view) in enumerate(_results(op, row, out), op.first):
                self.store.put(id_, array, True, view=view)

    def _poison(self, op: wire.Op, targets: list[Entry], failure: Failure) -> None:
        """Results have failed, and so has whatever should have been written: its views must not be believed."""
        for i in range(op.first, op.first + op.count):
            self.store.delete(i, i)
            self.store.put_failure(i, failure)
        for entry in targets:
            buffer = entry.buffer
            if buffer is not None and not buffer.readonly and buffer.poison is None:
                buffer.poison = failure


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


def _results(op: wire.Op, row: Served, out: Any) -> list[tuple[np.ndarray, bool]]:
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


def _failure(row: Served, error: Exception, seq: int) -> Failure:
    if isinstance(error, ProtocolError):
        raise error
    if isinstance(error, (QuotaError, MemoryError)):
        return Failure(seq, "quota", "", str(error) or "the server is out of memory", row.name)
    names = [c.__name__ for c in type(error).__mro__]
    cls = next((n for n in names if n in KERNEL_ERRORS), None)
    text = str(error)
    if cls is None:
        cls, text = "RuntimeError", f"{names[0]}: {text}"
    return Failure(seq, "op", cls, text[:8192], row.name)


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
