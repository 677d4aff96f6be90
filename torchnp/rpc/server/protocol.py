"""What the server does with frames, whatever carries them: one `Service` per server, one `Connection` per client."""

from __future__ import annotations

import contextlib
import functools
import hmac
import logging
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

import torchnp
from torchnp.random import Generator, default_generator
from torchnp.registry import FAILURES
from torchnp.rpc import wire
from torchnp.rpc.exceptions import KERNEL_ERRORS, PrivacyError, ProtocolError, QuotaError, RPCError
from torchnp.rpc.server import privacy
from torchnp.rpc.server.arrays import laid_out, shaped
from torchnp.rpc.server.books import Entry, Failure, Limits, Store, root_of
from torchnp.rpc.server.rows import Served
from torchnp.rpc.wire import Agreement, agreement

log = logging.getLogger("torchnp.rpc")

# What a client's frame can bring about. MemoryError: it asked for too much, and what was made for it is dropped.
# RecursionError, a RuntimeError: it nested too deeply, and the stack is unwound. All else is the process's.
RAISED = (*FAILURES, AssertionError, ImportError, MemoryError, Warning, RPCError)


class Refusal(RuntimeError):
    """What the server itself does not do; its text tells no values."""


class Service:
    """The table, the owner's datasets, the token and the limits of a server.

    Parameters
    ----------
    table : mapping, optional
        Full overload names to kernels; torchnp's table by default.
    datasets : mapping of str to array, optional
        Arrays that clients can compute with and not read or write.
    token : str, optional
        What clients have to present.
    """

    def __init__(
        self,
        table: Mapping[str, Any] | None = None,
        datasets: Mapping[str, Any] | None = None,
        token: str | None = None,
        limits: Limits = Limits(),
    ) -> None:
        self.agreement = agreement() if table is None else Agreement(table)
        if token is not None and not isinstance(token, str):
            raise TypeError(f"a token is a string, not a value of type {type(token).__name__}")
        if token is not None and not 0 < len(token.encode(errors="replace")) <= wire.MAX_TOKEN:
            raise ValueError(f"a token has 1 to {wire.MAX_TOKEN} bytes")
        if not isinstance(limits, Limits):
            raise TypeError(f"limits are rpc.Limits(...), not a value of type {type(limits).__name__}")
        if datasets is not None and not isinstance(datasets, Mapping):
            raise TypeError(f"datasets are a dict of names and arrays, not a value of type {type(datasets).__name__}")
        self.token, self.limits = token, limits
        self.datasets = {name: _readonly(name, value) for name, value in (datasets or {}).items()}

    @functools.cache  # noqa: B019  (a service lives as long as its process)
    def row(self, index: int) -> Served:
        """The row of an index in the agreed table; ProtocolError if there is none."""
        if index >= len(self.agreement.names):
            raise ProtocolError(f"operator {index} is not in the agreed table of {len(self.agreement.names)}")
        name = self.agreement.names[index]
        return Served(name, self.agreement.table[name], self.agreement.schemas[name])


def _readonly(name: Any, value: Any) -> np.ndarray:
    array = np.asarray(value)
    if not isinstance(name, str) or array.dtype not in wire.DTYPES:
        raise TypeError(
            f"the dataset {name!r} of dtype {array.dtype}: names are strings, and arrays have a dtype of torch's"
        )
    if root_of(array)[1] != array.nbytes:
        array = array.copy()  # as_strided reaches all memory that an array is a part of
    array = array.view()
    array.flags.writeable = False
    return array


