"""The client's side of a session, without torch: numbers operators, batches them, and matches replies to them."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator
from types import CodeType
from typing import Any

import numpy as np

import torchnp
from torchnp.rpc import wire
from torchnp.rpc.client.transport import Transport
from torchnp.rpc.exceptions import INFRASTRUCTURE, KERNEL_ERRORS, ConnectionLost, ProtocolError, RPCError, SessionClosed
from torchnp.rpc.wire import Agreement

BATCH_OPS = 64
BATCH_BYTES = 1 << 18
IDLE_SECONDS = 0.002
MAX_UNACKNOWLEDGED = 1 << 13
MAX_FAILURES = 1 << 12  # that are remembered, and whose places in the client's code are

Where = tuple[CodeType, int] | None  # see torchnp.rpc.client.place


class Channel:
    """One session with one server, from the thread or threads that use it.

    Nothing waits for the server but `sync`, `publish`, `finish`, and a sender that is MAX_UNACKNOWLEDGED operators ahead.
    A failure is raised by whoever asks for a value that depends on it; those that nobody asked about, by `sync` or
    `finish`.

    Parameters
    ----------
    transport : Transport
    agreement : Agreement
        The operators that are known here; the server must know the same.
    token : str, optional
        What the server asks for.
    timeout : float, optional
        Seconds that the server has for its welcome.
    """

    def __init__(
        self, transport: Transport, agreement: Agreement, token: str | None = None, timeout: float | None = None
    ) -> None:
        self.transport, self.name = transport, transport.name
        self.ops_sent = self.round_trips = 0
        self.closed = False
        self._dead: RPCError | None = None
        self._untold = False  # whether the session died while nobody was there to be told
        self._lock = threading.RLock()
        self._ops: list[wire.Op] = []
        self._weight = 0
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._seq = self._acked = self._next_id = self._requests = 0
        self._where: deque[Where] = deque()  # one per sequence number from _acked on
        self._failures: dict[int, wire.Err] = {}
        self._places: dict[int, Where] = {}
        self._forgotten: deque[int] = deque()
        self._signalled = False
        self._wake: queue.SimpleQueue[bool] = queue.SimpleQueue()
        hello = wire.Hello(wire.VERSION, agreement.digest, len(agreement.names), torchnp.__version__, token or "")
        with contextlib.ExitStack() as refused:
            refused.callback(self.transport.close)
            self.transport.send([wire.encode(hello)])
            self.welcome: wire.Welcome = self._reply(wire.Welcome, 0, timeout)
            refused.pop_all()
        _channels.add(self)
        threading.Thread(
            target=_idle, args=(weakref.ref(self), self._wake), name="torchnp-rpc-idle", daemon=True
        ).start()
        weakref.finalize(self, _leave, transport, self._wake)

    # ------------------------------------------------------------ sending

    def call(
        self,
        index: int,
        count: int,
        args: list,
        kwargs: dict[str, Any],
        expected: list,
        where: Where,
        weight: int = 0,
        key: int | None = None,
    ) -> int:
        """Send an operator with ``count`` results and return the id of the first; does not wait for it."""
        with self._lock:
            self._alive()
            if not self._ops:
                self._signal()
            first = self._next_id
            self._next_id = first + count
            self._ops.append(wire.Op(index, first, count, args, kwargs, expected, key))
            self._seq += 1
            self._where.append(where)
            self.ops_sent += 1
            self._weight += 48 + weight
            if len(self._ops) >= BATCH_OPS or self._weight >= BATCH_BYTES:
                self.flush()
            return first

    def upload(self, dtype: str, shape: list[int], order: list[int], raw: memoryview, where: Where = None) -> int:
        """Send a tensor's bytes and return its id."""
        with self._lock:
            self._alive()
            self._pack()
            seq, id_ = self._seq, self._numbered(where)
            for offset, part in wire.chunks(raw):
                frame = wire.encode(wire.Data(seq, id_, dtype, shape, order, offset, part))
                self._out.append(frame)
                self._out_bytes += len(frame)
                if self._out_bytes >= BATCH_BYTES:
                    with self._fatal():
                        self._push()
            return id_

    def open(self, name: str, where: Where = None) -> int:
        """Bind an id to a dataset of the server's."""
        with self._lock:
            self._alive()
            self._pack()
            seq, id_ = self._seq, self._numbered(where)
            self._out.append(wire.encode(wire.Open(seq, id_, name)))
            return id_

    def _numbered(self, where: Where) -> int:
        id_ = self._next_id
        self._next_id += 1
        self._seq += 1
        self._where.append(where)
        self._signal()
        return id_

    def forget(self, id_: int) -> None:
        """Say that no handle needs an object any more; safe in a destructor, on any thread."""
        self._forgotten.append(id_)
        if not self._signalled:
            self._signal()

    def _signal(self) -> None:
        self._signalled = True
        self._wake.put(True)

    def _pack(self) -> None:
        """Turn the operators that wait into a frame."""
        if self._ops:
            frame = wire.encode(wire.Ops(self._seq - len(self._ops), self._ops))
            self._out.append(frame)
            self._out_bytes += len(frame)
            self._ops, self._weight = [], 0

    def _pack_deletes(self) -> None:
        """Turn the ids that died into ranges; whatever used them has been packed before, as it held them alive."""
        ids = []
        while self._forgotten:
            ids.append(self._forgotten.popleft())
        if not ids:
            return
        ids.sort()
        ranges: list[tuple[int, int]] = []
        low = high = ids[0]
        for id_ in ids[1:]:
            if id_ == high + 1:
                high = id_
            else:
                ranges.append((low, high))
                low = high = id_
        ranges.append((low, high))
        for start in range(0, len(ranges), wire.MAX_ITEMS):
            self._out.append(wire.encode(wire.Del(self._seq, ranges[start : start + wire.MAX_ITEMS])))

    def _push(self) -> None:
        out, self._out, self._out_bytes = self._out, [], 0
        if out:
            self.transport.send(out)
        self._take_all()

    def flush(self) -> None:
        """Send what waits, and wait only if the server is far behind."""
        with self._lock:
            self._alive()
            with self._fatal():
                self._pack()
                self._pack_deletes()
                self._push()
                while self._seq - self._acked > MAX_UNACKNOWLEDGED:
                    self._take(self.transport.receive(None))

    # ------------------------------------------------------------ replies

    def _take_all(self) -> None:
        while (reply := self.transport.receive(0.0)) is not None:
            self._take(reply)

    def _take(self, frame: bytes | None) -> Any:
        """Note what a reply says about operators, and return it."""
        if frame is None:
            return None
        reply: Any = wire.decode_reply(frame)
        kind = type(reply)
        if kind is wire.Ack:
            self._acknowledge(reply.seq)
        elif kind is wire.Err:
            if reply.fatal:
                self._dead = INFRASTRUCTURE.get(reply.kind, ProtocolError)(f"{reply.text} (server: {self.name})")
                raise self._dead
            if reply.seq >= 0:
                self._note(reply)
        elif kind is wire.Status:
            self._acknowledge(reply.seq)
        return reply

    def _acknowledge(self, seq: int) -> None:
        if not self._acked <= seq <= self._seq:
            raise ProtocolError(f"the server acknowledged {seq}, which is not between {self._acked} and {self._seq}")
        for _ in range(seq - self._acked):
            self._where.popleft()
        self._acked = seq

    def _note(self, err: wire.Err) -> None:
        """Keep a failure and the place that issued the operator, until somebody asks for results."""
        if not err.request and len(self._failures) < MAX_FAILURES:
            self._failures.setdefault(err.seq, err)
        if 0 <= err.seq - self._acked < len(self._where):
            self._places[err.seq] = self._where[err.seq - self._acked]
            if len(self._places) > MAX_FAILURES:
                del self._places[next(iter(self._places))]

    def _reply(self, kind: type, request: int, timeout: float | None = None) -> Any:
        """Wait for the answer to a request."""
        while True:
            with self._fatal():
                frame = self.transport.receive(timeout)
                if frame is None:
                    raise ConnectionLost(
                        f"{self.name} did not answer within {timeout:g} s: is it a server of torchnp's?"
                    )
                reply = self._take(frame)
            if type(reply) is kind and getattr(reply, "request", 0) == request:
                return reply
            if type(reply) is wire.Err and request and reply.request == request:
                return reply

    def sync(self) -> wire.Status:
        """Wait until everything sent has been done; raises the earliest failure since the last time."""
        with self._lock:
            request = self._ask(wire.Sync)
            status = self._reply(wire.Status, request)
            self._raise_failure()
            return status

    def publish(self, id_: int) -> tuple[str, list[int], np.ndarray]:
        """The dtype's name, the shape and the bytes of an object, in C order.

        Raises the failure that the object depends on, and no other: values that did not depend on it are right.
        """
        with self._lock:
            request = self._ask(wire.Publish, id_)
            raw, done = None, 0
            while raw is None or done < raw.size:
                reply = self._reply(wire.Result, request)
                if type(reply) is wire.Err:
                    self._failures.pop(reply.seq, None)
                    raise self._error(reply)
                with self._fatal():
                    if raw is None:
                        raw = np.empty(wire.nbytes_of(wire.dtype_of(reply.dtype), reply.shape), np.uint8)
                    if reply.offset != done or done + len(reply.raw) > raw.size or (raw.size > done and not reply.raw):
                        raise ProtocolError("the chunks of a published tensor do not fit together")
                raw[done : done + len(reply.raw)] = np.frombuffer(reply.raw, np.uint8)
                done += len(reply.raw)
            return reply.dtype, reply.shape, raw

    def _ask(self, kind: type, *values: int) -> int:
        self.flush()
        self._requests += 1
        self.round_trips += 1
        with self._fatal():
            self.transport.send([wire.encode(kind(self._requests, self._seq, *values))])
        return self._requests

    # ------------------------------------------------------------ failures

    @contextlib.contextmanager
    def _fatal(self) -> Iterator[None]:
        """Whatever goes wrong with the transport ends the session, and is what every later use of it raises."""
        try:
            yield
        except RPCError as error:
            self._dead = self._dead or error
            raise

    def _raise_failure(self) -> None:
        if self._failures:
            failures, self._failures = self._failures, {}
            raise self._error(failures[min(failures)], len(failures) - 1)

    def _error(self, err: wire.Err, more: int = 0) -> Exception:
        location = _location(self._places.get(err.seq))
        also = f"; {more} more failed on their own" if more else ""
        if err.kind == "op":
            cls = KERNEL_ERRORS.get(err.cls, KERNEL_ERRORS["RuntimeError"])
            error: Any = cls(f"{err.text}\n  {err.op}, issued at {location}, failed on {self.name}{also}")
            error.op, error.seq, error.location, error.remote_text = err.op, err.seq, location, err.text
            return error
        issued = f"\n  {err.op}, issued at {location}" if err.seq >= 0 else ""
        return INFRASTRUCTURE.get(err.kind, ProtocolError)(f"{err.text} (server: {self.name}){issued}{also}")

    @property
    def dead(self) -> bool:
        """Whether something fatal ended the session."""
        return self._dead is not None

    def _alive(self) -> None:
        if self.closed:
            raise SessionClosed(f"the session with {self.name} is closed; its handles have no values any more")
        if self._dead is not None:
            self._untold = False
            # The same error is raised each time: without the frames of the last time, which hold handles.
            raise self._dead.with_traceback(None)

    def _forked(self) -> None:
        """In a forked process: no thread of the parent's is here, not the one that holds the lock either."""
        self._lock = threading.RLock()
        if not self.transport.inherited and not self.closed:
            self._dead = SessionClosed(
                f"the session with {self.name} is the parent process's, and so are its handles: connect in this one"
            )
            self.transport.close()

    def finish(self) -> None:
        """Close, and raise what went wrong and has not been raised yet."""
        with self._lock:
            try:
                if self.closed:
                    return
                if self._untold:
                    self._alive()
                if self._dead is None and (self._seq > self._acked or self._failures):
                    self.sync()
            finally:
                self.close()

    def close(self) -> None:
        """End the session; the server forgets its objects. Does nothing the second time."""
        with self._lock:
            if not self.closed:
                self.closed = True
                self._wake.put(False)
                self.transport.close()


