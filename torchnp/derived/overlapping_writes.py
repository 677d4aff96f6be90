"""Elementwise writes into memory that an operand shares: element by element, in the order of torch's loops.

torch detects an overlap only if both arrays are dense, and then refuses the call. Otherwise an element that is read
after it was written has its new value: ``x[:, 1:] = x[:, :-1]`` fills each row with its first element, while NumPy
copies the operand first.

The order is TensorIterator's: dimensions sorted by strides, innermost first, with adjacent ones merged if no operand
has gaps. If the innermost dimension is contiguous, most loops read `VECTOR` bytes before they write any. They process
the rest of a row element by element. The vector size is AVX2's; other processors use half or twice as many bytes, and
from 32768 elements on torch may use several threads. torch promises no values in these cases. This module returns the
values of one thread with AVX2, whatever processor NumPy runs on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from torchnp.core.inplace_out_spec import Bound, WriteSpec
from torchnp.core.schema import Schema
from torchnp.derived.casts import WriteRule
from torchnp.dtypes import HALVES, bool_, cast, result_type
from torchnp.layout.overlap import address, has_common_element, is_same, tensors_of
from torchnp.layout.stride_rules import cloned, expanded, layout_of, order_of
from torchnp.thresholds import Threshold

ndarray = np.ndarray
InOrder = Callable[[ndarray, ndarray, Bound, Callable[[Bound], ndarray]], bool]
Compute = Callable[[list[ndarray]], ndarray]  # maps the target's and each operand's elements to the result

VECTOR = 64  # bytes that a vector loop reads before it writes: two vectors of AVX2

# Arguments that torch reads element by element along with the target; `_NUMBERS` has those of which it first reads one
# number.
_READ = frozenset(
    ("other", "exponent", "tensor1", "tensor2", "tensors1", "end", "weight", "weights", "min", "max", "mask", "src", "values")
)  # fmt: skip
_NUMBERS = frozenset(("value", "scalars"))


NARROWEST: Threshold = 32  # the value of `VECTOR` for the narrowest vectors for which torch is built
GRAIN: Threshold = 32768  # for this many elements or more, torch may use several threads


def is_promised(target: ndarray, x: ndarray) -> bool:
    """Return whether an op that reads ``x`` has the same values in torch for any vector size and number of threads."""
    if is_same(target, x) or not has_common_element(target, x):
        return True
    run = target.itemsize
    for step, n in sorted((s, n) for s, n in zip(target.strides, target.shape) if n > 1):
        run *= n if step == run else 1
    return target.size < GRAIN and run < NARROWEST


def read_by_element(schema: Schema, writes: WriteSpec) -> tuple[str, ...]:
    """Return the names of the arguments that an in-place op reads element by element; () if it is not elementwise."""
    names = [a.name for a in schema.args[1:] if "Tensor" in a.type and a.name not in _NUMBERS]
    return tuple(n for n in names if n not in writes.free) if _READ.issuperset(names) else ()


def in_order(schema: Schema, rule: WriteRule, writes: WriteSpec) -> InOrder:
    """Return a function that writes an elementwise in-place op's result in torch's order.

    It is for targets that share memory with an operand.

    Returns
    -------
    callable
        Takes the target, the result computed from the old operands, the arguments by name (lists hold one tensor), and
        a function that computes a result from such arguments. Returns whether it wrote the target; it does not if the
        order does not affect the values.
    """
    names, first = read_by_element(schema, writes), schema.args[0].name
    copies = names == ("src",)

    def write(target: ndarray, value: ndarray, bound: Bound, result: Callable[[Bound], ndarray]) -> bool:
        if not names or value.shape != target.shape or not target.size:
            return False
        rule.check(value.dtype, target.dtype, target.dtype)
        given = {name: tensors_of(bound[name]) for name in names}
        read = {name: found[0] for name, found in given.items() if found}
        if copies:
            return copy_in_order(target, *read.values())
        if result_type(target, *(x for name, x in read.items() if name != "mask")) != target.dtype:
            return False  # torch computes in a temporary array
        # torch converts operands before the loop.
        operands = [x if name == "mask" or x.dtype == target.dtype else cloned(x) for name, x in read.items()]

        def compute(values: list[ndarray]) -> ndarray:
            named = dict(zip((first, *read), values))
            return result(bound | {k: [x] if isinstance(bound[k], (list, tuple)) else x for k, x in named.items()})

        once = target.dtype in HALVES and writes.number_first
        vectors = writes.vectors and target.dtype != bool_
        return write_in_order(target, operands, compute, reads_target=True, vectors=vectors, once=once)

    return write


class _Loop(NamedTuple):
    """torch's iteration over a target and its operands."""

    shape: tuple[int, ...]
    order: list[int]  # dimensions from the outermost to the innermost
    row: int  # elements of the innermost dimension, after merging
    steps: list[int]  # byte strides along the innermost dimension: the target's, then each operand's

    def flat(self, x: ndarray) -> ndarray:
        """Return the elements in iteration order."""
        return np.broadcast_to(x, self.shape).transpose(self.order).reshape(-1)

    def places(self, x: ndarray, strides: Sequence[int]) -> ndarray:
        """Return the addresses of the elements in iteration order."""
        found = np.full(1, address(x), np.int64)
        for d in self.order:
            found = np.add.outer(found, np.arange(self.shape[d]) * strides[d]).reshape(-1)
        return found


