"""Outputs of a run besides its report: the HTML page, the badge, and repro scripts of failures that no gap covers."""

from __future__ import annotations

import argparse
import math
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..backends.backend import Backend
from ..report.badge import write_badge
from ..report.html_page import read_all, write_page
from ..report.report import GOOD, REFUSED, Tally, summary, tally_of
from ..report.repro import MOST, write_repros
from ..report.shrink import SECONDS
from .control_experiment import INVALID
from .isolated_calls import Shrinker

DRAWS = {
    "full": 300,
    "quick": 20,
    "thresholds": 0,
    "large": 0,
}  # random calls of each overload, by tier
FOUR = ("html", "badge", "summary", "repro")  # outputs that can be made from a report alone


def whole_number(text: str) -> int:
    """Parse an integer argument of 0 or more."""
    if (number := int(text)) < 0:
        raise argparse.ArgumentTypeError("must be 0 or more")
    return number


def duration(text: str) -> float:
    """Parse an argument of seconds above 0."""
    if not (seconds := float(text)) > 0 or math.isinf(seconds):
        raise argparse.ArgumentTypeError("must be above 0")
    return seconds


def duration_or_none(text: str) -> float:
    """Parse an argument of seconds, where 0 means none."""
    return 0.0 if float(text) == 0 else duration(text)


def badge_file(text: str) -> Path:
    """Parse an argument that names a badge file."""
    path = Path(text)
    if path.suffix not in (".svg", ".json"):
        raise argparse.ArgumentTypeError(f"{text} ends neither in .svg nor in .json")
    return path


def check_places(a: argparse.Namespace) -> None:
    """Before the run, reject output paths that could not be written at its end."""
    files = {name: getattr(a, name) for name in ("html", "badge", "summary", "report")}
    files["gaps"] = a.gaps if a.accept else None
    for name, path in files.items():
        if path is None:
            continue
        if path.is_dir() or not path.parent.is_dir():
            raise SystemExit(
                f"opinfo_tests: --{name} {path}: {path if path.is_dir() else path.parent} is {'a' if path.is_dir() else 'no'} folder"
            )
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise SystemExit(f"opinfo_tests: --{name} {path}: cannot be written")
    if a.repro:
        there = next(p for p in (a.repro, *a.repro.absolute().parents) if p.exists())
        if not there.is_dir() or not os.access(there, os.W_OK):
            raise SystemExit(f"opinfo_tests: --repro {a.repro}: {there} is no folder that can be written to")


def add_arguments(p: argparse.ArgumentParser) -> None:
    """Add the output options to the harness's command line."""
    p.add_argument("--html", type=Path, metavar="FILE", help="write the report as one HTML page")
    p.add_argument("--badge", type=badge_file, metavar="FILE", help="write a badge: .svg, or .json for badge services")
    p.add_argument("--repro", type=Path, metavar="DIR",
                   help=f"write a script and an issue text for new failures, {MOST} for each overload and outcome")  # fmt: skip
    p.add_argument("--shrink", type=duration_or_none, nargs="?", const=SECONDS, metavar="SECONDS",
                   help=f"simplify each of these calls as long as it fails in the same way, for so many seconds ({SECONDS:g}); "
                   "0 turns this off; it is on with --repro and --no-samples")  # fmt: skip
    p.add_argument("--draws", type=whole_number, metavar="N",
                   help="besides the samples, judge N random calls from the schema of each overload "
                   f"({DRAWS['full']}, in the quick tier {DRAWS['quick']})")  # fmt: skip
    p.add_argument("--no-samples", action="store_true", help="judge only random calls")
    p.add_argument("--no-errors", action="store_true", help="do not judge calls for which torch raises an error")
    p.add_argument(
        "--from-report", type=Path, metavar="FILE", help="write these outputs, or the summary, from an existing report"
    )


def drawn_tasks(ops: frozenset[str], count: int) -> list[Any]:
    """Return the tasks that generate random calls from schemas."""
    from ..generate.strategies import plan

    return plan(ops, count)


def draws_of(a: argparse.Namespace) -> int:
    """Return how many random calls to generate for each overload: the value of ``--draws``, or the tier's default."""
    if a.draws is not None:
        return a.draws
    return 0 if a.count else DRAWS[a.tier]


def show_drawn(tally: Tally, asked: Iterable[str], whole: bool, least: float = 0.2) -> None:
    """Print how many overloads the random calls cover.

    With ``whole``, also print which overloads they do not cover, and those whose calls torch mostly rejects.
    """
    from ..generate.drawable import WRITES, not_drawn

    total = sum(tally.drawn.values())
    if not total:
        return
    share = sum(tally.accepted.values()) / total
    asked = set(asked)
    print(f"{total:,} drawn calls judge {len(tally.drawn)} of {len(asked)} overloads; torch accepts {share:.0%}")
    if broken := tally.broken.total():
        print(f"{broken:,} drawn calls with one argument changed; torch refuses {tally.broken[True] / broken:.0%}")
    if not whole:
        return
    reasons: dict[str, list[str]] = defaultdict(list)
    for op in sorted(asked - set(tally.drawn)):
        reasons[not_drawn(op) or "the draws gave no case"].append(op.removeprefix("aten::"))
    for reason, ops in sorted(reasons.items(), key=lambda kv: -len(kv[1])):
        print(f"  {len(ops)} not: {reason}{'' if reason == WRITES else ': ' + ', '.join(ops)}")
    for op, n in sorted(tally.drawn.items()):
        if tally.accepted[op] < least * n:
            print(f"  hardly tested: torch accepts {tally.accepted[op]} of {n} calls drawn for {op}")


def prepare(a: argparse.Namespace) -> None:
    """Create a temporary report if the HTML page needs one, and set the default of ``--shrink``."""
    if a.shrink is None:
        a.shrink = SECONDS if a.repro or a.no_samples else 0.0
    if a.html and not a.report:
        with tempfile.NamedTemporaryFile(suffix=".jsonl", delete=False) as f:
            a.report = Path(f.name)
        a.report_is_temporary = True


def finish(
    a: argparse.Namespace, good: int, total: int, unknown: list[dict[str, Any]], backend: Backend, shrinker: Any = None
) -> None:
    """Write the requested outputs."""
    if a.html:
        write_page(a.report, a.html)
    if getattr(a, "report_is_temporary", False):
        a.report.unlink()
    if a.badge:
        write_badge(good, total, a.badge)
    if a.repro:
        print("\n".join(write_repros(unknown, a.repro, backend, a.seed, a.order, shrinker=shrinker)))


def from_report(a: argparse.Namespace, backend: Backend) -> int:
    """Write the page, the badge, the summary and the repro scripts from an existing report."""
    head, rows, foot = read_all(a.from_report)
    if not rows:
        print(f"{a.from_report} has no case")
        return INVALID
    counted = [r for r in rows if r["outcome"] != REFUSED]
    failing = [r for r in counted if r["outcome"] not in GOOD]
    a.report, a.seed, a.order = a.from_report, head.get("seed", a.seed), head.get("order", a.order)
    prepare(a)
    if a.summary:
        tally = tally_of(rows)
        tally.calls.update(dict(foot.get("absent", ())))
        a.summary.write_text(summary(tally, backend.ops), encoding="utf-8")
    shrinker = Shrinker(backend, a.shrink) if a.shrink else None
    finish(a, len(counted) - len(failing), len(counted), failing, backend, shrinker)
    return 0
