"""Per-op exceptions to the general rules for in-place and ``out=`` forms."""

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
Precheck = Callable[[Bound, list[ndarray]], Any]  # takes the arguments and the arrays to write
Step = Callable[[Bound], None]  # computes with these arguments and writes into the first one
Expanded = Callable[[Bound, ndarray, Step], None]


@dataclass(frozen=True, kw_only=True)
class WriteSpec:
    """How torch writes an op's result into its first argument or into ``out=``.

    Parameters
    ----------
    inplace, out : callable, optional
        Makes the checks that torch makes before it computes. Called with the arguments by name and the list of arrays
        to write. ``out`` may change the arguments; it returns the indices of the ``out=`` arrays that must not be
        written afterwards, or None if all are to be written.
    expanded : callable, optional
        Writes an in-place op's expanded target (several of its elements share memory), if torch writes it in a special
        order. Called with the arguments by name, the target, and a function that writes one step of it.
    after : callable, optional
        Makes the checks that torch makes in an in-place op after all others. Called with the arguments of ``inplace``.
    free : tuple of str
        Arguments that may share memory with the target of an in-place op, because torch does not check them.
    lists : callable, optional
        Makes the checks that the list (foreach) forms make first. Called with the first list and the other lists.
    unexpanded : bool
        The in-place form does not expand its target to the shape of the sum. If the shapes differ, the check of the sum
        raises the error.
    predicate : bool
        The result is bool for all operands, so a target of any dtype can hold it.
    dtype_before_target : bool
        torch checks whether its kernel supports the dtype before it checks the target.
    memory_first : bool
        torch checks the memory of ``out=`` before all else. For other ops, errors that TensorIterator does not find
        come first.
    rounds_number : bool
        A number operand of a half precision target is rounded to the target's dtype.
    onto : bool
        The kernel writes into `copy_to_write` of its first argument, after all its checks. In an in-place op, that is
        the target itself, if no other argument shares its memory.
    resizes : bool
        The in-place form resizes its target to the result's shape.
    resizing : str
        torch's warning when a factory's ``out=`` has another number of elements than the result. Its four ``{}`` stand
        for the shape and size of ``out=`` and, twice, the result's size. Without a warning, the resize is silent.
    skips_memory_check : bool
        The ``out`` precheck checks the memory of the ``out=`` arrays itself.
    vectors : bool
        The elementwise loop is vectorized where memory is contiguous. For bool, this holds for copies only.
    number_first : bool
        A half precision operand of one element is read before the elementwise loop.
    counted : str
        torch's message for an ``out=`` list of the wrong length; its two ``{}`` stand for the expected and the actual
        length.
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
    onto: bool = False
    resizes: bool = False
    resizing: str = ""
    skips_memory_check: bool = False
    vectors: bool = True
    number_first: bool = False
    counted: str = "out should have one tensor per result: expected {}, got {}"


NOTHING = WriteSpec()
NO_VECTORS = WriteSpec(vectors=False)


def precheck_apart(bound: Bound, targets: list[ndarray]) -> None:
    """Refuse a target that shares memory with another tensor, as ops that write at indices do."""
    check_written_at(targets[0], list(bound.values())[1:])


def precheck_whole(bound: Bound, targets: list[ndarray]) -> None:
    """Check the target's memory, its shape and the result's dtype, as torch does before it selects code by dtype."""
    self, other = targets[0], bound["other"]
    check_target(self)
    if isinstance(other, ndarray):
        check_fits(other, self)
    common = result_type(self, other)
    if not can_cast(common, self.dtype):
        raise cannot_cast(common, self.dtype)


def step_by_step(*along: tuple[tuple[str, int], ...]) -> Expanded:
    """Return a function that writes an expanded target in steps, one for each element that shares a memory location.

    Each step reads the values that earlier steps wrote, because torch adds products in this way. For an empty product,
    the target is zeroed if beta is 0, and refused otherwise.

    Parameters
    ----------
    *along : tuple of (str, int)
        For each dimension of the target, the (argument, dimension) pairs that are indexed together with it. If
        ``along`` is empty, an expanded target is refused.
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
    """Resize ``out`` in place, with torch's warning. Return the array to write, which may be another object.

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
    """Copy a result into ``out``, which may have any dtype.

    If ``out`` has another shape, resize it first, to ``strides`` or else row-major.
    """
    to = out if out.shape == value.shape else resize_out(out, value.shape, strides)
    check_target(to)
    to[...] = cast(value, to.dtype)
    return out


def store(out: ndarray, value: ndarray) -> tuple[int, ...]:
    """Write a result that a precheck computed into the first ``out=`` array; return its index (see `WriteSpec`)."""
    (out if out.shape == value.shape else resize_out(out, value.shape))[...] = cast(value, out.dtype)
    return (0,)


def resize_owned(x: ndarray, shape: Sequence[int]) -> ndarray | None:
    """Resize an array that owns its memory, in row-major order.

    Return None, or for a stand-in for a tensor the array that now holds its memory.
    """
    if type(x) is ndarray and not x.flags.c_contiguous:
        x.resize(x.size, refcheck=False)  # otherwise NumPy keeps column-major order
    return x.resize(shape, refcheck=False)


def resize(out: ndarray, shape: tuple[int, ...], strides: tuple[int, ...] | None = None) -> ndarray:
    """Resize like `resize_out`, but without the warning.

    ``strides``, in elements, apply only to stand-ins for a tensor.
    """
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
