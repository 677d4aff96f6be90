"""Write torchnp/data/layouts.tsv: the rule by which torch lays out each overload's results, found by asking torch.

Calls that the harness records are repeated with arguments in other memory layouts (permuted, spread out, expanded). The
strides of torch's new results are compared with every rule of `torchnp.layout.named_rules` that is possible, and the
first rule that explains them is written. If there is none, the rule is ``own``: the kernel must lay out the result.
Some of torch's kernels read beyond an expanded argument, so each operator runs in a separate process.

    python scripts/make_layouts.py [--keep FILE] [--ops PATTERNS]

Overloads that no sample calls get random calls. Rows that the file already has are not changed, because some were
chosen by hand among the rules that explain torch's answers. With ``--keep`` torch's answers are saved in a file and
read from there the next time. Whether the kernels follow the rules is judged by the harness (outcome
``wrong-strides``).
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import pickle
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import torchnp
from opinfo_tests.backends.torch_backend import TorchDevice
from opinfo_tests.case import DTYPES, Array, Case, Named, map_tree
from opinfo_tests.generate.drawable import not_drawn
from opinfo_tests.generate.mutations.layout_variants import KINDS, relaid
from opinfo_tests.generate.samples import recording
from opinfo_tests.generate.samples.opinfo import samples_of
from opinfo_tests.generate.samples.opinfo_reach import plan
from opinfo_tests.generate.strategies import draws
from opinfo_tests.schema_facts import bound
from torchnp.core.schema import Schema
from torchnp.layout import named_rules

SCHEMAS = torchnp.table.schemas
SAMPLED = ("float32", "int64")
CASES = {"float32": 4}  # by dtype, the number of calls for each overload and rank
OTHERS = 1  # number of calls in each other dtype
DRAWS = 16  # random calls of an overload that no sample calls
STEPS = 40  # number of samples of an entry that are used
LARGE = 200_000  # bytes of a call's arguments
MOST = 0.9  # share of the answers that a rule must explain; the others are exceptions, and are printed
# If several rules explain the answers, the rule to prefer for an operator.
PREFERRED = {
    "like:self": frozenset(["sort", "sort.stable", "argsort", "argsort.stable", "msort"]),
    "format:input": frozenset(["native_group_norm"]),
    "joined:tensors": frozenset(["cat", "concat", "concatenate"]),
    "stacked:tensors": frozenset(["stack", "_stack"]),
}
HEAD = "# How torch lays out what it returns: rule of each result, rows (see torchnp/layout/named_rules.py); by scripts/make_layouts.py"


class Answer(NamedTuple):
    """What torch returned for a call: shape and strides of each result, or None if it is not a new tensor."""

    case: Case
    results: list[tuple[tuple[int, ...], tuple[int, ...]] | None]


def rows() -> list[str]:
    """Return the overloads whose results are new: not those that write an argument, and not views."""
    return [n for n in torchnp.table if not SCHEMAS[n].mutates and not SCHEMAS[n].is_view and not is_told(SCHEMAS[n])]


def is_told(schema: Schema) -> bool:
    """Return whether an argument such as ``memory_format`` sets the result's layout; the kernel then implements it."""
    names = {a.name for a in schema.args}
    makes = not any(a.is_tensor for a in schema.args) or "size" in names
    return makes and not names.isdisjoint({"memory_format", "physical_layout", "stride"}) and "kernel_size" not in names


# ---------------------------------------------------------------- asking torch


def record_cases(wanted: frozenset[str]) -> list[Case]:
    taken: Counter[tuple[str, str, int]] = Counter()
    seen: set[str] = set()
    cases: list[Case] = []

    def take(case: Case) -> None:
        key = case.op, case.sample_dtype, max((len(a.shape) for a in case.arrays()), default=0)
        limit = CASES.get(case.sample_dtype, OTHERS)
        if size_of(case) < LARGE and taken[key] < limit and case.digest not in seen:
            seen.add(case.digest)
            taken[key] += 1
            cases.append(case)

    recorder = recording.Recorder(wanted.__contains__, take)
    for task in plan(wanted, list(SAMPLED)):
        recorder.transferred.clear()
        for step, _ in enumerate(samples_of(task, recorder)):
            if step > STEPS:
                break
    return cases


