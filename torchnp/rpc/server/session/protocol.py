"""The protocol of one client, independent of the transport: frames, their order, and replies."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import numpy as np

import torchnp
from torchnp.core.target import VERSIONS
from torchnp.rpc import wire
from torchnp.rpc.exceptions import LedgerError, PrivacyError, ProtocolError, QuotaError
from torchnp.rpc.server.config.tokens import Rights
from torchnp.rpc.server.monitoring.counters import Count, Counters
from torchnp.rpc.server.monitoring.event_log import note, place_of
from torchnp.rpc.server.privacy import disclosure, publish_rows, row_labels
from torchnp.rpc.server.privacy.disclosure import RAISED
from torchnp.rpc.server.session.error_text import error_text
from torchnp.rpc.server.session.executor import Executor
from torchnp.rpc.server.session.object_store import Failure, ObjectStore
from torchnp.rpc.server.session.program_store import Programs
from torchnp.rpc.server.session.server_state import ServerState
from torchnp.rpc.server.session.uploads import Uploads

MOST_FAILURES = 1024  # maximum number of failures that are reported for one call of a program
MOST_LOGGED = 100  # failures of a session that are logged in a second; of the others only the number


def last_word(kind: str, text: object) -> bytes:
    """Return the frame that says why a connection is closed."""
    return wire.encode(wire.Err(kind, "", error_text(text), fatal=True))


def greet(
    state: ServerState, hello: Any, peer: str, count: Count, names: Collection[str] = ()
) -> tuple[Rights | None, bytes]:
    """Check a client's first frame and the names in its certificate.

    Return its rights, or None if it is refused, and the reply.
    """
    if type(hello) is not wire.Hello:
        raise ProtocolError("the first frame is a HELLO")
    rights = state.admits(hello.token, names)
    if rights is None:
        count("token")
        note(logging.WARNING, "wrong token", peer)
        words = "the token is missing or wrong: pass rpc.connect(..., token=) the server's token"
        if state.tokens.certificates:
            words += ", or none with the certificate of a client that the owner knows"
        return None, last_word("auth", words)
    ours = state.agreement
    if hello.version != wire.VERSION or hello.digest != ours.digest:
        count("version")
        note(logging.WARNING, "version differs", peer)
        return None, last_word(
            "version",
            f"client and server differ: the client is torchnp {hello.package} with protocol {hello.version} and table "
            f"{hello.digest[:8]} of {hello.ops} operators, the server torchnp {wire.package()} with protocol "
            f"{wire.VERSION} and table {ours.digest[:8]} of {len(ours.names)}. Install the same version of torchnp on "
            f"both sides and start the server again{_with_target(hello.package)}",
        )
    datasets = [wire.Dataset(n, torchnp.dtypes.dtype_name(a.dtype), list(a.shape)) for n, a in rights.datasets.items()]
    limits = rights.limits
    libraries = [wire.Library(name, *about) for name, about in ours.libraries.items()]
    welcome = wire.Welcome(torchnp.__version__, limits.max_bytes, limits.max_objects, datasets, libraries)
    return rights, wire.encode(welcome)


def _with_target(package: str) -> str:
    """Return how to start a server with the client's version of torch as its target, if the versions differ."""
    _, _, version = package.partition(" for torch ")
    return f", with torchnp serve --target {version}" if version in VERSIONS and version != torchnp.target() else ""


