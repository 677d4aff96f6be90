"""What the thread of a session does: it has what waits sent, looks after an idle connection, and closes the transport."""

from __future__ import annotations

import queue
import weakref
from typing import TYPE_CHECKING

from torchnp.rpc.client.session.batch import BATCH_OPS
from torchnp.rpc.client.transports.transport import Transport
from torchnp.rpc.exceptions import SessionClosed

if TYPE_CHECKING:
    from torchnp.rpc.client.session.channel import Channel

IDLE_SECONDS = 0.002
LOOK_SECONDS = 20.0  # after which a session that does nothing looks whether its connection is there


def leave(transport: Transport, wake: queue.SimpleQueue) -> None:
    """Have the channel's thread end, which closes the transport."""
    wake.put(False)
    transport.interrupt()


def work(ref: weakref.ref[Channel], wake: queue.SimpleQueue, transport: Transport) -> None:
    """What the channel's thread does: pump when there is hurry, when a batch waits, or when nothing new has come.

    While operators come it looks every IDLE_SECONDS, and nobody wakes it: to wake a thread takes as long as an operator.
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
                channel.look()
                continue
            quiet = timed_out and waiting == seen
            resting, seen = False, waiting
            if quiet or channel.hurried or waiting >= BATCH_OPS:
                left, seen = channel.pump(quiet), 0
                resting = quiet and not left and channel.rests()
            del channel
    finally:
        transport.close()
        if (channel := ref()) is not None:
            text = f"the session with {channel.name} is closed; its handles have no values any more"
            channel.die(SessionClosed(text))
