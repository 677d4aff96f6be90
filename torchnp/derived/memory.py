"""torch's rules of shared memory: which targets and operands may overlap, and what comes of writing those that do.

torch looks at strides alone (ATen/MemoryOverlap.cpp): a target overlaps itself where a dimension is expanded, and two
tensors are compared only if both are dense. Most in-place kernels refuse an expanded target; those that write it are
data: ``data/overlaps.tsv``, which ``scripts/make_overlaps.py`` asks of torch.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from torchnp.dtypes import category
from torchnp.schema import Schema

if TYPE_CHECKING:
    from torchnp.derived.dtypes import Rule

ndarray = np.ndarray
SELF_OVERLAP = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
    "Please clone() the tensor before performing the operation."
)
OVERLAP = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
    "location. Please clone() the tensor before performing the operation."
)


def tensors_of(value: Any) -> list[ndarray]:
    """The arrays of an argument: itself, or those of a list."""
    if isinstance(value, ndarray):
        return [value]
    return [x for x in value if isinstance(x, ndarray)] if isinstance(value, (list, tuple)) else []


def owner_of(x: ndarray) -> Any:
    """The object that holds an array's memory."""
    while isinstance(x, ndarray) and x.base is not None:
        x = x.base
    return x


# ---------------------------------------------------------------- what is refused


def overlaps_itself(x: ndarray) -> bool:
    """An expanded dimension: several elements in one place."""
    return 0 in x.strides and any(s == 0 and n > 1 for n, s in zip(x.shape, x.strides, strict=True)) and x.size > 0


def check_target(target: ndarray) -> None:
    """Refuse to write where several elements share one memory location."""
    if overlaps_itself(target):
        raise RuntimeError(SELF_OVERLAP)


def is_dense(x: ndarray) -> bool:
    """Whether the elements fill one stretch of memory, each place once, in any order of dimensions."""
    if x.flags.forc:
        return True
    expected = x.itemsize
    for stride, n in sorted((s, n) for s, n in zip(x.strides, x.shape, strict=True) if n != 1):
        if stride != expected:
            return False
        expected *= n
    return True


def overlap(a: ndarray, b: ndarray) -> str:
    """How two arrays share memory: ``"full"``, ``"partial"``, ``"no"``, or ``""`` where torch does not look."""
    if a is b:
        return "full"
    if a.size == 0 or b.size == 0:
        return "no"
    if not (is_dense(a) and is_dense(b)):
        return ""
    start, other = a.__array_interface__["data"][0], b.__array_interface__["data"][0]
    if start == other and a.nbytes == b.nbytes:
        return "full" if a.strides == b.strides else "partial"
    return "partial" if start < other + b.nbytes and other < start + a.nbytes else "no"


class Looks(NamedTuple):
    """What torch looks for in the memory of one op's ``out=``."""

    once: bool  # that no two elements are one
    inputs: bool  # that no input overlaps it in part
    source: bool  # that the first input is apart from it

    def check(self, out: ndarray, source: list[ndarray], inputs: list[ndarray], once: bool = True) -> None:
        """Refuse an out that shares memory as it must not; one that has to be contiguous is refused as that."""
        if self.once and once:
            check_target(out)
        for x in inputs if self.inputs else ():
            check_apart(out, x)
        if self.source and any(overlap(out, x) == "full" for x in source):
            raise RuntimeError(OVERLAP)


def looks_of(schema: Schema) -> Looks:
    """What torch looks for in the memory of an op's ``out=``."""
    kinds = exceptions().get(f"{schema.base}.{schema.overload}", ())
    # A generated out is copied from a result of its own: torch need not look at the inputs.
    inputs = "looks" in kinds if "generated" in schema.tags else "blind" not in kinds
    return Looks("expands" not in kinds, inputs, "apart" in kinds)


def check_resized(out: ndarray, size: int, inputs: list[ndarray]) -> None:
    """Refuse an ``out=`` that would overlap an input with another number of elements."""
    start = out.__array_interface__["data"][0]
    for x in inputs:
        first = x.__array_interface__["data"][0]
        if x.size and start < first + x.nbytes and first < start + size * out.itemsize:
            raise RuntimeError(OVERLAP)


# These write at indices, and refuse a target that is their index or their source as well.
WRITE_AT = frozenset(
    {
        "index_add_", "index_copy_", "index_fill_", "index_put_", "index_reduce_", "put_", "scatter_", "scatter_add_",
        "scatter_reduce_", "_index_put_impl_",
    }
)  # fmt: skip


def check_written_at(target: ndarray, operands: Iterable[Any]) -> None:
    """Refuse a target of such an op that shares memory with its other tensors."""
    for x in operands:
        for t in tensors_of(x):
            if overlap(target, t) in ("full", "partial"):
                raise RuntimeError(OVERLAP)


