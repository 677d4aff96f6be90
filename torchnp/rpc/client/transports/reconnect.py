"""A session transport that reconnects after a loss; both sides apply each frame exactly once."""

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
from torchnp.rpc.wire.unacknowledged import UnacknowledgedFrames

log = logging.getLogger("torchnp.rpc")

TELL = wire.WINDOW // 4  # cost of replies after which the client acknowledges them
SILENCE_SECONDS = 600.0
MAX_WAITING = (
    64 << 20
)  # maximum cost of replies queued while sending: enough for failures of all operators that fit in a window
FIRST_WAIT, LAST_WAIT = 0.05, 1.0  # seconds between reconnect attempts, doubled each time


class ReconnectingTransport:
    """A transport that survives lost connections.

    Frames are kept, up to the size of the window, until the server acknowledges them. Frames that are lost with a
    connection are sent again on the next connection.

    Parameters
    ----------
    dial : callable
        Takes a timeout in seconds and returns a connection.
    timeout : float
        Seconds allowed for the first connection, and for each later attempt.
    reconnect : float
        Seconds for which reconnecting is tried; 0 disables it.
    silence : float
        Seconds without a message from the server, while the client waits for one, after which the connection counts as
        lost.

    Raises
    ------
    ConnectionLost, AuthenticationError
        Raised by ``dial``.
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
        self._before = (0, 0)  # bytes sent and received over earlier connections
        self._unacknowledged = UnacknowledgedFrames(self.name)
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
        """Return the answer to HELLO, and the number of the next frame that the server expects.

        The number is None if the server refused the session.
        """
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
            while self._unacknowledged and self._unacknowledged.cost + cost > wire.WINDOW and not self._over:
                self._say(messages)
                messages = []
                self._pull(None)
            messages.append(self._unacknowledged.add(frame))
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
        """Send messages; if the connection is lost, reconnect, which sends all kept frames."""
        if self._over:
            return
        try:
            self._stream.send(messages)
        except ConnectionLost as error:
            self._connect_again(error)

    def _pull(self, timeout: float | None) -> bool:
        """Take the next message; return whether one came within ``timeout`` seconds.

        With ``timeout=None``, wait as long as the server is alive; a server that accepts a new connection counts as
        alive.
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
        elif number == self._due:  # a repeated earlier frame is not applied again
            self._due += 1
            self._keep(frame)
            self._unacked_bytes += len(frame) + wire.OVERHEAD
            if self._unacked_bytes >= TELL:
                self._unacked_bytes = 0
                self._say([wire.numbered(0, wire.encode(wire.Credit(self._due)))])
        return True

    def _keep(self, frame: wire.Bytes) -> None:
        """Queue a reply until `receive` takes it; raise ProtocolError if there are far more replies than expected."""
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
        """Drop the frames that the server has acknowledged."""
        self._unacknowledged.forget(due, self._unacknowledged.next)

    # ------------------------------------------------------------ a lost connection

    def _connect_again(self, lost: ConnectionLost) -> None:
        """Resume the session on a new connection.

        Raises
        ------
        ConnectionLost
            Reconnecting is off or failed, or the server has lost the session.
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
        """Resume on a connection; return the server's refusal, or None on success."""
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
        stream.send(self._unacknowledged.since(due))
        if self._left.is_set():
            self.interrupt()
            raise ConnectionLost("the session is closed")
        log.info("%s: connected again", self.name)
        return None
