"""``python -m opinfo_tests``: judge a backend from the command line."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # torch's deprecation notes; it reads this at import

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from . import counts, products, reach
from . import gaps as known
from .backend import Backend
from .load import load_backend
from .pool import run_pool
from .reach import plan, select
from .report import GOOD, Tally, absent_calls, diff, good_of, header, summary
from .runner import Options, run_here
from .samples import ERRORS, QUICK_DTYPES, Task, dtypes_of, opinfos, registered, supported
from .torch_backend import TorchDevice


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="opinfo_tests", description=__doc__)
    p.add_argument("--ops", help="overloads by pattern, comma separated: 'aten::var*,aten::add.Tensor'")
    p.add_argument("--dtypes", default=",".join((*QUICK_DTYPES, ERRORS)),
                   help="dtypes of the samples, comma separated, or 'all'; 'errors' is the inputs that torch refuses")  # fmt: skip
    p.add_argument("--tier", choices=("quick", "full"), default="full", help="a share chosen by hash, or every case")
    p.add_argument("--max", type=int, default=0, metavar="N", help="at most N cases for each overload and dtype")
    p.add_argument("--seed", type=int, default=0, help="moves the samples' values and the choice of the quick tier")
    p.add_argument("-x", action="store_true", help="stop at the first failure")
    p.add_argument("--no-backward", action="store_true", help="forward only")
    p.add_argument("--order", type=int, default=1, help="2 also records the gradient of the gradient")
    p.add_argument(
        "--backend", default="table", help="table, torch-cpu (the control), an entry point, or package.module:object"
    )
    p.add_argument("--jobs", type=int, default=2, help="worker processes; 0 runs here")
    p.add_argument("--timeout", type=float, default=60.0, help="seconds for one case")
    p.add_argument("--messages", type=int, default=4, metavar="N", help="messages shown for each overload and outcome")
    p.add_argument("--report", type=Path, metavar="FILE", help="write report.jsonl here")
    p.add_argument("--summary", type=Path, metavar="FILE", help="write a Markdown summary here")
    p.add_argument("--gaps", type=Path, metavar="FILE", help="known gaps (by default the backend's own file)")
    p.add_argument("--accept", action="store_true", help="rewrite the gaps of what ran")
    p.add_argument(
        "--count", action="store_true", help="record what there is to judge, and judge nothing (maintainers)"
    )
    p.add_argument("--diff", nargs=2, type=Path, metavar=("BEFORE", "AFTER"), help="compare two reports and stop")
    products.add_arguments(p)
    return p


def main(argv: list[str] | None = None) -> int:
    """Run, print, and return 1 when anything failed that no gap knows."""
    a = parser().parse_args(argv)
    console = Console(highlight=False, soft_wrap=True)
    if a.diff:
        lines, worse = diff(*a.diff)
        print("\n".join(lines))
        return 1 if worse else 0
    ops = select(a.ops.split(",")) if a.ops else None
    dtypes = dtypes_of(a.dtypes)
    backend = load_backend(a.backend)
    if a.from_report:
        return products.from_report(a, backend)
    products.prepare(a)
    reachable = frozenset(n for n in ops or registered() if n in backend.ops)
    if a.count:
        backend = TorchDevice("cpu")
        tasks = [Task(s, d) for s in [*opinfos(), "own"] for d in dtypes if d in supported(s)]
    else:
        tasks = products.drawn_tasks(reachable, a.draws) if a.draws else plan(reachable, dtypes)
    options = Options(ops, tuple(dtypes), a.max, a.seed, not a.no_backward, a.order, a.timeout)
    options.count_only = a.count
    called: dict[str, set[str]] = defaultdict(set)
    options.choice = a.seed
    options.rates = counts.quick_rates() if a.tier == "quick" else None
    a.gaps = a.gaps or known.file_for(a.backend)
    tally = Tally(
        a.report, header(backend.name, seed=a.seed, dtypes=dtypes, ops=a.ops, max=a.max, tier=a.tier, order=a.order)
    )
    start = time.perf_counter()
    running = run_pool(tasks, backend, options, a.jobs) if a.jobs else run_here(tasks, backend, options)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, auto_refresh=False) as bar:
        job = bar.add_task("judging", total=len(tasks))
        for kind, value in running:
            if kind == "rows":
                for row in value:
                    tally.add(row)
                if a.x and tally.failures:
                    running.close()
                    break
            else:
                tally.calls.update(value.calls)
                called[value.task.source].update(value.calls)
                tally.left_out.update(value.left_out)
                if value.error:
                    tally.errors.append(f"{value.task.source} {value.task.dtype}: {value.error}")
                done = f"{tally.total:,} calls, {len(tally.failures):,} failing"
                bar.update(job, advance=1, description=done, refresh=True)
    tally.close(backend.ops)
    products.show_drawn(tally)
    if a.count:
        counts.write(tally)
        reach.save(reach.DATA, called)
        print(f"{tally.total:,} cases of {len(tally.by(0))} overloads; {tally.errors or 'no errors'}")
        return 1 if tally.errors else 0
    if a.summary:
        a.summary.write_text(summary(tally, backend.ops), encoding="utf-8")
    show(console, tally, ops, backend, a.messages)
    print(
        f"{tally.good:,} of {tally.total:,} calls pass, {len(tally.by(0))} overloads, {time.perf_counter() - start:.0f} s"
    )
    return conclude(a, tally, backend)


def conclude(a: argparse.Namespace, tally: Tally, backend: Backend) -> int:
    """Hold the run against the known gaps; return the exit code."""
    whole = not a.max and not a.x and a.tier == "full"
    gaps = known.load(a.gaps)
    if a.accept:
        gaps = known.accept(a.gaps, gaps, tally, whole)
    found = known.check(gaps, tally, registered(), a.gaps, whole)
    for line in found.stale:
        print(line)
    if found.known:
        print(f"{found.known} failures are known gaps; {len(found.unknown)} are not")
    products.finish(a, tally.good, tally.total, found.unknown, backend)
    if not tally.total:
        print("nothing was judged")
    return 0 if found.ok and tally.total and not tally.errors else 1


def show(console: Console, tally: Tally, ops: frozenset[str] | None, backend: Backend, messages: int) -> None:
    """Print a line for each overload, its first failures below it, then what is absent."""
    failures: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in tally.failures:
        failures[row["op"]].append(row)
    by_op = tally.by(0)
    for op, outcomes in by_op.items():
        good, total = good_of(outcomes), sum(outcomes.values())
        if ops is None and good == total:
            continue
        console.print(f"{good:6} of {total:6}  {op}", style="green" if good == total else "red", markup=False)
        if outcomes["unspecified"]:
            console.print(f"        unspecified: {outcomes['unspecified']}", style="dim", markup=False)
        for outcome in (o for o in outcomes if o not in GOOD):
            console.print(f"        {outcome}: {outcomes[outcome]}", style="bold", markup=False)
            rows = sorted((r for r in failures[op] if r["outcome"] == outcome), key=lambda r: len(r["call"]))
            for row in spread(rows)[:messages]:
                console.print(f"          {row['message']}", style="red", markup=False)
                console.print(f"            {row['call']}", markup=False)
                console.print(
                    f"            {row['id']}  ({row['sample']} {row['sample_dtype']})", style="dim", markup=False
                )
    unreached = sorted((ops or frozenset()) - set(by_op))
    for how, names in (
        ("no sample reaches", [n for n in unreached if n in backend.ops]),
        ("absent", [n for n in unreached if n not in backend.ops]),
    ):
        if names:
            console.print(f"{how} {', '.join(n.removeprefix('aten::') for n in names)}", style="yellow", markup=False)
    if ops is None:
        for op, n in absent_calls(tally, backend.ops)[:15]:
            console.print(f"     -            {op}: absent, called {n} times", style="yellow", markup=False)
    for text, n in Counter(tally.errors).items():
        console.print(
            f"samples that could not be drawn: {text}{f' ({n} times)' if n > 1 else ''}", style="dim", markup=False
        )


def spread(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows with each dtype's first before any dtype's second."""
    turn: Counter[str] = Counter()
    keyed = []
    for i, row in enumerate(rows):
        keyed.append((turn[row["dtype"]], i, row))
        turn[row["dtype"]] += 1
    return [row for _, _, row in sorted(keyed, key=lambda k: k[:2])]


if __name__ == "__main__":
    sys.exit(main())