def check_apart(target: ndarray, x: ndarray) -> None:
    """Refuse to read what shares memory with the target without being the same view of it."""
    # Arrays that own their memory share none: looking at that first is what makes this cheap.
    if x is target or (x.base is None and target.base is None):
        return
    if overlap(target, x) == "partial":
        raise RuntimeError(OVERLAP)


# ---------------------------------------------------------------- what is written all the same

DATA = Path(__file__).parent.parent / "data" / "overlaps.tsv"
KINDS = ("bool", "int", "float", "complex")


@functools.cache
def exceptions(path: Path = DATA) -> Mapping[str, frozenset[str]]:
    """Row -> the kinds of dtypes in which torch writes an expanded target; ``"float?"``: where nothing changes.

    Of ``out=`` rows: ``"apart"`` where the out must not be the first input; ``"looks"`` and ``"blind"`` where torch
    looks whether it overlaps an input in part, unlike the other generated rows, and does not, unlike the others;
    ``"expands"`` where torch writes an out whose elements share memory.
    """
    return {name: frozenset(kinds.split(" ")) for name, kinds, *_ in _rows(path)}


@functools.cache
def contiguous_outs(path: Path = DATA) -> Mapping[str, str]:
    """``"row:out"`` -> torch's words, of the outs that have to be contiguous."""
    pairs = ((name, *want.partition(":")) for name, _, *wants in _rows(path) for want in wants)
    return {f"{name}:{out}": words for name, out, _, words in pairs}


@functools.cache
def _rows(path: Path) -> list[list[str]]:
    with open(path, encoding="utf-8") as lines:
        return [line.rstrip("\n").split("\t") for line in lines if line[0] != "#"]


# Which dimension of which argument runs along with the target's, where torch goes element by element.
_ALONG = {
    "addmv_": ((("mat", 0),),),
    "baddbmm_": ((("batch1", 0), ("batch2", 0)), (("batch1", 1),), (("batch2", 2),)),
}
Compute = Callable[[dict[str, Any]], ndarray]


def write_expanded(schema: Schema, target: ndarray, bound: dict[str, Any], compute: Compute, rule: Rule) -> None:
    """Write a target with expanded dimensions as torch's kernel of that op does, or refuse it.

    Parameters
    ----------
    compute : callable
        Arguments by name -> result.
    rule : Rule
        The op's rule of writing; where it is one of its own, torch looks at the dtype first.
    """
    kinds, kind = exceptions().get(f"{schema.base}.{schema.overload}".rstrip("."), ()), KINDS[category(target.dtype)]
    if kind not in kinds and f"{kind}?" not in kinds:
        _refuse_otherwise(schema, target, bound, compute, rule)
        raise RuntimeError(SELF_OVERLAP)
    first = schema.args[0].name
    if schema.base in _ALONG:
        _step_by_step(
            target, bound, _ALONG[schema.base], lambda step: rule.write_inplace(step[first], compute(step)), first
        )
        return
    after = np.array(target)
    rule.write_inplace(after, compute(bound))
    if schema.base == "index_put_":
        from torchnp.kernels.index import put_expanded  # the kernels import this module

        put_expanded(target, bound["indices"], bound["values"], bound["accumulate"])
        return
    # The others write one number to some of the elements: what stays must not be written over it.
    changed = (_bytes(after) != _bytes(np.array(target))).any(-1)
    if kind not in kinds and changed.any():
        raise RuntimeError(SELF_OVERLAP)
    target[changed] = after[changed]


_LOOKS_LATE = frozenset({"cumsum_", "cumprod_", "mvlgamma_"})  # at memory: after they have looked for code


def _refuse_otherwise(schema: Schema, target: ndarray, bound: dict[str, Any], compute: Compute, rule: Rule) -> None:
    """Raise what torch looks at before it looks at memory: not shapes that do not broadcast, nor code for a dtype."""
    try:
        value = compute(bound)
    except Exception as error:
        no_code = str(error).startswith('"') and schema.base not in _LOOKS_LATE
        if no_code or str(error).startswith("The size of tensor"):
            return
        raise
    if rule.first:
        rule.check(value.dtype, target.dtype, target.dtype)


def _step_by_step(
    target: ndarray, bound: dict[str, Any], along: Any, run: Callable[[dict[str, Any]], None], first: str
) -> None:
    """Run once for each element of the expanded dimensions, in order: each sees what was written before."""
    wide = [d for d, (n, s) in enumerate(zip(target.shape, target.strides, strict=True)) if s == 0 and n > 1]
    for position in itertools.product(*(range(target.shape[d]) for d in wide)):
        step = dict(bound)
        for d, i in zip(wide, position, strict=True):
            for name, axis in ((first, d), *along[d]):
                step[name] = step[name][(slice(None),) * axis + (slice(i, i + 1),)]
        run(step)


def _bytes(x: ndarray) -> ndarray:
    return np.ascontiguousarray(x).reshape(*x.shape, 1).view(np.uint8)
