"""The one gate between private values and what a client may learn.

A buffer is public while all that was written to it came from the client or was computed from that alone; owners'
datasets are not, nor is anything that an operator computed with them. `release` lets out exact values of public ones
only. `predict_outcome` decides what an operator on private data tells: whether it fails, with which text, and the shapes,
strides and bytes of its results. It runs the kernel on stand-ins that have everything of the arguments but their
values, so nothing that it tells can depend on a private value. Where the kernel then does otherwise with the values
themselves, `held` gives zeros, and that it did stays on the server.
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

# What a client's frame can bring about. MemoryError: it asked for too much, and what was made for it is dropped.
# RecursionError, a RuntimeError: it nested too deeply, and the stack is unwound. All else is the process's.
RAISED = (*FAILURES, AssertionError, ImportError, MemoryError, Warning, RPCError)


def release(entry: StoredObject) -> np.ndarray:
    """The exact values of an object.

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


# ---------------------------------------------------------------- what an operator on private data tells


class Fresh(NamedTuple):
    """The memory of a result: its shape, dtype, strides in bytes, and bytes in all."""

    shape: tuple[int, ...]
    dtype: np.dtype
    strides: tuple[int, ...]
    nbytes: int

    def zeros(self) -> np.ndarray:
        return np.ndarray(self.shape, self.dtype, np.zeros(self.nbytes, np.uint8), 0, self.strides)


class Disclosure(NamedTuple):
    """What an operator tells: an error, or the memory of its results."""

    problem: Exception | None
    results: list[Fresh]
    seconds: float = 0.0  # that the kernel takes on stand-ins


def facts(op: wire.Op, given: dict[str, Any], entries: Sequence[StoredObject], whole: bool) -> tuple:
    """All that the client knows of a call; calls that agree in it have the same `Outcome`.

    ``given`` are the arguments of its frame by name.
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
    """The array that an object's memory begins with, the byte in it where the object starts, and how long it is."""
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
    """What a call tells, whatever the values.

    Parameters
    ----------
    entries : sequence of Entry
        The objects among the arguments.
    whole : bool
        Whether the operator sees the memory around its arguments.
    run : callable
        Calls the kernel with other arrays in their place, and gives its results as the client expects them laid out.
    shown : sequence of Entry
        Public objects whose values decide shapes: they stand for themselves.

    Returns
    -------
    Outcome
        Of the first stand-ins that the operator works on: zeros are no divisor and ones no index. Where it fails on
        all of them, as it does where shapes or dtypes do not fit, the error of the first. An error too where it gives
        an object another shape: whether it came so far with the values could be seen ever after.
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
            # The first call of a kernel may load what it needs.
            return Disclosure(
                None, fresh, min(first, _timed(run, _stand_ins(entries, whole, number, pattern, shown))[1])
            )
    return Disclosure(problem, [])


def _alone(error: Exception) -> Exception:
    """The error without its frames, and those of errors before it, which have arrays in them."""
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
    pass  # as it was made


def _ones(array: np.ndarray) -> None:
    array[...] = 1


def _eyes(array: np.ndarray) -> None:
    if array.ndim < 2:
        array[...] = 1
    else:
        i = np.arange(min(array.shape[-2:]))
        array[..., i, i] = 1


# How stand-ins of floating point numbers and of all others are filled, in the order in which they are tried.
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
            made.append(array)  # which no kernel writes: it is public, and no target
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
    """Bytes from the first to the last of an array."""
    if not array.size:
        return 0
    return array.itemsize + sum((n - 1) * s for n, s in zip(array.shape, array.strides))


def _fresh(array: np.ndarray) -> Fresh:
    return Fresh(array.shape, array.dtype, array.strides, _extent(array))


def held(array: np.ndarray | None, fresh: Fresh, own: bool) -> np.ndarray:
    """A result in the memory that was foreseen for it; zeros if the kernel gave none, or another one.

    ``own`` says that the array's memory is as long as was foreseen, and nobody else's.
    """
    if array is None or array.shape != fresh.shape or array.dtype != fresh.dtype:
        return fresh.zeros()
    if own and array.strides == fresh.strides:
        return array
    placed = fresh.zeros()
    placed[...] = array
    return placed


def locked(array: np.ndarray) -> np.ndarray:
    """The array, which nobody can write through what this gives."""
    view = array.view()
    view.flags.writeable = False
    return view


def substitute(arg: Any, arrays: Iterator[np.ndarray]) -> Any:
    """An argument of a frame as a kernel takes it, with arrays in the order of its handles."""
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
