"""Write torchnp/data/overlaps.tsv: what torch does with targets that overlap themselves or an input, asked of torch.

The harness's samples give good calls of every overload that writes its arguments. In-place ops are called again with
the written tensors expanded, so that several of their elements are one: most kernels refuse that, those that write it
are listed. Ops with ``out=`` are called again with an input as the out, with an out in the memory of an input, one
element on, with an expanded one, and with one that steps over elements: those that want an out apart from their
inputs, or a contiguous one, are listed, and those that do not look for what most of them refuse.

    python scripts/make_overlaps.py [--keep DIRECTORY]

With ``--keep`` the observations stay in a directory, and are used from there the next time.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import warnings
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import make_outs
import torch
from make_outs import build

import torchnp
from opinfo_tests.backends.torch_backend import overload_of
from opinfo_tests.case import Case
from opinfo_tests.draw import record
from opinfo_tests.draw.own import Make
from opinfo_tests.draw.reach import plan
from opinfo_tests.draw.samples import samples_of
from torchnp.derived.memory import KINDS
from torchnp.dtypes import as_dtype, category

OUTPUT = Path(torchnp.__file__).parent / "data" / "overlaps.tsv"
SCHEMAS = torchnp.table.schemas
SAMPLED = ("float32", "int64", "bfloat16", "float64", "bool", "complex64")
CASES = 8  # of each overload and dtype
STEPS = 20  # samples of an entry that are looked at
DROPOUTS = ("alpha_dropout_", "dropout_", "feature_alpha_dropout_", "feature_dropout_")  # write only in training
INDEXED = ("gather.out", "take_along_dim.out")  # some samples expand the input or give the index as the out
# What torch refuses of other shapes or dtypes than the samples'.
REFUSED = {
    "glu.out": ("blind",),
    "glu_backward.grad_input": ("blind", "expands"),
    "linalg_multi_dot.out": ("expands",),
    "linalg_solve_triangular.out": ("blind",),
    "sum.IntList_out": ("expands",),  # of half types, over an inner dimension
}
REFUSAL = "more than one element of the written-to tensor"


def rows() -> list[str]:
    """The derived overloads that write their first argument."""
    return [n for n in torchnp.table if torchnp.table[n].rule == "in-place" and "inplace_view" not in SCHEMAS[n].tags]


def record_cases() -> list[Case]:
    wanted = frozenset(rows())
    taken: Counter[tuple[str, str]] = Counter()
    cases: list[Case] = []

    def take(case: Case) -> None:
        key = case.op, case.sample_dtype
        if sum(b.nbytes for b in case.buffers) < 100_000 and taken[key] < CASES:
            taken[key] += 1
            cases.append(case)

    record.TRANSFERS = CASES
    recorder = record.Recorder(lambda n: n in wanted and taken[n, recorder.sample_dtype] < CASES, take)
    for task in plan(wanted, list(SAMPLED)):
        recorder.transferred.clear()
        for step, _ in enumerate(samples_of(task, recorder)):
            if step > STEPS:
                break
    return cases


def expanded(x: Any, dim: int) -> Any:
    """Each tensor with the elements along one of its dimensions in one place."""
    if isinstance(x, (list, tuple)):
        return [expanded(y, dim) for y in x]
    if x is None or x.ndim <= dim or x.shape[dim] < 2:
        return x
    return x.narrow(dim, 0, 1).clone().expand(x.shape)


def observe(case: Case) -> list[str]:
    """What torch says to the call with expanded targets: for each dimension, nothing or an error."""
    schema = SCHEMAS[case.op]
    found = []
    for dim in range(4):
        args, kwargs = build(case)
        names = [a.name for a in schema.args]
        given = dict(zip(names, args, strict=False)) | kwargs
        targets = {a.name: given[a.name] for a in schema.written}
        wide = {n: expanded(t, dim) for n, t in targets.items()}
        if not any(0 in y.stride() and y.numel() > 1 for n in wide for y in tensors(wide[n])):
            continue
        given |= wide
        args = [given[n] for n in names[: len(args)]]
        kwargs = {n: given[n] for n in kwargs}
        try:
            with torch.no_grad():
                overload_of(case.op)(*args, **kwargs)
            found.append("")
        except Exception as e:
            found.append(f"{type(e).__name__}: {(str(e).splitlines() or [''])[0]}")
    return found


def observe_out(case: Case) -> list[str]:
    """What torch says to outs that share memory, and ``"contiguous:name"`` where an out has to be that.

    ``"apart"`` where an input cannot be the out as well, else ``"shared"``; ``"looks"`` where an out cannot overlap
    an input in part, else ``"blind"``; ``"once"`` where several elements of an out cannot be one, else ``"expands"``.
    """
    schema = SCHEMAS[case.op]
    found = []
    outs = [a.name for a in schema.args if a.is_out]
    for name in outs:
        args, kwargs = build(case)
        target = kwargs[name]
        if not isinstance(target, torch.Tensor):
            continue
        if target.numel() > 1:
            wide = torch.zeros((*target.shape, 2), dtype=target.dtype)[..., 0]
            said = error_of(case, args, kwargs | {name: wide})
            if "contiguous" in said:
                found.append(f"contiguous:{name}:{said}")
        for x in make_outs.leaves(args):
            if isinstance(x, torch.Tensor) and x.dtype == target.dtype and dense(x) and name == outs[0]:
                said = error_of(case, args, kwargs | {name: x.view(x.shape)})
                if "some elements of the input tensor" in said:
                    found.append("apart")
                elif not said:
                    found.append("shared")
                break
    return found + observe_overlap(case, outs[0])


def observe_overlap(case: Case, name: str) -> list[str]:
    """What torch says to a first out of the right shape which overlaps an input in part, or itself."""
    args, kwargs = build(case)
    if not isinstance(kwargs[name], torch.Tensor) or error_of(case, args, kwargs):
        return []
    right = kwargs[name]
    found = []
    args, kwargs = build(case)
    shared, target = record.sharing(tuple(args), torch.zeros(right.shape, dtype=right.dtype))
    if target.numel() and any(a is not b for a, b in zip(args, shared, strict=True)):
        said = error_of(case, list(shared), kwargs | {name: target})
        found += ["looks"] if "some elements of the input tensor" in said else [] if said else ["blind"]
    args, kwargs = build(case)
    wide = record.out_like(right, "expanded")
    if 0 in wide.stride() and wide.numel() > 1:
        said = error_of(case, args, kwargs | {name: wide})
        found += ["once"] if REFUSAL in said else [] if said else ["expands"]
    return found


def dense(x: torch.Tensor) -> bool:
    """torch compares the memory of dense tensors alone."""
    return x.numel() > 0 and torch.ops.aten.is_non_overlapping_and_dense(x)


def error_of(case: Case, args: list[Any], kwargs: dict[str, Any]) -> str:
    try:
        with torch.no_grad():
            overload_of(case.op)(*args, **kwargs)
    except Exception as e:
        return (str(e).splitlines() or [""])[0]
    return ""


def tensors(x: Any) -> list[torch.Tensor]:
    return [y for y in (x if isinstance(x, (list, tuple)) else [x]) if isinstance(y, torch.Tensor)]


def works(case: Case) -> bool:
    args, kwargs = build(case)
    try:
        with torch.no_grad():
            overload_of(case.op)(*args, **kwargs)
    except Exception:
        return False
    return True


def work(cases: list[Case], start: int, path: Path, at: Any) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with path.open("a") as lines:
        for at.value in range(start, len(cases)):
            case = cases[at.value]
            if works(case):
                said = observe_out(case) if SCHEMAS[case.op].is_out else observe(case)
                seen = {"op": case.op, "dtype": case.dtype, "call": case.describe(), "said": said}
                lines.write(json.dumps(seen) + "\n")
                lines.flush()
        at.value = len(cases)


def observe_all(cases: list[Case], path: Path) -> None:
    """Observe in a child process; where torch brings it down, go on behind that case."""
    start = 0
    at = multiprocessing.Value("i", 0)
    while start < len(cases):
        child = multiprocessing.Process(target=work, args=(cases, start, path, at))
        child.start()
        child.join()
        if at.value < len(cases):
            print(f"torch ended the process: {cases[at.value].describe(80)}")
        start = at.value + 1


def guessed(op: str, dtype: str) -> Case | None:
    """A call of an overload that no sample reaches, made up from its schema; None where torch refuses it."""
    make = Make(dtype)
    values = {"Tensor": lambda: make.x(3, 4), "Tensor[]": lambda: [make.x(3, 4)], "Scalar": lambda: 1,
              "Scalar[]": lambda: [1], "float": lambda: 0.5, "bool": lambda: True, "int": lambda: 1}  # fmt: skip
    schema = SCHEMAS[op]
    if any(a.type not in values and not a.has_default for a in schema.args):
        return None
    found: list[Case] = []
    recorder = record.Recorder(lambda n: n == op, found.append)
    given = [values[a.type]() for a in schema.args if a.type in values and not a.kwonly]
    try:
        recorder.see(op, given, {})
    except Exception:
        return None
    return found[0] if found and works(found[0]) else None


def table(observed: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Row -> the kinds of dtypes in which torch writes, with a question mark where it does not always."""
    seen: dict[str, dict[str, set[bool]]] = defaultdict(lambda: defaultdict(set))
    for row in observed:
        if SCHEMAS[row["op"]].is_out:
            continue
        kind = KINDS[category(as_dtype(row["dtype"]))] if row["dtype"] != "none" else ""
        for said in row["said"]:
            if kind and (not said or REFUSAL in said):
                seen[row["op"]][kind].add(not said)
    found = {}
    for op, kinds in seen.items():
        refuses = any(False in said for said in kinds.values())
        # A kind that no sample has is as the others where they all agree.
        writes = [k + "?" * (len(kinds[k]) > 1) for k in KINDS if True in kinds.get(k, {not refuses})]
        if writes:
            found[op.removeprefix("aten::")] = writes
    return found


