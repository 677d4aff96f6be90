"""A session's connection to its server, made again when it is lost: each frame is applied once, on both sides."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

import msgspec

from torchnp.rpc import wire
from torchnp.rpc.client.transports.transport import MAX_UNACKNOWLEDGED, Stream
from torchnp.rpc.exceptions import INFRASTRUCTURE, ConnectionLost, ProtocolError, RPCError
from torchnp.rpc.wire.outbox import Outbox

log = logging.getLogger("torchnp.rpc")

TELL = wire.WINDOW // 4  # cost of replies after which the server is told that they are here
SILENCE_SECONDS = 600.0
MAX_WAITING = (
    64 << 20
)  # cost of replies that wait while frames are sent: failures of as many operators as fit in a window
FIRST_WAIT, LAST_WAIT = 0.05, 1.0  # seconds between attempts to connect again


class ReconnectingTransport:
    """A transport over connections that may be lost.

    Frames are kept until the server says that it has taken them, as many as the window holds; what is lost with a
    connection is sent again on the next.

    Parameters
    ----------
    dial : callable
        Takes a number of seconds and gives a connection.
    timeout : float
        Seconds for the first connection.
    reconnect : float
        Seconds for which a lost connection is tried again; 0 for not at all.
    silence : float
        Seconds without a word from the server, while one is waited for, after which the connection is taken for lost.

    Raises
    ------
    ConnectionLost, AuthenticationError
        As ``dial`` does.
    """

    inherited = False
    window = MAX_UNACKNOWLEDGED

    def __init__(
        self,
        dial: Callable[[float], Stream],
        timeout: float = 10.0,
        reconnect: float = 30.0,
        silence: float = SILENCE_SECONDS,
    ) -> None:
        self._dial, self._timeout, self._reconnect, self._silence = dial, timeout, reconnect, silence
        self._stream = dial(timeout)
        self.name = self._stream.name
        self._before = (0, 0)  # bytes sent and received over connections that were lost
        self._outbox = Outbox(self.name)
        self._unacked_bytes = 0
        self._due = 1  # the number of the next reply
        self._replies: deque[wire.Bytes] = deque()
        self._waiting = 0  # cost of the replies
        self._hello: wire.Hello | None = None
        self._resume = ""
        self._over = False  # whether the server has ended the session
        self._left = threading.Event()

    @property
    def bytes_sent(self) -> int:
        return self._before[0] + self._stream.bytes_sent

    @property
    def bytes_received(self) -> int:
        return self._before[1] + self._stream.bytes_received

    # ------------------------------------------------------------ a transport

    def greet(self, hello: wire.Hello, timeout: float | None) -> bytes | None:
        frame, due = self._greeted(self._stream, hello, timeout)
        if due is not None and due != 1:
            raise ProtocolError(f"{self.name} says that it has frames of a session that has just begun")
        self._hello = hello
        return frame

    def _greeted(self, stream: Stream, hello: wire.Hello, timeout: float | None) -> tuple[bytes | None, int | None]:
        """The answer to HELLO, and the number of the frame that the server waits for if it has let us in."""
        stream.send([wire.encode(hello)])
        frame = stream.receive(timeout)
        if frame is None or type(wire.decode_reply(frame)) is not wire.Welcome:
            return frame, None
        message = stream.receive(timeout)
        if message is None:
            return None, None
        number, control = wire.split(message)
        ticket = wire.decode_control(control)
        if number or type(ticket) is not wire.Ticket:
            raise ProtocolError(f"{self.name} did not say what the session is resumed with")
        self._resume = ticket.resume
        return frame, ticket.due

    def send(self, frames: list[bytes]) -> None:
        messages: list[bytes] = []
        for frame in frames:
            cost = len(frame) + wire.OVERHEAD
            while self._outbox and self._outbox.cost + cost > wire.WINDOW and not self._over:
                self._say(messages)
                messages = []
                self._pull(None)
            messages.append(self._outbox.add(frame))
        self._say(messages)

    def receive(self, timeout: float | None = 0.0) -> wire.Bytes | None:
        end = None if timeout is None else time.monotonic() + timeout
        while not self._replies:
            if self._over:
                raise ConnectionLost(f"{self.name} has ended the session; its handles have no values any more")
            if not self._pull(None if end is None else max(end - time.monotonic(), 0.0)):
                return None
        frame = self._replies.popleft()
        self._waiting -= len(frame) + wire.OVERHEAD
        return frame

    def interrupt(self) -> None:
        self._left.set()
        self._stream.leave(wire.numbered(0, wire.encode(wire.Bye())))

    def close(self) -> None:
        self._stream.close()

    # ------------------------------------------------------------ messages

    def _say(self, messages: list[bytes]) -> None:
        """Send messages now, or with all that is kept over the next connection."""
        if self._over:
            return
        try:
            self._stream.send(messages)
        except ConnectionLost as error:
            self._connect_again(error)

    def _pull(self, timeout: float | None) -> bool:
        """Take the next message; whether one came within ``timeout`` seconds.

        None waits as long as the server is there: whoever answers another connection is at work still.
        """
        try:
            message = self._stream.receive(self._silence if timeout is None else timeout)
            if message is None and timeout is None:
                raise ConnectionLost(
                    f"the connection to {self.name} is lost (not a word came for {self._silence:g} s); its handles have no "
                    "values any more"
                )
        except ConnectionLost as error:
            self._connect_again(error)
            return True
        if message is None:
            return False
        number, frame = wire.split(message)
        if not number:
            self._control(frame)
        elif number > self._due:
            raise ProtocolError(f"{self.name} sent frame {number} where {self._due} was due")
        elif number == self._due:  # what came before is not applied again
            self._due += 1
            self._keep(frame)
            self._unacked_bytes += len(frame) + wire.OVERHEAD
            if self._unacked_bytes >= TELL:
                self._unacked_bytes = 0
                self._say([wire.numbered(0, wire.encode(wire.Credit(self._due)))])
        return True

    def _keep(self, frame: wire.Bytes) -> None:
        """Keep a reply until somebody asks for it; ProtocolError where far more come than there is to answer."""
        self._waiting += len(frame) + wire.OVERHEAD
        if self._waiting > MAX_WAITING:
            self._over = True
            raise ProtocolError(f"{self.name} sent more than {MAX_WAITING:,} bytes that nobody had asked for")
        self._replies.append(frame)

    def _control(self, frame: wire.Bytes) -> None:
        control = wire.decode_control(frame)
        if type(control) is wire.Credit:
            self._has(control.due)
        elif type(control) is wire.Bye:
            self._over = True
        elif type(control) is wire.Err:
            self._over = True
            self._keep(frame)
        else:
            raise ProtocolError(f"{self.name} sent a second ticket")

    def _has(self, due: int) -> None:
        """Forget what the server says that it has."""
        self._outbox.forget(due, self._outbox.next)

    # ------------------------------------------------------------ a lost connection

    def _connect_again(self, lost: ConnectionLost) -> None:
        """Have another connection carry the session.

        Raises
        ------
        ConnectionLost
            That cannot be, or the server does not have the session any more.
        """
        if self._over:
            return
        if not self._resume or not self._reconnect or self._left.is_set():
            raise lost
        log.warning("%s: trying for %g s to connect again", lost, self._reconnect)
        end, wait = time.monotonic() + self._reconnect, FIRST_WAIT
        while True:
            refusal = None
            try:
                refusal = self._resumed(self._dial(max(0.1, min(self._timeout, end - time.monotonic()))))
            except ConnectionLost:
                if self._left.wait(wait) or time.monotonic() > end:
                    raise ConnectionLost(f"{lost}; nobody answered there for {self._reconnect:g} s") from None
                wait = min(2 * wait, LAST_WAIT)
                continue
            if refusal is not None:
                raise refusal
            return

    def _resumed(self, stream: Stream) -> RPCError | None:
        """Go on with another connection; why the server does not let us."""
        old, self._stream = self._stream, stream
        self._before = self._before[0] + old.bytes_sent, self._before[1] + old.bytes_received
        old.close()
        assert self._hello is not None
        hello = msgspec.structs.replace(self._hello, resume=self._resume, due=self._due)
        frame, due = self._greeted(stream, hello, self._timeout)
        if frame is None:
            raise ConnectionLost(f"{self.name} did not answer")
        if due is None:
            err = wire.decode_reply(frame)
            assert isinstance(err, wire.Err)
            return INFRASTRUCTURE.get(err.kind, ProtocolError)(f"{err.text} (server: {self.name})")
        self._unacked_bytes = 0
        self._has(due)
        stream.send(self._outbox.since(due))
        if self._left.is_set():
            self.interrupt()
            raise ConnectionLost("the session is closed")
        log.info("%s: connected again", self.name)
        return None
