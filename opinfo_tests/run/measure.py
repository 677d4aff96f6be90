"""Time and peak memory of calls, the backend's beside torch's, for ``--tier large``."""

from __future__ import annotations

import ctypes
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..backends.backend import Backend
from ..case import Case

REPEATS, SECONDS = 5, 0.2  # at most so many runs of a call by each, or so many seconds in all
_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # mallopt's
_SMALL, _USUAL = 1 << 16, 1 << 25  # bytes from which memory is mapped on its own


def measured(case: Case, oracle: Backend, backend: Backend) -> dict[str, float]:
    """Return the least milliseconds of a call on both, and the MiB that it takes beyond its arguments at its peak.

    Runs alternate. Memory is left out where the system does not tell it, as outside Linux.
    """
    both = {"torch_": oracle, "": backend}
    least = dict.fromkeys(both, float("inf"))
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(REPEATS):
            for key, one in both.items():
                with metered(one, timed) as figures:
                    one.execute(case)
                if not figures:  # it could not even make the arguments, as when memory is short
                    return {}
                least[key] = min(least[key], *figures)
            if time.perf_counter() - begun > SECONDS:
                break
        found = {f"{key}ms": round(value * 1e3, 4) for key, value in least.items()}
        if can_measure_memory():
            with mapped_from(_SMALL):
                for key, one in both.items():
                    with metered(one, peak) as figures:
                        one.execute(case)
                    found[f"{key}mib"] = round(max(figures, default=0.0) / (1 << 20), 3)
    return found


@contextmanager
def metered(backend: Backend, meter: Callable) -> Iterator[list[float]]:
    """Measure what a backend's `run` takes, without the arguments' copies and the results' conversion."""
    figures: list[float] = []
    run, own = backend.run, vars(backend).get("run")  # a backend may have a function of its own there

    def measured_run(*args: Any) -> Any:
        out, figure = meter(run, *args)
        figures.append(figure)
        return out

    backend.run = measured_run  # type: ignore[assignment, method-assign]
    try:
        yield figures
    finally:
        del backend.run
        if own is not None:
            backend.run = own  # type: ignore[method-assign]


def timed(run: Callable, *args: Any) -> tuple[Any, float]:
    start = time.perf_counter()
    out = run(*args)
    return out, time.perf_counter() - start


def peak(run: Callable, *args: Any) -> tuple[Any, float]:
    """Call a function; return its result and the bytes by which memory grew at most."""
    return_freed_memory()
    reset_peak()
    before = status("VmRSS")
    out = run(*args)
    return out, max(status("VmHWM") - before, 0)


def status(name: str) -> int:
    """Return a line of this process's status, in bytes."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return int(text.partition(f"{name}:")[2].split(None, 1)[0]) << 10


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def can_measure_memory() -> bool:
    with suppress(OSError):
        reset_peak()
        return True
    return False


@contextmanager
def mapped_from(size: int) -> Iterator[None]:
    """Let malloc map blocks from a size on: freed ones go back to the system, and a peak is of live memory."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):  # musl
        yield
        return
    libc.mallopt(_MMAP_THRESHOLD, size)
    try:
        yield
    finally:
        libc.mallopt(_MMAP_THRESHOLD, _USUAL)
        libc.mallopt(_TRIM_THRESHOLD, 2 * _USUAL)


def return_freed_memory() -> None:
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
