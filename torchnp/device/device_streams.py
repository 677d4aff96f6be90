"""Streams and events of a synchronous device: kernels run in order and have finished when they return."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

DEVICE = "np"
_thread = threading.local()


class DeviceStream(torch.Stream):
    """``torch.np.Stream``. Work on it runs synchronously.

    Parameters
    ----------
    device : torch.device, str or int, optional
        The device ``np``. Its only index is 0.
    priority : int, optional
        Ignored.
    """

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> DeviceStream:
        return super().__new__(cls, device=DEVICE, priority=priority, **kwargs)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        """Return immediately, because all work has finished."""

    def wait_event(self, event: Any) -> None:
        """Return immediately, because the work that the event marks has finished."""

    def wait_stream(self, stream: Any) -> None:
        """Return immediately, because the other stream's work has finished."""

    def record_event(self, event: Any = None) -> Any:
        event = DeviceEvent() if event is None else event
        event.record(self)
        return event


class DeviceEvent(torch.Event):
    """``torch.np.Event``: a point in time.

    Parameters
    ----------
    enable_timing : bool
        Whether `elapsed_time` may be called.
    blocking, interprocess : bool
        Ignored.
    """

    _at: float | None = None
    _timed: bool

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> DeviceEvent:
        made = super().__new__(cls, device=DEVICE, enable_timing=enable_timing)
        made._timed = enable_timing
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def record(self, stream: Any = None) -> None:
        self._at = time.perf_counter()

    def query(self) -> bool:
        return True

    def wait(self, stream: Any = None) -> None:
        """Return immediately, because the work that the event marks has finished."""

    def synchronize(self) -> None:
        """Return immediately, because the work that the event marks has finished."""

    def elapsed_time(self, end_event: Any) -> float:
        """Return the milliseconds from this event to another.

        Raises
        ------
        ValueError
            One of the events was made without ``enable_timing``, or was not recorded.
        """
        if not (self._timed and end_event._timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._at is None or end_event._at is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return (end_event._at - self._at) * 1e3


class StreamFunctions:
    """The stream functions of ``torch.np``."""

    Stream, Event = DeviceStream, DeviceEvent

    def default_stream(self, device: Any = None) -> DeviceStream:
        return _DEFAULT

    def current_stream(self, device: Any = None) -> DeviceStream:
        return getattr(_thread, "stream", _DEFAULT)

    def set_stream(self, stream: DeviceStream | None) -> None:
        if stream is not None:
            _thread.stream = stream

    @contextmanager
    def stream(self, stream: DeviceStream | None) -> Iterator[None]:
        """Make a stream the thread's current one, ``with torch.np.stream(s):``; None changes nothing."""
        before = self.current_stream()
        self.set_stream(stream)
        try:
            yield
        finally:
            self.set_stream(before)


_DEFAULT: DeviceStream


def make_default() -> None:
    """Make the default stream. torch must already know the device's name."""
    global _DEFAULT
    _DEFAULT = DeviceStream()
