"""Makes overlaps.tsv: what torch does if a written argument overlaps itself or an input.

The harness's samples give valid calls of every overload that writes to its arguments. In-place ops are called again
with the written tensors expanded, so that several elements share memory. Most kernels reject such a target; the file
lists those that write to it. Ops with ``out=`` are called again with an input as ``out=``, with an ``out=`` in an
input's memory shifted by one element, with an expanded one, and with one that skips elements. The file lists the ops
that require an ``out=`` which is not an input, or is contiguous, and the ops that do not check what most ops reject.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

import torchnp
from opinfo_tests.case import Case, leaves
from opinfo_tests.generate.samples import recording
from opinfo_tests.generate.samples.extra.make_calls import Make
from query_torch import outs
from query_torch.calls import SCHEMAS, build, error_of, observe_all, record_cases
from torchnp.derived.targets import KINDS
from torchnp.dtypes import as_dtype, category

COLUMNS = "row, what torch writes or does not look at, outs that have to be contiguous (torchnp/derived/targets.py)"
SAMPLED = ("float32", "int64", "bfloat16", "float64", "bool", "complex64")
DROPOUTS = ("alpha_dropout_", "dropout_", "feature_alpha_dropout_", "feature_dropout_")  # they write only in training
INDEXED = ("gather.out", "take_along_dim.out")  # in some samples the input is expanded, or the index is passed as out=
ITSELF = ("copy_",)  # copying a tensor onto itself does nothing
SPLITS = ("unsafe_split.Tensor_out", "unsafe_split_with_sizes.out")  # they copy views of the input into a list
# Behaviour to leave out of the table, because torch rejects such calls for shapes or dtypes that the samples do not
# have.
REFUSED = {
    "glu.out": ("blind",),
    "glu_backward.grad_input": ("blind", "expands"),
    "linalg_multi_dot.out": ("expands",),
    "linalg_solve_triangular.out": ("blind",),
    "sum.IntList_out": ("expands",),  # for half precision, over an inner dimension
}
# Ops for which torch copies the result into out=, which the samples do not show.
COPIES = dict.fromkeys(("slow_conv3d.out", "slow_conv3d_forward.output", "slow_conv_transpose2d.out"), ("biased",))
COPIES |= {f"_upsample_{mode}2d_aa.out": ("copied",) for mode in ("bicubic", "bilinear", "lanczos")}
COPIES["upsample_bicubic2d_backward.grad_input"] = ("copied",)
# What no sample shows, or shows only in part.
KNOWN = {
    "_int_mm.out": ["blind", "out:int_mm_out_cpu: Expected result to be contiguous."],
    "_upsample_nearest_exact3d_backward.grad_input": ["blind"],
    # torch's kernel rejects it, but torch writes to it if the inner dimension is empty
    "addmm_": ["bool int float complex"],
    "empty.out": ["expands"],  # torch writes nothing
    "multilabel_margin_loss_forward.output": ["blind expands", "is_target:is_target must be contiguous"],
}
SKIPPED = ("aten::_convert_indices_from_coo_to_csr.out",)  # torch writes beyond an out= that is not contiguous
REFUSAL = "more than one element of the written-to tensor"


def inplace_rows() -> list[str]:
    """Return the derived overloads that write to their first argument."""
    return [n for n in torchnp.table if torchnp.table[n].rule == "in-place" and "inplace_view" not in SCHEMAS[n].tags]


def rows() -> list[str]:
    """Return all derived overloads that write to an argument."""
    return inplace_rows() + outs.rows()


def cases_of(wanted: Iterable[str]) -> list[Case]:
    """Return valid calls of each overload and dtype; those that no sample calls get a call made from the schema."""
    inplace = set(wanted) & set(inplace_rows())
    cases = record_cases(inplace, SAMPLED, 8, steps=20, size=100_000, transfers=8)
    missed = inplace - {case.op for case in cases}
    cases += filter(None, (guessed(op, dtype) for op in sorted(missed) for dtype in SAMPLED))
    return cases + outs.cases_of(set(wanted) - inplace - set(SKIPPED))


def expanded(x: Any, dim: int) -> Any:
    """Return the tensors expanded along one dimension, so that their elements along it share memory."""
    if isinstance(x, (list, tuple)):
        return [expanded(y, dim) for y in x]
    if x is None or x.ndim <= dim or x.shape[dim] < 2:
        return x
    return x.narrow(dim, 0, 1).clone().expand(x.shape)


def observe_inplace(case: Case) -> list[str]:
    """Return torch's answers to the call with expanded arguments, for each dimension: an empty text or an error."""
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
        found.append(said(case, args, kwargs))
    return found


def observe_out(case: Case) -> list[str]:
    """Return torch's answers to ``out=`` arrays that share memory, and ``"contiguous:name"`` if one must be contiguous.

    ``"apart"`` means that an input cannot be ``out=``, ``"shared"`` that it can. ``"looks"`` means that ``out=`` must
    not partly overlap an input, ``"blind"`` that torch does not check that. ``"once"`` means that elements of ``out=``
    must not share memory, ``"expands"`` that they may.
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
            words = said(case, args, kwargs | {name: wide})
            if "contiguous" in words:
                found.append(f"contiguous:{name}:{words.removeprefix('RuntimeError: ')}")
        for x in leaves(args):
            if isinstance(x, torch.Tensor) and x.dtype == target.dtype and dense(x) and name == outs[0]:
                words = said(case, args, kwargs | {name: x.view(x.shape)})
                if "some elements of the input tensor" in words:
                    found.append("apart")
                elif not words:
                    found.append("shared")
                break
    return found + observe_overlap(case, outs[0])


def observe_overlap(case: Case, name: str) -> list[str]:
    """Return torch's answers if the first ``out=``, of the right shape, partly overlaps an input or overlaps itself."""
    args, kwargs = build(case)
    if not isinstance(kwargs[name], torch.Tensor) or said(case, args, kwargs):
        return []
    right = kwargs[name]
    found = []
    args, kwargs = build(case)
    shared, target = recording.sharing(tuple(args), torch.zeros(right.shape, dtype=right.dtype))
    if target.numel() and any(a is not b for a, b in zip(args, shared, strict=True)):
        words = said(case, list(shared), kwargs | {name: target})
        found += ["looks"] if "some elements of the input tensor" in words else [] if words else ["blind"]
    args, kwargs = build(case)
    wide = recording.out_like(right, "expanded")
    if 0 in wide.stride() and wide.numel() > 1:
        words = said(case, args, kwargs | {name: wide})
        found += ["once"] if REFUSAL in words else [] if words else ["expands"]
    return found


