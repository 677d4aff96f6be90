"""Execute operators one at a time: bind arguments, apply the privacy checks, run the kernel, store the results."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from torchnp.random import Generator
from torchnp.rpc import wire
from torchnp.rpc.exceptions import KERNEL_ERRORS, ProtocolError, QuotaError
from torchnp.rpc.server.config.tokens import Rights
from torchnp.rpc.server.monitoring.counters import Count
from torchnp.rpc.server.monitoring.event_log import trace_of
from torchnp.rpc.server.privacy import disclosure, row_calls, row_labels
from torchnp.rpc.server.privacy.disclosure import RAISED, Disclosure
from torchnp.rpc.server.privacy.timing import Pace
from torchnp.rpc.server.session.bounded_cache import BoundedCache
from torchnp.rpc.server.session.check_arguments import END, MOST
from torchnp.rpc.server.session.error_text import error_text
from torchnp.rpc.server.session.invocation import Invocation, results
from torchnp.rpc.server.session.match_client_strides import laid_out
from torchnp.rpc.server.session.object_store import Failure, ObjectStore, StoredObject
from torchnp.rpc.server.session.overload_info import Served
from torchnp.rpc.server.session.server_state import ServerState
from torchnp.rpc.wire import Handle, Ints

# Conversions of arguments on the wire, other than handles, to arguments of a kernel.
_MADE_OF: dict[type, Callable[[Any], Any]] = {
    Ints: lambda arg: arg.items.copy(),
    wire.Dtype: lambda arg: wire.dtype_of(arg.name),
    wire.Complex: lambda arg: complex(arg.real, arg.imag),
}


class Refusal(RuntimeError):
    """Raised when the server, not the kernel, refuses an operator; the text contains no values."""


class Executor:
    """Runs a session's operators on the session's objects.

    Attributes
    ----------
    pace : Pace
        Records how long operators on private data took, and determines when the reply is sent.
    """

    def __init__(self, state: ServerState, store: ObjectStore, rights: Rights, count: Count) -> None:
        self.state, self.store, self.rights, self.count = state, store, rights, count
        self.pace = Pace(state.bucket, state.late)
        # Reseeded for each random operator, so no operator affects another one's random numbers.
        self._generator = Generator()
        self._rows: dict[int, Served] = {}
        self._foreseen: BoundedCache[Disclosure] = BoundedCache()
        self._labels: BoundedCache[tuple[list[row_labels.Label], float]] = BoundedCache()

    def run_all(
        self,
        ops: list[wire.Op],
        seq: int,
        failed: Callable[[Failure], object],
        watch: Callable[[int], None] | None = None,
    ) -> None:
        """Run operators in order.

        Parameters
        ----------
        seq : int
            The sequence number of the first operator.
        failed : callable
            Called with each failure of an operator; not called for operators whose inputs had failed.
        watch : callable, optional
            Called before each operator with its number in the table, counted from 1.
        """
        rows, store, quickly = self._rows, self.store, self._fast_path
        for number, op in enumerate(ops, seq):
            index, first, count = op.index, op.first, op.count
            if watch is not None:
                watch(index + 1)
            row = rows.get(index)
            if row is None:
                row = rows[index] = self.state.row(index)
            if first <= store.last_id:
                store.claim(first, count)
            elif count:
                store.last_id = first + count - 1
            values = None
            if count == row.quick and not op.kwargs and not op.expected and op.key is None:
                values = quickly(op, row)
            if values is None:
                failure = self._slow_path(op, row, number)
                if failure is not None:
                    failed(failure)
                continue
            try:
                out = row.run(*values)
                if row.fresh and type(out) is np.ndarray and out.base is None and out.flags.c_contiguous:
                    store.add(first, out)
                elif row.view and type(out) is np.ndarray:
                    store.put(first, out, True)
                elif count:
                    self._keep(op, row, out)
            except RAISED as error:
                failed(self._failed(op, row, error, number))

    def _slow_path(self, op: wire.Op, row: Served, seq: int) -> Failure | None:
        """Run an operator with all checks; return its failure, or None if it succeeded or an input had failed."""
        call = self._bound(op, row)
        public = True
        for entry in call.entries:
            buffer = entry.buffer
            if buffer is None or buffer.poison is not None:
                first = min((e.poison for e in call.entries if e.poison), key=lambda f: f.seq)
                self._poison(op, call.targets, first)
                return None
            public = public and buffer.public
        try:
            if self.rights.allowed is not None and op.index not in self.rights.allowed:
                self.count("operator")
                raise Refusal(self.rights.why_not(op.index, row.name))
            if words := row.problem(op.args, op.kwargs):
                raise Refusal(words)
            if call.targets or row.checked:
                self._check(call)
            if (op.key is None) == row.random:
                raise Refusal("a random operator comes with a key, and no other does")
            if public:
                self._keep(op, row, call.run(self._seeded(op)))
                problem = None
            else:
                problem = self._run_on_private(call)
            if problem is None and len(call.targets) + op.count > 1:
                self._join(call)
        except RAISED as error:
            problem = error
        return None if problem is None else self._failed(op, row, problem, seq)

    def _bound(self, op: wire.Op, row: Served) -> Invocation:
        """Return the call with its arguments bound to parameter names.

        Later code does not depend on their order in the frame.
        """
        given = row.bound(op)
        names: list[str] = []
        entries: list[StoredObject] = []
        values = {}
        for name, arg in given.items():
            values[name] = self._value(arg, entries)
            names += [name] * (len(entries) - len(names))
        targets = [e for name, e in zip(names, entries) if name in row.written] if row.written else []
        return Invocation(op, row, given, names, entries, targets, values)

    def _fast_path(self, op: wire.Op, row: Served) -> list | None:
        """Convert arguments for a kernel; return None if the call needs the slow path.

        The fast path requires argument types that have been accepted before, and public objects that have not failed.
        """
        allowed = self.rights.allowed
        if allowed is not None and op.index not in allowed:
            return None
        objects, good = self.store.entries, row.good
        values: list[Any] = []
        arg: Any
        try:
            for arg in op.args:
                kind = type(arg)
                good = good[kind]
                if kind is Handle:
                    entry = objects[arg.id]
                    buffer = entry.buffer
                    if buffer is None or not buffer.public or buffer.poison is not None:
                        return None
                    arg = entry.array
                elif kind is int:
                    if arg > MOST:
                        return None
                elif kind in _MADE_OF:
                    arg = _MADE_OF[kind](arg)
                values.append(arg)
        except KeyError:  # these types have not been checked yet, or the object does not exist
            return None
        return values if END in good else None

    def _failed(self, op: wire.Op, row: Served, problem: Exception, seq: int) -> Failure:
        failure = _failure(row, problem, seq)
        call = self._bound(op, row)
        # An operator that returns and writes nothing is a check. Its failure poisons its inputs and their siblings.
        checked = [] if row.returns or row.written else [e for x in call.entries for e in (x, *self._siblings(x))]
        self._poison(op, call.targets + checked, self.store.remembered(failure))
        return failure

    def _join(self, call: Invocation) -> None:
        """Link the objects that one operator created or wrote as siblings."""
        written = [_ids(call.given[name]) for name in call.row.written if name in call.given]
        ids = (*itertools.chain(*written), *range(call.op.first, call.op.first + call.op.count))
        for i in ids:
            self.store.get(i).siblings = ids

    def _siblings(self, entry: StoredObject) -> list[StoredObject]:
        return [self.store.entries[i] for i in entry.siblings if i in self.store.entries]

    def _value(self, arg: Any, entries: list[StoredObject]) -> Any:
        """Convert an argument for a kernel, and append its objects to ``entries``."""
        kind = type(arg)
        if kind is wire.Handle:
            entry = self.store.get(arg.id)
            entries.append(entry)
            return entry.array
        if kind is wire.Items:
            return [self._value(x, entries) for x in arg.items]
        return _MADE_OF[kind](arg) if kind in _MADE_OF else arg

    def _check(self, call: Invocation) -> None:
        """Refuse a call that must not run.

        It must not write to a dataset, have too large results, or have shapes, offsets or a run time that depend on
        private values.
        """
        row, values = call.row, call.values
        for entry in call.targets:
            if entry.buffer is not None and entry.buffer.readonly:
                raise Refusal(
                    f"the server's dataset {entry.buffer.readonly!r} is read-only: clone() it and change the copy"
                )
        for name in row.sized:
            self._check_size(call, name)
        if row.masks:
            for index in values.get("indices", ()):
                if isinstance(index, np.ndarray) and index.dtype in (np.bool_, np.uint8):
                    raise Refusal("a mask as an index gives a shape that depends on values; use torch.where")
        if row.revealing is not None:
            for name, entry in zip(call.names, call.entries):
                if name == row.revealing and not entry.buffer.public:  # type: ignore[union-attr]
                    raise Refusal(f"shapes, places or time depend on the values of {name}, which are an owner's here")
        if row.revealing == "repeats":
            repeats, x = values["repeats"], values["self"]
            each = x.nbytes // max(repeats.size, 1)
            self.store.check_bytes(int(max(repeats.sum(dtype=np.float64), 0)) * each)

    def _check_size(self, call: Invocation, name: str) -> None:
        """Raise QuotaError if one argument already shows that too much memory would be allocated."""
        size, of = call.values.get(name), 1
        sizes: list[Any] = size if isinstance(size, list) else [size]
        if not sizes or not all(type(n) is int and n >= 0 for n in sizes):
            return  # the kernel raises the error for these sizes
        if call.row.name == "aten::repeat":
            of = call.values["self"].size
        self.store.check_bytes(math.prod(sizes) * of)
        if name in ("sections", "chunks") and sizes[0] > wire.MAX_ITEMS:
            raise Refusal(f"{sizes[0]:,} pieces are more than the {wire.MAX_ITEMS:,} results that an operator may have")

    def _seeded(self, op: wire.Op) -> Generator:
        """Return the generator for an operator, seeded by its key.

        The client knows the key, so the numbers reveal no values.
        """
        if op.key is not None:
            self._generator.manual_seed(op.key)
        return self._generator

    # ------------------------------------------------------------ private data

    def _run_on_private(self, call: Invocation) -> Exception | None:
        """Run an operator on private data. Its disclosure is determined before a kernel gets any private value.

        Returns
        -------
        Exception or None
            The operator's error, which does not depend on values.
        """
        op, row, entries, store = call.op, call.row, call.entries, self.store
        facts = disclosure.facts(op, call.given, entries, row.whole)
        if row.views:  # views use no values
            made = call.results(self._seeded(op))
            rows, _ = self._label(call, facts, [row_calls.Shaped(a.shape, a.dtype) for a, _ in made])
            for id_, (array, view) in enumerate(made, op.first):
                store.put(id_, array, False, view=view, rows=rows[id_ - op.first])
            return None
        # Lock public buffers that are not targets; a kernel must not write private values into them.
        free = [not e.buffer.public or any(e is t for t in call.targets) for e in entries]  # type: ignore[union-attr]

        def guarded(arrays: Iterable[Any]) -> Iterator[Any]:
            return (a if f else disclosure.locked(a) for a, f in zip(arrays, free))

        shown = [e for n, e in zip(call.names, entries) if n == row.revealing == "repeats"]  # public: see `_check`
        key = (facts, *free, *(e.array.tobytes() for e in shown))  # type: ignore[union-attr]
        outcome = self._foreseen.get(key)
        if outcome is None:
            outcome = disclosure.predict_outcome(
                entries, row.whole, lambda arrays: [a for a, _ in call.on(guarded(arrays)).results(Generator(0))], shown
            )
            self._foreseen.keep(key, outcome)
        if outcome.problem is not None:
            return outcome.problem
        store.check_bytes(sum(f.nbytes for f in outcome.results))
        store.check_objects(len(outcome.results))
        results = [row_calls.Shaped(f.shape, f.dtype) for f in outcome.results]
        if call.targets and not results:  # in-place operator: the targets are the results
            results = [row_calls.Shaped(e.array.shape, e.array.dtype) for e in call.targets]  # type: ignore[union-attr]
        rows, seconds = self._label(call, facts, results)
        # If an in-place operator keeps the row label of its target, the labels of the target and its views stay.
        # Otherwise, all targets become private and mixed.
        stays = (
            not outcome.results
            and rows == [e.label for e in call.targets if isinstance(e.label, row_labels.Rows)] != []
        )
        if not stays:
            for entry in call.targets:
                entry.buffer.public, entry.buffer.mixed = False, row.name  # type: ignore[union-attr]
        if not all(free):
            call = call.on(guarded(e.array for e in entries), targets=True)
        start = time.perf_counter()
        if stays:
            self._write_rows(call, results, rows)
        else:
            labels = rows if outcome.results else []
            found = self._on_values(call, outcome, results, labels)
            for id_, (array, fresh) in enumerate(zip(found, outcome.results, strict=True), op.first):
                own = array is not None and store.is_new(array, fresh.nbytes)
                store.put(id_, disclosure.held(array, fresh, own), False, rows=labels[id_ - op.first])
        self.pace.ran(row.name, max(outcome.seconds, seconds), time.perf_counter() - start)
        return None

    def _write_rows(self, call: Invocation, results: list[row_calls.Shaped], rows: list[row_labels.Label]) -> None:
        """Write into the target of an in-place operator that keeps a row label."""
        try:
            (found,) = call.by_rows(results, rows)
        except RAISED:  # out of memory, which does not depend on private values
            found = None
        if found is None:
            call.clear()
        else:
            call.targets[0].array[...] = found  # type: ignore[index]

    def _on_values(
        self, call: Invocation, outcome: Disclosure, results: list[row_calls.Shaped], rows: list[row_labels.Label]
    ) -> list[Any]:
        """Compute the results.

        Results with a row label are computed by kernels that cannot read values. The others are computed by the table's
        kernel, and are None if it fails.
        """
        found: list[Any] = [None] * len(outcome.results)
        labelled = [isinstance(label, row_labels.Rows) for label in rows]
        if not labelled or not all(labelled):
            try:
                found = [a for a, _ in call.results(self._seeded(call.op))]
            except RAISED:
                call.clear()
        if any(labelled):
            try:
                by_row = call.by_rows(results, rows)
            except RAISED:  # out of memory, which does not depend on private values
                by_row = [None] * len(results)
            found = [x if label else y for label, x, y in zip(labelled, by_row, found)]
        return found

    def _label(
        self, call: Invocation, facts: tuple, results: list[row_calls.Shaped]
    ) -> tuple[list[row_labels.Label], float]:
        """Return the labels of the results, and the seconds that it took to find them, without private values.

        Labels depend only on facts that the client knows. Labels that may depend on public values are not cached.
        """
        given = [e.label for e in call.entries]
        key = (*facts, *given)
        made = None if row_calls.depends_on_values(call) else self._labels.get(key)
        if made is None:
            start = time.perf_counter()
            found = row_calls.labels(call, results)
            made = found, time.perf_counter() - start
            self._labels.keep(key, made)
        return made

    # ------------------------------------------------------------ results

    def _keep(self, op: wire.Op, row: Served, out: Any) -> None:
        """Store public results under the ids that the client has chosen."""
        if row.one and op.count == 1 and not op.expected and type(out) is np.ndarray:
            view = row.returns[0][1]
            self.store.put(op.first, out if view else laid_out(out, None), True, "", view)
        elif row.returns or op.count or op.expected:
            for id_, (array, view) in enumerate(results(op, row, out), op.first):
                self.store.put(id_, array, True, view=view)

    def _poison(self, op: wire.Op, targets: list[StoredObject], failure: Failure) -> None:
        """Mark an operator's results as failed.

        Poison the buffers that it should have written, for all views of them.
        """
        for i in range(op.first, op.first + op.count):
            self.store.delete(i, i)
            self.store.put_failure(i, failure)
        for entry in targets:
            buffer = entry.buffer
            if buffer is not None and not buffer.readonly and buffer.poison is None:
                buffer.poison = failure


def _ids(arg: Any) -> list[int]:
    """Return the ids of the objects in an argument."""
    return [x.id for x in (arg.items if isinstance(arg, wire.Items) else (arg,)) if type(x) is wire.Handle]


def _failure(row: Served, error: Exception, seq: int) -> Failure:
    if isinstance(error, ProtocolError):
        raise error
    if isinstance(error, (QuotaError, MemoryError)):
        return Failure(seq, "quota", "", error_text(error) or "the server is out of memory", row.name, trace_of(error))
    names = [c.__name__ for c in type(error).__mro__]
    cls = next((n for n in names if n in KERNEL_ERRORS), None)
    text = error_text(error)
    if cls is None:
        cls, text = "RuntimeError", f"{names[0]}: {text}"
    return Failure(seq, "op", cls, text, row.name, trace_of(error))
