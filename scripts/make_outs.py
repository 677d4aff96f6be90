"""Write torchnp/data/outs.tsv: by which rule torch writes each ``out=``, asked of the installed torch.

The harness's samples give good calls of every ``out=`` overload. Each is repeated with outs of other dtypes and of
another shape; what torch accepts picks the rule, and its messages give the words. Some of torch's kernels write
beyond an out of the wrong dtype: the outs here have memory to spare, and the calls run in processes of their own.

    python scripts/make_outs.py [--keep DIRECTORY]

With ``--keep`` the observations stay in a directory, and are used from there the next time.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import tempfile
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

import torchnp
from opinfo_tests.backends.torch_backend import DTYPE_NAMES, TorchDevice, overload_of, to_tensor
from opinfo_tests.case import Array, Case, Named, Seeded, leaves, map_tree
from opinfo_tests.draw import record
from opinfo_tests.draw.own import Make
from opinfo_tests.draw.reach import plan
from opinfo_tests.draw.samples import samples_of
from torchnp.derived import dtypes as writing
from torchnp.dtypes import as_dtype

OUTPUT = Path(torchnp.__file__).parent / "data" / "outs.tsv"
SCHEMAS = torchnp.table.schemas
SAMPLED = ("float32", "int64", "bfloat16", "bool", "complex64")
GIVEN = ("bool", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
         "complex128")  # fmt: skip
CASES = 4  # of each overload and dtype
STEPS = 12  # samples of an entry that are looked at
SKIPPED = ("aten::narrow_copy.out",)  # writes beyond an out of another shape

# Calls of overloads that no sample reaches.
MORE = """
nll_loss  (x(5,4), ints(5))
nll_loss2d  (x(2,4,3,3), ints(2,3,3))
slow_conv3d  (x(1,2,4,4,4), x(3,2,2,2,2), [2,2,2])
slow_conv_transpose2d  (x(1,2,4,4), x(2,3,2,2), [2,2])
slow_conv_transpose3d  (x(1,2,4,4,4), x(2,3,2,2,2), [2,2,2])
thnn_conv2d  (x(1,2,4,4), x(3,2,2,2), [2,2])
_slow_conv2d_forward  (x(1,2,4,4), x(3,2,2,2), [2,2], None, [1,1], [0,0])
slow_conv3d_forward  (x(1,2,4,4,4), x(3,2,2,2,2), [2,2,2], None, [1,1,1], [0,0,0])
adaptive_max_pool3d  (x(1,2,4,4,4), [2,2,2])
_addmm_activation  (x(2,4), x(2,3), x(3,4))
_add_relu.Tensor  (x(2,4), x(2,4))
_logcumsumexp  (x(3,4), 1)
_stack  ([x(3), x(3)], 1)
_upsample_bicubic2d_aa  (x(1,2,4,4), [3,3], False)
_upsample_lanczos2d_aa  (x(1,2,4,4), [3,3], False)
_upsample_nearest_exact3d  (x(1,2,4,4,4), [3,3,3])
chain_matmul  ([x(2,3), x(3,4), x(4,2)])
clamp_max  (x(3,4), 1)
clip  (x(3,4), 0, 1)
fft_fftfreq  (5)
fft_rfftfreq  (5)
float_power.Scalar  (2, x(3,4))
float_power.Tensor_Scalar  (x(3,4).abs(), 2)
frobenius_norm.dim  (x(3,4), [1])
greater.Scalar  (x(3,4), 1)
less.Scalar  (x(3,4), 1)
not_equal.Scalar  (x(3,4), 1)
isin.Tensor_Scalar  (x(3,4), 1)
isin.Scalar_Tensor  (1, x(3,4))
linalg_matrix_rank  (x(3,4), 0.1)
linalg_pinv  (x(3,4), 0.1)
linalg_norm.ord_str  (x(3,4), 'nuc')
nuclear_norm  (x(3,4))
nuclear_norm.dim  (x(3,4), [0,1])
quantile  (x(6), torch.tensor([0.5]))
nanquantile  (x(6), torch.tensor([0.5]))
randperm  (5)
range  (0, 5)
rrelu_with_noise  (x(3,4), x(3,4))
scatter.value_reduce  (x(3,4), 0, ints(2,4) % 3, 2.0, reduce='add')
searchsorted.Scalar  (torch.tensor([1., 2.]), 1.5)
slogdet  (x(3,3))
special_gammainc  (x(3).abs(), x(3).abs())
special_polygamma  (1, x(3).abs())
tensordot  (x(3,4), x(4,3), [1], [0])
norm.dtype_out  (x(3,4), 2, [1], False, dtype=torch.float32)
native_dropout  (x(3,4), 0.5, True)
poisson  (x(3,4).abs())
binomial  (x(3,4).abs(), torch.rand(3,4))
conv_tbc  (x(5,2,3), x(3,3,4), x(4), 1)
affine_grid_generator  (x(2,2,3), [2,1,4,5], True)
random  (x(3,4))
resize  (x(3,4), [2,3])
view_copy.dtype  (x(3,4), torch.int32)
"""

# What the samples do not show, and the few in-place ops with a rule of their own: in place, everything else is cast.
NANSUM = "NotImplementedError: \"nansum_cpu\" not implemented for '{d}'"
MVLGAMMA = "mvlgamma: result type {x} can't be cast to the desired output type {r}"
STRUCTURED = "Bad in-place call: input tensor dtype {dc} and output tensor dtype {rc} should match"
KNOWN = {
    "all.all_out all.dims_out all.out": ("flag", "all only supports bool tensor for result, got: {d}"),
    "any.all_out any.dims_out any.out": ("flag", "any only supports bool tensor for result, got: {d}"),
    "_upsample_nearest_exact3d_backward.grad_input": ("same", writing.NOT_THE_SAME),
    "gelu_backward.grad_input": (
        "cast",
        "result type {r} can't be cast to the desired output type {d}",
    ),  # oneDNN aside
    "linalg_matrix_power.out matrix_power.out": (
        "cast",
        "matrix_power: Expected result to be safely castable from {r} dtype, but got result with dtype {d}",
    ),
    "nansum.out nanmean.out": ("cast into", NANSUM),
    "normal.Tensor_Tensor_out normal.float_Tensor_out": (
        "cast",
        "NotImplementedError: \"normal_kernel_cpu\" not implemented for '{d}'",
    ),
    "sum.IntList_out cumsum.out cumprod.out": ("same into", writing.NOT_THE_SAME),  # with a dtype that is not the out's
    "narrow_copy.out": (
        "same",
        "Expected self.dtype() == output.dtype() to be true, but got false.  "
        "(Could this error message be improved?  If so, please report an enhancement request to "
        "PyTorch.)",
    ),
    "diff.out": ("cast", "result type {r} can't be cast to the desired output type {d}"),  # of order 1 and above
    "matmul.out linalg_matmul.out": ("same", writing.NOT_THE_SAME),  # two vectors aside
    "mvlgamma.out special_multigammaln.out mvlgamma_": ("cast", MVLGAMMA),
    "float_power_.Tensor float_power_.Scalar": (
        "same",
        "the base given to float_power_ has dtype {d} but the operation's result requires dtype {r}",
    ),
    "abs_ absolute_ _foreach_abs_": ("real", "In-place abs is not supported for complex tensors."),
    "cumsum_ cumprod_": ("same into", STRUCTURED),
    "addmm_ addmv_ baddbmm_": ("same sized", STRUCTURED),
}


def out_rows() -> list[str]:
    return [n for n in torchnp.table if SCHEMAS[n].is_out and n not in SKIPPED and torchnp.table.status(n) == "derived"]


# ---------------------------------------------------------------- good calls


def record_cases() -> list[Case]:
    """Calls of the out= overloads with outs as they should be, a few of each dtype."""
    wanted = frozenset(out_rows())
    taken: Counter[tuple[str, str]] = Counter()
    cases: list[Case] = []

    def take(case: Case) -> None:
        key = case.op, case.sample_dtype
        if sum(b.nbytes for b in case.buffers) < 300_000 and taken[key] < CASES:
            taken[key] += 1
            cases.append(case)

    record.OUTS, record.TRANSFERS = ("right",), CASES - 1
    recorder = record.Recorder(lambda n: n in wanted and taken[n, recorder.sample_dtype] < CASES, take)
    for task in plan(wanted, list(SAMPLED)):
        recorder.transferred.clear()
        for step, _ in enumerate(samples_of(task, recorder)):
            if step > STEPS:
                break
    make = Make("float32")
    recorder.source = "more"
    for line in MORE.strip().splitlines():
        op, call = line.split(None, 1)
        args, kwargs = eval(f"call{call}", {**make.names(), "x": make.x, "p": make.p})
        recorder.transferred.clear()
        recorder.see(f"aten::{op}", args, kwargs)
    return cases


# ---------------------------------------------------------------- what torch does with other outs


def build(case: Case) -> tuple[list[Any], dict[str, Any]]:
    storages = [torch.from_numpy(b).clone() for b in case.buffers]

    def leaf(x: Any) -> Any:
        if type(x) is Array:
            return to_tensor(x, storages)
        if type(x) is Named:
            return TorchDevice("cpu").named(x)
        return torch.Generator().manual_seed(x.seed) if type(x) is Seeded else x

    return list(map_tree(leaf, case.args)), {k: map_tree(leaf, v) for k, v in case.kwargs.items()}


def call(case: Case, outs: dict[str, Any]) -> list[str] | None:
    """Call torch; return its error's class and first line, or None."""
    args, kwargs = build(case)
    torch.default_generator.manual_seed(case.seed)
    try:
        with torch.no_grad():
            overload_of(case.op)(*args, **{**kwargs, **outs})
    except Exception as e:
        return [type(e).__name__, (str(e).splitlines() or [""])[0]]
    return None


