"""Disclosure control: all that a client may learn about private values passes through this module.

A buffer is public as long as everything that was written to it came from the client or was computed only from such
data. Owners' datasets are private, and so is everything computed from them. `release` returns exact values of public
buffers only. `predict_outcome` decides what an operator on private data discloses: whether it fails, the error text,
and the shapes, strides and bytes of its results. It runs the kernel on stand-ins: arrays that equal the arguments in
everything except their values. So the disclosure cannot depend on a private value. If the kernel then behaves
differently on the real values, `held` returns zeros, and the client does not see the difference.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from torchnp.core.registry import FAILURES
from torchnp.rpc import wire
from torchnp.rpc.exceptions import PrivacyError, RPCError
from torchnp.rpc.server.session.object_store import StoredObject, root_of

# Errors that a client's frame can cause. After MemoryError (the client asked for too much) the allocated memory is
# freed, and after RecursionError, a RuntimeError (the client nested too deeply), the stack is unwound. All other errors
# are faults of the process.
RAISED = (*FAILURES, AssertionError, ImportError, MemoryError, Warning, RPCError)


def release(entry: StoredObject) -> np.ndarray:
    """Return the exact values of a public object.

    Raises
    ------
    PrivacyError
        The object is an owner's data or was computed from it.
    """
    if entry.array is None or entry.buffer is None:
        raise ValueError("a failed object has no values")
    if not entry.buffer.public:
        raise PrivacyError(
            f"exact values of owner data are not released: this tensor of shape {tuple(entry.array.shape)} is a dataset "
            "of the server's or was computed from one. publish(reduce='sum', clip=..., eps=...) releases noised sums of rows"
        )
    return entry.array


# ---------------------------------------------------------------- what an operator on private data discloses


class Fresh(NamedTuple):
    """Predicted layout of a result: shape, dtype, strides in bytes, and total number of bytes."""

    shape: tuple[int, ...]
    dtype: np.dtype
    strides: tuple[int, ...]
    nbytes: int

    def zeros(self) -> np.ndarray:
        return np.ndarray(self.shape, self.dtype, np.zeros(self.nbytes, np.uint8), 0, self.strides)


class Disclosure(NamedTuple):
    """What an operator discloses: an error, or the layouts of its results."""

    problem: Exception | None
    results: list[Fresh]
    seconds: float = 0.0  # seconds that the kernel took on stand-ins


def facts(op: wire.Op, given: dict[str, Any], entries: Sequence[StoredObject], whole: bool) -> tuple:
    """Return everything that the client knows about a call, as a cache key.

    Calls with equal facts have the same `Disclosure`.

    ``given`` maps parameter names to the arguments in the frame.
    """
    known: list[Any] = [op.index, op.count]
    for name, a in given.items():
        known += (name, _fact(a))
    known += [tuple(e) if type(e) is list else e for e in op.expected]
    for entry in entries:
        array = entry.array
        known += (array.shape, array.strides, array.dtype.num)  # type: ignore[union-attr]
    buffers = {id(e.buffer) for e in entries}
    if whole or len(buffers) < len(entries):
        order: dict[int, int] = {}
        if whole or len({id(e) for e in entries}) > len(buffers):
            for entry in entries:
                memory, start, nbytes = _place(entry)
                known += (order.setdefault(id(memory), len(order)), start, nbytes)
        else:
            known += [order.setdefault(id(e), len(order)) for e in entries]
    return tuple(known)


def _fact(arg: Any) -> Any:
    kind = type(arg)
    if kind is wire.Handle:
        return kind
    if isinstance(arg, wire.Items):
        return tuple(map(_fact, arg.items))
    if kind is wire.Dtype:
        return kind, arg.name
    if kind is wire.Complex:
        return kind, arg.real, arg.imag
    return kind, arg


def _place(entry: StoredObject) -> tuple[np.ndarray, int, int]:
    """Return the array that owns an object's memory, the object's byte offset in it, and the memory's total bytes."""
    array = base = entry.array
    assert array is not None and base is not None
    while isinstance(base.base, np.ndarray):
        base = base.base
    start = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return base, start, root_of(base)[1]


