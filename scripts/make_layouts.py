"""Write torchnp/data/layouts.tsv: by which rule torch lays out each row's results, asked of the installed torch.

Calls that the harness records are repeated with their arguments in other memory (permuted, spread out, expanded), and
the strides of torch's fresh results are held against every rule of `torchnp.strides` that could be meant; the first of
those left is written. Where none is left the rule is ``own``, and the kernel has to know. Some of torch's kernels
read beyond an expanded argument: each operator is asked in a process of its own.

    python scripts/make_layouts.py [--check] [--keep FILE] [--ops PATTERNS]

The rows that the file has already stay as they are: some were chosen by hand among the rules that the answers leave.
``--check`` writes nothing: it runs the table on the same calls, prints the share of results that have torch's strides
and where the others differ, and fails where `EXCEPTIONS` does not say why, or says so of a row that does not differ.
With ``--keep`` what torch answered stays in a file, and is used from there the next time.
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
from opinfo_tests.draw import record
from opinfo_tests.draw.reach import plan
from opinfo_tests.draw.relaid import KINDS, relaid
from opinfo_tests.draw.samples import samples_of
from opinfo_tests.schemas import bound
from torchnp import strides
from torchnp.schema import RESERVED, Schema

SCHEMAS = torchnp.table.schemas
SAMPLED = ("float32", "int64")
CASES = {"float32": 4}  # of each overload and number of dimensions
OTHERS = 1  # in another dtype
STEPS = 40  # samples of an entry that are looked at
LARGE = 200_000  # bytes
MOST = 0.9  # of the answers: the rest is then a known exception, and printed
# Where the answers leave several rules, that of the kernel's own kind.
PREFERRED = {
    "like:self": frozenset(["sort", "sort.stable", "argsort", "argsort.stable", "msort"]),
    "format:input": frozenset(["native_group_norm"]),
    "joined:tensors": frozenset(["cat", "concat", "concatenate"]),
    "stacked:tensors": frozenset(["stack", "_stack"]),
}
# Rows whose results lie otherwise than torch's in some calls, and why.
EXCEPTIONS = {
    "aten::_conj_physical": "one element with a gap: torch keeps the gap",
    "aten::_foreach_clone": "torch's fast route keeps gaps of one-element tensors, the slow one does not",
    "aten::_foreach_zero": "torch's fast route keeps gaps of one-element tensors, the slow one does not",
    "aten::adaptive_avg_pool3d": "channels-last volumes pooled to one place are a mean there; empty batches",
    "aten::cholesky": "upper=True of an empty batch is the transpose's clone",
    "aten::constant_pad_nd": "a crop of one row keeps the gap behind it",
    "aten::conv2d": "an image without a batch dimension takes the weight's format",
    "aten::conv3d": "the weight's format counts in grouped volumes of one place",
    "aten::convolution": "one-dimensional images with channels-last weights",
    "aten::convolution_backward": "volumes of one channel: oneDNN's own strides",
    "aten::diff": "second differences of one column",
    "aten::empty_permuted": "extents of zero count as one there",
    "aten::isfinite": "empty tensors take the mask's strides",
    "aten::kron": "a product of permuted matrices is permuted, too",
    "aten::ldexp.Tensor": "a power and a product in torch, whose strides meet",
    "aten::native_batch_norm_backward": "a channels-last image with a row-major gradient",
    "aten::pad": "circular padding is row-major",
    "aten::pixel_unshuffle": "a factor of one keeps the strides",
    "aten::resize": "of permuted memory: the elements are those in memory's order",
    "aten::rms_norm": "whether torch's weight is row-major chooses its kernel",
}
ENOUGH = 0.995  # of the results

HEAD = "# How torch lays out what it returns: rule of each result, rows (see torchnp/strides.py); by scripts/make_layouts.py"


class Answer(NamedTuple):
    """What torch returned for a call: strides and shape of each result, None for what is no fresh tensor."""

    case: Case
    results: list[tuple[tuple[int, ...], tuple[int, ...]] | None]


def rows() -> list[str]:
    """The rows whose results are new: not those that write, nor views."""
    return [n for n in torchnp.table if not SCHEMAS[n].mutates and not SCHEMAS[n].is_view and not is_told(SCHEMAS[n])]


def is_told(schema: Schema) -> bool:
    """Whether the caller says how the result lies in memory: its kernel does so."""
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
        if sum(b.nbytes for b in case.buffers) < LARGE and taken[key] < limit and case.digest not in seen:
            seen.add(case.digest)
            taken[key] += 1
            cases.append(case)

    recorder = record.Recorder(wanted.__contains__, take)
    for task in plan(wanted, list(SAMPLED)):
        recorder.transferred.clear()
        for step, _ in enumerate(samples_of(task, recorder)):
            if step > STEPS:
                break
    return cases


def ask(oracle: TorchDevice, case: Case) -> Answer:
    """What torch returns, without its memory."""
    seen = oracle.execute(case)
    found: list[Any] = []
    if not seen.error:
        for strides_, result, place in zip(seen.strides, seen.results, seen.alias, strict=True):
            fresh = isinstance(result, np.ndarray) and place is None
            found.append((result.shape, strides_) if fresh else None)
    return Answer(case, found)


def answers(cases: list[Case]) -> list[Answer]:
    """What torch returns for the cases and their like in other memory, each operator's in a process of its own."""
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
    """What a function returns in a forked process; None if that dies."""
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
    """The rules that may be meant, the likeliest first."""
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
            yield from (f"{kind}:{','.join(names)}" for kind in ("promoted", "iterator", "promoted+0"))
    yield from (f"format:{n}" for n in single)
    yield from (f"same:{n}" for n in single)
    yield from (f"lifted:{n}" for n in single)
    yield from (f"real:{n}" for n in single[:1])
    yield from ("columns", "swept")


