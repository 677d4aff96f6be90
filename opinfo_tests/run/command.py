"""The command line: ``python -m opinfo_tests`` and ``torchnp conform`` judge a backend."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter, defaultdict
from typing import Any

# hides torch's deprecation warnings; torch reads this variable at import
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")

import torch
from rich.console import Console

from torchnp.core.target import ENVIRONMENT, parse, spell
from torchnp.version_changes import changes, registry_changes

from .. import namespaces
from ..backends.backend import Backend
from ..backends.load import load_backend
from ..backends.torch_backend import TorchDevice
from ..generate.large_calls import large_tasks
from ..generate.samples import opinfo_reach
from ..generate.samples.opinfo import ERRORS, dtypes_of, opinfos, registered, supported
from ..generate.samples.opinfo_reach import in_families, plan, select
from ..generate.task import Task
from ..generate.threshold_calls import threshold_tasks
from ..report import case_counts
from ..report import gaps as known
from ..report.causes import outcomes_of, shown
from ..report.progress import Bars
from ..report.ratios import summary_of_ratios
from ..report.report import GOOD, Tally, absent_calls, diff, good_of, header, refusals, resumed, some, summary
from ..report.resource_usage import Usage, line
from ..report.undertested import held, thin
from . import oracle_cache, outputs
from .arguments import parser
from .control_experiment import INVALID, announced, control
from .isolated_calls import Shrinker
from .outputs import FOUR
from .runner import Options, run_here
from .skipped import near, skipped
from .workers import run_pool


def main(argv: list[str] | None = None, prog: str = "opinfo_tests") -> int:
    """Run the command line, print the results, and return the exit status."""
    p = parser(prog)
    a = p.parse_args(argv)
    if a.resume and (not a.report or a.count):
        p.error("--resume needs the --report to go on with")
    if a.proof and a.draws is None:
        a.draws = outputs.DRAWS["quick"]
    a.draws = outputs.draws_of(a)
    a.timeout, a.timeout_given = a.timeout or Options.timeout, a.timeout is not None
    if a.no_samples and not a.draws:
        p.error("--no-samples: with --draws 0 there is nothing to judge")
    if a.from_report and not any(getattr(a, name) for name in FOUR):
        p.error("--from-report: give --html, --badge, --summary or --repro")
    try:
        outputs.check_places(a)
        return run(a)
    except SystemExit as e:
        if not isinstance(e.code, str):
            raise
        print(e.code.replace("opinfo_tests:", f"{prog}:", 1), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"interrupted{'; --resume goes on' if a.report else ''}", file=sys.stderr)
        return 130


def run(a: argparse.Namespace) -> int:
    """Execute the parsed command line; return the exit status."""
    usage = Usage()
    follow(a.against)
    console = Console(highlight=False, soft_wrap=True)
    if a.diff:
        lines, status = diff(*a.diff)
        print("\n".join(lines))
        return status
    if a.differences:
        from .difference_cases import show_differences

        return show_differences(console, load_backend(a.backend), known.load(a.gaps or known.file_for(a.backend)))
    ops = select(a.ops.split(",")) if a.ops else None
    if a.families:
        ops = in_families(a.families, ops or registered())
    if a.proof:
        try:
            from ..proof.proof_command import show_proof
        except ModuleNotFoundError:
            raise SystemExit("opinfo_tests: --proof needs a clone: what it runs is not in the wheel") from None
        return show_proof(console, ops, a.draws, a.messages, plant=a.plant, keep=a.accept)
    backend = load_backend(a.backend)
    if a.from_report:
        return outputs.from_report(a, backend)
    return judge(a, console, ops, backend, usage)


def judge(a: argparse.Namespace, console: Console, ops: frozenset[str] | None, backend: Backend, usage: Usage) -> int:
    """Judge a backend on the selected calls; return the exit status."""
    dtypes = [d for d in dtypes_of(a.dtypes) if not (a.no_errors and d == ERRORS)]
    outputs.prepare(a)
    print("loading torch's samples ...", flush=True)
    reachable = frozenset(n for n in ops or registered() if n in backend.ops)
    tasks = tasks_of(a, reachable, dtypes)
    if a.count:
        backend = TorchDevice("cpu")
    options = options_of(a, ops, dtypes)
    gaps, expected = gaps_of(a)
    if not (a.count or a.no_samples):
        print(announced(backend), end="", flush=True)
        why = control(tasks, options, a.jobs, backend)
        if why:
            print(f"invalid run: the control is not green: {why}")
            return INVALID
    tally, tasks = opened(a, head_of(a, backend, dtypes), tasks, options)
    tally.usage = usage.control_over()
    shrinker = Shrinker(backend, a.shrink, gaps) if a.shrink else None
    called = run_tasks(a, console, tasks, backend, options, tally, shrinker, gaps)
    tally.close(backend.ops, reachable)
    tally.absent = frozenset(ops or ()) - reachable
    outputs.show_drawn(tally, reachable, a.no_samples)
    if a.count:
        return recorded(tally, called)
    if a.summary:
        a.summary.write_text(summary(tally, backend.ops), encoding="utf-8")
    show(console, tally, frozenset(tally.by(0)) if a.no_samples else ops, backend, a.messages)
    aside = f"; refused: {tally.refused.total():,}" if tally.refused else ""
    print(f"{tally.good:,} of {some(tally.total, 'call')} pass, {some(len(tally.by(0)), 'overload')}{aside}")
    print(line(usage.facts()))
    for text in summary_of_ratios(tally.measured):
        print(text)
    whole = scope_of(a, tally, backend, reachable, dtypes)
    short = falls_short(a, tally, backend, whole, reachable, dtypes)
    unseen = a.against and not_seen(expected, tally, a.ops or a.families or a.no_samples)
    status = max(conclude(a, gaps, tally, backend, shrinker, whole), 1 if short or unseen else 0)
    print(skipped(a, tally, backend, tasks, reachable, dtypes, len(tasks) - tally.tasks))
    if not tally.total:
        print(f"invalid run: nothing was judged: {near(ops or registered(), backend)}")
        return INVALID
    return status


def gaps_of(a: argparse.Namespace) -> tuple[list[known.Gap], list[known.Gap]]:
    """Return all known gaps, and separately those made from changes between versions of torch (``--against``)."""
    if a.gaps and not a.gaps.exists() and not a.accept:
        raise SystemExit(f"opinfo_tests: no gaps file {a.gaps}; --accept writes one")
    a.gaps = a.gaps or known.file_for(a.backend)
    expected = changes_since(a.against)
    return known.known_to(a.backend, a.gaps) + expected, expected


def scope_of(
    a: argparse.Namespace, tally: Tally, backend: Backend, reachable: frozenset[str], dtypes: list[str]
) -> known.Scope | None:
    """Return the scope of the run if it is a full tier without restrictions, else None."""
    less = (
        a.max or a.x or a.no_samples or a.no_backward or a.no_errors or tally.errors or a.draws < outputs.DRAWS["full"]
    )
    if a.tier != "full" or less:
        return None
    return known.Scope(reachable, [n for n in registered() if n in backend.ops], dtypes)


def falls_short(
    a: argparse.Namespace,
    tally: Tally,
    backend: Backend,
    whole: known.Scope | None,
    reachable: frozenset[str],
    dtypes: list[str],
) -> bool:
    """Print undertested overloads and missing cases (fewer than the recorded counts); return whether there are any."""
    claimed = [n for n in registered() if n in backend.ops]
    untried = show_thin(tally, reachable, claimed, a.backend == "table" and not a.seed) if whole else False
    if not is_counted(a, dtypes, backend):
        return untried
    few = case_counts.too_few(tally, reachable, bool(a.tier == "quick" or a.ops or a.families))
    if few:
        print(few)
    return bool(few or untried)


def tasks_of(a: argparse.Namespace, reachable: frozenset[str], dtypes: list[str]) -> list[Task]:
    """Return the tasks: entries that call the overloads (with ``--count`` all entries), and random calls."""
    if a.count:
        return [Task(s, d) for s in [*opinfos(), "own", "models"] for d in dtypes if d in supported(s)]
    if a.tier == "large":
        return large_tasks(reachable)
    if a.tier == "thresholds":
        return threshold_tasks(reachable)
    samples = [] if a.no_samples else plan(reachable, dtypes, a.tier == "quick")
    return samples + outputs.drawn_tasks(reachable, a.draws) if a.draws else samples


def options_of(a: argparse.Namespace, ops: frozenset[str] | None, dtypes: list[str]) -> Options:
    options = Options(ops, tuple(dtypes), a.max, a.seed, not a.no_backward, a.order, a.timeout)
    options.count_only = a.count
    options.measure = a.tier == "large"
    options.choice, options.cases, options.errors = a.seed, bool(a.shrink), not a.no_errors
    if a.tier == "quick" and not a.count:
        options.store = oracle_cache.opened(a.seed, a.seed, not a.no_backward, a.order)
    return options


def head_of(a: argparse.Namespace, backend: Backend, dtypes: list[str]) -> dict[str, Any]:
    """Return the report's header row."""
    asked = {"seed": a.seed, "dtypes": dtypes, "ops": a.ops, "max": a.max, "tier": a.tier, "order": a.order,
             "draws": a.draws}  # fmt: skip
    families = {"families": a.families} if a.families else {}
    return header(backend.name, loaded_by=backend.loaded_by, **asked, **families)