def dense(x: torch.Tensor) -> bool:
    """Return whether a tensor is dense; torch compares the memory only of dense tensors."""
    return x.numel() > 0 and torch.ops.aten.is_non_overlapping_and_dense(x)


def said(case: Case, args: list[Any], kwargs: dict[str, Any]) -> str:
    """Return torch's error for a call as text, or an empty string."""
    error = error_of(case, args, kwargs)
    return ": ".join(error) if error else ""


def tensors(x: Any) -> list[torch.Tensor]:
    return [y for y in (x if isinstance(x, (list, tuple)) else [x]) if isinstance(y, torch.Tensor)]


def works(case: Case) -> bool:
    return error_of(case, *build(case)) is None


def observe(case: Case) -> dict[str, Any] | None:
    """Return torch's answers to a call with arguments that share memory."""
    if not works(case):
        return None
    answers = observe_out(case) if SCHEMAS[case.op].is_out else observe_inplace(case)
    return {"op": case.op, "dtype": case.dtype, "call": case.describe(), "said": answers}


def guessed(op: str, dtype: str) -> Case | None:
    """Return a call made from the schema, for an overload that no sample calls; None if torch rejects it."""
    make = Make(dtype)
    values = {"Tensor": lambda: make.x(3, 4), "Tensor[]": lambda: [make.x(3, 4)], "Scalar": lambda: 1,
              "Scalar[]": lambda: [1], "float": lambda: 0.5, "bool": lambda: True, "int": lambda: 1}  # fmt: skip
    schema = SCHEMAS[op]
    if any(a.type not in values and not a.has_default for a in schema.args):
        return None
    found: list[Case] = []
    recorder = recording.Recorder(lambda n: n == op, found.append)
    given = [values[a.type]() for a in schema.args if a.type in values and not a.kwonly]
    try:
        recorder.see(op, given, {})
    except Exception:
        return None
    return found[0] if found and works(found[0]) else None


def table(observed: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Return by overload the kinds of dtypes for which torch writes; a question mark means: only in some calls."""
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
        # A kind of dtype that no sample has is treated like the others if these agree.
        writes = [k + "?" * (len(kinds[k]) > 1) for k in KINDS if True in kinds.get(k, {not refuses})]
        if writes:
            found[op.removeprefix("aten::")] = writes
    return found


def out_table(observed: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Return for each overload how it differs from others of its kind, and which ``out=`` arrays must be contiguous."""
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    for row in observed:
        if SCHEMAS[row["op"]].is_out:
            seen[row["op"]].update(row["said"])
    found = {}
    for op, counts in seen.items():
        name, generated = op.removeprefix("aten::"), "generated" in SCHEMAS[op].tags
        flags = ["apart"] if name in INDEXED or (counts["apart"] and not counts["shared"]) else []
        # For generated overloads torch copies a finished result into out=; the others write to out= while they read.
        usual, other = ("blind", "looks") if generated else ("looks", "blind")
        free = [other] if counts[other] and not counts[usual] else []
        free += ["expands"] if counts["expands"] and not counts["once"] else []
        flags += [flag for flag in free if flag not in REFUSED.get(name, ())]
        flags += COPIES.get(name, ())
        wants = sorted(said.partition(":")[2] for said in counts if said.startswith("contiguous:"))
        if flags or wants:
            found[name] = [" ".join(flags) or "-", *wants]
    return found


# ---------------------------------------------------------------- the file

Lines = dict[str, str]  # overload -> the rest of its line


def ask(part: Iterable[str], path: Path) -> Lines:
    """Return the lines of some overloads."""
    wanted = set(part)
    observed = observe_all(observe, lambda: cases_of(wanted), path)
    found = {op: " ".join(kinds) for op, kinds in table(observed).items()}
    found |= {op: " ".join(f"{k}?" for k in KINDS) for op in DROPOUTS if f"aten::{op}" in wanted}
    found |= {op: "looks" for op in SPLITS if f"aten::{op}" in wanted}
    found |= {op: "itself" for op in ITSELF if f"aten::{op}" in wanted}
    found |= {op: "\t".join(wants) for op, wants in out_table(observed).items()}
    found |= {op: "\t".join(wants) for op, wants in KNOWN.items() if f"aten::{op}" in wanted}
    return {row["op"].removeprefix("aten::"): "" for row in observed if row["said"]} | found


def complete(found: Lines) -> Lines:
    """Return the lines unchanged: overloads without a line behave as usual."""
    return found


def usual(name: str) -> str:
    """Return the line of an overload that the file does not contain."""
    return ""


def read(path: Path) -> Lines:
    """Return the lines of the file."""
    lines = (line.partition("\t") for line in path.read_text().splitlines() if not line.startswith("#"))
    return {name: rest for name, _, rest in lines}


def lines_of(found: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines that are not empty."""
    return (f"{op}\t{line}" for op, line in sorted(found.items()) if line)
