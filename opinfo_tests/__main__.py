"""``python -m opinfo_tests``: judge a backend from the command line."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, defaultdict
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from .backend import Backend, Table
from .reach import plan, select
from .runner import Options, run_here
from .samples import QUICK_DTYPES
from .torch_backend import DTYPE_NAMES, TorchDevice

console = Console(highlight=False, soft_wrap=True)


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="opinfo_tests", description=__doc__)
    p.add_argument("--ops", help="overloads by pattern, comma separated: 'aten::var*,aten::add.Tensor'")
    p.add_argument("--dtypes", default=",".join(QUICK_DTYPES), help="dtypes of the samples, comma separated, or 'all'")
    p.add_argument("--max", type=int, default=0, metavar="N", help="at most N cases for each overload and dtype")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("-x", action="store_true", help="stop at the first failure")
    p.add_argument("--no-backward", action="store_true", help="forward only")
    p.add_argument("--backend", default="table", help="table, or torch-cpu (the control)")
    p.add_argument("--messages", type=int, default=5, metavar="N", help="messages shown for each overload")
    return p


def load_backend(name: str) -> Backend:
    if name == "table":
        import torchnp

        return Table(torchnp.table, "torchnp")
    if name.startswith("torch-"):
        return TorchDevice(name.removeprefix("torch-"))
    raise SystemExit(f"opinfo_tests: no backend {name!r}: table or torch-DEVICE")


def main(argv: list[str] | None = None) -> int:
    """Run, print, and return 1 when anything failed."""
    a = parser().parse_args(argv)
    ops = select(a.ops.split(",")) if a.ops else None
    dtypes = sorted(set(DTYPE_NAMES.values())) if a.dtypes == "all" else a.dtypes.split(",")
    unknown = set(dtypes) - set(DTYPE_NAMES.values())
    if unknown:
        raise SystemExit(f"opinfo_tests: no dtype {', '.join(sorted(unknown))}")
    backend = load_backend(a.backend)
    tasks = plan(ops, dtypes)
    options = Options(ops, tuple(dtypes), a.max, a.seed, not a.no_backward)
    rows: list[dict[str, Any]] = []
    calls: Counter[str] = Counter()
    start = time.perf_counter()
    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    ) as bar:
        job = bar.add_task("judging", total=len(tasks))
        for task, found, counted in run_here(tasks, backend, options):
            bar.update(job, advance=1, description=f"{task.source} {task.dtype}")
            rows += found
            calls.update(counted)
            if a.x and any(r["outcome"] not in ("pass", "unspecified") for r in found):
                break
    return report(rows, calls, ops, backend, a, time.perf_counter() - start)


def report(rows: list, calls: Counter, ops: frozenset[str] | None, backend: Backend, a: Any, seconds: float) -> int:
    """Print a line for each overload, then the failures."""
    by_op: dict[str, list[dict]] = defaultdict(list)
    for row in rows:
        by_op[row["op"]].append(row)
    for op in sorted(by_op):
        mine = by_op[op]
        bad = [r for r in mine if r["outcome"] not in ("pass", "unspecified")]
        colour = "red" if bad else "green"
        console.print(f"[{colour}]{len(mine) - len(bad):6} of {len(mine):6}[/]  {op}", markup=True)
        for outcome, n in Counter(r["outcome"] for r in bad).items():
            console.print(f"        {outcome}: {n}", style="bold")
            for r in sorted((r for r in bad if r["outcome"] == outcome), key=lambda r: len(r["call"]))[: a.messages]:
                console.print(f"          {r['message']}", style="red", markup=False)
                console.print(f"            {r['call']}", markup=False)
                console.print(f"            {r['id']}", style="dim", markup=False)
    absent = {n: c for n, c in calls.items() if n not in backend.ops and (ops is None or n in ops)}
    if ops is not None:
        for n in sorted(ops - set(by_op) - set(absent)):
            how = "no sample reaches it" if n in backend.ops else "absent"
            console.print(f"     -            {n}: {how}", style="yellow", markup=False)
    for n, c in sorted(absent.items(), key=lambda kv: -kv[1])[:20]:
        console.print(f"     -            {n}: absent, called {c} times", style="yellow", markup=False)
    failed = sum(r["outcome"] not in ("pass", "unspecified") for r in rows)
    console.print(f"{len(rows) - failed} of {len(rows)} calls pass, {len(by_op)} overloads, {seconds:.0f} s")
    if not rows:
        console.print("nothing was judged", style="red")
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