def opened(
    a: argparse.Namespace, head: dict[str, Any], tasks: list[Task], options: Options
) -> tuple[Tally, list[Task]]:
    """Return the report to write, new or resumed, and the tasks that are left to run."""
    if not a.resume:
        return Tally(a.report, head), tasks
    tally, over = resumed(a.report, head)
    left = [t for t in tasks if (t.source, t.dtype) not in over]
    options.skip = tally.ran
    print(f"resumed: {tally.total:,} cases are there, {len(left):,} tasks are left")
    return tally, left


def recorded(tally: Tally, called: dict[str, set[str]]) -> int:
    """Save the number of cases of each overload and dtype, and which entries call which overloads."""
    case_counts.write(tally)
    opinfo_reach.save(opinfo_reach.DATA, called)
    print(f"{some(tally.total, 'case')} of {some(len(tally.by(0)), 'overload')}; {tally.errors or 'no errors'}")
    return 1 if tally.errors else 0


def run_tasks(
    a: argparse.Namespace,
    console: Console,
    tasks: list[Task],
    backend: Backend,
    options: Options,
    tally: Tally,
    shrinker: Shrinker | None,
    gaps: list[known.Gap],
) -> dict[str, set[str]]:
    """Judge the cases of all tasks and show a progress bar; return the overloads that each entry called."""
    called: dict[str, set[str]] = defaultdict(set)
    looked = 0  # number of failures that -x has checked so far
    running = run_pool(tasks, backend, options, a.jobs) if a.jobs else run_here(tasks, backend, options)
    with Bars(console) as bar:
        job = bar.add_task("judging", total=len(tasks))
        for kind, value in running:
            if kind == "rows":
                for row in value:
                    tally.add(shrinker(row) if shrinker and "case" in row else row)
                new, looked = tally.failures[looked:], len(tally.failures)
                if a.x and any(not any(g.covers(f) for g in gaps) for f in new):
                    break
            else:
                called[value.task.source].update(value.calls)
                tally.end_task(value, backend.ops)
                done = f"{some(tally.total, 'call')}, {len(tally.failures):,} failing"
                bar.move(job, advance=1, description=done)
    running.close()
    return called


