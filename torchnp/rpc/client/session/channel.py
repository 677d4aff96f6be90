"""The client side of a session, without torch: it numbers and batches operators, and matches replies to them.

One thread per session owns the transport: it encodes, sends, receives and keeps the state. The program's threads only
append to a queue. Appending is atomic, so a KeyboardInterrupt leaves the session intact, whenever it comes.
"""

from __future__ import annotations

import queue
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from torchnp.core.registry import FAILURES
from torchnp.rpc import wire
from torchnp.rpc.client.session import forks
from torchnp.rpc.client.session.batch import BATCH_BYTES, BATCH_OPS, Batch
from torchnp.rpc.client.session.pending import Defined, Sent
from torchnp.rpc.client.session.session_thread import IDLE_SECONDS, leave, work
from torchnp.rpc.client.tensor.publish import Quote
from torchnp.rpc.client.transports.error_frames import last_word
from torchnp.rpc.client.transports.requests import (
    ANSWERS,
    Announced,
    CompiledProgram,
    Forgetting,
    Opening,
    ProgramCall,
    Request,
    ThreadTask,
    Unanswered,
    Upload,
    Where,
)
from torchnp.rpc.client.transports.transport import Transport, greeted
from torchnp.rpc.exceptions import ConnectionLost, ProtocolError, RPCError, SessionClosed
from torchnp.rpc.wire import Agreement

LEAVE_SECONDS = 5.0  # time that closing waits for the thread
MANY_OPS = 4 * BATCH_OPS  # number of queued operators at which the thread is woken
TOGETHER = 8  # approximate maximum number of frames in one send
MAX_COPIED = 1 << 16  # tensors up to this many bytes are copied, so that the program need not wait until they are sent

Object = TypeVar("Object")


