"""The command line ``python -m opinfo_tests.mutate``: makes kernels wrong and reports how many the judge catches."""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
# parallelism comes from the worker processes; a fork does not copy threads
os.environ.setdefault("OMP_NUM_THREADS", "1")

from rich.console import Console

from ..backends.load import own_table
from ..backends.torch_backend import TorchDevice
from ..generate.samples.opinfo import dtypes_of, registered
from ..generate.samples.opinfo_reach import in_families, plan, select
from ..report.progress import Bars
from ..run import oracle_cache
from ..run.outputs import DRAWS
from ..run.runner import Options, run_here
from ..run.workers import run_pool
from . import judge_handwritten_faults, survivors
from .coverage import Coverage, Held
from .rules import RULES, Mutant, kernel_modules, mutants
from .trial import Found, Plan, Process, ends, given, trial

GOAL = 0.95


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="opinfo_tests.mutate",
        description="Make torchnp's kernels wrong in one place at a time, and count how many the harness catches.",
        epilog="A mutant is caught if a call passes with the original and fails with the mutant. It survives if no call "
        "fails although a probe (a further random call) shows a difference, "
        "or if no call runs it. Mutants that no probe distinguishes from the original, and mutants that "
        "differ only within the operator's tolerance, are counted and dropped. "
        f"Exit status: 0 if at least {GOAL:.0%} of the others are caught, else 1; 2 for a wrong command.",
    )
    p.add_argument(
        "-n", "--n", type=int, default=100, help="number of mutants, chosen at random with the seed (%(default)s)"
    )
    p.add_argument("--seed", type=int, default=0, help="seed of this choice (%(default)s)")
    p.add_argument("--ops", help="only functions that these overloads run: 'aten::var*,aten::add.Tensor'")
    p.add_argument("--families", help="only these files of torchnp/kernels: 'reduce,conv'")
    p.add_argument("--rules", help=f"only these rules, comma separated: {', '.join(RULES)}")
    p.add_argument(
        "--calls", type=int, default=400, help="maximum number of recorded calls for each mutant (%(default)s)"
    )
    p.add_argument(
        "--draws", type=int, default=DRAWS["full"], help="random calls of each of its overloads (%(default)s)"
    )
    p.add_argument("--probes", type=int, default=100,
                   help="further random calls of each, to distinguish survivors from the original (%(default)s)")  # fmt: skip
    p.add_argument("--through", action="store_true",
                   help="judge all recorded calls of each mutant, and report how many calls caught any mutant")  # fmt: skip
    p.add_argument(
        "--overloads", type=int, default=6, help="number of overloads with random calls for each mutant (%(default)s)"
    )
    p.add_argument("--timeout", type=float, help="seconds for one mutant (300; with --from 1800)")
    p.add_argument("--again", type=float, default=600, metavar="SECONDS",
                   help="judge survivors again with the full tier's calls, for so many seconds each; 0 for never (%(default)s)")  # fmt: skip
    p.add_argument("--jobs", type=int, default=2, help="processes (%(default)s)")
    p.add_argument(
        "--report", type=Path, metavar="FILE", help="write a row for each mutant to this file when it has been judged"
    )
    p.add_argument("--resume", action="store_true",
                   help="continue with the report of an interrupted run of the same command")  # fmt: skip
    p.add_argument("--from", type=Path, nargs="*", metavar="FILE", dest="written",
                   help="judge faults that were written by hand, each with every call of its overloads: the faults in these files, "
                   "or by default those of the blind audits in the package")  # fmt: skip
    p.add_argument(
        "--tier",
        choices=("quick", "full"),
        default="full",
        help="tier of the calls that judge these faults (%(default)s)",
    )
    p.add_argument("--only", metavar="ID", help="judge only the mutants with these ids, comma separated")
    p.add_argument("--list", action="store_true", help="print the mutants without judging them")
    return p