def follow(version: str | None) -> None:
    """Set the version of torch that torchnp's table implements, here and in worker processes."""
    if version:
        import torchnp

        try:
            os.environ[ENVIRONMENT] = torchnp.target(version)
        except ValueError as error:
            raise SystemExit(f"opinfo_tests: --against: {error}") from None


def changes_since(version: str | None) -> list[known.Gap]:
    """Return the changes between a version and the installed torch, as gaps that cover the failures they cause."""
    if not version:
        return []
    here = spell(parse(torch.__version__))
    try:
        found, registry = changes(version, here), registry_changes(version, here)
    except ValueError as error:
        raise SystemExit(f"opinfo_tests: --against: {error}") from None
    gaps = []
    for change in found:
        for seen in change.seen:
            for op in [seen.op] if seen.op else change.ops:
                full = op if "::" in op or op == "*" else f"aten::{op}"
                gaps.append(
                    known.Gap(full, seen.dtype, seen.outcome, change.id, (), seen.message, seen.call, borrowed=True)
                )
    for schema in registry:
        if schema.kind == "schema":
            gaps += [
                known.Gap(schema.name, "*", outcome, "", borrowed=True) for outcome in ("spurious-error", "wrong-error")
            ]
    return gaps


def not_seen(expected: list[known.Gap], tally: Tally, partial: Any) -> bool:
    """Print how many failures show each expected change; return whether a full run has changes that no failure shows."""
    seen = Counter(
        gap.reason for row in tally.failures for gap in {g.reason: g for g in expected if g.covers(row)}.values()
    )
    missing = sorted({g.reason for g in expected} - set(seen) - {""})
    for reason, n in seen.most_common():
        if reason:
            print(f"change {reason}: {some(n, 'failure')}")
    if missing and not partial:
        print(f"changes that no call shows: {', '.join(missing)}")
    return bool(missing and not partial)