class Channel:
    """One session with one server; any thread of the program may use it.

    Only `sync`, `quote`, `publish`, `finish`, and a thread that is far ahead of the server wait for it. Publishing a
    value raises the failure that it depends on; `sync` and `finish` raise failures that have not been raised yet.

    Parameters
    ----------
    transport : Transport
    agreement : Agreement
        The client's operator table; the server must have the same.
    token : str, optional
        The access token, if the server requires one.
    timeout : float, optional
        Seconds that the server has to answer HELLO.
    """

    def __init__(
        self, transport: Transport, agreement: Agreement, token: str | None = None, timeout: float | None = None
    ) -> None:
        self.transport, self.name = transport, transport.name
        self.ops_sent = self.round_trips = 0
        self.closed = False
        self.compress = False  # whether uploads are compressed
        self.quota_errors = 0
        self.deadline: float | None = None  # seconds that a request waits for its answer
        self._unanswered = Unanswered()
        self._dead: RPCError | None = None
        self._unreported = False  # whether the session died without an error having been raised
        self._lock = threading.RLock()  # keeps ids in order in the queue
        self._queue: deque[Any] = deque()
        self._next_id = self._weight = 0
        self.tape: Any = None  # records sent operators: torchnp.rpc.client.program.recording
        # Only the thread uses the following attributes.
        self._sent, self._defined = Sent(transport.name, transport.window), Defined()
        self._requests = 0
        self._open: dict[int, Request] = {}  # by number: sent and unanswered requests that the thread does not wait for
        self._task: ThreadTask | None = None
        self._batch = Batch()
        self.welcome = greeted(transport, agreement, token, timeout)
        self._start()
        forks.watch(self)

    def _start(self, works: bool = True) -> None:
        self._busy = self._signalled = self.flush_requested = False
        self.owned = threading.Lock()  # held while the thread is working
        self._progress = threading.Event()
        self._wake: queue.SimpleQueue[bool] = queue.SimpleQueue()
        if not works:
            return
        arguments = weakref.ref(self), self._wake, self.transport
        self._thread = threading.Thread(target=work, args=arguments, name="torchnp-rpc", daemon=True)
        self._thread.start()
        self._finalizer = weakref.finalize(self, leave, self.transport, self._wake)

    # ------------------------------------------------------------ the program side

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
        *,
        make: Callable[[int], Object],
    ) -> list[Object]:
        """Queue an operator, without waiting; return ``make(id)`` for each of its ``count`` results."""
        queue = self._queue
        if len(queue) + self._sent.ahead > self.transport.window:
            self._hold_back()
        with self._lock:
            if self._dead is not None or self.closed:
                self._alive()
            first = self._next_id
            self._next_id = first + count
            made = [make(first)] if count == 1 else [make(i) for i in range(first, first + count)]
            op = wire.Op(index, first, count, args, kwargs, expected, key)
            queue.append((op, where, weight))
            if self.tape is not None:
                self.tape.note(op, where)
            self.ops_sent += 1
            self._weight += weight
        if not self._signalled:
            self._signal()
        elif (len(queue) >= MANY_OPS or self._weight >= BATCH_BYTES) and not self.flush_requested:
            self._hurry()
        return made

    def upload(
        self,
        dtype: str,
        shape: list[int],
        order: list[int],
        raw: memoryview,
        where: Where = None,
        *,
        make: Callable[[int], Object],
    ) -> Object:
        """Queue a tensor's bytes and return ``make(id)``; wait until a large tensor has been sent."""
        small = len(raw) <= MAX_COPIED
        task = Upload(dtype, shape, order, bytes(raw) if small else raw, where)
        made = self._append(task, make)
        if not small:
            self._hurry()
            task.wait()
        return made

    def open(self, name: str, where: Where = None, *, make: Callable[[int], Object]) -> Object:
        """Bind an id to a dataset of the server; return ``make(id)``."""
        return self._append(Opening(name, where), make)

    def play(
        self, program: CompiledProgram, inputs: list[int], keys: list[int], *, make: Callable[[int], Object]
    ) -> list[Object]:
        """Queue a program call; return ``make(id)`` for each kept result."""
        self._hold_back()
        with self._lock:
            self._alive()
            if self.tape is not None:
                self.tape.invalidate("calls another program")
            first = self._next_id
            self._next_id = first + program.made
            made = [make(first + i) for i in program.kept]
            self._queue.append(ProgramCall(program, first, inputs, keys))
            self.ops_sent += len(program.places)
        self._hurry()
        return made

    def undefine(self, name: str) -> None:
        """Queue the deletion of a program that will not be called again; safe in a destructor, on any thread."""
        self._queue.append(Forgetting(name))
        self._signal()

    def _append(self, task: Any, make: Callable[[int], Object]) -> Object:
        with self._lock:
            self._alive()
            if self.tape is not None:
                self.tape.sends(task.where)
            task.id = self._next_id
            self._next_id += 1
            made = make(task.id)
            self._queue.append(task)
        self._signal()
        return made

    def forget(self, id_: int) -> None:
        """Queue the deletion of an object without handles; safe in a destructor, on any thread."""
        self._queue.append(id_)  # after every operator that uses it, which kept it alive
        if self.tape is not None:
            self.tape.gone.add(id_)
        if not self._signalled:
            self._signal()

    def _signal(self) -> None:
        self._signalled = True
        self._wake.put(True)

    def _hurry(self) -> None:
        """Have the queue sent immediately.

        This always wakes the thread, because an interrupt may have cut short an earlier attempt to wake it.
        """
        self.flush_requested = True
        self._wake.put(True)

    def _hold_back(self) -> None:
        """Wait while the program is too far ahead (the transport's window)."""
        while self._dead is None and not self.closed:
            self._progress.clear()
            if len(self._queue) + self._sent.ahead <= self.transport.window:
                break
            self._hurry()
            self._progress.wait(1.0)

    def _put(self, request: Request) -> None:
        with self._lock:
            self._alive()
            if self.tape is not None:
                self.tape.invalidate("asks for values")
            self.round_trips += 1
            self._queue.append(request)
        self._hurry()

    def _ask(self, request: Request, answered: Callable[[], None] = lambda: None) -> Any:
        if threading.current_thread() is self._thread:
            raise RuntimeError(
                "a callback of publish_async() cannot wait for its session: use asyncio or another thread"
            )
        self._put(request)
        request.wait_for(self.name, self.deadline)
        answered()
        if type(reply := request.reply) is wire.Err:
            raise self._sent.told(reply)
        return reply

    def sync(self) -> wire.Status:
        """Wait until the server has done everything sent; raise the earliest failure that has not been raised yet."""
        status = self._ask(Request(wire.Sync))
        if self._sent.failed:
            raise self._sent.earliest()
        return status

    def wait(self, ids: list[int]) -> None:
        """Wait until objects have values; raise the earliest failure that they depend on."""
        self._ask(Request(wire.Wait, ids))

    def quote(self, id_: int, terms: wire.Terms) -> Quote:
        """Ask what a release of an object would cost."""
        reply = self._ask(Request(wire.QuoteRequest, id_, terms))
        return Quote(*[getattr(reply, name) for name in Quote.__dataclass_fields__])

    def publish(self, id_: int, terms: Any = None, announced: Announced | None = None) -> tuple[str, list[int], Any]:
        """Fetch an object, or a release of it, as its dtype's name, its shape, and its bytes in C order.

        Raise the failure that the object depends on, and no other. Raise ProtocolError if the tensor does not match
        ``announced``.
        """
        request, answered = self._publishing(id_, terms, announced)
        reply = self._ask(request, answered)
        if request.problem:
            raise ProtocolError(request.problem)
        return reply.dtype, reply.shape, request.raw

    def publish_async(
        self, id_: int, terms: Any, announced: Announced, done: Callable[[Any, BaseException | None], None]
    ) -> None:
        """Do the same as `publish` without waiting; call ``done`` in the session's thread with the result or error."""
        request, answered = self._publishing(id_, terms, announced)

        def finished() -> None:
            error: BaseException | None = request.error
            if error is None:
                answered()
                if type(request.reply) is wire.Err:
                    error = self._sent.told(request.reply)
                elif request.problem:
                    error = ProtocolError(request.problem)
            value = None if error is not None else (request.reply.dtype, request.reply.shape, request.raw)
            done(value, error)

        request.finished = finished
        self._put(request)

    def _publishing(self, id_: int, terms: Any, announced: Announced | None) -> tuple[Request, Callable[[], None]]:
        """Return the request to publish an object, and the function to call when it has been answered."""
        asked = id_, repr(terms), self.ops_sent
        more = () if terms is None else (self._unanswered.key_of(asked), terms)
        request = Request(wire.Publish, id_, *more, announced=announced)
        return request, lambda: self._unanswered.answered(asked)

    # ------------------------------------------------------------ the thread side: only the thread calls these

    def pump(self, quiet: bool) -> bool:
        """Process the queue: send full batches (all if ``quiet``) and do requests; return whether anything is left."""
        with self.owned:
            self._busy, self.flush_requested, self._weight = True, False, 0
            try:
                if self._dead is None:
                    self._drain()
                    if quiet:
                        self._send(self._batch.taken(self._sent))
                        if self._sent.ahead:
                            self._take_all()
                        while self._open and not self._queue and not self.closed:
                            self._take(self.transport.receive(IDLE_SECONDS))
            except RPCError as error:
                self.fail(error)
            except (*FAILURES, OSError, MemoryError) as error:  # otherwise callers would wait for this thread for ever
                self.fail(ConnectionLost(f"the session with {self.name} broke: {type(error).__name__}: {error}"))
            finally:
                self._busy = False
                self._progress.set()
        return self._dead is None and bool(self._batch or self._queue)

    def try_sleep(self) -> bool:
        """Let the next message wake the thread; return whether it may sleep because the queue is still empty."""
        self._signalled = False
        return not self._queue

    def poll_idle(self) -> None:
        """Read unrequested messages, so that a connection that is lost while idle is restored in time."""
        with self.owned:
            settled = not self._unsettled()
            try:
                if self._dead is None:
                    self._take_all()
            except RPCError as error:
                self.fail(error)
                self._unreported = self._unreported and not settled  # only handles are lost, and they raise when used

    def fail(self, error: RPCError) -> None:
        """End the session with an error, which every waiting task receives."""
        with self._lock:
            self._dead = self._dead or error
            tasks = (self._task, *self._open.values(), *self._queue)
            waiting = [m for m in tasks if isinstance(m, ThreadTask)]
            self._queue.clear()
            self._open.clear()
            self._task = None
        self._unreported = not self.closed and not any(type(task) is Request for task in waiting)
        for task in waiting:
            task.finish(self._dead)

    def _drain(self) -> None:
        """Process the queue in order, except that deletes may be delayed until a batch is full."""
        queue, batch = self._queue, self._batch
        frames: list[bytes] = []  # to be sent together
        while queue:
            message = queue.popleft()
            if type(message) is tuple:
                if batch.add(message):
                    frames += batch.taken(self._sent)
                    if len(frames) >= TOGETHER:
                        self._send(frames)
                        frames = []
            elif type(message) is int:
                batch.deletes.append(message)
            else:
                self._task = message
                self._send(frames + batch.taken(self._sent))
                frames = []
                self._perform(message)
                self._task = None
                if type(message) is not Request or message.finished is None:
                    message.finish()
        self._send(frames)

    def _perform(self, task: Any) -> None:
        seq = self._sent.seq
        if type(task) is Request:
            self._answer(task)
        elif type(task) is Forgetting:
            self._send(self._defined.forgotten(task.name, seq))
        elif type(task) is ProgramCall:
            self._sent.add(task.program.places)
            self._send(self._defined.frames(task, seq))
        else:
            self._sent.add([task.where])
            if type(task) is Opening:
                self.transport.send([wire.encode(wire.Open(seq, task.id, task.name))])
            else:
                for offset, part in wire.chunks(memoryview(task.raw)):
                    data: Any = wire.Data(seq, task.id, task.dtype, task.shape, task.order, offset, part)
                    self.transport.send([wire.encode(wire.packed(data) if self.compress else data)])
                    self._take_all()
            self._take_all()

    def _send(self, frames: list[bytes]) -> None:
        if not frames:
            return
        self.transport.send(frames)
        if self._sent.ahead > self.transport.window // 4:  # checking for replies costs as much as sending a frame
            self._take_all()
        while self._sent.ahead > self.transport.window:
            self._take(self.transport.receive(None))
        self._progress.set()

    def _answer(self, request: Request) -> None:
        """Send a request and wait for the whole answer, unless the request has a callback for it."""
        number = self._requests = self._requests + 1
        if request.finished is not None:
            self._open[number] = request
        self.transport.send([wire.encode(request.kind(number, self._sent.seq, *request.values))])
        if request.finished is not None:
            self._take_all()
            return
        while not request.whole:
            request.take(self._reply(ANSWERS[request.kind], number))

    def _reply(self, kind: type, request: int) -> Any:
        """Wait for one frame of the answer to a request."""
        while True:
            reply = self._take(self.transport.receive(None))
            if type(reply) in (kind, wire.Err) and reply.request == request:
                return reply

    def _take_all(self) -> None:
        while (reply := self.transport.receive(0.0)) is not None:
            self._take(reply)

    def _take(self, frame: wire.Bytes | None) -> Any:
        """Decode a reply, record its acknowledgement or failure, and return it."""
        if frame is None:
            return None
        reply: Any = wire.decode_reply(frame)
        kind = type(reply)
        if kind is wire.Ack:
            self._sent.acknowledge(reply.seq)
        elif kind is wire.Err:
            if reply.fatal:
                raise last_word(reply, self.name)
            self.quota_errors += reply.kind == "quota"
            if reply.seq >= 0:
                self._sent.note(reply)
        elif kind is wire.Status:
            self._sent.acknowledge(reply.seq)
        if self._open and (asked := self._open.get(getattr(reply, "request", 0))) is not None:
            asked.take(reply)
            if asked.whole:
                del self._open[reply.request]
                asked.finish()
        return reply

    # ------------------------------------------------------------ the end

    @property
    def waiting(self) -> int:
        """Number of queued messages that the thread has not taken yet."""
        return len(self._queue)

    @property
    def dead(self) -> bool:
        """Whether an error ended the session."""
        return self._dead is not None

    def _alive(self) -> None:
        if self.closed:
            raise SessionClosed(f"the session with {self.name} is closed; its handles have no values any more")
        if self._dead is not None:
            self._unreported = False
            # The same error is raised each time; its old traceback is dropped, because its frames hold handles.
            raise self._dead.with_traceback(None)

    def _unsettled(self) -> bool:
        """Return whether any queued or sent message is unacknowledged, or any failure has not been raised."""
        waits = any(type(message) is not int for message in list(self._queue))
        return (
            waits
            or self._busy
            or bool(self._open)
            or bool(self._batch.ops)
            or self._sent.seq > self._sent.acked
            or self._sent.failed
        )

    def finish(self) -> None:
        """Close the session, and raise the earliest failure that has not been raised yet."""
        try:
            if self.closed:
                return
            if self._unreported:
                self._alive()
            if self._dead is None and self._unsettled():
                self.sync()
        finally:
            self.close()

    def close(self) -> None:
        """End the session; the server forgets its objects. Closing again does nothing."""
        self.closed = True
        leave(self.transport, self._wake)
        if threading.current_thread() is not self._thread:
            self._thread.join(LEAVE_SECONDS)

    def forked(self) -> None:
        """Reset the channel in a forked process, which lacks the parent's threads and has stale copies of locks."""
        self._lock = threading.RLock()
        self._finalizer.detach()
        self._start(self.transport.inherited)
        if not self.transport.inherited and not self.closed:
            text = f"the session with {self.name} is the parent process's, and so are its handles: connect in this one"
            self.fail(SessionClosed(text))
            self._unreported = False
            self.transport.close()
