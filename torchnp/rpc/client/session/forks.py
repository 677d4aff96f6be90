"""Sessions in a forked process: those with a server in it go on, those over a socket are the parent's."""

from __future__ import annotations

import os
import weakref
from typing import Any, Protocol


class Forkable(Protocol):
    """What is asked of a channel."""

    transport: Any
    owned: Any

    def forked(self) -> None: ...


_channels: weakref.WeakSet[Forkable] = weakref.WeakSet()
_paused: list[Forkable] = []


def watch(channel: Forkable) -> None:
    """Have a channel told of forks."""
    _channels.add(channel)


def _before() -> None:
    """A server in this process must not be copied in the middle of an operator."""
    for channel in list(_channels):
        if channel.transport.inherited:
            channel.owned.acquire()
            _paused.append(channel)


def _in_parent() -> None:
    while _paused:
        _paused.pop().owned.release()


def _in_child() -> None:
    _paused.clear()
    for channel in list(_channels):
        channel.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
