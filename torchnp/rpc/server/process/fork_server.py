"""Fork server that starts one worker process per session.

Because of this, one client's requests, however long or large, do not affect other clients.

The fork server (class `Nursery`) is itself forked before the server has any threads. On request it forks a worker for a
session, and it reports when a worker has ended. A worker receives its client's frames through a socket pair. It has its
own address space, a timer that ends it when an operator takes too long, and a limit on its total CPU time.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import mmap
import os
import select
import signal
import socket
import stat
import struct
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from torchnp.rpc import wire
from torchnp.rpc.exceptions import ProtocolError, QuotaError
from torchnp.rpc.server.config.tokens import Token
from torchnp.rpc.server.monitoring.counters import Counters
from torchnp.rpc.server.monitoring.event_log import note, redirect_child_output
from torchnp.rpc.server.monitoring.rlimits import HEADROOM, keep_memory, limit_memory, limit_processor, taken
from torchnp.rpc.server.privacy import row_calls
from torchnp.rpc.server.session.protocol import Connection
from torchnp.rpc.server.session.server_state import ServerState
from torchnp.threads import set_num_threads

STEP = 16 << 20  # a worker's share of the budget is a multiple of this many bytes
FRAME_SECONDS = 60.0  # time in which the rest of a frame must arrive after its beginning
_OPEN, _KILL, _TELL, _ENDED = range(4)
_HEAD = struct.Struct(">BIiI")  # command, session slot, exit status, length of the text that follows


class Budget:
    """The byte budget of all sessions, in memory that all processes share.

    Each session has a slot, with the bytes that are reserved for it and the operator that it is running.
    """

    def __init__(self, total: int | None, slots: int) -> None:
        self.total = total
        self._shared = memoryview(mmap.mmap(-1, 16 * slots)).cast("Q")
        self._slots = slots
        self._lock = tempfile.TemporaryFile()  # noqa: SIM115  (a lock on it ends with the process that holds it)

    def raise_to(self, slot: int, nbytes: int) -> int:
        """Reserve at least ``nbytes`` for a session; return the bytes that it may hold from now on.

        Raises
        ------
        QuotaError
            All sessions together would exceed the budget.
        """
        import fcntl

        if self.total is None:
            return 1 << 63
        fcntl.lockf(self._lock, fcntl.LOCK_EX)
        try:
            others = sum(self._shared[: self._slots]) - self._shared[slot]
            if others + nbytes > self.total:
                raise QuotaError(
                    f"all sessions of the server together hold as many bytes as it has: {nbytes:,} for this one are too many"
                )
            self._shared[slot] = min(-(-nbytes // STEP) * STEP, self.total - others)
            return self._shared[slot]
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN)

    def reserved(self) -> int:
        """Return the bytes that are reserved for all sessions together."""
        return sum(self._shared[: self._slots])

    def free(self, slot: int) -> None:
        """Release a session's slot."""
        self._shared[slot] = self._shared[self._slots + slot] = 0

    def at(self, slot: int, number: int) -> None:
        """Record which operator a session is running; 0 means none."""
        self._shared[self._slots + slot] = number

    def where(self, slot: int) -> int:
        """Return the operator that a session was running; 0 means none."""
        return self._shared[self._slots + slot]

    def fileno(self) -> int:
        return self._lock.fileno()