def _loop(target: ndarray, strides: list[tuple[int, ...]]) -> _Loop:
    shape = target.shape
    order = order_of(shape, strides)
    row, steps = 1, [0] * len(strides)
    for d in reversed(order):
        n, here = shape[d], [s[d] for s in strides]
        if row == 1:
            steps = here
        elif n != 1 and any(row * a != b for a, b in zip(steps, here)):
            break
        row *= n
    return _Loop(shape, order, row, steps)


def _strides(x: ndarray, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(s * x.itemsize for s in expanded(layout_of(x), shape))


def _seen_from(loop: _Loop, size: int, step: int, vectors: int) -> ndarray:
    """Return, for each element in order, the first element that is written after this element's operand is read.

    Parameters
    ----------
    size : int
        Bytes of an element of the target.
    step : int
        Byte stride of the operand along the loop's innermost dimension.
    vectors : int
        Bytes that are read before any is written; 0 if elements are processed singly.
    """
    n = int(np.prod(loop.shape))
    each = np.arange(n)
    block = vectors // size
    # At most one operand may be constant along a row: it is read once for all vectors of the row.
    rest = [s for s in loop.steps[1:] if s != size]
    if block < 2 or loop.steps[0] != size or any(rest) or len(rest) > 1 or loop.row < block:
        return each
    place = each % loop.row
    before = each - (place if step == 0 else place % block)
    return np.where(place < loop.row // block * block, before, each)


def _writers(loop: _Loop, at: ndarray, read: ndarray, seen: ndarray, size: int) -> ndarray | None:
    """Return, for each element in order, the earlier element whose write changed the value that it reads, or -1.

    Return None if elements are misaligned.
    """
    low = int(at.min())
    place = (at - low) // size
    last = np.full(int(place.max()) + 1, -1)
    last[place] = np.arange(at.size)
    if (int(read[0]) - low) % size or not np.array_equal(last[place], np.arange(at.size)):
        return None
    where = (read - low) // size
    inside = (where >= 0) & (where < last.size)
    found = np.where(inside, last[np.where(inside, where, 0)], -1)
    return np.where(found < seen, found, -1)


def write_in_order(
    target: ndarray, operands: list[ndarray], compute: Compute, *, reads_target: bool, vectors: bool, once: bool = False
) -> bool:
    """Write an elementwise result into a target that shares memory with operands.

    Return False, without writing, if the order does not affect the values.

    Parameters
    ----------
    target : ndarray
        The array to write.
    operands : list of ndarray
        Arrays read element by element, in schema order; each broadcasts to the target.
    compute : callable
        Maps the target and the operands, flat and of equal length (0-d ones stay 0-d), to the flat result.
    reads_target : bool
        Whether the op also reads the target.
    vectors : bool
        Whether the loop is vectorized where memory is contiguous.
    once : bool
        Whether an operand of one element is read before the loop.
    """
    found = _dependences(target, operands, reads_target, VECTOR if vectors else 0, once)
    if found is None:
        return False
    loop, writers = found
    if writers is None:
        _one_by_one(loop, target, operands, compute)
        return True
    flat = [x if x.ndim == 0 else loop.flat(x) for x in (target, *operands)]
    out = np.empty(target.size, target.dtype)
    for group in _groups(list(writers.values())):
        given = []
        for i, x in enumerate(flat):
            values = x if x.ndim == 0 and i - 1 not in writers else np.broadcast_to(x, out.shape)[group]
            if i - 1 in writers:
                by = writers[i - 1][group]
                values = np.where(by >= 0, out[by], values)
            given.append(values)
        out[group] = cast(compute(given), target.dtype)
    _store(loop, target, out)
    return True


def copy_in_order(target: ndarray, source: ndarray) -> bool:
    """Do the same as `write_in_order` for a copy; each element gets the value at the start of its chain of copies."""
    found = _dependences(target, [source], False, VECTOR, False)
    if found is None:
        return False
    loop, writers = found
    if writers is None:
        _one_by_one(loop, target, [source], lambda given: given[1])
        return True
    by = writers[0]
    first = np.where(by >= 0, by, np.arange(by.size))
    while not np.array_equal(further := first[first], first):
        first = further
    _store(loop, target, loop.flat(source)[first])
    return True


def _operand_strides(target: ndarray, operands: list[ndarray], reads_target: bool) -> list[tuple[int, ...]]:
    return [_strides(x, target.shape) for x in (target, *([target] if reads_target else []), *operands)]


def _dependences(
    target: ndarray, operands: list[ndarray], reads_target: bool, vectors: int, once: bool
) -> tuple[_Loop, dict[int, ndarray] | None] | None:
    """Return the loop and, for each operand, the elements whose writes it reads (see `_writers`).

    Return None if no element is read after it was written.
    """
    strides = _operand_strides(target, operands, reads_target)
    loop = _loop(target, strides)
    strides = strides[-len(operands) :]
    at = loop.places(target, _strides(target, target.shape))
    writers: dict[int, ndarray] = {}
    for i, x in enumerate(operands):
        if (once and x.size == 1) or not has_common_element(target, x) or _reads_ahead(loop, target, x, strides[i]):
            continue
        if x.dtype.itemsize != target.dtype.itemsize or (x.dtype != target.dtype):
            return loop, None
        seen = _seen_from(loop, target.itemsize, loop.steps[len(loop.steps) - len(operands) + i], vectors)
        by = _writers(loop, at, loop.places(x, strides[i]), seen, target.itemsize)
        if by is None:
            return loop, None
        if (by >= 0).any():
            writers[i] = by
    return (loop, writers) if writers else None


def _reads_ahead(loop: _Loop, target: ndarray, x: ndarray, strides: Sequence[int]) -> bool:
    """Return whether each element is read before it is written.

    This is so if the operand lies above the target in memory, because torch moves upwards.
    """
    if x.dtype != target.dtype or strides != target.strides or address(x) < address(target):
        return False
    reach = 0
    for d in reversed(loop.order):
        n, step = loop.shape[d], strides[d]
        if n > 1 and step <= reach:
            return False
        reach += (n - 1) * step
    return True


def _groups(writers: list[ndarray]) -> list[ndarray]:
    """Split the elements into groups such that no group reads elements that it or a later group writes."""
    n = writers[0].size
    if len(writers) == 1:  # chain lengths, by pointer doubling
        by = np.append(writers[0], -1)  # index -1 is the appended element
        depth = (by >= 0).astype(np.int64)
        while (by >= 0).any():
            depth = depth + depth[by]
            by = by[by]
        depth = depth[:n]
    else:
        depth = np.zeros(n, np.int64)
        while True:
            further = np.max([np.where(by >= 0, depth[by] + 1, 0) for by in writers], axis=0)
            if np.array_equal(further, depth):
                break
            depth = further
    order = np.argsort(depth, kind="stable")
    return np.split(order, np.searchsorted(depth[order], np.arange(1, int(depth.max()) + 1)))


def _one_by_one(loop: _Loop, target: ndarray, operands: list[ndarray], compute: Compute) -> None:
    """Write directly into the target, one element at a time, for operands with another dtype or misaligned elements."""
    turned = [np.broadcast_to(x, loop.shape).transpose(loop.order) for x in (target, *operands)]
    writable = target.transpose(loop.order)
    for place in np.ndindex(writable.shape):
        writable[place] = cast(compute([np.array(x[place]).reshape(1) for x in turned]), target.dtype)[0]


def _store(loop: _Loop, target: ndarray, values: ndarray) -> None:
    turned = target.transpose(loop.order)
    turned[...] = values.reshape(turned.shape)