def out_table(observed: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Row -> what it does not do as the others of its kind, and the outs that have to be contiguous."""
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    for row in observed:
        if SCHEMAS[row["op"]].is_out:
            seen[row["op"]].update(row["said"])
    found = {}
    for op, counts in seen.items():
        name, generated = op.removeprefix("aten::"), "generated" in SCHEMAS[op].tags
        flags = ["apart"] if name in INDEXED or (counts["apart"] and not counts["shared"]) else []
        # Torch writes a generated out from a result of its own, and the others while it reads.
        usual, other = ("blind", "looks") if generated else ("looks", "blind")
        free = [other] if counts[other] and not counts[usual] else []
        free += ["expands"] if counts["expands"] and not counts["once"] else []
        flags += [flag for flag in free if flag not in REFUSED.get(name, ())]
        wants = sorted(said.partition(":")[2] for said in counts if said.startswith("contiguous:"))
        if flags or wants:
            found[name] = [" ".join(flags) or "-", *wants]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", type=Path)
    keep = parser.parse_args().keep
    with tempfile.TemporaryDirectory() as directory:
        path = (keep or Path(directory)) / "overlaps.jsonl"
        if not path.exists():
            cases = record_cases()
            missed = set(rows()) - {case.op for case in cases}
            cases += filter(None, (guessed(op, dtype) for op in sorted(missed) for dtype in SAMPLED))
            observe_all(cases + make_outs.record_cases(), path)
        observed = [json.loads(line) for line in path.open()]
    unseen = sorted(set(rows()) - {row["op"] for row in observed if row["said"]})
    found = table(observed) | {op: [f"{k}?" for k in KINDS] for op in DROPOUTS}
    lines = {op: " ".join(kinds) for op, kinds in found.items()}
    lines |= {op: "\t".join(wants) for op, wants in out_table(observed).items()}
    head = "# What torch does with targets that overlap (see torchnp/derived/memory.py)"
    OUTPUT.write_text("\n".join([head, *(f"{op}\t{line}" for op, line in sorted(lines.items()))]) + "\n")
    print(f"{OUTPUT.name}: {len(lines)} rows; {len(unseen)} were not seen: {' '.join(unseen)}")


if __name__ == "__main__":
    main()