def main(argv: list[str] | None = None) -> int:
    """Run the command line, print the results, and return the exit status."""
    p = parser()
    a = p.parse_args(argv)
    if unknown := set((a.rules or "").split(",")) - {*RULES, ""}:
        p.error(f"no rule {', '.join(sorted(unknown))}: there are {', '.join(RULES)}")
    if a.resume and not a.report:
        p.error("--resume needs the --report to go on with")
    if a.resume and a.through:
        p.error("--resume: a report does not hold what --through counts")
    try:
        return run(a, Console(highlight=False, soft_wrap=True))
    except SystemExit as e:
        if not isinstance(e.code, str):
            raise
        print(e.code, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted before a mutant was judged", file=sys.stderr)
        return 130


def run(a: argparse.Namespace, console: Console) -> int:
    if a.written is not None:
        return run_written(a, console)
    chosen = choice(a)
    if a.list:
        for mutant in chosen:
            print(mutant)
        return 0
    ops = select(a.ops.split(",")) if a.ops else None
    if ops is None:
        families = {m.family for m in chosen}
        whole = len(families) > 5 or any(f.startswith(("_", "numerics")) for f in families)
        ops = registered() if whole else in_families(",".join(sorted(families)), registered())
    with Bars(console) as bar:
        held = recorded(ops, a.jobs, bar)
        coverage = Coverage(followed(held, bar), own_table(), a.calls)
        if a.ops:  # only the coverage shows which functions the overloads run
            chosen = sample(a, [m for m in every(a) if (m.module, m.function) in coverage.calls])
        rows = resumed(a, chosen)
        done = {m for m, _ in rows}
        left = [m for m in chosen if m not in done]
        sought(a, left, coverage, bar)
        rows += until_broken(reported(a, judged(a, left, coverage, bar)))
        if a.again and len(rows) == len(chosen):
            rows = list((dict(rows) | dict(until_broken(reported(a, again(a, rows, coverage, bar))))).items())
    if a.through:
        asked = {case.id for m, _ in rows for case, _ in coverage.of((m.module, m.function))}
        told = asked.intersection(*[{t for _, found in rows for t in found.told}])
        console.print(
            f"{len(told):,} of {len(asked):,} recorded calls tell at least one of these mutants from the original"
        )
    return show(console, rows, len(chosen))


def run_written(a: argparse.Namespace, console: Console) -> int:
    """Judge the handwritten faults of some files and print each file's score; return the worst exit status."""
    files = a.written or sorted(judge_handwritten_faults.SHIPPED.glob("*.json"))
    only = set(a.only.split(",")) if a.only else None
    faults = [
        (path, f) for path in files for f in judge_handwritten_faults.read(path) if only is None or f.name in only
    ]
    if a.list:
        print(*(f"{path.stem}  {f.name}  {', '.join(f.ops)}  {f.why}" for path, f in faults), sep="\n")
        return 0
    if stale := [f.name for _, f in faults if f.mutant is None]:
        console.print(f"{len(stale)} change what the kernels no longer have: {', '.join(stale)}")
    live = [(f.mutant, path, f) for path, f in faults if f.mutant]
    starts = [partial(Process, mutant, judge_handwritten_faults.trial, f.ops, a.tier) for mutant, _, f in live]
    with Bars(console) as bar:
        before = resumed(a, [mutant for mutant, _, _ in live])
        done = {mutant for mutant, _ in before}
        left = [start for start in starts if start.args[0] not in done]
        rows = dict(
            [*before, *until_broken(reported(a, watched(bar, len(left), ends(left, a.jobs, a.timeout or 1800))))]
        )
    status = 0
    for file in files:
        console.print(f"\n{file.name}")
        why = {mutant: f.why for mutant, path, f in live if path == file}
        status = max(status, show(console, [(m, rows[m]) for m in why if m in rows], len(why), why))
    return status


# ---------------------------------------------------------------- choosing mutants


def every(a: argparse.Namespace) -> list[Mutant]:
    wanted = set(a.families.split(",")) if a.families else None
    modules = kernel_modules()
    if wanted:
        prefix = "torchnp.kernels."
        modules = [m for m in modules if any(f"{m}.".startswith(f"{prefix}{w}.") for w in wanted)]
        if not modules:
            raise SystemExit(f"opinfo_tests.mutate: no file of torchnp/kernels is named {a.families}")
    rules = set(a.rules.split(",")) if a.rules else set(RULES)
    return [m for module in modules for m in mutants(module) if m.rule in rules]


def sample(a: argparse.Namespace, found: list[Mutant]) -> list[Mutant]:
    """Return ``n`` mutants chosen at random with the seed; rules take turns, so that frequent rules do not dominate."""
    if a.only:
        ids = set(a.only.split(","))
        return [m for m in found if m.id in ids]
    draw = random.Random(a.seed)
    by_rule: dict[str, list[Mutant]] = defaultdict(list)
    for m in found:
        by_rule[m.rule].append(m)
    for group in by_rule.values():
        draw.shuffle(group)
    taken: list[Mutant] = []
    while len(taken) < a.n and any(by_rule.values()):
        taken += [group.pop() for group in by_rule.values() if group]
    return taken[: a.n]


def choice(a: argparse.Namespace) -> list[Mutant]:
    return sample(a, every(a))


# ---------------------------------------------------------------- judging them


def recorded(ops: frozenset[str], jobs: int, bar: Bars) -> list[Held]:
    """Return the quick tier's calls that pass with the original table, with torch's results."""
    held_in, table, oracle = oracle_cache.opened(), own_table(), TorchDevice("cpu")
    ops = frozenset(op for op in ops if op in table.ops)
    tasks = plan(ops, dtypes_of("all"), home=True)
    options = Options(ops, store=held_in)
    job = bar.add_task("judging the original", total=len(tasks))
    passing: set[str] = set()
    for kind, value in run_pool(tasks, table, options, jobs) if jobs else run_here(tasks, table, options):
        if kind == "rows":
            passing.update(row["id"] for row in value if row["outcome"] == "pass")
        else:
            bar.move(job, advance=1)
    found: dict[str, Held] = {}
    for task in tasks:
        for case, want in held_in.held(task, ops.__contains__, oracle):
            if case.id in passing:
                found[case.id] = case, want
    return list(found.values())


def followed(held: Sequence[Held], bar: Bars) -> Iterator[Held]:
    job = bar.add_task("following its calls", total=len(held))
    for i, pair in enumerate(held):
        if i % 500 == 0:
            bar.move(job, completed=i)
        yield pair
    bar.move(job, completed=len(held))


def sought(a: argparse.Namespace, chosen: list[Mutant], coverage: Coverage, bar: Bars) -> None:
    """Generate random calls for functions that no recorded call runs."""
    places = sorted(
        {(m.module, m.function) for m in chosen} - {place for place, held in coverage.calls.items() if held}
    )
    job = bar.add_task("looking for calls of other functions", total=len(places))
    oracle = TorchDevice("cpu")

    @cache
    def drawn(op: str) -> list[Held]:
        return [(case, oracle.execute(case)) for case, _ in given((), [op], a.draws, None)]

    for place in places:
        coverage.search(place, drawn)
        bar.move(job, advance=1)


def judged(
    a: argparse.Namespace, chosen: list[Mutant], coverage: Coverage, bar: Bars
) -> Iterator[tuple[Mutant, Found]]:
    """Judge each mutant; yield it with its outcome."""
    how = Plan(a.draws, a.probes, a.seed, a.through)

    def start(mutant: Mutant) -> Process:
        place = mutant.module, mutant.function
        return Process(mutant, trial, coverage.of(place), coverage.ops(place, a.overloads), how)

    return watched(bar, len(chosen), ends([partial(start, m) for m in chosen], a.jobs, a.timeout or 300))


def again(
    a: argparse.Namespace, rows: list[tuple[Mutant, Found]], coverage: Coverage, bar: Bars
) -> Iterator[tuple[Mutant, Found]]:
    """Judge the surviving mutants with every call of the full tier; yield those that are caught."""
    left = [m for m, found in rows if found.outcome in ("survived", "unrun")]
    ops = {m: coverage.ops((m.module, m.function), a.overloads) or coverage.near(m.module) for m in left}
    starts = [partial(Process, m, judge_handwritten_faults.trial, ops[m]) for m in left]
    for mutant, found in watched(bar, len(left), ends(starts, a.jobs, a.again), "judging again"):
        if found.outcome == "caught":
            yield mutant, replace(found, by=f"the full tier: {found.by}")


def watched(
    bar: Bars, total: int, rows: Iterator[tuple[Mutant, Found]], what: str = "judging mutants"
) -> Iterator[tuple[Mutant, Found]]:
    """Yield the rows unchanged, and update the progress bar."""
    job = bar.add_task(what, total=total)
    counts: Counter[str] = Counter()
    for mutant, found in rows:
        counts[found.outcome] += 1
        text = ", ".join(f"{n} {outcome}" for outcome, n in counts.items())
        bar.move(job, advance=1, description=f"{what}: {text}")
        yield mutant, found


# ---------------------------------------------------------------- reporting


def reported(a: argparse.Namespace, rows: Iterator[tuple[Mutant, Found]]) -> Iterator[tuple[Mutant, Found]]:
    """Yield the rows unchanged, and write each to the report immediately: an interrupted run keeps its results."""
    with a.report.open("a" if a.resume else "w", encoding="utf-8") if a.report else nullcontext() as file:
        for mutant, found in rows:
            if file:
                file.write(json.dumps(row_of(mutant, found)) + "\n")
                file.flush()
            yield mutant, found


def until_broken(rows: Iterator[tuple[Mutant, Found]]) -> Iterator[tuple[Mutant, Found]]:
    """Yield the rows until Ctrl-C, which ends the judging; the rows so far are still reported."""
    with suppress(KeyboardInterrupt):
        yield from rows


def resumed(a: argparse.Namespace, chosen: Sequence[Mutant]) -> list[tuple[Mutant, Found]]:
    """Return the mutants that an interrupted run has judged, with their outcomes, from its report."""
    if not (a.resume and a.report.exists()):
        return []
    with a.report.open(encoding="utf-8") as file:
        rows = {row["id"]: row for line in file if line.endswith("\n") for row in [json.loads(line)]}
    return [(m, Found(r["outcome"], r["by"], r["calls"])) for m in chosen if (r := rows.get(m.id))]


def row_of(m: Mutant, found: Found) -> dict[str, Any]:
    return {"id": m.id, "module": m.module, "function": m.function, "line": m.line, "rule": m.rule, "before": m.before,
            "after": m.after, "outcome": found.outcome, "by": found.by, "calls": found.calls}  # fmt: skip


def score(outcomes: Counter[str]) -> float:
    """Return the share of caught mutants among those that differ from the original or that no call runs."""
    told = told_apart(outcomes)
    return outcomes["caught"] / told if told else 1.0


def told_apart(outcomes: Counter[str]) -> int:
    return outcomes["caught"] + outcomes["survived"] + outcomes["unrun"]


def show(console: Console, rows: list[tuple[Mutant, Found]], chosen: int, why: dict[Mutant, str] | None = None) -> int:
    """Print each survivor, with the call that exposes it or the reason why it is wrong, and then the scores.

    Scores are by family, by rule and for all mutants. Return the exit status; it is 130 if fewer mutants were judged
    than chosen.
    """
    for mutant, found in rows:
        if found.outcome in ("survived", "unrun", "undecided"):
            console.print(f"{found.outcome:8}  {mutant}", style="red", markup=False)
            text = why[mutant] if why else f"told by {found.by}" if found.by else "no call runs it"
            console.print(f"          {text}", markup=False)
            if reason := survivors.why(mutant):
                console.print(f"          listed: {reason}", markup=False)
    for what, of in (("family", lambda m: m.family), ("rule", lambda m: m.rule)) if why is None else ():
        groups: dict[str, Counter[str]] = defaultdict(Counter)
        for mutant, found in rows:
            groups[of(mutant)][found.outcome] += 1
        console.print(f"\nby {what}: caught of those that a probe tells from the original")
        for name, outcomes in sorted(groups.items(), key=lambda kv: (score(kv[1]), kv[0])):
            told = told_apart(outcomes)
            if told:
                console.print(f"  {outcomes['caught']:4} of {told:4}  {name}", markup=False)
    total = Counter(found.outcome for _, found in rows)
    told = told_apart(total)
    console.print(
        f"\n{total['caught']} of {told} caught: {score(total):.1%}. Of {len(rows)} mutants, {total['unrun']} are run by no call, "
        f"{total['same']} are the same as the "
        f"original on every probe and {total['within']} differ only within their operators' class; neither is counted."
        + (f" {total['undecided']} did not end in time." if total["undecided"] else "")
    )
    if len(rows) < chosen:
        console.print(f"interrupted: {len(rows)} of {chosen} were judged; with --report, --resume goes on")
        return 130
    return 0 if score(total) >= GOAL else 1