def like(out: Any, dtype: str = "", extra: tuple[int, ...] = ()) -> Any:
    """An out of another dtype or with more dimensions, in memory that a wider dtype fits into as well."""
    if isinstance(out, (list, tuple)):
        return [like(x, dtype, extra) for x in out]
    shape = (*out.shape, *extra)
    n = torch.Size(shape).numel()
    return torch.zeros(n * 16 + 16, dtype=getattr(torch, dtype) if dtype else out.dtype)[:n].view(shape)


def agree(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether ``a`` holds ``b`` in its own dtype."""
    wide = [x.resolve_conj().to(torch.complex128) for x in (a, b.to(a.dtype))]
    return a.shape == b.shape and torch.equal(*map(torch.nan_to_num, wide))


def observe(case: Case) -> dict[str, Any] | None:
    """What torch does with the call when one of its outs is of another dtype, and with all of another shape."""
    declared = [a.name for a in SCHEMAS[case.op].args if a.is_out]
    right = {n: build(case)[1][n] for n in declared}
    good, again = ({n: like(v) for n, v in right.items()} for _ in range(2))
    if call(case, good) or call(case, again):
        return None
    pairs = zip(leaves(list(good.values())), leaves(list(again.values())), strict=True)
    repeats = all(agree(a, b) for a, b in pairs)
    first = next((t for t in leaves(build(case)) if isinstance(t, torch.Tensor)), None)
    seen: dict[str, Any] = {"op": case.op, "x": DTYPE_NAMES.get(getattr(first, "dtype", None)), "outs": {}}
    for n in declared:
        found = seen["outs"][n] = {"R": [DTYPE_NAMES[t.dtype] for t in leaves(good[n])], "given": {}}
        for dtype in GIVEN:
            outs = {m: like(v, dtype if m == n else "") for m, v in right.items()}
            error = call(case, outs)
            same = [agree(a, b) for a, b in zip(leaves(outs[n]), leaves(good[n]), strict=True)]
            found["given"][dtype] = error or (all(same) or not repeats)
    outs = {n: like(v, extra=(2,)) for n, v in right.items()}
    error = call(case, outs)
    seen["reshaped"] = error or [list(t.shape) for t in leaves(list(outs.values()))]
    seen["shapes"] = [list(t.shape) for t in leaves(list(right.values()))]
    return seen


def work(cases: list[Case], start: int, path: Path, at: Any) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with path.open("a") as lines:
        for at.value in range(start, len(cases)):
            seen = observe(cases[at.value])
            if seen:
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


# ---------------------------------------------------------------- the rule that fits


Observed = tuple[list[str], str, str, Any]  # dtypes of the results, of the out, of the first input; what torch did


def unfitting(rule: str, seen: list[Observed]) -> int:
    """How many observations a rule gets wrong."""
    allows = writing.ALLOWS[rule]
    return sum(
        all(allows(as_dtype(r), as_dtype(d), as_dtype(x or r)) for r in rs) is isinstance(got, list)
        for rs, d, x, got in seen
    )


SPELLED = {}
for _name in GIVEN:
    SPELLED[writing.scalar_name(as_dtype(_name))] = SPELLED[writing.c_name(as_dtype(_name))] = _name
_NAMES = "|".join(map(re.escape, sorted(SPELLED, key=len, reverse=True)))
NAMED = re.compile(rf"(?:(?<![A-Za-z0-9_:<])|(?<=type)|(?<=CPU))(?:{_NAMES})(?![a-z0-9_>(])")


def template(message: str, r: str, d: str) -> str:
    """A message with the result's dtype as {r} and the out's as {d}, {rc} and {dc} where they are spelled as in C++."""

    def field(found: re.Match[str]) -> str:
        name = SPELLED[found[0]]
        key = "d" if name == d else "r" if name == r else ""
        if not key:
            return found[0]
        return f"{{{key}}}" if found[0] == writing.scalar_name(as_dtype(name)) else f"{{{key}c}}"

    return NAMED.sub(field, message.replace("{", "{{").replace("}", "}}"))


def fit(op: str, seen: list[Observed]) -> tuple[str, str]:
    """The rule and the words of one out."""
    # What a kernel refuses to compute in is not refused for its out.
    kept = [s for s in seen if not (isinstance(s[-1], list) and s[-1][0] == "NotImplementedError")]
    kept = [s for s in kept if not (isinstance(s[-1], list) and "without overflow" in s[-1][1])]
    rule = min(writing.ALLOWS, key=lambda name: unfitting(name, kept))
    words = Counter(
        ("" if got[0] == "RuntimeError" else f"{got[0]}: ") + template(got[1], rs[0], d)
        for rs, d, _, got in kept
        if isinstance(got, list) and rs[0] != d
    )
    said = words.most_common(1)[0][0] if words else ""
    if computes_there(op) and (len(kept) < len(seen) or any(s[-1] is False for s in seen)):
        # It refuses only outs of another dtype than the one that it was told.
        rule = f"{'same' if said == writing.NOT_THE_SAME else rule} into"
    usual = writing.default_rule(SCHEMAS[op])
    return (rule, said) if said or rule != usual[0] else usual


def computes_there(op: str) -> bool:
    """Whether the source can be told to compute in the out's dtype: by its ``dtype``, or, in a reduction, its input."""
    source = SCHEMAS[torchnp.table[op].derived_from]
    return any(a.name == "dtype" for a in source.args) or source.base in (
        "var",
        "std",
        "logsumexp",
        "special_logsumexp",
    )


def shape_rule(rows: list[dict[str, Any]]) -> str:
    """How the op treats an out of another shape, where it is not resized."""
    if any("must match the size of tensor b" in str(r["reshaped"]) for r in rows) and all(
        r["reshaped"] != r["shapes"] for r in rows if 0 not in leaves(r["shapes"])
    ):
        return " copy"
    kept = [r for r in rows if isinstance(r["reshaped"][0], list) and r["reshaped"] != r["shapes"]]
    # An out of as many elements is taken as it is: seen where both have none.
    return " flat" if kept and all(0 in s for r in kept for s in r["shapes"]) and len(kept[0]["shapes"]) == 1 else ""


def rules(observed: Iterable[dict[str, Any]]) -> dict[str, tuple[str, str]]:
    """``"mul.out"`` or ``"sort.values:indices"`` -> rule and words."""
    by_op: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in observed:
        by_op[row["op"]].append(row)
    found = {}
    shapes = {op: shape_rule(rows) for op, rows in by_op.items()}
    flat = {op.partition(".")[0] for op, shape in shapes.items() if shape == " flat"}
    for op, rows in by_op.items():
        shape = " flat" if op.partition(".")[0] in flat else shapes[op]
        outs = list(rows[0]["outs"])
        for out in outs:
            seen = [(r["outs"][out]["R"], d, r["x"], got) for r in rows for d, got in r["outs"][out]["given"].items()]
            seen = [s for s in seen if s[0]]
            if seen:
                rule, words = fit(op, seen)
                name = op.removeprefix("aten::") + (f":{out}" if len(outs) > 1 else "")
                found[name] = rule + shape, words
    return found


def inherited(found: dict[str, tuple[str, str]]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Rows that were not reached follow another overload of their packet."""
    for op in out_rows():
        name = op.removeprefix("aten::")
        outs = [a.name for a in SCHEMAS[op].args if a.is_out]
        if len(outs) == 1 and name not in found:
            packet = name.partition(".")[0] + "."
            near = [n for n in found if n.startswith(packet) and ":" not in n]
            same = [n for n in near if ("generated" in SCHEMAS[f"aten::{n}"].tags) == ("generated" in SCHEMAS[op].tags)]
            if same:
                yield name, found[same[0]]


def lines_of(found: dict[str, tuple[str, str]]) -> Iterator[str]:
    """The rows whose rule is not the default of their kind, by rule and words."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, rule in found.items():
        if rule != writing.default_rule(SCHEMAS["aten::" + name.partition(":")[0]]):
            groups[rule].append(name)
    for (rule, words), names in sorted(groups.items(), key=lambda item: (item[0][0], -len(item[1]), item[0][1])):
        yield f"{rule}\t{words}\t{' '.join(sorted(names))}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", type=Path)
    keep = parser.parse_args().keep
    with tempfile.TemporaryDirectory() as directory:
        path = (keep or Path(directory)) / "observed.jsonl"
        if not path.exists():
            observe_all(record_cases(), path)
        with path.open() as lines:
            found = rules(map(json.loads, lines))
    found |= dict(inherited(found))
    found |= {name: rule for names, rule in KNOWN.items() for name in names.split()}
    head = "# How torch writes out=, where it is not by default: rule, words, rows (see torchnp/derived/dtypes.py)"
    lines = [head, *lines_of(found)]
    OUTPUT.write_text("\n".join(lines) + "\n")
    print(f"{OUTPUT.name}: {len(lines) - 1} lines for {len(found)} outs")


if __name__ == "__main__":
    main()