def fits(rule: strides.Rule, answer: Answer, place: int, where: int) -> bool:
    """Whether a rule gives the strides that torch gave for one result."""
    case, results = answer
    shape, wanted = results[place]
    given = bound(case)
    names = [a.name for a in SCHEMAS[case.op].args]
    leaf = lambda x: bare(x, case) if isinstance(x, Array) else x.name if isinstance(x, Named) else x
    try:
        return rule(shape, lambda i: map_tree(leaf, given.get(names[i])), where) == wanted
    except (RuntimeError, ValueError, TypeError, IndexError):  # of a rule for other arguments
        return False


def bare(a: Array, case: Case) -> np.ndarray:
    """An argument of a case, with the strides that it has there though it may be empty."""
    if 0 not in a.shape:
        return a.on(case.buffers)
    reach = sum(max(n - 1, 0) * s for n, s in zip(a.shape, a.strides)) + DTYPES[a.dtype].itemsize
    return np.ndarray(a.shape, DTYPES[a.dtype], np.empty(reach, np.uint8), 0, a.strides)


def decide(op: str, found: list[Answer]) -> tuple[list[str], list[str]]:
    """The rule of each result of a row, and the answers that no rule explains."""
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
    """The rule that explains most, ``own`` if that is not enough, and what it does not explain."""
    rules = {text: strides.parse(text, SCHEMAS[op]) for text in candidates(op)}
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
    """The rows of two files, by rule."""
    lines: dict[str, set[str]] = defaultdict(set)
    for line in (*old.splitlines()[1:], *new.splitlines()[1:]):
        rule, _, names = line.partition("\t")
        lines[rule] |= set(names.split())
    order = lambda name: (name.startswith("prims"), name)
    return "\n".join([HEAD, *(f"{r}\t{' '.join(sorted(n, key=order))}" for r, n in sorted(lines.items()))]) + "\n"


def returned(case: Case) -> list[Any]:
    """What the table gives for a call, lists among the results taken apart; nothing where it refuses the call."""
    leaf = lambda x: bare(x, case) if isinstance(x, Array) else x.name if isinstance(x, Named) else x
    kwargs = {RESERVED.get(k, k): v for k, v in map_tree(leaf, case.kwargs).items()}
    try:
        out = torchnp.table[case.op](*map_tree(leaf, case.args), **kwargs)
    except (RuntimeError, ValueError, np.linalg.LinAlgError):
        return []
    return [x for r in (out if isinstance(out, tuple) else (out,)) for x in (r if isinstance(r, list) else [r])]


def differs(answer: Answer) -> bool | None:
    """Whether a result of the table's has other strides than torch's; None where there is nothing to compare."""
    ours = returned(answer.case)
    if len(ours) != len(answer.results):
        return None
    pairs = [(x, r) for x, r in zip(ours, answer.results) if r is not None and isinstance(x, np.ndarray)]
    return any(tuple(s // x.itemsize for s in x.strides) != tuple(r[1]) for x, r in pairs) if pairs else None


def check(found: list[Answer]) -> int:
    """Print the share of calls whose results have torch's strides, and whose have not; the exit status."""
    seen: Counter[str] = Counter()
    wrong: dict[str, list[Case]] = defaultdict(list)
    for answer in found:
        other = differs(answer)
        if other is not None:
            seen[answer.case.op] += 1
            if other:
                wrong[answer.case.op].append(answer.case)
    for op, cases in sorted(wrong.items(), key=lambda item: -len(item[1])):
        print(
            f"{len(cases):5} of {seen[op]:5}  {op}: {EXCEPTIONS.get(op, 'no reason is known')}\n      {cases[0].describe()[:150]}"
        )
    unknown = sorted(set(wrong) - set(EXCEPTIONS))
    closed = sorted(op for op in EXCEPTIONS if seen[op] and op not in wrong)
    print(*(f"no reason: {op}" for op in unknown), *(f"delete its reason: {op}" for op in closed), sep="\n")
    total, differing = seen.total(), sum(map(len, wrong.values()))
    print(
        f"{total - differing:,} of {total:,} calls have torch's strides ({1 - differing / total:.2%}), {len(seen)} overloads"
    )
    return int(bool(unknown or closed) or differing > (1 - ENOUGH) * total)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help="compare the table's results with torch's, and write nothing"
    )
    parser.add_argument("--keep", type=Path, help="where torch's answers are kept")
    parser.add_argument("--ops", default="*", help="rows by pattern: print their rules, and write nothing")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.keep and options.keep.exists():
        found = pickle.loads(options.keep.read_bytes())
    else:
        found = answers(record_cases(frozenset(rows())))
        if options.keep:
            options.keep.write_bytes(pickle.dumps(found))
    allowed = {n for n in rows() if fnmatch.fnmatch(n, options.ops)}
    if options.check:
        return check([a for a in found if a.case.op in allowed])
    settled = set() if options.ops != "*" else set(strides.rules())
    text, unexplained = text_of([a for a in found if a.case.op in allowed - settled])
    print("\n".join(unexplained), file=sys.stderr)
    if options.ops != "*":
        print(text)
        return 0
    old = strides.DATA.read_text(encoding="utf-8")
    strides.DATA.write_text(merged(old, text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
