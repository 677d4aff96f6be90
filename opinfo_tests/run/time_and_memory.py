"""Time and peak memory of the backend's calls and of torch's, for ``--tier large``."""

from __future__ import annotations

import ctypes
import gc
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..backends.backend import Backend
from ..case import Case

# A call runs on torch and the backend up to REPEATS times, or until SECONDS have passed. It runs twice at least, unless
# the first time takes SLOW seconds: the first time may include imports, or a pause of the machine.
REPEATS, SECONDS, SLOW = 5, 0.2, 2.0
_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # constants of glibc's mallopt
_SMALL, _USUAL = 1 << 16, 1 << 25  # block sizes in bytes from which malloc uses mmap, while measuring and otherwise


def measured(case: Case, oracle: Backend, backend: Backend) -> dict[str, float]:
    """Return a call's shortest time (ms) on the backend and on torch, and its peak memory (MiB) beyond the arguments.

    Runs on the backend and on torch alternate. If both run in this process, the time is processor time, which other
    programs on the machine hardly affect. Memory is left out if the system does not report it; Linux does.
    """
    timed = processor_time if oracle.in_this_process and backend.in_this_process else wall_time
    both = {"torch_": oracle, "": backend}
    least = dict.fromkeys(both, float("inf"))
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for turn in range(REPEATS):
            for key, one in both.items():
                with metered(one, timed) as figures:
                    one.execute(case)
                if not figures:  # the arguments could not be created, for example because memory ran out
                    return {}
                least[key] = min(least[key], *figures)
            if time.perf_counter() - begun > (SECONDS if turn else SLOW):
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
    """Measure only a backend's `run`, without copying the arguments and converting the results."""
    figures: list[float] = []
    run, own = backend.run, vars(backend).get("run")  # a backend may have its own ``run`` as an instance attribute

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


def processor_time(run: Callable, *args: Any) -> tuple[Any, float]:
    start = time.process_time()
    out = run(*args)
    return out, time.process_time() - start


def wall_time(run: Callable, *args: Any) -> tuple[Any, float]:
    start = time.perf_counter()
    out = run(*args)
    return out, time.perf_counter() - start


def peak(run: Callable, *args: Any) -> tuple[Any, float]:
    """Call a function; return its result and the growth of memory at its peak, in bytes."""
    return_freed_memory()
    reset_peak()
    before = status("VmRSS")
    out = run(*args)
    return out, max(status("VmHWM") - before, 0)


def status(name: str) -> int:
    """Return a memory figure of this process, such as ``VmRSS``, in bytes."""
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
    """Let malloc use mmap for blocks of at least ``size`` bytes.

    Freed blocks are then returned to the system immediately, so the peak counts only live memory.
    """
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
    gc.collect()  # so that no garbage is freed while a peak is measured
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
