"""Makes outs.tsv: the rule by which torch writes each ``out=``.

The harness's samples give valid calls of every ``out=`` overload. Each is repeated with ``out=`` of other dtypes and of
another shape. What torch accepts determines the rule, and its error messages determine the words. Some of torch's
kernels write beyond an ``out=`` of a wrong dtype, so these arrays have spare memory.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

import torchnp
from opinfo_tests.backends.torch_backend import DTYPE_NAMES
from opinfo_tests.case import Case, leaves
from query_torch.calls import SCHEMAS, build, error_of, observe_all, record_cases
from torchnp.derived import casts
from torchnp.dtypes import as_dtype

COLUMNS = "rule, words, rows: how torch writes out=, where it is not by default (torchnp/derived/casts.py)"
SAMPLED = ("float32", "int64", "bfloat16", "bool", "complex64")
GIVEN = ("bool", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
         "complex128")  # fmt: skip
SKIPPED = ("aten::narrow_copy.out",)  # torch writes beyond an out= of another shape
Rules = dict[str, tuple[str, str]]  # "mul.out" or "sort.values:indices" -> rule and words

# Calls of overloads that no sample calls.
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
rrelu_with_noise_functional  (x(3,4), x(3,4))
_native_batch_norm_legit_functional  (x(2,3,4), x(3), x(3), x(3), p(3), True, 0.1, 1e-5)
_batch_norm_with_update_functional  (x(2,3,4), x(3), x(3), x(3), p(3), 0.1, 1e-5)
lift  (x(3,4))
dequantize.self  (x(3,4))
_foobar  (x(3,4))
_convert_indices_from_coo_to_csr  (torch.tensor([0,0,2]), 3)
_convert_indices_from_csr_to_coo  (torch.tensor([0,2,3]), torch.tensor([0,1,1]))
_upsample_bicubic2d_aa_backward  (x(1,2,3,3), [3,3], [1,2,4,4], False)
_upsample_lanczos2d_aa_backward  (x(1,2,3,3), [3,3], [1,2,4,4], False)
soft_margin_loss_backward  (x(3,4), x(3,4), x(3,4), 0)
_amp_update_scale  (torch.tensor(4.0), torch.tensor(1, dtype=torch.int32), torch.tensor(0.0), 2.0, 0.5, 2)
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
col2im  (x(1,12,6), [3,4], [2,2], [1,1], [0,0], [1,1])
im2col  (x(1,2,4,4), [2,2], [1,1], [0,0], [1,1])
view_copy.dtype  (x(3,4), torch.int32)
"""

# Rules that the samples do not show, and the few in-place ops with their own rule. All others cast to their own dtype.
NANSUM = "NotImplementedError: \"nansum_cpu\" not implemented for '{d}'"
MVLGAMMA = "mvlgamma: result type {x} can't be cast to the desired output type {r}"
STRUCTURED = "Bad in-place call: input tensor dtype {dc} and output tensor dtype {rc} should match"
KNOWN = {
    "all.all_out all.dims_out all.out": ("flag", "all only supports bool tensor for result, got: {d}"),
    "any.all_out any.dims_out any.out": ("flag", "any only supports bool tensor for result, got: {d}"),
    "_upsample_nearest_exact3d_backward.grad_input": ("same", casts.NOT_THE_SAME),
    "gelu_backward.grad_input": (
        "cast",
        "result type {r} can't be cast to the desired output type {d}",
    ),  # oneDNN's kernel has another rule
    "linalg_matrix_power.out matrix_power.out": (
        "cast",
        "matrix_power: Expected result to be safely castable from {r} dtype, but got result with dtype {d}",
    ),
    "nansum.out nanmean.out": ("cast into", NANSUM),
    # if dtype= differs from the dtype of out=
    "sum.IntList_out cumsum.out cumprod.out": ("same into", casts.NOT_THE_SAME),
    "narrow_copy.out": (
        "same",
        "Expected self.dtype() == output.dtype() to be true, but got false.  "
        "(Could this error message be improved?  If so, please report an enhancement request to "
        "PyTorch.)",
    ),
    # The rule is for 0-d inputs; otherwise inner calls tensordot.
    "inner.out": ("cast", "result type {r} can't be cast to the desired output type {d}"),
    "diff.out": ("cast", "result type {r} can't be cast to the desired output type {d}"),  # for n = 1 or more
    "matmul.out linalg_matmul.out": ("same", casts.NOT_THE_SAME),  # two vectors have another rule
    "mvlgamma.out special_multigammaln.out mvlgamma_": ("cast", MVLGAMMA),
    "float_power_.Tensor float_power_.Scalar": (
        "same",
        "the base given to float_power_ has dtype {d} but the operation's result requires dtype {r}",
    ),
    "abs_ absolute_ _foreach_abs_": ("real", "In-place abs is not supported for complex tensors."),
    "cumsum_ cumprod_": ("same into", STRUCTURED),
    "addmm_ addmv_ baddbmm_": ("same sized", STRUCTURED),
    # Operators that leave memory uninitialized, which may happen to have the same contents.
    "empty_like.out empty_permuted.out empty_strided.out new_empty.out new_empty_strided.out": ("any into", ""),
    "_int_mm.out": ("same", "int_mm_out_cpu: Expected result dtype to be of type kInt but got {dc}"),
    # torch's error message for a 0-d weight
    "lerp.Tensor_out": ("cast", "result type {r} can't be cast to the desired output type {d}"),
    "_scaled_mm.out _scaled_mm_v2.out": (  # oneDNN's kernel has another rule
        "same into",
        "ValueError: out_dtype must match output matrix type",
    ),
}


