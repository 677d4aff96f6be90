"""Resource usage of a run: wall and CPU time, and the peak memory of its processes."""

from __future__ import annotations

import os
import resource
import sys
import time
from typing import Any

_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes per unit of ru_maxrss


def own() -> tuple[int, float, int]:
    """Return this process's id, CPU seconds and peak memory in bytes."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return os.getpid(), used.ru_utime + used.ru_stime, used.ru_maxrss * _UNIT


class Usage:
    """Sums the resource usage that the processes of a run report."""

    def __init__(self) -> None:
        self.start, self.before = time.perf_counter(), own()[1]
        self.control = 0.0
        self.workers: dict[int, tuple[float, int]] = {}

    def control_over(self) -> Usage:
        """Count the time so far as the time of the control experiment; return self."""
        self.control = time.perf_counter() - self.start
        return self

    def of(self, said: tuple[int, float, int]) -> None:
        """Add the usage that a process reports; only its latest report counts."""
        pid, cpu, peak = said
        if pid != os.getpid():
            self.workers[pid] = cpu, peak

    def facts(self) -> dict[str, Any]:
        """Return the figures for a report."""
        _, cpu, peak = own()
        peaks = [p for _, p in self.workers.values()]
        return {
            "wall_s": round(time.perf_counter() - self.start, 1),
            "control_s": round(self.control, 1),
            "cpu_s": round(cpu - self.before + sum(c for c, _ in self.workers.values()), 1),
            "peak_mib": {"parent": peak >> 20, "workers": sorted((p >> 20 for p in peaks), reverse=True)},
        }


def line(facts: dict[str, Any]) -> str:
    """Return the figures as one line."""
    peaks = facts["peak_mib"]
    each = ", ".join(map(str, peaks["workers"])) or "none"
    return (
        f"{facts['wall_s']:.0f} s, of which {facts['control_s']:.0f} s before the first case; {facts['cpu_s']:.0f} s of CPU; "
        f"peak memory in MiB: {peaks['parent']} here, workers {each}"
    )
