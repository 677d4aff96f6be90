"""The thread of a session, which sends waiting messages, polls an idle connection, and closes the transport."""

from __future__ import annotations

import queue
import weakref
from typing import Protocol

from torchnp.rpc.client.session.batch import BATCH_OPS
from torchnp.rpc.client.transports.transport import Transport
from torchnp.rpc.exceptions import RPCError, SessionClosed

IDLE_SECONDS = 0.002
LOOK_SECONDS = 20.0  # interval at which an idle session checks its connection


class Pumped(Protocol):
    """The interface of a channel that the thread uses."""

    name: str
    flush_requested: bool
    closed: bool

    @property
    def waiting(self) -> int: ...

    def poll_idle(self) -> None: ...

    def pump(self, quiet: bool) -> bool: ...

    def try_sleep(self) -> bool: ...

    def fail(self, error: RPCError) -> None: ...


def leave(transport: Transport, wake: queue.SimpleQueue) -> None:
    """Make the channel's thread end; it then closes the transport."""
    wake.put(False)
    transport.interrupt()


def work(ref: weakref.ref[Pumped], wake: queue.SimpleQueue, transport: Transport) -> None:
    """Run the channel's thread: pump on request, when a batch waits, or when no new operators have come.

    While operators come, the thread polls every IDLE_SECONDS instead of being woken, because waking a thread costs as
    much as an operator.
    """
    resting, seen = True, -1
    try:
        while True:
            timed_out = False
            try:
                if not wake.get(timeout=LOOK_SECONDS if resting else IDLE_SECONDS):
                    return
            except queue.Empty:
                timed_out = True
            channel = ref()
            if channel is None or channel.closed:
                return
            waiting = channel.waiting
            if timed_out and resting and not waiting:
                channel.poll_idle()
                continue
            quiet = timed_out and waiting == seen
            resting, seen = False, waiting
            if quiet or channel.flush_requested or waiting >= BATCH_OPS:
                left, seen = channel.pump(quiet), 0
                resting = quiet and not left and channel.try_sleep()
            del channel
    finally:
        transport.close()
        if (channel := ref()) is not None:
            text = f"the session with {channel.name} is closed; its handles have no values any more"
            channel.fail(SessionClosed(text))