def drawn_cases(wanted: set[str]) -> list[Case]:
    """Return random calls of overloads that no sample calls."""
    return [c for op in sorted(wanted) if not not_drawn(op) for c in draws(op, DRAWS) if size_of(c) < LARGE]


def size_of(case: Case) -> int:
    return sum(b.nbytes for b in case.buffers)


def ask(oracle: TorchDevice, case: Case) -> Answer:
    """Return the shapes and strides that torch returns for a call."""
    seen = oracle.execute(case)
    found: list[Any] = []
    if not seen.error:
        for strides_, result, place in zip(seen.strides, seen.results, seen.alias, strict=True):
            fresh = isinstance(result, np.ndarray) and place is None
            found.append((result.shape, strides_) if fresh else None)
    return Answer(case, found)


def answers(cases: list[Case]) -> list[Answer]:
    """Return torch's answers for the cases and variants in other layouts, each operator in a separate process."""
    oracle = TorchDevice("cpu")
    by_op: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        by_op[case.op] += [case, *filter(None, (relaid(case, kind) for kind in KINDS))]
    found: list[Answer] = []
    for op, group in by_op.items():
        got = in_child(lambda group=group: [ask(oracle, c) for c in group])
        if got is None:
            print(f"torch dies of a call of {op}: its calls are asked one by one", file=sys.stderr)
            got = [a for c in group for a in in_child(lambda c=c: [ask(oracle, c)]) or []]
        found += got
    return found


