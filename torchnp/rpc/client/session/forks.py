"""Sessions in a forked process: in-process sessions continue, sessions over a socket remain the parent's."""

from __future__ import annotations

import os
import weakref
from typing import Any, Protocol


class Forkable(Protocol):
    """The interface of a channel that can be forked."""

    transport: Any
    owned: Any

    def forked(self) -> None: ...


_channels: weakref.WeakSet[Forkable] = weakref.WeakSet()
_paused: list[Forkable] = []


def watch(channel: Forkable) -> None:
    """Register a channel; its `forked` method is called in forked processes."""
    _channels.add(channel)


def _before() -> None:
    """Pause in-process sessions, because their server must not be copied in the middle of an operator."""
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
