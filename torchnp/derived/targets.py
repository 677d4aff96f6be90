"""torch's memory checks of an in-place target or an ``out=``, and its writes to expanded targets.

Most in-place kernels refuse an expanded target. ``data/overlaps.tsv`` lists those that write one;
``scripts/make_data.py overlaps`` measures them on torch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from torchnp.core.inplace_out_spec import Bound, WriteSpec
from torchnp.core.registry import FAILURES
from torchnp.core.schema import Schema
from torchnp.derived.casts import WriteRule
from torchnp.dtypes import category
from torchnp.layout.overlap import OVERLAP, SELF_OVERLAP, check_apart, check_target, is_same, overlap

ndarray = np.ndarray

# ---------------------------------------------------------------- memory checks


class OutMemoryChecks(NamedTuple):
    """The memory checks that torch makes for one op's ``out=``."""

    once: bool  # no two elements of out= share a location
    inputs: bool  # no input partly overlaps out=
    source: bool  # the first input does not have the same memory as out=
    copied: bool  # the first input, if it has the result's shape, does not overlap out= partly
    biased: bool  # a bias can be copied into out=

    def check(self, out: ndarray, source: list[ndarray], inputs: list[ndarray], once: bool = True) -> None:
        """Refuse an ``out=`` with forbidden overlap; ``once=False`` leaves self-overlap to the contiguity check."""
        if self.once and once:
            check_target(out)
        for x in inputs if self.inputs else ():
            check_apart(out, x)
        if self.source and any(overlap(out, x) == "full" for x in source):
            raise RuntimeError(OVERLAP)

    def check_copied(self, out: ndarray, shape: tuple[int, ...], bound: Bound) -> None:
        """Refuse an ``out=`` of the result's shape if torch's copy of the input or the bias into it would fail."""
        first, bias = next(iter(bound.values())), bound.get("bias")
        if out.shape != shape:  # out= is resized
            return
        if self.copied and first.shape == shape:
            check_target(out)
            check_apart(out, first)
        if self.biased and bias is not None:
            check_target(out)
            check_apart(out, bias)


def memory_checks_of(schema: Schema) -> OutMemoryChecks:
    """Return torch's memory checks of an op's ``out=``."""
    kinds = exceptions_of(schema)
    # A generated out= form copies a separate result into out=, so torch need not check the inputs.
    inputs = "looks" in kinds if "generated" in schema.tags else "blind" not in kinds
    return OutMemoryChecks("expands" not in kinds, inputs, "apart" in kinds, "copied" in kinds, "biased" in kinds)


# ---------------------------------------------------------------- the data

DATA = Path(__file__).parent.parent / "data" / "overlaps.tsv"
KINDS = ("bool", "int", "float", "complex")


@functools.cache
def exceptions(path: Path = DATA) -> Mapping[str, frozenset[str]]:
    """Return each row's words: the kinds of dtypes for which torch writes an expanded target, and those listed below.

    ``"float?"`` means that torch writes such a target of floats only if no value changes.

    ``out=`` rows have these words. ``"apart"``: ``out=`` must not be the first input. ``"looks"``: the row is generated
    and, unlike other generated rows, checks for partial overlap with inputs. ``"blind"``: the row is not generated and,
    unlike other such rows, does not check this. ``"expands"``: torch writes an ``out=`` whose elements share memory.
    ``"copied"``: torch copies an input of the result's shape into ``out=``. ``"biased"``: torch copies the bias into
    ``out=``. Each copy checks the memory of both arrays. In-place rows may have ``"itself"``: if the source is
    identical to the target, torch leaves the target unchanged.
    """
    return {name: frozenset(kinds.split(" ")) for name, kinds, *_ in _rows(path)}


def exceptions_of(schema: Schema) -> frozenset[str]:
    """Return the entry of `exceptions` for a row."""
    return exceptions().get(f"{schema.base}.{schema.overload}".rstrip("."), frozenset())


@functools.cache
def contiguous_outs(path: Path = DATA) -> Mapping[str, str]:
    """Return torch's error messages for each ``out=`` that must be contiguous, by ``"row:out"``."""
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
        Computes the result from the arguments by name.
    rule : WriteRule
        The op's write rule. If it is not the default rule, torch checks the dtype first.
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
    # The ops that get here write one number to some elements. Unchanged elements must not overwrite that number.
    changed = (_bytes(after) != _bytes(np.array(target))).any(-1)
    if kind not in kinds and changed.any():
        raise RuntimeError(SELF_OVERLAP)
    target[changed] = after[changed]


# How errors begin that TensorIterator, or the loop itself, reports after the memory check.
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
    """Return whether torch reports an error after its memory check: one of `_LATE`, or about an unsupported dtype."""
    return str(error).startswith(_LATE) or (str(error).startswith('"') and not dtype_before_target)


def unless_late(compute: Callable[[], Any], dtype_before_target: bool, late: tuple[str, ...] = ()) -> Any:
    """Return ``compute()``, or None if it fails with a late error (`is_late`) or one that begins with ``late``."""
    try:
        return compute()
    except FAILURES as error:
        if is_late(error, dtype_before_target) or str(error).startswith(late):
            return None
        raise


def refuse_otherwise(
    target: ndarray, bound: Bound, compute: Callable[[Bound], ndarray], rule: WriteRule, dtype_before_target: bool
) -> None:
    """Raise the errors that torch reports before its memory check, if there are any."""
    value = unless_late(lambda: compute(bound), dtype_before_target)
    if value is not None:
        rule.check_first(target, value)


def _bytes(x: ndarray) -> ndarray:
    return np.ascontiguousarray(x).reshape(*x.shape, 1).view(np.uint8)