class Nursery:
    """The server's connection to the fork server, the process that forks workers.

    Parameters
    ----------
    state : ServerState
        What the workers share: operators, datasets and rights.
    budget : Budget
        The shared byte budget of the workers.
    counters : Counters
        Counters, with a row for each slot.
    """

    def __init__(self, state: ServerState, budget: Budget, counters: Counters) -> None:
        if not hasattr(os, "fork"):
            raise OSError("a server has a process for each client, which needs a system with fork; use rpc.local()")
        self.control, theirs = socket.socketpair()
        self._heard = bytearray()
        # Forking a process with threads warns. A server in a program's thread has such threads, but no worker needs
        # them.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if not self.pid:
            code = 1
            try:
                files = redirect_child_output()
                _let_go_of_all_but(theirs.fileno(), budget.fileno(), *files)
                if state.datasets:
                    row_calls.library()  # imported once, and not in a session, whose operators have a time limit
                _Children(theirs, state, budget, counters, files).run()
                code = 0
            finally:
                os._exit(code)
        theirs.close()
        self.control.setblocking(False)

    def open(self, slot: int, client: socket.socket, peer: str, name: str) -> None:
        """Start a worker for the client ``name``, whose frames arrive on a socket."""
        text = f"{peer[:200]}\n{name}".encode()
        socket.send_fds(self.control, [_HEAD.pack(_OPEN, slot, 0, len(text)) + text], [client.fileno()])

    def tell(self, tokens: Sequence[Token]) -> None:
        """Replace the tokens for workers that are started from now on."""
        text = msgspec.msgpack.encode(list(tokens))
        self.control.setblocking(True)
        self.control.sendall(_HEAD.pack(_TELL, 0, 0, len(text)) + text)
        self.control.setblocking(False)

    def kill(self, slot: int) -> None:
        """Kill a worker, whatever it is doing."""
        with contextlib.suppress(OSError):
            self.control.send(_HEAD.pack(_KILL, slot, 0, 0))

    def ended(self) -> Iterator[tuple[int, int]]:
        """Yield the slot and the exit code (negative: signal) of each worker that has ended.

        Raise EOFError if the fork server has ended.
        """
        part = self.control.recv(1 << 16)
        if not part:
            raise EOFError("the nursery has ended")
        self._heard += part
        while len(self._heard) >= _HEAD.size:
            _, slot, status, _ = _HEAD.unpack(self._heard[: _HEAD.size])
            del self._heard[: _HEAD.size]
            yield slot, status

    def end(self) -> None:
        """Kill all workers and the fork server immediately.

        They are one process group, and SIGKILL works whatever they are doing.
        """
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):  # the fork server has no process group yet, so it has no workers
            os.kill(self.pid, signal.SIGKILL)

    def close(self, seconds: float = 1.0) -> None:
        """Wait until the fork server has ended, which ends all workers; kill it after ``seconds``."""
        self.control.close()
        end = time.monotonic() + seconds
        with contextlib.suppress(ChildProcessError):
            while not os.waitpid(self.pid, os.WNOHANG)[0]:
                if time.monotonic() > end:
                    self.end()
                    os.waitpid(self.pid, 0)
                    return
                time.sleep(0.005)


def _let_go_of_all_but(*kept: int) -> None:
    """Replace all inherited files, except ``kept`` and 0 to 2, with the null device.

    A socket stays open as long as any process has it. A library may use files that it opened before the fork; gRPC does
    so at each further fork. It then finds the null device instead of its own files, and never a file that was opened
    later. Objects with which a library wakes itself (an eventfd, an epoll) stay open.
    """
    null = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/dev/fd"):
        if int(name) > 2 and int(name) not in (null, *kept):
            with contextlib.suppress(OSError):
                if stat.S_IFMT(os.fstat(int(name)).st_mode):
                    os.dup2(null, int(name), inheritable=False)
    os.close(null)


