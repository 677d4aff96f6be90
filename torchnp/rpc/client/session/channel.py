"""The client's side of a session, without torch: numbers operators, batches them, and matches replies to them.

One thread per session owns the transport: it packs, sends, receives and keeps the books. The threads of the program only
append to a queue, one step that nothing can cut in two: a KeyboardInterrupt, wherever it comes, leaves the session whole.
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
from torchnp.rpc.client.session.session_thread import leave, work
from torchnp.rpc.client.tensor.release import Quote
from torchnp.rpc.client.transports.failures import last_word
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

LEAVE_SECONDS = 5.0  # that closing waits for the thread
MANY_OPS = 4 * BATCH_OPS  # for which the thread is woken
TOGETHER = 8  # frames of operators and of deletes, at most about so many
MAX_COPIED = 1 << 16  # bytes of a tensor that are copied, so that the sender need not wait until they are sent

Object = TypeVar("Object")


class Channel:
    """One session with one server, from the thread or threads that use it.

    Nothing waits for the server but `sync`, `publish`, `finish`, and a sender that is far ahead. A failure is raised by
    whoever asks for a value that depends on it; those that nobody asked about, by `sync` or `finish`.

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
        self.deadline: float | None = None  # seconds that whoever asks the server waits for its answer
        self._unanswered = Unanswered()
        self._dead: RPCError | None = None
        self._unreported = False  # whether the session died while nobody was there to be told
        self._lock = threading.RLock()  # ids stand in the queue in their order
        self._queue: deque[Any] = deque()
        self._next_id = self._weight = 0
        self.tape: Any = None  # where what is sent is noted: torchnp.rpc.client.program.recording
        # What follows is the thread's.
        self._sent, self._defined = Sent(transport.name, transport.window), Defined()
        self._requests = 0
        self._task: ThreadTask | None = None
        self._batch = Batch()
        self.welcome = greeted(transport, agreement, token, timeout)
        self._start()
        forks.watch(self)

    def _start(self, works: bool = True) -> None:
        self._busy = self._signalled = self.flush_requested = False
        self.owned = threading.Lock()  # held while the thread is at work
        self._progress = threading.Event()
        self._wake: queue.SimpleQueue[bool] = queue.SimpleQueue()
        if not works:
            return
        arguments = weakref.ref(self), self._wake, self.transport
        self._thread = threading.Thread(target=work, args=arguments, name="torchnp-rpc", daemon=True)
        self._thread.start()
        self._finalizer = weakref.finalize(self, leave, self.transport, self._wake)

    # ------------------------------------------------------------ the program's side

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
        """Send an operator and return what ``make`` makes of the ids of its ``count`` results; does not wait for it."""
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
        """Send a tensor's bytes and return what ``make`` makes of its id; waits until large ones are on their way."""
        small = len(raw) <= MAX_COPIED
        task = Upload(dtype, shape, order, bytes(raw) if small else raw, where)
        made = self._append(task, make)
        if not small:
            self._hurry()
            task.wait()
        return made

    def open(self, name: str, where: Where = None, *, make: Callable[[int], Object]) -> Object:
        """Bind an id to a dataset of the server's."""
        return self._append(Opening(name, where), make)

    def play(
        self, program: CompiledProgram, inputs: list[int], keys: list[int], *, make: Callable[[int], Object]
    ) -> list[Object]:
        """Call a program and return what ``make`` makes of the ids of the results that are kept."""
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
        """Say that a program is not called any more; safe in a destructor, on any thread."""
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
        """Say that no handle needs an object any more; safe in a destructor, on any thread."""
        self._queue.append(id_)  # behind whatever uses it, which held it alive
        if self.tape is not None:
            self.tape.gone.add(id_)
        if not self._signalled:
            self._signal()

    def _signal(self) -> None:
        self._signalled = True
        self._wake.put(True)

    def _hurry(self) -> None:
        """Have what waits sent at once; wakes the thread whatever was said before, as an interrupt may have cut that short."""
        self.flush_requested = True
        self._wake.put(True)

    def _hold_back(self) -> None:
        """Wait while the thread has much to do."""
        while self._dead is None and not self.closed:
            self._progress.clear()
            if len(self._queue) + self._sent.ahead <= self.transport.window:
                break
            self._hurry()
            self._progress.wait(1.0)

    def _ask(self, request: Request, answered: Callable[[], None] = lambda: None) -> Any:
        with self._lock:
            self._alive()
            if self.tape is not None:
                self.tape.invalidate("asks for values")
            self.round_trips += 1
            self._queue.append(request)
        self._hurry()
        request.wait_for(self.name, self.deadline)
        answered()
        if type(reply := request.reply) is wire.Err:
            raise self._sent.told(reply)
        return reply

    def sync(self) -> wire.Status:
        """Wait until everything sent has been done; raises the earliest failure since the last time."""
        status = self._ask(Request(wire.Sync))
        if self._sent.failed:
            raise self._sent.earliest()
        return status

    def quote(self, id_: int, terms: wire.Terms) -> Quote:
        """What a release of an object would cost."""
        reply = self._ask(Request(wire.QuoteRequest, id_, terms))
        return Quote(*[getattr(reply, name) for name in Quote.__dataclass_fields__])

    def publish(self, id_: int, terms: Any = None, announced: Announced | None = None) -> tuple[str, list[int], Any]:
        """The dtype's name, the shape and the bytes of an object, or of a release of it, in C order.

        Raises the failure that the object depends on, and no other, and ProtocolError for what was not announced.
        """
        asked = id_, repr(terms), self.ops_sent
        more = () if terms is None else (self._unanswered.key_of(asked), terms)
        request = Request(wire.Publish, id_, *more, announced=announced)
        reply = self._ask(request, lambda: self._unanswered.answered(asked))
        if request.problem:
            raise ProtocolError(request.problem)
        return reply.dtype, reply.shape, request.raw

    # ------------------------------------------------------------ the thread's side, which it alone calls

    def pump(self, quiet: bool) -> bool:
        """Send full batches, all that waits if it is quiet, and answer what was asked; whether anything is left."""
        with self.owned:
            self._busy, self.flush_requested, self._weight = True, False, 0
            try:
                if self._dead is None:
                    self._drain()
                    if quiet:
                        self._send(self._batch.taken(self._sent))
                        if self._sent.ahead:
                            self._take_all()
            except RPCError as error:
                self.fail(error)
            except (*FAILURES, OSError, MemoryError) as error:  # whoever waits for this thread must not wait for ever
                self.fail(ConnectionLost(f"the session with {self.name} broke: {type(error).__name__}: {error}"))
            finally:
                self._busy = False
                self._progress.set()
        return self._dead is None and bool(self._batch or self._queue)

    def try_sleep(self) -> bool:
        """Have the next message wake the thread, which goes to rest; whether it may, as nothing has come meanwhile."""
        self._signalled = False
        return not self._queue

    def poll_idle(self) -> None:
        """Take what the server says unasked: a connection that is lost while nobody sends is made again in time."""
        with self.owned:
            settled = not self._unsettled()
            try:
                if self._dead is None:
                    self._take_all()
            except RPCError as error:
                self.fail(error)
                self._unreported = (
                    self._unreported and not settled
                )  # nothing is lost but handles, which say so when used

    def fail(self, error: RPCError) -> None:
        """End the session, and tell whoever waits for something."""
        with self._lock:
            self._dead = self._dead or error
            waiting = [m for m in (self._task, *self._queue) if isinstance(m, ThreadTask)]
            self._queue.clear()
            self._task = None
        self._unreported = not self.closed and not any(type(task) is Request for task in waiting)
        for task in waiting:
            task.finish(self._dead)

    def _drain(self) -> None:
        """Take what the queue holds in order; deletes may come later than they were said, and go with full batches."""
        queue, batch = self._queue, self._batch
        frames: list[bytes] = []  # that are sent together
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
                    data = wire.Data(seq, task.id, task.dtype, task.shape, task.order, offset, part)
                    self.transport.send([wire.encode(data)])
                    self._take_all()
            self._take_all()

    def _send(self, frames: list[bytes]) -> None:
        if not frames:
            return
        self.transport.send(frames)
        if self._sent.ahead > self.transport.window // 4:  # to look for replies costs as much as to send a frame
            self._take_all()
        while self._sent.ahead > self.transport.window:
            self._take(self.transport.receive(None))
        self._progress.set()

    def _answer(self, request: Request) -> None:
        """Ask the server and wait for its answer."""
        number = self._requests = self._requests + 1
        self.transport.send([wire.encode(request.kind(number, self._sent.seq, *request.values))])
        while not request.whole:
            request.take(self._reply(ANSWERS[request.kind], number))

    def _reply(self, kind: type, request: int) -> Any:
        """Wait for the answer to a request."""
        while True:
            reply = self._take(self.transport.receive(None))
            if type(reply) in (kind, wire.Err) and reply.request == request:
                return reply

    def _take_all(self) -> None:
        while (reply := self.transport.receive(0.0)) is not None:
            self._take(reply)

    def _take(self, frame: wire.Bytes | None) -> Any:
        """Note what a reply says about operators, and return it."""
        if frame is None:
            return None
        reply: Any = wire.decode_reply(frame)
        kind = type(reply)
        if kind is wire.Ack:
            self._sent.acknowledge(reply.seq)
        elif kind is wire.Err:
            if reply.fatal:
                raise last_word(reply, self.name)
            if reply.seq >= 0:
                self._sent.note(reply)
        elif kind is wire.Status:
            self._sent.acknowledge(reply.seq)
        return reply

    # ------------------------------------------------------------ the end

    @property
    def waiting(self) -> int:
        """How many messages of the program's the thread has not seen yet."""
        return len(self._queue)

    @property
    def dead(self) -> bool:
        """Whether something fatal ended the session."""
        return self._dead is not None

    def _alive(self) -> None:
        if self.closed:
            raise SessionClosed(f"the session with {self.name} is closed; its handles have no values any more")
        if self._dead is not None:
            self._unreported = False
            # The same error is raised each time: without the frames of the last time, which hold handles.
            raise self._dead.with_traceback(None)

    def _unsettled(self) -> bool:
        """Whether anything was sent, or is to be, of which the server has not said that it went well."""
        waits = any(type(message) is not int for message in list(self._queue))
        return waits or self._busy or bool(self._batch.ops) or self._sent.seq > self._sent.acked or self._sent.failed

    def finish(self) -> None:
        """Close, and raise what went wrong and has not been raised yet."""
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
        """End the session; the server forgets its objects. Does nothing the second time."""
        self.closed = True
        leave(self.transport, self._wake)
        if threading.current_thread() is not self._thread:
            self._thread.join(LEAVE_SECONDS)

    def forked(self) -> None:
        """In a forked process: no thread of the parent's is here, nor what one of them held."""
        self._lock = threading.RLock()
        self._finalizer.detach()
        self._start(self.transport.inherited)
        if not self.transport.inherited and not self.closed:
            text = f"the session with {self.name} is the parent process's, and so are its handles: connect in this one"
            self.fail(SessionClosed(text))
            self._unreported = False
            self.transport.close()
