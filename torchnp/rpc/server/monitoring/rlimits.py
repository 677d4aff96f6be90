"""Limits on the address space and the CPU time of a server's processes."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import math
import os
import signal
from pathlib import Path

from torchnp.rpc.server.monitoring.event_log import note

# Address space that every server needs, for its threads and for libraries that kernels load on demand.
HEADROOM = 512 << 20
KEPT = 32 << 20  # freed bytes that a process keeps instead of returning them to the system
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # parameters of mallopt


def this_machines() -> int | None:
    """Return this machine's memory in bytes; None if the system does not report it."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    # On a small machine, a process may have more address space than there is memory.
    return max(memory, taken() + 2 * HEADROOM)


def taken() -> int:
    """Return the size of this process's address space in bytes; 0 if the system does not report it."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0


def keep_memory() -> None:
    """Make this process keep freed memory, if the C library supports it.

    Otherwise the process would get pages from the system and return them for each result, which takes longer than most
    operators.
    """
    with contextlib.suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_TRIM_THRESHOLD, KEPT)
        libc.mallopt(_MMAP_THRESHOLD, KEPT // 8)


def limit_processor(seconds: float) -> None:
    """Make the system end this process, by SIGXCPU, after ``seconds`` of CPU time, rounded up.

    CPU time counts from the start of the process. No operator can delay the end, however long it runs in C code.
    """
    if seconds == math.inf:
        return
    try:
        import resource

        signal.signal(signal.SIGXCPU, signal.SIG_DFL)
        # The signal would otherwise write the process's memory to a core file.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        whole, (_, hard) = math.ceil(seconds), resource.getrlimit(resource.RLIMIT_CPU)
        hard = whole + 1 if hard < 0 else min(hard, whole + 1)
        resource.setrlimit(resource.RLIMIT_CPU, (min(whole, hard), hard))
    except (ImportError, AttributeError, ValueError, OSError) as error:
        note(logging.WARNING, "processor not bounded", error=type(error).__name__)


def limit_memory(limit: int) -> None:
    """Limit the address space of this process, if the system supports it.

    Without a limit, a huge allocation succeeds at first, and the system kills the process when it writes to the memory.

    Raises
    ------
    ValueError
        The limit is too small to serve any client.
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
        least = min(n for n in (limit, soft, hard) if n >= 0)  # a negative number means no limit
        resource.setrlimit(resource.RLIMIT_AS, (least, hard))
    except (ImportError, AttributeError, ValueError, OSError) as error:
        note(logging.WARNING, "memory not bounded", error=type(error).__name__)