class Connection:
    """One client: its store, its random stream and its place in the sequence.

    `handle` takes a frame and gives the replies; after a fatal one `closed` is true and nothing more is taken.
    """

    def __init__(self, service: Service, peer: str = "client") -> None:
        self.service, self.peer = service, peer
        self.store = Store(service.limits)
        self.closed = False
        self.known = False
        self.seq = 0
        self.generator = Generator()  # seeded for each operator: no operator moves another's numbers
        self._upload: tuple[wire.Data, np.ndarray, int] | None = None
        self._actions: dict[type, Callable[[Any], Iterable[bytes]]] = {
            wire.Ops: self._ops,
            wire.Data: self._data,
            wire.Del: self._delete,
            wire.Open: self._open,
            wire.Sync: self._sync,
            wire.Publish: self._publish,
        }

    def close(self) -> None:
        """Forget everything that the client stored; does nothing the second time."""
        if self.known and not self.closed:
            log.info("%s: session closed", self.peer)
        self.closed = True
        self.store.clear()
        self._upload = None

    def handle(self, frame: bytes) -> Iterable[bytes]:
        """Act on a frame and return the frames to send back; nothing that a frame can bring about is raised."""
        if self.closed:
            return []
        try:
            if not self.known:
                if len(frame) > wire.MAX_HELLO:
                    raise ProtocolError(f"the first frame is a HELLO of at most {wire.MAX_HELLO} bytes")
                return self._hello(wire.decode_request(frame))
            request: Any = wire.decode_request(frame)
            action = self._actions.get(type(request))
            if action is None:
                raise ProtocolError("HELLO is sent once")
            if self._upload is not None and type(request) is not wire.Data:
                raise ProtocolError("a tensor was not sent to its end")
            if request.seq != self.seq:
                raise ProtocolError(f"sequence number {request.seq} came where {self.seq} was due")
            return action(request)
        except ProtocolError as error:
            return self.refuse(error)
        except RAISED as error:
            log.exception("%s: closed after an internal error", self.peer)
            return self._fatal("protocol", f"internal error of the server: {type(error).__name__}")

    def refuse(self, error: ProtocolError) -> list[bytes]:
        """Close the session over something that the protocol does not allow."""
        log.warning("%s: closed: %s", self.peer, error)
        return self._fatal("protocol", error)

    def _fatal(self, kind: str, text: object) -> list[bytes]:
        self.close()
        return [wire.encode(wire.Err(kind, "", str(text)[:8192], fatal=True))]

    # ------------------------------------------------------------ the session

    def _hello(self, hello: Any) -> list[bytes]:
        if type(hello) is not wire.Hello:
            raise ProtocolError("the first frame is a HELLO")
        token = self.service.token
        if token is not None and not hmac.compare_digest(token.encode(), hello.token.encode()):
            log.warning("%s: wrong token", self.peer)
            return self._fatal(
                "auth", "the token is missing or wrong: pass rpc.connect(..., token=) the server's token"
            )
        ours = self.service.agreement
        if hello.version != wire.VERSION or hello.digest != ours.digest:
            return self._fatal(
                "version",
                f"client and server differ: the client is torchnp {hello.package} with protocol {hello.version} and table "
                f"{hello.digest[:8]} of {hello.ops} operators, the server torchnp {torchnp.__version__} with protocol "
                f"{wire.VERSION} and table {ours.digest[:8]} of {len(ours.names)}. Install the same version of torchnp on "
                "both sides and start the server again",
            )
        self.known = True
        log.info("%s: session opened", self.peer)
        datasets = [
            wire.Dataset(n, torchnp.dtypes.dtype_name(a.dtype), list(a.shape)) for n, a in self.service.datasets.items()
        ]
        limits = self.service.limits
        return [wire.encode(wire.Welcome(torchnp.__version__, limits.max_bytes, limits.max_objects, datasets))]

    def _ack(self) -> bytes:
        return wire.encode(wire.Ack(self.seq))

    def _report(self, failure: Failure) -> bytes:
        """The frame that tells of a failure, which the log tells as well: in one line, whatever a kernel's text holds."""
        log.info(
            "%s: %s failed: %s: %s", self.peer, failure.op, failure.cls or "QuotaError", " ".join(failure.text.split())
        )
        return _failed(failure)

    def _delete(self, request: wire.Del) -> list[bytes]:
        for low, high in request.ranges:
            self.store.delete(low, high)
        return []

    def _open(self, request: wire.Open) -> list[bytes]:
        array = self.service.datasets.get(request.name)
        self.store.claim(request.id, 1)
        seq, self.seq = self.seq, self.seq + 1
        if array is None:
            failure = Failure(seq, "op", "ValueError", f"the server has no dataset {request.name!r}", "open")
            self.store.put_failure(request.id, failure)
            return [self._report(failure), self._ack()]
        self.store.put(request.id, array, public=False, readonly=request.name)
        return [self._ack()]

    def _sync(self, request: wire.Sync) -> list[bytes]:
        return [wire.encode(wire.Status(request.request, self.seq, len(self.store), self.store.nbytes))]

    # ------------------------------------------------------------ tensors in and out

    def _data(self, request: wire.Data) -> list[bytes]:
        if request.offset == 0 and self._upload is None:
            dtype = wire.dtype_of(request.dtype)
            nbytes = wire.nbytes_of(dtype, request.shape)
            if sorted(request.order) != list(range(len(request.shape))):
                raise ProtocolError(f"{request.order} is no order of {len(request.shape)} dimensions")
            self.store.claim(request.id, 1)
            try:
                self.store.check_bytes(nbytes)
                target = np.empty(nbytes, np.uint8)
            except (QuotaError, MemoryError) as error:
                # The chunks that follow are taken and dropped.
                target = nbytes if isinstance(error, QuotaError) else -nbytes  # type: ignore[assignment]
            self._upload = (request, target, 0)
        if self._upload is None:
            raise ProtocolError("a chunk came without its beginning")
        first, target, done = self._upload
        size = target.size if isinstance(target, np.ndarray) else abs(target)
        if (
            (request.id, request.offset) != (first.id, done)
            or done + len(request.raw) > size
            or (size > done and not request.raw)
        ):
            raise ProtocolError("the chunks of a tensor do not fit together")
        if isinstance(target, np.ndarray):
            target[done : done + len(request.raw)] = np.frombuffer(request.raw, np.uint8)
        done += len(request.raw)
        if done < size:
            self._upload = (first, target, done)
            return []
        self._upload = None
        seq, self.seq = self.seq, self.seq + 1
        try:
            self.store.check_bytes(size)
            if not isinstance(target, np.ndarray):
                raise MemoryError
            self.store.put(first.id, shaped(target, first), public=True)
        except (QuotaError, MemoryError) as error:
            failure = Failure(seq, "quota", "", str(error) or "the server is out of memory", "send")
            self.store.put_failure(first.id, failure)
            return [self._report(failure), self._ack()]
        return [self._ack()]

    def _publish(self, request: wire.Publish) -> Iterator[bytes] | list[bytes]:
        entry = self.store.get(request.id)
        if entry.poison:
            return [_failed(entry.poison, request.request)]
        try:
            array = privacy.release(entry)
        except PrivacyError as error:
            return [wire.encode(wire.Err("private", "", str(error), request=request.request))]
        try:
            array = np.asarray(array, order="C")
        except MemoryError:
            text = "the server is out of memory"
            return [wire.encode(wire.Err("quota", "", text, request=request.request))]
        return _results(request.request, array)

    # ------------------------------------------------------------ operators

    def _ops(self, request: wire.Ops) -> list[bytes]:
        replies = []
        for op in request.ops:
            failure = self._run(op)
            if failure is not None:
                replies.append(self._report(failure))
            self.seq += 1
        replies.append(self._ack())
        return replies

    def _run(self, op: wire.Op) -> Failure | None:
        """Run one operator; the failure if it is the first on its way, None if it worked or an input had failed."""
        row = self.service.row(op.index)
        self.store.claim(op.first, op.count)
        used: list[Entry] = []
        targets: list[Entry] = []
        args = [self._value(a, targets if i in row.written else used) for i, a in enumerate(op.args)]
        kwargs = {k: self._value(a, targets if k in row.written else used) for k, a in op.kwargs.items()}
        inputs = used + targets
        poison = min((e.poison for e in inputs if e.poison), key=lambda f: f.seq, default=None)
        if poison is not None:
            self._poison(op, targets, poison)
            return None
        public = all(e.buffer.public for e in inputs)  # type: ignore[union-attr]
        try:
            if problem := row.problem(op.args, op.kwargs):
                raise Refusal(problem)
            self._check(row, args, kwargs, targets)
            if (op.key is None) == row.random:
                raise Refusal("a random operator comes with a key, and no other does")
            if not public:
                for entry in targets:
                    entry.buffer.public = False  # type: ignore[union-attr]
            if op.key is not None:
                self.generator.manual_seed(op.key)
            if row.generator:
                kwargs["generator"] = self.generator
            if row.random and not row.generator:
                with _as_default(self.generator):
                    out = row.run(*args, **kwargs)
            else:
                out = row.run(*args, **kwargs)
            if row.empty:
                for entry in targets:
                    entry.array.fill(0)  # type: ignore[union-attr]
            self._keep(op, row, out, public)
        except RAISED as error:
            failure = self._failure(row, error, public)
            self._poison(op, targets, failure)
            return failure
        return None

    def _value(self, arg: Any, entries: list[Entry]) -> Any:
        kind = type(arg)
        if kind is wire.Handle:
            entry = self.store.get(arg.id)
            entries.append(entry)
            return entry.array
        if kind is wire.Items:
            return [self._value(a, entries) for a in arg.items]
        if kind is wire.Dtype:
            return wire.dtype_of(arg.name)
        if kind is wire.Complex:
            return complex(arg.real, arg.imag)
        return arg

    def _check(self, row: Served, args: list, kwargs: dict[str, Any], targets: list[Entry]) -> None:
        for entry in targets:
            if entry.buffer is not None and entry.buffer.readonly:
                raise Refusal(
                    f"the server's dataset {entry.buffer.readonly!r} is read-only: clone() it and change the copy"
                )
        if row.sized is not None and row.sized < len(args) and isinstance(args[row.sized], list):
            sizes = args[row.sized]
            if all(type(n) is int and n >= 0 for n in sizes):
                of = next((a.size for a in args if isinstance(a, np.ndarray)), 1) if row.name == "aten::repeat" else 1
                self.store.check_bytes(math.prod(sizes) * of)
        if row.masks:
            for index in args[1] if len(args) > 1 and isinstance(args[1], list) else ():
                if isinstance(index, np.ndarray) and index.dtype in (np.bool_, np.uint8):
                    raise Refusal("a mask as an index gives a shape that depends on values; use torch.where")

    def _keep(self, op: wire.Op, row: Served, out: Any, public: bool) -> None:
        """Store the results under the ids that the client chose."""
        fresh = []
        for value, view in zip((out,) if row.single else out or (), row.returns, strict=True):
            if view is not None:
                fresh += [(v, view) for v in (value if isinstance(value, (list, tuple)) else (value,))]
        expected = op.expected
        if expected:
            if len(expected) != len(fresh):
                raise RuntimeError(f"{len(fresh)} results came where the client expects {len(expected)}")
            pairs = [(v, view, e) for (v, view), e in zip(fresh, expected, strict=True) if e is not wire.HOLE]
        else:
            pairs = [(v, view, None) for v, view in fresh]
        if len(pairs) != op.count or any(v is None for v, _, _ in pairs):
            raise RuntimeError(f"{len(pairs)} results came where the client expects {op.count}")
        for id_, (array, view, strides) in enumerate(pairs, op.first):
            if type(array) is not np.ndarray:
                array = np.asarray(array)
            if not view:
                if row.empty:
                    array.fill(0)
                array = laid_out(array, strides or None)
            self.store.put(id_, array, public, view=view)

    def _failure(self, row: Served, error: Exception, public: bool) -> Failure:
        if isinstance(error, ProtocolError):
            raise error
        if isinstance(error, (QuotaError, MemoryError)):
            return Failure(self.seq, "quota", "", str(error) or "the server is out of memory", row.name)
        if not public and not isinstance(error, Refusal):
            return Failure(self.seq, "op", "RuntimeError", privacy.WITHHELD, row.name)
        names = [c.__name__ for c in type(error).__mro__]
        cls = next((n for n in names if n in KERNEL_ERRORS), None)
        text = str(error)
        if cls is None:
            cls, text = "RuntimeError", f"{names[0]}: {text}"
        return Failure(self.seq, "op", cls, text[:8192], row.name)

    def _poison(self, op: wire.Op, targets: list[Entry], failure: Failure) -> None:
        """Results have failed, and so has whatever should have been written: its views must not be believed."""
        for i in range(op.first, op.first + op.count):
            self.store.delete(i, i)
            self.store.put_failure(i, failure)
        for entry in targets:
            buffer = entry.buffer
            if buffer is not None and not buffer.readonly and buffer.poison is None:
                buffer.poison = failure


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


def _failed(failure: Failure, request: int = 0) -> bytes:
    return wire.encode(wire.Err(failure.kind, failure.cls, failure.text, failure.op, failure.seq, request))


def _results(request: int, array: np.ndarray) -> Iterator[bytes]:
    """The chunks of an array in C order, one at a time: a client that reads slowly holds no second copy here."""
    name = torchnp.dtypes.dtype_name(array.dtype)
    shape = list(array.shape)
    for offset, part in wire.chunks(wire.as_bytes(array)):
        yield wire.encode(wire.Result(request, name, shape, offset, part))