_channels: weakref.WeakSet[Channel] = weakref.WeakSet()


def _forked() -> None:
    for channel in list(_channels):
        channel._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def _location(where: Where) -> str:
    if where is None:
        return "an unknown place"
    code, instruction = where
    for i, (line, *_) in enumerate(code.co_positions()):
        if i == instruction // 2:
            return f"{code.co_filename}:{line or code.co_firstlineno}"
    return f"{code.co_filename}:{code.co_firstlineno}"


def _leave(transport: Transport, wake: queue.SimpleQueue) -> None:
    wake.put(False)
    transport.close()


def _idle(channel: weakref.ref[Channel], wake: queue.SimpleQueue) -> None:
    """Send what waits once nothing new has come for IDLE_SECONDS."""
    while wake.get():
        seen = -1
        while True:
            time.sleep(IDLE_SECONDS)
            alive = channel()
            if alive is None or alive.closed:
                return
            if alive._seq == seen or not alive._ops:
                break
            seen = alive._seq
            del alive
        alive._signalled = False
        with alive._lock:
            if alive._dead is None and not alive.closed:
                try:
                    alive.flush()
                except RPCError:  # it is kept, and raised to whoever uses the session next
                    alive._untold = True
        del alive


__all__ = ["Channel", "ConnectionLost"]