class _Children:
    """Main loop of the fork server: it forks, kills and reaps workers until the server closes its end of the socket."""

    def __init__(
        self, control: socket.socket, state: ServerState, budget: Budget, counters: Counters, files: list[int]
    ) -> None:
        self.control, self.state, self.budget, self.counters = control, state, budget, counters
        self.files = files  # file descriptors to which the log goes
        self.pids: dict[int, int] = {}
        self.heard = bytearray()
        self.sockets: list[int] = []

    def run(self) -> None:
        os.setsid()  # signals from a terminal then reach only the server
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        read, write = os.pipe()
        os.set_blocking(write, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        try:
            while True:
                ready = select.select([self.control.fileno(), read], [], [])[0]
                if read in ready:
                    os.read(read, 4096)
                    self._reap()
                if self.control.fileno() in ready and not self._handle_command():
                    return
        finally:
            for pid in self.pids.values():
                os.kill(pid, signal.SIGKILL)

    def _reap(self) -> None:
        for slot, pid in list(self.pids.items()):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                del self.pids[slot]
                self.control.sendall(_HEAD.pack(_ENDED, slot, os.waitstatus_to_exitcode(status), 0))

    def _handle_command(self) -> bool:
        part, fds, _, _ = socket.recv_fds(self.control, 1 << 16, 64)
        if not part:
            return False
        self.heard += part
        self.sockets += fds
        while len(self.heard) >= _HEAD.size:
            what, slot, _, length = _HEAD.unpack(self.heard[: _HEAD.size])
            if len(self.heard) < _HEAD.size + length:
                break
            text = bytes(self.heard[_HEAD.size : _HEAD.size + length])
            del self.heard[: _HEAD.size + length]
            if what == _OPEN:
                self._fork(slot, self.sockets.pop(0), text.decode(errors="replace"))
            elif what == _TELL:
                self.state.know(msgspec.msgpack.decode(text, type=list[Token]))
            elif slot in self.pids:
                os.kill(self.pids[slot], signal.SIGKILL)
        return True

    def _fork(self, slot: int, fd: int, text: str) -> None:
        peer, _, name = text.partition("\n")
        try:
            pid = os.fork()
        except OSError as error:
            note(logging.ERROR, "no process for a session", peer, client=name, error=error.strerror)
            self.control.sendall(_HEAD.pack(_ENDED, slot, 1, 0))
            pid = -1
        if not pid:
            code = 1
            try:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _let_go_of_all_but(fd, self.budget.fileno(), *self.files)
                connection = Connection(self.state, peer, name, self.counters.row(slot))
                _work(socket.socket(fileno=fd), connection, self.budget, slot)
                code = 0
            except (OSError, EOFError):  # the client or the server is gone
                code = 0
            finally:
                logging.shutdown()
                os._exit(code)
        if pid > 0:
            self.pids[slot] = pid
        os.close(fd)


# ---------------------------------------------------------------- the worker


class Clock:
    """Timer that ends this process when an operator exceeds its time limit, at most 1/64 of the limit too late."""

    def __init__(self, budget: Budget, slot: int, seconds: float) -> None:
        self._budget, self._slot, self._seconds = budget, slot, seconds
        self._wound = -1.0  # an operator that begins by this time still gets its full time from the running timer

    def start(self, number: int) -> None:
        """Record which operator begins, and give it its full time."""
        self._budget.at(self._slot, number)
        now = time.monotonic()
        if now > self._wound:  # not for each operator, because setting the system's timer takes longer than an operator
            signal.setitimer(signal.ITIMER_REAL, self._seconds * (65 / 64))
            self._wound = now + self._seconds / 64

    def stop(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._wound = -1.0


def _work(client: socket.socket, connection: Connection, budget: Budget, slot: int) -> None:
    """Serve one authenticated client until it leaves."""
    limits = connection.rights.limits
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # SIGALRM ends a kernel even inside a NumPy loop
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")  # if the machine runs out of memory, the system kills this process, not the server
    gc.freeze()  # objects inherited from the server live forever, so exclude them from garbage collection
    keep_memory()
    set_num_threads(1)  # clients run in parallel as processes
    limit_processor(limits.cpu_seconds)
    limit_memory(min(taken() + 2 * limits.max_bytes + HEADROOM, 1 << 62))
    connection.known = True
    connection.store.grow = lambda nbytes: budget.raise_to(slot, nbytes)

    clock = Clock(budget, slot, limits.op_seconds)
    connection.watch, connection.rest = clock.start, clock.stop
    frames: Any = client.makefile("rb", buffering=1 << 18)
    memory = memoryview(bytearray(wire.MAX_FRAME))
    while not connection.closed:
        try:
            frame = _frame(client, frames, memory, limits.idle_seconds)
        except ProtocolError as error:
            replies = connection.refuse(error)
        except TimeoutError as error:
            connection.count("idle")
            replies = connection.end("quota", str(error))
        else:
            if frame is None:
                break
            clock.start(0)
            replies = connection.handle(frame)  # type: ignore[assignment]
            clock.stop()
        client.settimeout(None)
        for reply in replies:
            client.sendall(wire.lengthened(reply))
    connection.close()
    client.shutdown(socket.SHUT_WR)  # closing a socket with unread data would discard the last replies
    client.settimeout(FRAME_SECONDS)
    with contextlib.suppress(TimeoutError):
        while client.recv(1 << 16):
            pass


def _frame(client: socket.socket, frames: Any, memory: memoryview, idle: float) -> memoryview | None:
    """Read the next frame into ``memory``; return None at the end of the stream.

    A frame that exceeds the length limit is refused before it is read.
    """
    client.settimeout(idle)
    try:
        head = frames.read(4)
    except TimeoutError:
        raise TimeoutError(f"nothing came for {idle:g} s, and the session has ended with all its handles") from None
    if len(head) < 4:
        return None
    length = int.from_bytes(head, "big")
    if length > wire.MAX_FRAME:
        raise ProtocolError(f"a frame of {length} bytes is longer than the {wire.MAX_FRAME} that may come here")
    client.settimeout(FRAME_SECONDS)
    try:
        return memory[:length] if frames.readinto(memory[:length]) == length else None
    except TimeoutError:
        raise ProtocolError(f"the rest of a frame did not come within {FRAME_SECONDS:g} s") from None
