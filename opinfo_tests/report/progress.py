"""Progress of long work: bars on a terminal; in a log, one line every half minute."""

from __future__ import annotations

from time import monotonic
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

EVERY = 30.0  # seconds


class Bars(Progress):
    """Progress bars that only ``move`` updates. In a log it prints a line at most every `EVERY` seconds."""

    def __init__(self, console: Console) -> None:
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
        super().__init__(*columns, console=console, auto_refresh=False)
        self._told = self._began = monotonic()

    def move(self, job: TaskID, **to: Any) -> None:
        """Pass ``to`` to `rich.progress.Progress.update`, and show the result."""
        self.update(job, refresh=True, **to)
        now = monotonic()
        if self.console.is_terminal or now - self._told < EVERY:
            return
        self._told = now
        task = next(t for t in self.tasks if t.id == job)
        text = f"{now - self._began:,.0f} s: {task.description}, {task.completed:,.0f} of {task.total or 0:,.0f}"
        self.console.print(text, markup=False)