def in_child(work: Any) -> Any:
    """Return what a function returns in a forked process, or None if the process dies."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        with os.fdopen(write, "wb") as f:
            pickle.dump(work(), f)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as f:
        text = f.read()
    os.waitpid(child, 0)
    return pickle.loads(text) if text else None


# ---------------------------------------------------------------- choosing rules


def candidates(op: str) -> Iterator[str]:
    """Yield the possible rules for an overload, the most likely first."""
    schema = SCHEMAS[op]
    tensors = [a for a in schema.args if a.is_tensor]
    yield "contiguous"
    if schema.args and schema.args[0].type == "Tensor[]":
        yield from (f"joined:{tensors[0].name}", f"stacked:{tensors[0].name}")
    if any("[]" in a.type for a in tensors):
        yield from ("each", "each+0", f"same:{tensors[0].name}")
        yield from (f"like:{a.name}" for a in tensors if a.type == "Tensor")
        if any(a.name == "indices" for a in tensors):
            yield "indexed:self"
        return
    single = [a.name for a in tensors]
    if any(a.name == "memory_format" for a in schema.args):
        yield from (f"asked:{n}" for n in single)
    yield from ("promoted", "floated", "iterator", "promoted+0", "floated+0", "iterator+0")
    yield from (f"like:{n}" for n in single)
    for size in range(1, min(len(single), 3) + 1 if len(single) < 6 else 1):
        for names in permutations(single, size):
            yield from (f"{kind}:{','.join(names)}" for kind in ("promoted", "iterator", "promoted+0", "twice"))
    yield from (f"format:{n}" for n in single)
    yield from (f"same:{n}" for n in single)
    yield from (f"lifted:{n}" for n in single)
    yield from (f"real:{n}" for n in single[:1])
    yield from ("columns", "swept")


def fits(rule: named_rules.Rule, answer: Answer, place: int, where: int) -> bool:
    """Return whether a rule gives the strides that torch gave for one result."""
    case, results = answer
    shape, wanted = results[place]
    given = bound(case)
    names = [a.name for a in SCHEMAS[case.op].args]
    leaf = lambda x: bare(x, case) if isinstance(x, Array) else x.name if isinstance(x, Named) else x
    try:
        return rule(shape, lambda i: map_tree(leaf, given.get(names[i])), where) == wanted
    except (RuntimeError, ValueError, TypeError, IndexError):  # the rule does not fit these arguments
        return False


def bare(a: Array, case: Case) -> np.ndarray:
    """Return an argument of a case with its strides, also if it is empty."""
    if 0 not in a.shape:
        return a.on(case.buffers)
    reach = sum(max(n - 1, 0) * s for n, s in zip(a.shape, a.strides)) + DTYPES[a.dtype].itemsize
    return np.ndarray(a.shape, DTYPES[a.dtype], np.empty(reach, np.uint8), 0, a.strides)


def decide(op: str, found: list[Answer]) -> tuple[list[str], list[str]]:
    """Return the rule for each result of an overload, and the answers that no rule explains."""
    of_list = [r.type for r in SCHEMAS[op].returns] == ["Tensor[]"]
    slots: dict[int, list[tuple[Answer, int]]] = defaultdict(list)
    for answer in found:
        for place, result in enumerate(answer.results):
            if result is not None and result[0]:
                slots[0 if of_list else place].append((answer, place))
    chosen, unexplained = [], []
    for slot in range(max(slots, default=0) + 1):
        text, missed = best(op, slot, slots[slot], of_list) if slot in slots else ("contiguous", [])
        chosen.append(text)
        unexplained += [f"{op} result {slot}: {text} | {a.case.describe()} {a.results[i]}" for a, i in missed[:3]]
    return chosen, unexplained


def best(op: str, slot: int, asked: list[tuple[Answer, int]], of_list: bool) -> tuple[str, list[tuple[Answer, int]]]:
    """Return the rule that explains most answers (``own`` if too few), and the answers that it does not explain."""
    rules = {text: named_rules.parse(text, SCHEMAS[op]) for text in candidates(op)}
    wrong: dict[str, list[tuple[Answer, int]]] = {text: [] for text in rules}
    for answer, place in asked:
        for text, rule in rules.items():
            if len(wrong[text]) <= len(asked) * (1 - MOST) and not fits(rule, answer, place, place if of_list else 0):
                wrong[text].append((answer, place))
    least = min(map(len, wrong.values()))
    left = [text for text, missed in wrong.items() if len(missed) == least]
    preferred = [
        t for t in left if op.removeprefix("aten::") in PREFERRED.get(t, ()) and (slot == 0 or t[:4] == "like")
    ]
    text = (preferred or left)[0]
    return (text if least <= len(asked) * (1 - MOST) else "own"), wrong[text]


def text_of(found: list[Answer]) -> tuple[str, list[str]]:
    by_op: dict[str, list[Answer]] = defaultdict(list)
    for answer in found:
        by_op[answer.case.op].append(answer)
    lines: dict[str, list[str]] = defaultdict(list)
    unexplained: list[str] = []
    for op, group in sorted(by_op.items()):
        seen = max((len(r[0]) for a in group for r in a.results if r), default=0)
        if not seen:
            continue
        texts, more = decide(op, group)
        if seen == 1 and set(texts) == {"contiguous"}:
            texts = ["vectors"]
        unexplained += more
        if set(texts) != {"own"}:
            lines[" ".join(texts if len(set(texts)) > 1 or len(SCHEMAS[op].returns) > 1 else texts[:1])].append(
                op.removeprefix("aten::")
            )
    return "\n".join(
        [HEAD, *(f"{rule}\t{' '.join(names)}" for rule, names in sorted(lines.items()))]
    ) + "\n", unexplained


def merged(old: str, new: str) -> str:
    """Return the text with the rows of both files, by rule."""
    lines: dict[str, set[str]] = defaultdict(set)
    for line in (*old.splitlines()[1:], *new.splitlines()[1:]):
        rule, _, names = line.partition("\t")
        lines[rule] |= set(names.split())
    order = lambda name: (name.startswith("prims"), name)
    return "\n".join([HEAD, *(f"{r}\t{' '.join(sorted(n, key=order))}" for r, n in sorted(lines.items()))]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", type=Path, help="where torch's answers are kept")
    parser.add_argument("--ops", default="", help="rows by pattern: print their rules, and write nothing")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    wanted = {
        n for n in rows() if fnmatch.fnmatch(n, options.ops or "*") and (options.ops or n not in named_rules.rules())
    }
    if options.keep and options.keep.exists():
        found = pickle.loads(options.keep.read_bytes())
    else:
        cases = record_cases(frozenset(wanted))
        cases += drawn_cases(wanted - {c.op for c in cases})
        found = answers(cases)
        if options.keep:
            options.keep.write_bytes(pickle.dumps(found))
    text, unexplained = text_of([a for a in found if a.case.op in wanted])
    print("\n".join(unexplained), file=sys.stderr)
    if options.ops:
        print(text)
        return 0
    old = named_rules.DATA.read_text(encoding="utf-8")
    named_rules.DATA.write_text(merged(old, text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