def predict_outcome(
    entries: Sequence[StoredObject],
    whole: bool,
    run: Callable[[list[np.ndarray]], list[np.ndarray]],
    shown: Sequence[StoredObject] = (),
) -> Disclosure:
    """Determine what a call discloses, without using any value.

    Parameters
    ----------
    entries : sequence of StoredObject
        The objects among the arguments.
    whole : bool
        Whether the operator can access the memory around its arguments.
    run : callable
        Calls the kernel with other arrays instead of the objects; returns its results in the layout that the client
        expects.
    shown : sequence of StoredObject
        Public objects whose values determine shapes. They are passed themselves, not as stand-ins.

    Returns
    -------
    Disclosure
        The outcome of the operator on the first stand-ins that it accepts; it may not accept all, because zeros can be
        bad divisors, and ones bad indices. If it fails on all stand-ins, for example because shapes or dtypes do not
        match, the disclosure is the first error. An operator that resizes an object is refused with an error, because
        the shape would afterwards show whether the operator reached the resize with the real values.
    """
    problem: Exception | None = None
    for number, pattern in _PATTERNS:
        arrays = _stand_ins(entries, whole, number, pattern, shown)
        try:
            results, first = _timed(run, arrays)
        except MemoryError:
            raise
        except RAISED as error:
            problem = problem or _alone(error)
        else:
            if any((a.shape, a.strides) != _laid(e.array) for a, e in zip(arrays, entries)):
                return Disclosure(
                    RuntimeError("what is written beside private data is not resized: out= has another shape"), []
                )
            fresh = [_fresh(r) for r in results]
            del results
            # The kernel is timed twice, because its first call may load code.
            return Disclosure(
                None, fresh, min(first, _timed(run, _stand_ins(entries, whole, number, pattern, shown))[1])
            )
    return Disclosure(problem, [])


def _alone(error: Exception) -> Exception:
    """Remove an error's traceback, cause and context, because their frames hold arrays."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def _laid(array: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return array.shape, array.strides


def _timed(
    run: Callable[[list[np.ndarray]], list[np.ndarray]], arrays: list[np.ndarray]
) -> tuple[list[np.ndarray], float]:
    start = time.perf_counter()
    return run(arrays), time.perf_counter() - start


def _zeros(array: np.ndarray) -> None:
    pass  # stand-ins are allocated as zeros


def _ones(array: np.ndarray) -> None:
    array[...] = 1


def _eyes(array: np.ndarray) -> None:
    if array.ndim < 2:
        array[...] = 1
    else:
        i = np.arange(min(array.shape[-2:]))
        array[..., i, i] = 1


# Functions that fill stand-ins, as pairs (for floating point and complex dtypes, for all other dtypes), in the order in
# which they are tried.
_PATTERNS = ((_zeros, _zeros), (_ones, _ones), (_eyes, _zeros), (_ones, _zeros), (_zeros, _ones))


def _stand_ins(
    entries: Sequence[StoredObject],
    whole: bool,
    number: Callable[[np.ndarray], None],
    other: Callable[[np.ndarray], None],
    shown: Sequence[StoredObject],
) -> list[np.ndarray]:
    shared = whole or len({id(e.buffer) for e in entries}) < len(entries)
    memories: dict[int, np.ndarray] = {}
    made = []
    for entry in entries:
        array = entry.array
        assert array is not None
        if any(entry is e for e in shown):
            made.append(array)  # no kernel writes it, because it is public and not a target
            continue
        if shared:
            base, start, nbytes = _place(entry)
            memory = memories.setdefault(id(base), np.zeros(nbytes, np.uint8))
        else:
            memory, start = np.zeros(_extent(array), np.uint8), 0
        stand_in = np.ndarray(array.shape, array.dtype, memory, start, array.strides)
        (other if array.dtype.kind in "iub" else number)(stand_in)
        made.append(stand_in)
    return made


def _extent(array: np.ndarray) -> int:
    """Return the number of bytes from the first to the last element of an array."""
    if not array.size:
        return 0
    return array.itemsize + sum((n - 1) * s for n, s in zip(array.shape, array.strides))


def _fresh(array: np.ndarray) -> Fresh:
    return Fresh(array.shape, array.dtype, array.strides, _extent(array))


def held(array: np.ndarray | None, fresh: Fresh, own: bool) -> np.ndarray:
    """Return a result in its predicted layout.

    If the kernel returned no result, or one with another shape or dtype, return zeros.

    ``own`` says that the array's memory has the predicted size and is not shared.
    """
    if array is None or array.shape != fresh.shape or array.dtype != fresh.dtype:
        return fresh.zeros()
    if own and array.strides == fresh.strides:
        return array
    placed = fresh.zeros()
    placed[...] = array
    return placed


def locked(array: np.ndarray) -> np.ndarray:
    """Return a read-only view of an array."""
    view = array.view()
    view.flags.writeable = False
    return view


def substitute(arg: Any, arrays: Iterator[np.ndarray]) -> Any:
    """Convert a frame's argument for a kernel; its handles are replaced by the next arrays."""
    kind = type(arg)
    if kind is wire.Handle:
        return next(arrays)
    if isinstance(arg, wire.Items):
        return [substitute(a, arrays) for a in arg.items]
    if kind is wire.Dtype:
        return wire.dtype_of(arg.name)
    if kind is wire.Complex:
        return complex(arg.real, arg.imag)
    return arg
