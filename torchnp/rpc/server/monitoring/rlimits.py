"""The address space of a server's processes: how much there is, and a bound on it; and on their time of a processor."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import math
import os
import signal
from pathlib import Path

from torchnp.rpc.server.monitoring.event_log import note

# What a server needs to serve anybody: its threads, and the libraries that kernels load when they need them.
HEADROOM = 512 << 20
KEPT = 32 << 20  # bytes that a process frees and keeps
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt


def this_machines() -> int | None:
    """Bytes of memory that this machine has; None where the system does not tell."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    return max(memory, taken() + 2 * HEADROOM)  # a process may have more address space than a small machine has memory


def taken() -> int:
    """Bytes of address space that this process has; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0


def keep_memory() -> None:
    """Have this process keep what it frees, where the C library can.

    To take pages from the system and give them back for each result takes longer than most operators.
    """
    with contextlib.suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_TRIM_THRESHOLD, KEPT)
        libc.mallopt(_MMAP_THRESHOLD, KEPT // 8)


def limit_processor(seconds: float) -> None:
    """Have the system end this process, by SIGXCPU, when it has taken so many seconds of a processor, rounded up.

    A process counts its own time from its beginning, and no operator, however long it is in C, can put the end off.
    """
    if seconds == math.inf:
        return
    try:
        import resource

        signal.signal(signal.SIGXCPU, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the signal would leave the process's memory in a file
        whole, (_, hard) = math.ceil(seconds), resource.getrlimit(resource.RLIMIT_CPU)
        hard = whole + 1 if hard < 0 else min(hard, whole + 1)
        resource.setrlimit(resource.RLIMIT_CPU, (min(whole, hard), hard))
    except (ImportError, AttributeError, ValueError, OSError) as error:
        note(logging.WARNING, "processor not bounded", error=type(error).__name__)


def limit_memory(limit: int) -> None:
    """Bound the address space of this process, where the system can.

    Without a bound a huge allocation succeeds on paper, and the system kills the process when it is used.

    Raises
    ------
    ValueError
        So little would be left that no client could be served.
    """
    least = taken() + HEADROOM
    if limit < least:
        raise ValueError(
            f"max_memory of {limit >> 20:,} MiB is too little: the server takes {taken() >> 20:,} MiB of address space "
            f"before anybody uses it, so give it at least {-(-least >> 20):,} MiB"
        )
    try:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        least = min(n for n in (limit, soft, hard) if n >= 0)  # no limit is a number below 0
        resource.setrlimit(resource.RLIMIT_AS, (least, hard))
    except (ImportError, AttributeError, ValueError, OSError) as error:
        note(logging.WARNING, "memory not bounded", error=type(error).__name__)