def is_counted(a: argparse.Namespace, dtypes: list[str], backend: Backend) -> bool:
    """Return whether the run includes all the samples that the recorded case counts include."""
    less = (
        a.max
        or a.x
        or a.no_backward
        or a.no_samples
        or a.no_errors
        or a.tier in ("large", "thresholds")
        or a.order != Options.order
        or backend.dtypes is not None
    )
    return not less and set(dtypes_of("all")) <= set(dtypes)


def conclude(
    a: argparse.Namespace,
    gaps: list[known.Gap],
    tally: Tally,
    backend: Backend,
    shrinker: Shrinker | None,
    whole: known.Scope | None,
) -> int:
    """Compare the failures with the known gaps, and write the outputs; return the exit status."""
    if a.accept:
        gaps = known.accept(a.gaps, gaps, tally, whole)
    found = known.check(gaps, tally, registered(), a.gaps, whole)
    for text in found.stale:
        print(text)
    if found.known:
        print(f"known gaps: {some(found.known, 'failure')}; not known: {len(found.unknown):,}")
    outputs.finish(a, tally.good, tally.total, found.unknown, backend, shrinker)
    if shrinker:
        shrinker.close()
    return 0 if found.ok and tally.total and not tally.errors else 1


def show_thin(tally: Tally, ops: frozenset[str], claimed: list[str], ours: bool, most: int = 20) -> bool:
    """Print undertested overloads; return whether an unexplained one was found.

    For torchnp's table (``ours``), print only the overloads that the recorded explanations do not cover. For other
    backends, print the first ones and return False.
    """
    calls = {op: outcomes.total() for op, outcomes in tally.by(0).items()}
    found = list(thin(calls, tally.met, ops & calls.keys()))
    print(f"hardly tried: {some(len({f.op for f in found}), 'overload')} of {len(calls):,}")
    # the recorded explanations do not list operators of other libraries
    others = [f for f in found if namespaces.is_other(f.op)]
    wrong = held([f for f in found if f not in others], calls, claimed) if ours else []
    for text in [*wrong, *others[:most]] if ours else found[:most]:
        print(f"  {text}")
    return bool(wrong)


def show(console: Console, tally: Tally, ops: frozenset[str] | None, backend: Backend, messages: int) -> None:
    """Print a line per overload, then the failures by cause, refusals, and absent overloads."""
    by_op = tally.by(0)
    for op, outcomes in by_op.items():
        good, total = good_of(outcomes), sum(outcomes.values())
        if ops is None and good == total:
            continue
        aside = f"  unspecified {outcomes['unspecified']:,}" if outcomes["unspecified"] else ""
        wrong = outcomes_of(outcomes, GOOD)
        text = f"{good:6} of {total:6}  {op}{aside}{f'  {wrong}' if wrong else ''}"
        console.print(text, style="green" if good == total else "red", markup=False)
    for text, style in shown(tally.failures, messages):
        console.print(text, style=style, markup=False)
    for reason, n, names in refusals(tally):
        several = ", ".join(name.removeprefix("aten::") for name in names[:3]) + ", ..." * (len(names) > 3)
        console.print(f"refused {n:6}  {reason} ({some(len(names), 'overload')}: {several})", markup=False)
    unjudged = sorted((ops or registered()) - set(by_op) - {op for _, op in tally.refused})
    for how, names in (
        ("no case of", [n for n in unjudged if n in backend.ops]),
        ("absent", [n for n in unjudged if n not in backend.ops] if ops else []),
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
