"""torch's memory checks of a target or an ``out=``, and its writes to expanded targets.

Most in-place kernels refuse an expanded target; those that write one are data: ``data/overlaps.tsv``, which
``scripts/make_data.py overlaps`` measures on torch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from torchnp.core.registry import FAILURES
from torchnp.core.schema import Schema
from torchnp.core.write_spec import Bound, WriteSpec
from torchnp.derived.casts import WriteRule
from torchnp.dtypes import category
from torchnp.layout.overlap import OVERLAP, SELF_OVERLAP, check_apart, check_target, is_same, overlap

ndarray = np.ndarray

# ---------------------------------------------------------------- memory checks


class OutMemoryChecks(NamedTuple):
    """torch's memory checks of one op's ``out=``."""

    once: bool  # no two elements share a location
    inputs: bool  # no input overlaps it partly
    source: bool  # the first input is not the same memory
    copied: bool  # the first input, if it has the result's shape, does not overlap it partly
    biased: bool  # a bias can be copied into it

    def check(self, out: ndarray, source: list[ndarray], inputs: list[ndarray], once: bool = True) -> None:
        """Refuse an out with forbidden overlap; ``once=False`` leaves self-overlap to the check for contiguity."""
        if self.once and once:
            check_target(out)
        for x in inputs if self.inputs else ():
            check_apart(out, x)
        if self.source and any(overlap(out, x) == "full" for x in source):
            raise RuntimeError(OVERLAP)

    def check_copied(self, out: ndarray, shape: tuple[int, ...], bound: Bound) -> None:
        """Refuse an out of the result's shape if torch's copy of the input or the bias into it would fail."""
        first, bias = next(iter(bound.values())), bound.get("bias")
        if out.shape != shape:  # it is resized
            return
        if self.copied and first.shape == shape:
            check_target(out)
            check_apart(out, first)
        if self.biased and bias is not None:
            check_target(out)
            check_apart(out, bias)


def memory_checks_of(schema: Schema) -> OutMemoryChecks:
    """torch's memory checks of an op's ``out=``."""
    kinds = exceptions_of(schema)
    # A generated out= form copies a separate result into the out: torch need not check the inputs.
    inputs = "looks" in kinds if "generated" in schema.tags else "blind" not in kinds
    return OutMemoryChecks("expands" not in kinds, inputs, "apart" in kinds, "copied" in kinds, "biased" in kinds)


# ---------------------------------------------------------------- the data

DATA = Path(__file__).parent.parent / "data" / "overlaps.tsv"
KINDS = ("bool", "int", "float", "complex")


@functools.cache
def exceptions(path: Path = DATA) -> Mapping[str, frozenset[str]]:
    """Row -> the kinds of dtypes for which torch writes an expanded target; ``"float?"``: only if nothing changes.

    For ``out=`` rows: ``"apart"``: the out must not be the first input. ``"looks"``: a generated row that, unlike
    others, checks for partial overlap with inputs; ``"blind"``: another row that, unlike others, does not.
    ``"expands"``: torch writes an out whose elements share memory. ``"copied"``: torch copies an input of the result's
    shape into the out; ``"biased"``: it copies the bias there; a copy checks the memory of both.
    In place, ``"itself"``: a source identical to the target leaves it unchanged.
    """
    return {name: frozenset(kinds.split(" ")) for name, kinds, *_ in _rows(path)}


def exceptions_of(schema: Schema) -> frozenset[str]:
    """The entry of `exceptions` for a row."""
    return exceptions().get(f"{schema.base}.{schema.overload}".rstrip("."), frozenset())


@functools.cache
def contiguous_outs(path: Path = DATA) -> Mapping[str, str]:
    """``"row:out"`` -> torch's error message, for outs that must be contiguous."""
    pairs = ((name, *want.partition(":")) for name, _, *wants in _rows(path) for want in wants)
    return {f"{name}:{out}": words for name, out, _, words in pairs}


@functools.cache
def _rows(path: Path) -> list[list[str]]:
    with open(path, encoding="utf-8") as lines:
        return [line.rstrip("\n").split("\t") for line in lines if line[0] != "#"]


# ---------------------------------------------------------------- expanded targets


def write_expanded(
    schema: Schema,
    target: ndarray,
    bound: Bound,
    compute: Callable[[Bound], ndarray],
    rule: WriteRule,
    writes: WriteSpec,
) -> None:
    """Write a target with expanded dimensions as the op's torch kernel does, or refuse it.

    Parameters
    ----------
    compute : callable
        Arguments by name -> result.
    rule : WriteRule
        The op's write rule; if it is not the default rule, torch checks the dtype first.
    """
    kinds, kind = exceptions_of(schema), KINDS[category(target.dtype)]
    if "itself" in kinds and any(is_same(target, x) for x in list(bound.values())[1:]):
        return
    if writes.inplace is not None:
        writes.inplace(bound, [target])
    if kind not in kinds and f"{kind}?" not in kinds:
        refuse_otherwise(target, bound, compute, rule, writes.dtype_before_target)
        raise RuntimeError(SELF_OVERLAP)
    if writes.expanded is not None:
        if rule.sized:
            rule.check_first(target, compute(bound))
        first = schema.args[0].name
        writes.expanded(bound, target, lambda step: rule.write_inplace(step[first], compute(step)))
        return
    after = np.array(target)
    rule.write_inplace(after, compute(bound))
    # Ops that get here write one number to some of the elements: unchanged elements must not overwrite it.
    changed = (_bytes(after) != _bytes(np.array(target))).any(-1)
    if kind not in kinds and changed.any():
        raise RuntimeError(SELF_OVERLAP)
    target[changed] = after[changed]


# Errors that torch's iterator, or the loop itself, reports after the memory check.
_LATE = (
    "The size of tensor",
    "output with shape",
    "index ",
    "ZeroDivisionError",
    "For integral input tensors, argument alpha",
    "For non-complex input tensors, argument alpha",
    "value cannot be converted",
    "Boolean alpha only supported",
    "Promotion for",
    "Unknown Complex",
)


def is_late(error: Exception, dtype_before_target: bool) -> bool:
    """Whether torch reports an error after it has checked memory: one of `_LATE`, or a missing dtype."""
    return str(error).startswith(_LATE) or (str(error).startswith('"') and not dtype_before_target)


def unless_late(compute: Callable[[], Any], dtype_before_target: bool, late: tuple[str, ...] = ()) -> Any:
    """Compute; None if it fails with an error that torch reports after its memory check, or that starts as ``late``."""
    try:
        return compute()
    except FAILURES as error:
        if is_late(error, dtype_before_target) or str(error).startswith(late):
            return None
        raise


def refuse_otherwise(
    target: ndarray, bound: Bound, compute: Callable[[Bound], ndarray], rule: WriteRule, dtype_before_target: bool
) -> None:
    """Raise the errors that torch reports before it checks memory."""
    value = unless_late(lambda: compute(bound), dtype_before_target)
    if value is not None:
        rule.check_first(target, value)


def _bytes(x: ndarray) -> ndarray:
    return np.ascontiguousarray(x).reshape(*x.shape, 1).view(np.uint8)
