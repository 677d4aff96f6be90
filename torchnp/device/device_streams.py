"""Streams and events of a device whose kernels have ended when they return: they are in order by themselves."""

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
    """``torch.np.Stream``: work given to it is done at once.

    Parameters
    ----------
    device : torch.device, str or int, optional
        The device ``np``, which has one index.
    priority : int, optional
        Taken, and without effect.
    """

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> DeviceStream:
        return super().__new__(cls, device=DEVICE, priority=priority, **kwargs)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        """All work has ended."""

    def wait_event(self, event: Any) -> None:
        """What the event marks has ended."""

    def wait_stream(self, stream: Any) -> None:
        """The other stream's work has ended."""

    def record_event(self, event: Any = None) -> Any:
        event = DeviceEvent() if event is None else event
        event.record(self)
        return event


class DeviceEvent(torch.Event):
    """``torch.np.Event``: a point of time.

    Parameters
    ----------
    enable_timing : bool
        Whether `elapsed_time` may be asked.
    blocking, interprocess : bool
        Taken, and without effect.
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
        """What the event marks has ended."""

    def synchronize(self) -> None:
        """What the event marks has ended."""

    def elapsed_time(self, end_event: Any) -> float:
        """Milliseconds from this event to another.

        Raises
        ------
        ValueError
            If one of them was made without ``enable_timing``, or was not recorded.
        """
        if not (self._timed and end_event._timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._at is None or end_event._at is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return (end_event._at - self._at) * 1e3


class StreamFunctions:
    """What ``torch.np`` has of streams, and the device's name."""

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
        """``with torch.np.stream(s):`` makes a stream the thread's current one; None changes nothing."""
        before = self.current_stream()
        self.set_stream(stream)
        try:
            yield
        finally:
            self.set_stream(before)


_DEFAULT: DeviceStream


def make_default() -> None:
    """Make the default stream, once torch knows the device's name."""
    global _DEFAULT
    _DEFAULT = DeviceStream()