def rows() -> list[str]:
    """Return the derived overloads with ``out=``."""
    return [n for n in torchnp.table if SCHEMAS[n].is_out and n not in SKIPPED and torchnp.table.status(n) == "derived"]


def cases_of(wanted: Iterable[str]) -> list[Case]:
    """Return valid calls, a few for each overload and dtype."""
    return record_cases(frozenset(wanted), SAMPLED, 4, steps=12, size=300_000, transfers=3, more=MORE)


# ---------------------------------------------------------------- what torch does with other kinds of out=


def call(case: Case, outs: dict[str, Any]) -> list[str] | None:
    """Call torch with other ``out=`` arrays; return its error, or None."""
    args, kwargs = build(case)
    return error_of(case, args, {**kwargs, **outs})


def like(out: Any, dtype: str = "", extra: tuple[int, ...] = ()) -> Any:
    """Return an ``out=`` of another dtype or with more dimensions, in memory that is large enough for a wider dtype."""
    if isinstance(out, (list, tuple)):
        return [like(x, dtype, extra) for x in out]
    shape = (*out.shape, *extra)
    n = torch.Size(shape).numel()
    return torch.zeros(n * 16 + 16, dtype=getattr(torch, dtype) if dtype else out.dtype)[:n].view(shape)


def agree(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether ``a`` equals ``b`` after a conversion to the dtype of ``a``."""
    wide = [x.resolve_conj().to(torch.complex128) for x in (a, b.to(a.dtype))]
    return a.shape == b.shape and torch.equal(*map(torch.nan_to_num, wide))


def observe(case: Case) -> dict[str, Any] | None:
    """Return what torch does with a call if one ``out=`` has another dtype, and if all have another shape."""
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
    outs = {n: like(v, extra=(1,)) for n, v in right.items()}
    error = call(case, outs)
    seen["deeper"] = error or [list(t.shape) for t in leaves(list(outs.values()))]
    seen["shapes"] = [list(t.shape) for t in leaves(list(right.values()))]
    return seen


# ---------------------------------------------------------------- the rule that explains the observations


Observed = tuple[list[str], str, str, Any]  # dtypes of the results, of out=, of the first input; what torch did


def unfitting(rule: str, seen: list[Observed]) -> int:
    """Return the number of observations that a rule contradicts."""
    allows = casts.ALLOWS[rule]
    return sum(
        all(allows(as_dtype(r), as_dtype(d), as_dtype(x or r)) for r in rs) is isinstance(got, list)
        for rs, d, x, got in seen
    )


SPELLED = {}
for _name in GIVEN:
    SPELLED[casts.scalar_name(as_dtype(_name))] = SPELLED[casts.c_name(as_dtype(_name))] = _name
_NAMES = "|".join(map(re.escape, sorted(SPELLED, key=len, reverse=True)))
NAMED = re.compile(rf"(?:(?<![A-Za-z0-9_:<])|(?<=type)|(?<=CPU))(?:{_NAMES})(?![a-z0-9_>(])")


def template(message: str, r: str, d: str) -> str:
    """Return a message with the result's dtype replaced by {r} and that of ``out=`` by {d}.

    C++ names of the dtypes become {rc} and {dc}, and names of tensor types become {rt} and {dt}.
    """

    def field(found: re.Match[str]) -> str:
        name = SPELLED[found[0]]
        key = "d" if name == d else "r" if name == r else ""
        if not key:
            return found[0]
        return f"{{{key}}}" if found[0] == casts.scalar_name(as_dtype(name)) else f"{{{key}c}}"

    found = NAMED.sub(field, message.replace("{", "{{").replace("}", "}}"))
    found = re.sub(r"torch\.{([rd])}Tensor|CPU{([rd])}Type", lambda m: f"{{{m[1] or m[2]}t}}", found)
    return found.replace(f"flag is {r == 'int32'}", "flag is {i32}")  # for searches, whose indices have 32 or 64 bits


def fit(op: str, seen: list[Observed]) -> tuple[str, str]:
    """Return the rule and the words of one ``out=``."""
    # Ignore errors about dtypes for which torch has no kernel, because they are not about out=.
    kept = [s for s in seen if not (isinstance(s[-1], list) and s[-1][0] == "NotImplementedError")]
    kept = [s for s in kept if not (isinstance(s[-1], list) and "without overflow" in s[-1][1])]
    rule = min(casts.ALLOWS, key=lambda name: unfitting(name, kept))
    words = Counter(
        ("" if got[0] == "RuntimeError" else f"{got[0]}: ") + template(got[1], rs[0], d)
        for rs, d, _, got in kept
        if isinstance(got, list) and rs[0] != d
    )
    said = words.most_common(1)[0][0] if words else ""
    if computes_there(op) and (len(kept) < len(seen) or any(s[-1] is False for s in seen)):
        # torch only rejects an out= whose dtype is not the one that was passed as dtype=.
        rule = f"{'same' if said == casts.NOT_THE_SAME else rule} into"
    usual = casts.default_rule(SCHEMAS[op])
    return (rule, said) if said or rule != usual[0] else usual


def computes_there(op: str) -> bool:
    """Return whether the functional form can compute in the dtype of ``out=``.

    It can if it has a ``dtype`` argument, or if it is one of the reductions that compute in the dtype of their input.
    """
    source = SCHEMAS[torchnp.table[op].derived_from]
    return any(a.name == "dtype" for a in source.args) or source.base in (
        "var",
        "std",
        "logsumexp",
        "special_logsumexp",
    )


def shape_rule(rows: list[dict[str, Any]]) -> str:
    """Return how the op treats an ``out=`` of another shape, if torch does not resize it."""
    if any("must match the size of tensor b" in str(r["reshaped"]) for r in rows) and all(
        r["reshaped"] != r["shapes"] for r in rows if 0 not in leaves(r["shapes"])
    ):
        return " copy"
    # Add "flat" if torch writes an out= with the same number of elements but another shape without resizing it, where
    # it would resize others.
    kept = [isinstance(r["deeper"][0], list) and r["deeper"] != r["shapes"] for r in rows if len(r["shapes"]) == 1]
    return " flat" if kept and all(kept) else ""


def rules(observed: Iterable[dict[str, Any]]) -> Rules:
    """Return the rules: ``"mul.out"`` or ``"sort.values:indices"`` -> rule and words."""
    by_op: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in observed:
        by_op[row["op"]].append(row)
    for op, rows in by_op.items():  # calls with empty results show little
        by_op[op] = [r for r in rows if not all(0 in s for s in r["shapes"])] or rows
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


def inherited(found: Rules) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield rules for overloads that no call reached: those of another overload of the same op."""
    for op in rows():
        name = op.removeprefix("aten::")
        outs = [a.name for a in SCHEMAS[op].args if a.is_out]
        if len(outs) == 1 and name not in found:
            packet = name.partition(".")[0] + "."
            near = [n for n in found if n.startswith(packet) and ":" not in n]
            same = [n for n in near if ("generated" in SCHEMAS[f"aten::{n}"].tags) == ("generated" in SCHEMAS[op].tags)]
            if same:
                yield name, found[same[0]]


# ---------------------------------------------------------------- the file


def ask(part: Iterable[str], path: Path) -> Rules:
    """Return the rules of some overloads, found by asking torch; overloads that no call reaches are left out."""
    wanted = set(part)
    known = {name: rule for names, rule in KNOWN.items() for name in names.split()}
    found = rules(observe_all(observe, lambda: cases_of(wanted), path)) | known
    return {name: rule for name, rule in found.items() if "aten::" + name.partition(":")[0] in wanted or name in known}


def complete(found: Rules) -> Rules:
    """Return the rules of all overloads; those that no call reached get the rule of another overload of the same op."""
    return {**found, **dict(inherited(found))}


def usual(name: str) -> tuple[str, str]:
    """Return the default rule, which applies to an overload that the file does not contain."""
    return casts.default_rule(SCHEMAS["aten::" + name.partition(":")[0]])


def read(path: Path) -> Rules:
    """Return the rules in the file."""
    return dict(casts.exceptions(path))


def lines_of(found: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    """Yield the lines for overloads whose rule is not the default, by rule and words."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, rule in found.items():
        if rule != usual(name):
            groups[rule].append(name)
    for (rule, words), names in sorted(groups.items(), key=lambda item: (item[0][0], -len(item[1]), item[0][1])):
        yield f"{rule}\t{words}\t{' '.join(sorted(names))}"
