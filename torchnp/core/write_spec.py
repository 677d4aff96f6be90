"""What one op's row says of its in-place and ``out=`` forms, where the rules of all ops do not say it."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from torchnp.core.checks import check_fits
from torchnp.core.errors import cannot_cast, shape_text
from torchnp.dtypes import can_cast, cast, result_type
from torchnp.layout.overlap import check_target, check_written_at

ndarray = np.ndarray
Bound = dict[str, Any]  # arguments by name
Precheck = Callable[[Bound, list[ndarray]], Any]  # of the arguments and what is written
Step = Callable[[Bound], None]  # computes with these arguments, and writes the first of them
Expanded = Callable[[Bound, ndarray, Step], None]


@dataclass(frozen=True, kw_only=True)
class WriteSpec:
    """How torch writes this op's result into its first argument, or into an ``out=``.

    Parameters
    ----------
    inplace, out : callable, optional
        What torch looks at before it computes: called with the arguments by name and the list of what is written.
        That of ``out`` may change the arguments, and returns the places of the outs that torch leaves as they are.
    expanded : callable, optional
        How an in-place form writes a target with several elements in one place, where it does so in an order of its
        own: called with the arguments by name, the target, and a function that writes one step of it.
    after : callable, optional
        What torch looks at in place when it has found nothing else wrong; called as ``inplace`` is.
    free : tuple of str
        The arguments that may share memory with the target in place, as torch does not look at theirs.
    lists : callable, optional
        What torch looks at first in the forms that go through lists: called with the first list, and with the others.
    unexpanded : bool
        In place the target is not expanded to a sum: one of another shape is refused by the sum's.
    predicate : bool
        The result is bool, whatever the operands are: any target holds it.
    code_first : bool
        Whether there is code for a dtype is looked at before the target is.
    memory_first : bool
        The memory of an out is looked at before all else; of others what torch's iterator does not find comes before.
    rounds_number : bool
        A number beside a half precision target is rounded as that target holds it.
    resizes : bool
        The in-place form gives its target the shape of the result.
    resizing : str
        torch's warning where the ``out=`` form of a factory is of another size: ``{}`` stands for its shape, its size
        and the result's, twice. Others are silent.
    unlooked : bool
        ``out`` looks at the memory of what is written itself.
    vectors : bool
        Its elementwise loop computes with vectors where memory is contiguous; of bool none does but that of a copy.
    number_first : bool
        A half precision operand of one element is read before that loop.
    counted : str
        torch's words where an ``out=`` list has another length: ``{}`` stands for the length it should have, and its own.
    """

    inplace: Precheck | None = None
    out: Precheck | None = None
    expanded: Expanded | None = None
    after: Precheck | None = None
    free: tuple[str, ...] = ()
    lists: Callable[[Sequence[Any], Sequence[Sequence[Any]]], None] | None = None
    unexpanded: bool = False
    predicate: bool = False
    dtype_before_target: bool = False
    memory_first: bool = False
    rounds_number: bool = False
    resizes: bool = False
    resizing: str = ""
    skips_memory_check: bool = False
    vectors: bool = True
    number_first: bool = False
    counted: str = "out should have one tensor per result: expected {}, got {}"


NOTHING = WriteSpec()
NO_VECTORS = WriteSpec(vectors=False)


def precheck_apart(bound: Bound, targets: list[ndarray]) -> None:
    """Refuse a target that shares any memory with the other tensors: what ops that write at indices look at."""
    check_written_at(targets[0], list(bound.values())[1:])


def precheck_whole(bound: Bound, targets: list[ndarray]) -> None:
    """Refuse a target for its memory, its shape or the result's dtype before a dtype that there is no code for."""
    self, other = targets[0], bound["other"]
    check_target(self)
    if isinstance(other, ndarray):
        check_fits(other, self)
    common = result_type(self, other)
    if not can_cast(common, self.dtype):
        raise cannot_cast(common, self.dtype)


def step_by_step(*along: tuple[tuple[str, int], ...]) -> Expanded:
    """Write an expanded target once for each element that shares a place, in order: each sees what came before.

    That is how torch adds products. Of an empty one the target is made zero, or multiplied, which refuses it.

    Parameters
    ----------
    *along : tuple of (str, int)
        For each dimension of the target the arguments, and the dimensions of theirs, that run along with it; without
        any, the target is refused.
    """

    def write(bound: Bound, target: ndarray, step: Step) -> None:
        first, factor, *_ = bound
        if not bound[factor].size and bound.get("beta", 1) == 0:
            step(bound)
            return
        if not bound[factor].size or not along:
            check_target(target)
        wide = [d for d, (n, s) in enumerate(zip(target.shape, target.strides, strict=True)) if s == 0 and n > 1]
        for position in itertools.product(*(range(target.shape[d]) for d in wide)):
            part = dict(bound)
            for d, i in zip(wide, position, strict=True):
                for name, axis in ((first, d), *along[d]):
                    part[name] = part[name][(slice(None),) * axis + (slice(i, i + 1),)]
            step(part)

    return write


# ---------------------------------------------------------------- another shape


def resize_out(out: ndarray, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> ndarray:
    """Give ``out`` another shape in place, with torch's warning; the array to write, which others may stand for.

    Raises
    ------
    RuntimeError
        NumPy can resize only arrays that own their memory; for a view, pass an ``out`` of the right shape.
    """
    if out.size:
        warnings.warn(
            f"An output with one or more elements was resized since it had shape {shape_text(out.shape)}, which does "
            f"not match the required output shape {shape_text(shape)}. This behavior is deprecated, and in a future "
            "PyTorch release outputs will not be resized unless they have zero elements. You can explicitly reuse an "
            "out tensor t by resizing it, inplace, to zero elements with t.resize_(0).",
            UserWarning,
            stacklevel=2,
        )
    return resize(out, shape, strides)


def copy_into(out: ndarray, value: ndarray, strides: tuple[int, ...] | None = None) -> ndarray:
    """Copy a result into ``out``, of any dtype, resized row by row or to ``strides`` where its shape is another."""
    if out.shape != value.shape:
        resize_out(out, value.shape, strides)
    check_target(out)
    out[...] = cast(value, out.dtype)
    return out


def store(out: ndarray, value: ndarray) -> tuple[int, ...]:
    """Write a result into the first out, which gets its shape, where a row's look computes it: the places then written."""
    (out if out.shape == value.shape else resize_out(out, value.shape))[...] = cast(value, out.dtype)
    return (0,)


def resize_owned(x: ndarray, shape: Sequence[int]) -> ndarray | None:
    """Give an array that owns its memory another shape, row-major; one that stands for another's tells where that is now."""
    if type(x) is ndarray and not x.flags.c_contiguous:
        x.resize(x.size, refcheck=False)  # of its own NumPy keeps columns together
    return x.resize(shape, refcheck=False)


def resize(out: ndarray, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> ndarray:
    """`resize_out` without the warning; ``strides`` in elements are for what stands for a tensor."""
    strided = getattr(out, "resize_strided", None)
    if strided is not None and strides is not None:
        return strided(shape, strides)
    try:
        moved = resize_owned(out, shape)
    except ValueError as error:
        raise RuntimeError(
            f"Trying to resize storage that is not resizable: out= has shape {shape_text(out.shape)}, the result "
            f"{shape_text(shape)}, and this array is a view of memory that it does not own"
        ) from error
    return out if moved is None else moved
