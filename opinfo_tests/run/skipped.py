"""The last line of a run: how many calls it skipped, by option or reason."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Collection, Iterator

from ..backends.backend import Backend
from ..case import Case
from ..generate.drawable import drawable
from ..generate.samples.opinfo import ERRORS, dtypes_of, opinfos, registered
from ..generate.samples.opinfo_reach import plan
from ..generate.task import Task, is_drawn
from ..report import case_counts
from ..report.report import Tally, some

# Dtypes of indices and masks: arrays of these dtypes occur in calls of every dtype.
BESIDE = frozenset({"int64", "bool"})
DTYPES, MAX, ERROR = "--dtypes", "--max", "--no-errors"


def of_other_dtypes(case: Case, dtypes: Collection[str]) -> bool:
    """Return whether a random call has dtypes that were not requested; indices and masks do not count."""
    if not dtypes or not is_drawn(case.source):
        return False
    given = case.dtypes()
    return bool(given - BESIDE - set(dtypes)) or bool(given and not given & set(dtypes))


def skipped(
    a: argparse.Namespace,
    tally: Tally,
    backend: Backend,
    tasks: Collection[Task],
    ops: Collection[str],
    dtypes: list[str],
    left: int,
) -> str:
    """Return the line that describes the calls that a run did not judge.

    Parameters
    ----------
    a : Namespace
        The command line.
    tally : Tally
        The results.
    backend : Backend
        The judged backend.
    tasks : collection of Task
        The planned tasks.
    ops : collection of str
        The overloads to judge.
    dtypes : list of str
        The requested dtypes.
    left : int
        How many tasks did not finish.
    """
    found = [*by_option(a, tally, tasks, ops, dtypes, left), *by_backend(tally, backend, ops)]
    return f"skipped: {'; '.join(found)}" if found else "skipped: nothing"


def by_option(
    a: argparse.Namespace, tally: Tally, tasks: Collection[Task], ops: Collection[str], dtypes: list[str], left: int
) -> Iterator[str]:
    """Yield descriptions of the calls that options of the command line excluded."""
    if a.tier == "large":
        yield "all calls but large ones (--tier large)"
        return
    if a.tier == "thresholds":
        yield "all calls but those around thresholds (--tier thresholds)"
        return
    others = sorted(set(dtypes_of("all")) - set(dtypes) - {ERRORS})
    samples = not a.no_samples
    if others:
        n = sum(n for (op, name), n in case_counts.recorded().items() if op in ops and name in others) if samples else 0
        drawn = tally.left_out[DTYPES]
        if n or drawn:
            yield f"some {n:,} calls of samples and {drawn:,} drawn calls of {some(len(others), 'other dtype')} ({DTYPES})"
    entries = plan(frozenset(ops), [ERRORS], a.tier == "quick") if ERRORS not in dtypes and samples else ()
    if entries:
        yield (
            f"the inputs that torch refuses of {some(len(entries), 'sample entry', 'sample entries')} "
            f"({ERROR if a.no_errors else DTYPES})"
        )
    if a.no_errors:
        yield f"{some(tally.left_out[ERROR], 'call')} that torch refuses ({ERROR})"
    if a.no_samples:
        yield f"the samples of {some(len(plan(frozenset(ops), dtypes)), 'entry and dtype', 'entries and dtypes')} (--no-samples)"
    elif a.tier == "quick":
        got = tally.total - tally.drawn.total() - tally.broken.total()
        every = sum(n for (op, name), n in case_counts.recorded().items() if op in ops and name not in others)
        if every > got:
            yield f"some {every - got:,} calls of samples (--tier quick)"
    differentiable = sum(t.source in opinfos() and opinfos()[t.source].supports_autograd for t in tasks)
    if samples and (a.no_backward or a.order == 1):
        which, why = ("gradients", "--no-backward") if a.no_backward else ("gradients of gradients", "--order 1")
        yield f"{which} of {some(differentiable, 'entry and dtype', 'entries and dtypes')} ({why})"
    if a.draws < 1:
        yield f"drawn calls of {some(len(drawable(ops)), 'overload')} (--draws 0)"
    if n := tally.left_out[MAX]:
        yield f"{some(n, 'call')} beyond {a.max} of an overload and dtype ({MAX})"
    if left:
        yield f"{some(left, 'task')} {'after the first failure (-x)' if a.x else 'that broke off'}"
    if not a.jobs and a.timeout_given:
        yield "the limit of --timeout, for which --jobs 0 has no process"


OPTIONS = frozenset({DTYPES, MAX, ERROR})  # options that count the calls they exclude


def by_backend(tally: Tally, backend: Backend, ops: Collection[str]) -> Iterator[str]:
    """Yield descriptions of what the backend does not claim or show, and of overloads without random calls."""
    absent = sorted(op for op in tally.absent if op not in backend.ops)
    if absent:
        yield f"{some(len(absent), 'overload')} that the backend does not claim"
    other = Counter({why: n for why, n in tally.left_out.items() if why not in OPTIONS})
    for why, n in other.most_common(4):
        yield f"{some(n, 'call')}: {why}"
    if rest := other.total() - sum(n for _, n in other.most_common(4)):
        yield f"{some(rest, 'call')} for {some(len(other) - 4, 'other reason')}"
    undrawn = sorted(set(ops) - set(drawable(ops)))
    if undrawn:
        yield f"drawn calls of {some(len(undrawn), 'overload')} that none can be drawn for"
    blind = []
    if not backend.strides:
        blind.append("strides")
    if type(backend).place is Backend.place:
        blind.append("views and copies")
    if type(backend).memory is Backend.memory:
        blind.append("memory beside the results")
    if blind:
        yield f"{', '.join(blind)} of all results, which the backend does not show"


def near(asked: Collection[str], backend: Backend, most: int = 4) -> str:
    """Return why no call was judged: which requested overloads the backend lacks, and similar ones that it has."""
    import difflib

    claimed = [op for op in registered() if op in backend.ops]
    missing = sorted(op for op in asked if op not in backend.ops)
    if not missing:
        return "no sample and no drawn call reaches what was asked for"
    bases = {op.partition(".")[0].rstrip("_") for op in missing}
    close = sorted(op for op in claimed if op.partition(".")[0].rstrip("_") in bases)
    close += [n for op in missing[:most] for n in difflib.get_close_matches(op, claimed, most, 0.6) if n not in close]
    names = ", ".join(missing[:most]) + (f" and {len(missing) - most:,} others" if len(missing) > most else "")
    says = (
        f"; it claims {', '.join(dict.fromkeys(close[:most]))}"
        if close
        else f"; it claims {some(len(claimed), 'overload')}, none of a near name"
    )
    return f"the backend does not claim {names}{says}"