class Connection:
    """The session of one client, with its objects and its sequence number.

    `handle` takes a frame and returns the replies. After a fatal reply, `closed` is true and further frames are
    ignored.
    """

    def __init__(
        self, state: ServerState, peer: str = "client", client: str | None = None, count: Count | None = None
    ) -> None:
        self.state, self.peer = state, peer
        # Before the HELLO, it does not matter which rights are set, because the client cannot do anything.
        self.rights = state.clients[client] if client is not None else next(iter(state.clients.values()))
        self.count = Counters(1).row(0) if count is None else count
        self.store = ObjectStore(self.rights.limits)
        self.closed = False
        self.known = False
        self.seq = 0
        # Set if operators have a deadline: called before each operator with its number in the table, counted from 1.
        self.watch: Callable[[int], None] | None = None
        self.rest: Callable[[], None] | None = None  # called when all operators have run but the reply must wait
        self._second = -math.inf  # when the second began in which failures are logged
        self._logged = self._unlogged = 0
        self.uploads = Uploads(self.store)
        self.programs = Programs()
        self.executor = Executor(state, self.store, self.rights, self.count)
        self._actions: dict[type, Callable[[Any], Iterable[bytes]]] = {
            wire.Ops: self._ops,
            wire.Data: self._data,
            wire.Packed: lambda request: self._data(wire.unpacked(request)),
            wire.Del: self._delete,
            wire.Open: self._open,
            wire.Sync: self._sync,
            wire.Wait: self._wait,
            wire.Publish: self._publish,
            wire.QuoteRequest: self._quote,
            wire.Define: self._define,
            wire.CallProgram: self._call,
            wire.Undefine: self._undefine,
        }

    def close(self) -> None:
        """Delete everything that the client stored. This may be called repeatedly."""
        if self.known and not self.closed:
            note(logging.INFO, "session closed", self.peer, client=self.rights.client)
        self.closed = True
        self.store.clear()
        self.uploads.clear()
        self.programs.clear()

    def handle(self, frame: wire.Bytes) -> Iterable[bytes]:
        """Handle a frame and return the reply frames. Errors that a frame can cause become replies."""
        if self.closed:
            return []
        self.count("received", len(frame))
        replies = self._handle(frame)
        seconds, late = self.executor.pace.wait(self.rights.client)
        if seconds:
            self.count("late", late)
            if self.rest is not None:
                self.rest()
            time.sleep(seconds)
        return self._sent(replies)

    def _sent(self, replies: Iterable[bytes]) -> Iterable[bytes]:
        """Count the bytes of replies. Chunks of a tensor are encoded only when they are read."""
        if isinstance(replies, list):
            self.count("sent", sum(map(len, replies)))
            return replies
        return (self._counted(reply) for reply in replies)

    def _counted(self, reply: bytes) -> bytes:
        self.count("sent", len(reply))
        return reply

    def _handle(self, frame: wire.Bytes) -> Iterable[bytes]:
        try:
            if not self.known:
                if len(frame) > wire.MAX_HELLO:
                    raise ProtocolError(f"the first frame is a HELLO of at most {wire.MAX_HELLO} bytes")
                return self._hello(wire.decode_request(frame))
            request: Any = wire.decode_request(frame)
            action = self._actions.get(type(request))
            if action is None:
                raise ProtocolError("HELLO is sent once")
            if self.uploads.open and type(request) not in (wire.Data, wire.Packed):
                raise ProtocolError("a tensor was not sent to its end")
            if self.programs.open and type(request) is not wire.Define:
                raise ProtocolError("a program was not sent to its end")
            if request.seq != self.seq:
                raise ProtocolError(f"sequence number {request.seq} came where {self.seq} was due")
            return action(request)
        except ProtocolError as error:
            return self.refuse(error)
        except RAISED as error:
            self.count("protocol")
            name = type(error).__name__
            note(logging.ERROR, "internal error", self.peer, client=self.rights.client, error=name, at=place_of(error))
            return self.end("protocol", f"internal error of the server: {name}")

    def refuse(self, error: ProtocolError) -> list[bytes]:
        """Close the session because the client violated the protocol."""
        self.count("protocol")
        note(logging.WARNING, "protocol error", self.peer, client=self.rights.client, at=place_of(error))
        return self.end("protocol", error)

    def end(self, kind: str, text: object) -> list[bytes]:
        """Close the session; return its last frame, which says why."""
        self.close()
        return [last_word(kind, text)]

    # ------------------------------------------------------------ the session

    def _hello(self, hello: Any) -> list[bytes]:
        rights, reply = greet(self.state, hello, self.peer, self.count)
        if rights is not None:
            self.known = True
            self.rights = self.executor.rights = rights
            self.store.limits = rights.limits
            note(logging.INFO, "session opened", self.peer, client=rights.client)
        else:
            self.close()
        return [reply]

    def _ack(self) -> bytes:
        return wire.encode(wire.Ack(self.seq))

    def _report(self, failure: Failure, replies: list[bytes]) -> None:
        """Count and log a failure, and add its frame to the replies, unless they are too many already."""
        self.count("failures")
        if failure.kind == "quota":
            self.count("quota")
        self._log(failure)
        if len(replies) < MOST_FAILURES:  # otherwise one short frame could cause a very large number of replies
            replies.append(_failed(failure))

    def _refused(self, failure: Failure) -> list[bytes]:
        replies: list[bytes] = []
        self._report(failure, replies)
        return [*replies, self._ack()]

    def _log(self, failure: Failure) -> None:
        """Log a failure without its text, which may contain values; only count it if there are too many."""
        now = time.monotonic()
        if now - self._second >= 1.0:
            self._second, self._logged = now, 0
        if self._logged >= MOST_LOGGED:
            self._unlogged += 1
            return
        cls = failure.cls or "QuotaError"
        note(
            logging.INFO, "operator failed", self.peer, client=self.rights.client, op=failure.op, error=cls,
            seq=failure.seq, stack=failure.trace, unlogged=self._unlogged or None,
        )  # fmt: skip
        self._logged, self._unlogged = self._logged + 1, 0

    def _delete(self, request: wire.Del) -> list[bytes]:
        low = 0
        for gap, more in request.ranges:
            low += gap
            self.store.delete(low, low + more)
            low += more + 1
        return []

    def _open(self, request: wire.Open) -> list[bytes]:
        array = self.rights.datasets.get(request.name)
        self.store.claim(request.id, 1)
        seq, self.seq = self.seq, self.seq + 1
        if array is None:
            failure = Failure(seq, "op", "ValueError", f"the server has no dataset {request.name!r}", "open")
            self.store.put_failure(request.id, failure)
            return self._refused(failure)
        self.store.put(
            request.id, array, public=False, readonly=request.name, rows=row_labels.of_dataset(request.name, array)
        )
        return [self._ack()]

    def _sync(self, request: wire.Sync) -> list[bytes]:
        return [wire.encode(wire.Status(request.request, self.seq, len(self.store), self.store.nbytes))]

    def _wait(self, request: wire.Wait) -> list[bytes]:
        failures = [entry.poison for entry in map(self.store.get, request.ids) if entry.poison]
        if failures:
            return [_failed(min(failures, key=lambda failure: failure.seq), request.request)]
        return self._sync(wire.Sync(request.request, request.seq))

    # ------------------------------------------------------------ tensors in and out

    def _data(self, request: wire.Data) -> list[bytes]:
        seq = self.seq
        try:
            if not self.uploads.take(request):
                return []
        except (QuotaError, MemoryError) as error:
            failure = Failure(seq, "quota", "", error_text(error) or "the server is out of memory", "send")
            self.store.put_failure(request.id, failure)
            self.seq += 1
            return self._refused(failure)
        self.seq += 1
        return [self._ack()]

    def _publish(self, request: wire.Publish) -> Iterator[bytes] | list[bytes]:
        entry = self.store.get(request.id)
        if entry.poison:
            return [_failed(entry.poison, request.request)]
        try:
            if request.terms is None:
                array = disclosure.release(entry)
            else:
                self._check_release()
                start = time.perf_counter()
                array = publish_rows.release_rows(self.state.ledger, self.rights.client, entry, request)
                took = time.perf_counter() - start  # this time hardly depends on the values
                self.executor.pace.ran("publish", took, took)
        except (PrivacyError, LedgerError) as error:
            return self._unreleased(error, request.request)
        except MemoryError:
            return self._out_of_memory(request.request)
        try:
            array = np.asarray(array, order="C")
        except MemoryError:
            return self._out_of_memory(request.request)
        self.count("exact" if request.terms is None else "noised")
        return _results(request.request, array)

    def _out_of_memory(self, request: int) -> list[bytes]:
        return [wire.encode(wire.Err("quota", "", "the server is out of memory", request=request))]

    def _check_release(self) -> None:
        if not self.rights.release:
            raise PrivacyError(f"the owner of the server gives the client {self.rights.client!r} no releases")

    def _unreleased(self, error: Exception, request: int) -> list[bytes]:
        kind, text = publish_rows.kind_of(error), str(error)
        self.count(kind)
        if kind == "ledger":  # the text contains the file's name, which only the owner may see
            note(logging.ERROR, "ledger fails", self.peer, client=self.rights.client, error=text)
            text = "the server's ledger cannot be used, so nothing was released: its owner finds the reason in the server's log"
        note(logging.INFO, "release refused", self.peer, client=self.rights.client, reason=kind)
        return [wire.encode(wire.Err(kind, "", error_text(text), request=request))]

    def _quote(self, request: wire.QuoteRequest) -> list[bytes]:
        entry = self.store.get(request.id)
        if entry.poison:
            return [_failed(entry.poison, request.request)]
        try:
            self._check_release()
            return [wire.encode(publish_rows.quote(self.state.ledger, self.rights.client, entry, request))]
        except (PrivacyError, LedgerError) as error:
            return self._unreleased(error, request.request)

    # ------------------------------------------------------------ operators

    def _ops(self, request: wire.Ops) -> list[bytes]:
        self.count("operators", len(request.ops))
        replies: list[bytes] = []
        self._run(request.ops, replies)
        replies.append(self._ack())
        return replies

    def _run(self, ops: list[wire.Op], replies: list[bytes]) -> None:
        self.executor.run_all(ops, self.seq, lambda failure: self._report(failure, replies), self.watch)
        self.seq += len(ops)

    # ------------------------------------------------------------ programs

    def _define(self, request: wire.Define) -> list[bytes]:
        self.programs.take(request)
        return []

    def _undefine(self, request: wire.Undefine) -> list[bytes]:
        self.programs.forget(request.program)
        return []

    def _call(self, request: wire.CallProgram) -> list[bytes]:
        program = self.programs.get(request.program)
        self.count("operators", program.count)
        replies: list[bytes] = []
        for ops, dropped in program.bound(request):
            self._run(ops, replies)
            for id_ in dropped:
                self.store.delete(id_, id_)
        replies.append(self._ack())
        return replies


def _failed(failure: Failure, request: int = 0) -> bytes:
    return wire.encode(wire.Err(failure.kind, failure.cls, failure.text, failure.op, failure.seq, request))


def _results(request: int, array: np.ndarray) -> Iterator[bytes]:
    """Yield frames of an array in C order, one chunk at a time, so that a slow client needs no second copy."""
    name = torchnp.dtypes.dtype_name(array.dtype)
    shape = list(array.shape)
    for offset, part in wire.chunks(wire.as_bytes(array)):
        yield wire.encode(wire.Result(request, name, shape, offset, part))
