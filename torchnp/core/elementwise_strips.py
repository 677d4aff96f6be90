"""Elementwise kernels that process large arrays in strips.

Each step of a kernel allocates an array. Arrays of one strip stay in the processor's cache, and a call needs memory
only for its result and a few strips. Threads share the strips.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import product
from math import gcd, prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from torchnp.core.errors import FAILURES
from torchnp.core.schema import Schema
from torchnp.layout.stride_rules import WRITTEN, iterated, layout_of, vector_run
from torchnp.threads import LARGE, blocks, piece, share
from torchnp.thresholds import Threshold

ndarray = np.ndarray
# Elements of a strip: a multiple of every SIMD vector's length, so that only the last strip ends in a partial vector.
STRIP: Threshold = 1 << 16
MANY: Threshold = STRIP + STRIP // 2  # larger arrays are cut, so no strip is shorter than half of `STRIP`
# Arguments that make an element's result depend on its position.
_OF_PLACES = frozenset({"axis", "dim", "dims", "memory_format"})

DATA = Path(__file__).parent.parent / "data" / "pointwise.tsv"


@cache
def untagged() -> frozenset[str]:
    """Return the packets of operators that are elementwise although torch does not tag them as pointwise."""
    return frozenset(DATA.read_text(encoding="utf-8").split())


def takes_strips(schema: Schema) -> bool:
    """Return whether each element of the only result depends only on the arguments' elements at the same position."""
    return (
        ("pointwise" in schema.tags or schema.packet in untagged())
        and "nondeterministic_seeded" not in schema.tags
        and [str(r) for r in schema.returns] == ["Tensor"]
        and not any(a.name in _OF_PLACES or a.type.startswith(("Tensor[", "Tensor?[")) for a in schema.args)
        and not (schema.is_view or schema.mutates)
    )


def draws_in_order(schema: Schema) -> bool:
    """Return whether each element of the result depends only on the next random numbers, in the target's order."""
    return "nondeterministic_seeded" in schema.tags and schema.packet in untagged()


class Strips(NamedTuple):
    """How the large arrays of one call are cut into strips.

    Arrays that share one shape and memory order are cut as if they had one dimension. If some are broadcast, arrays are
    cut along their first dimension, and ``order`` is None.
    """

    shape: tuple[int, ...]  # the result's shape
    order: tuple[int, ...] | None  # the result's dimensions, outermost in memory first
    length: int  # size of the dimension that is cut
    step: int  # size of a strip along that dimension

    def laid(self, x: ndarray) -> ndarray:
        """Return the array as it is cut: flattened in memory order, or unchanged if ``order`` is None."""
        if self.order is None:
            return x
        return (x.transpose(self.order) if x.ndim == len(self.order) else x).reshape(-1)

    def part(self, x: Any, strip: slice) -> Any:
        """Return the part of an argument that belongs to a strip.

        Numbers, and arrays that broadcast along the cut dimension, are returned whole.
        """
        if type(x) is not ndarray or not x.ndim:
            return x
        x = self.laid(x)
        is_cut = x.ndim == (len(self.shape) if self.order is None else 1) and x.shape[0] == self.length
        return x[strip] if is_cut else x

    def empty(self, dtype: np.dtype) -> ndarray:
        """Return a new array for the result, with the memory order ``order``."""
        if self.order is None:
            return np.empty(self.shape, dtype)
        return np.empty([self.shape[i] for i in self.order], dtype).transpose(np.argsort(self.order))

    @property
    def first(self) -> Any:
        """The first strip."""
        return slice(0, self.step)

    def run(self, work: Callable[[slice], object], rest: bool = False, in_turn: bool = False) -> None:
        """Call ``work`` for each strip: in order if ``in_turn``, else on all threads; with ``rest``, skip the first."""
        start = self.step if rest else 0
        if in_turn:
            for strip in _cut(slice(start, self.length), self.step):
                work(strip)
            return
        size = prod(self.shape)
        some = max(piece(size) * self.length // (self.step * size), 1) * self.step if size >= LARGE else self.length

        def each(part: slice) -> None:
            for strip in _cut(part, self.step):
                work(strip)

        share(each, _cut(slice(start, self.length), some))


class Tiles(NamedTuple):
    """How large arrays with different memory layouts are cut: along several dimensions of the result."""

    shape: tuple[int, ...]  # of the result
    order: tuple[int, ...]  # its dimensions, the outermost in memory first
    tiles: tuple[tuple[slice, ...], ...]

    def part(self, x: Any, tile: tuple[slice, ...]) -> Any:
        """Return the part of an argument that belongs to a tile.

        Broadcast dimensions are returned whole, and so are arguments that are not arrays.
        """
        if type(x) is not ndarray or not x.ndim:
            return x
        own = tile[len(tile) - x.ndim :]
        return x[tuple(s if n > 1 else slice(None) for s, n in zip(own, x.shape, strict=True))]

    def empty(self, dtype: np.dtype) -> ndarray:
        """Return a new array for the result."""
        return np.empty([self.shape[i] for i in self.order], dtype).transpose(np.argsort(self.order))

    @property
    def first(self) -> Any:
        """The first tile."""
        return self.tiles[0]

    def run(self, work: Callable[[Any], object], rest: bool = False, in_turn: bool = False) -> None:
        """Call ``work`` for each tile: in order if ``in_turn``, else on all threads; with ``rest``, skip the first."""
        tiles = self.tiles[1:] if rest else self.tiles
        if not in_turn:
            share(work, tiles)
            return
        for tile in tiles:
            work(tile)


def _cut(whole: slice, step: int) -> Iterator[slice]:
    """Yield slices of length ``step``; the last one has between half and one and a half times that length."""
    begin = whole.start
    while begin < whole.stop:
        end = begin + step if whole.stop - begin > step + step // 2 else whole.stop
        yield slice(begin, end)
        begin = end


def strips_of(values: Iterable[Any], settled: bool = False) -> Strips | Tiles | None:
    """Return how to cut the arrays among a call's arguments.

    None means that all are small, or that they cannot be cut in the same way. ``settled`` says that the result is an
    existing target or gets its strides later, so that its dimensions of size 1 may have any strides here.
    """
    arrays = [x for x in values if type(x) is ndarray and x.ndim]
    if not any(x.size > MANY for x in arrays):
        return None
    if not all(x.flags.c_contiguous and x.size for x in arrays):
        return _of_other_order([x for x in arrays if x.size != 1], settled) or _tiles_if(settled, arrays)
    shape = max((x.shape for x in arrays), key=lambda shape: (len(shape), prod(shape)))
    if all(x.shape == shape or x.size == 1 for x in arrays):
        return Strips(shape, tuple(range(len(shape))), prod(shape), STRIP)
    row = prod(shape[1:])
    if row > STRIP or any(x.ndim == len(shape) and x.shape[0] not in (1, shape[0]) for x in arrays):
        return _tiles_if(settled, arrays)
    try:
        fits = np.broadcast_shapes(*(x.shape for x in arrays)) == shape
    except ValueError:  # the kernel raises torch's error
        return None
    return Strips(shape, None, shape[0], STRIP // row) if fits else _tiles_if(settled, arrays)


def _of_other_order(arrays: list[ndarray], settled: bool) -> Strips | None:
    """Return the strips of dense arrays that share one shape and one memory order other than row-major; else None."""
    first = arrays[0]
    if (1 in first.shape and not settled) or any(x.shape != first.shape for x in arrays):
        return None
    order = tuple(sorted(range(first.ndim), key=lambda i: -first.strides[i]))
    dense = all(x.transpose(order).flags.c_contiguous for x in arrays)
    return Strips(first.shape, order, first.size, STRIP) if dense else None


def _tiles_if(settled: bool, arrays: list[ndarray]) -> Tiles | None:
    """Return the tiles, unless the kernel itself decides the order of its result."""
    return tiles_of(arrays) if settled else None


_LANES = 128  # tiles have a multiple of this many elements: a multiple of two vectors, whatever the dtype


def tiles_of(arrays: list[ndarray]) -> Tiles | None:
    """Return how to cut broadcast arrays of any layout; None if a cut would leave vectors half filled."""
    try:
        shape = np.broadcast_shapes(*(x.shape for x in arrays))
    except ValueError:  # the kernel raises torch's error
        return None
    if prod(shape) <= MANY:
        return None
    strides = iterated([layout_of(x) for x in arrays])
    order = tuple(sorted(range(len(shape)), key=lambda d: -strides[d]))
    steps, place = [1] * len(shape), len(shape)
    whole = 1
    while place and whole * shape[order[place - 1]] <= MANY:
        place -= 1
        steps[place] = shape[order[place]]
        whole *= steps[place]
    if place:  # the dimension that is cut; a tile has one index of each dimension outside it
        lanes = _LANES // gcd(whole, _LANES)
        steps[place - 1] = max(STRIP // whole // lanes, 1) * lanes
        _, inner = vector_run(arrays, shape, order)
        if inner < place - 1 and whole * shape[order[place - 1]] % _LANES:
            return None
    cuts = [[*blocks(shape[d], step)] for d, step in zip(order, steps, strict=True)]
    back = np.argsort(order)
    return Tiles(shape, order, tuple(tuple(tile[i] for i in back) for tile in product(*cuts)))


def stripwise(kernel: Callable[..., Any], settled: bool = False) -> Callable[..., Any]:
    """Wrap an elementwise kernel so that it computes large arrays in strips; for ``settled`` see `strips_of`."""

    def stripped(*args: Any, **kwargs: Any) -> Any:
        for x in args:
            if type(x) is ndarray and x.size > MANY:
                strips = strips_of([*args, *kwargs.values()], settled)
                target = WRITTEN.target
                if strips is None or (type(target) is ndarray and not _fits(strips, target)):
                    break  # torch visits elements in the target's memory order, but the strips have another order
                return _result(strips, kernel, args, kwargs)
        return kernel(*args, **kwargs)

    return stripped


def _keeps_order(strips: Strips, kernel: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> bool:
    """Return whether a kernel's result has its arguments' memory order.

    `pow` of a number and a tensor does not keep it.
    """

    def corner(x: Any) -> Any:
        return x[(slice(0, 2),) * x.ndim].copy(order="K") if type(x) is ndarray and x.shape == strips.shape else x

    found = kernel(*map(corner, args), **{name: corner(x) for name, x in kwargs.items()})
    return found.ndim == len(strips.shape) and found.transpose(strips.order).flags.c_contiguous


def _result(strips: Strips | Tiles, kernel: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> ndarray:
    def compute(strip: Any) -> ndarray:
        return kernel(*(strips.part(x, strip) for x in args), **{k: strips.part(x, strip) for k, x in kwargs.items()})

    def place(strip: Any) -> None:
        strips.part(out, strip)[...] = compute(strip)

    plain = isinstance(strips, Tiles) or strips.order in (None, tuple(range(len(strips.shape))))
    try:
        keeps = plain or (isinstance(strips, Strips) and _keeps_order(strips, kernel, args, kwargs))
        first = compute(strips.first) if keeps else None
    except FAILURES:  # the call on whole arrays raises the error, which names their shapes
        first = None
    if first is None:
        return kernel(*args, **kwargs)
    if any(type(x) is ndarray and np.may_share_memory(first, x) for x in (*args, *kwargs.values())):
        return kernel(*args, **kwargs)  # the operator returned its argument
    out = strips.empty(first.dtype)
    strips.part(out, strips.first)[...] = first
    strips.run(place, rest=True)
    return out


def _fits(strips: Strips | Tiles, target: ndarray) -> bool:
    """Return whether a target has the memory order of the strips."""
    if strips.order is None or target.ndim != len(strips.order):
        return target.flags.c_contiguous
    return target.transpose(strips.order).flags.c_contiguous


def write_strips(
    strips: Strips | Tiles,
    target: ndarray,
    compute: Callable[[Callable[[Any], Any]], Any],
    write: Callable[[ndarray, Any], Any],
    in_turn: bool = False,
) -> bool:
    """Compute a result and write it into a target strip by strip; return False if the call fails.

    ``compute(part)`` calls the kernel with ``part(x)`` for each argument. It can fail only because of dtypes or shapes,
    and so on the first strip, before anything is written. Its error would name the shape of a strip, so after False the
    caller computes on the whole arrays. Each element is read before it is written.
    """

    def work(strip: Any) -> None:
        write(strips.part(target, strip), compute(lambda x: strips.part(x, strip)))

    try:
        strips.run(work, in_turn=in_turn)
    except FAILURES:
        return False
    return True


def _overlaps(x: ndarray) -> bool:
    """Return whether two elements of an array may share memory."""
    extent = x.itemsize
    for step, n in sorted((abs(s), n) for s, n in zip(x.strides, x.shape, strict=True) if n > 1):
        if step < extent:
            return True
        extent = step * n
    return False


def target_strips(target: Any, values: Iterable[Any], in_turn: bool = False) -> Strips | Tiles | None:
    """Return how to cut a target and the operands into strips (see `strips_of`); None if that is impossible.

    The target must have the result's shape. An operand may be the target itself, but must not otherwise share memory
    with it.
    """
    if type(target) is not ndarray or target.size <= MANY:
        return None
    given = [x for x in values if type(x) is ndarray]
    strips = strips_of(given, settled=True)
    if not isinstance(strips, Strips) or strips.shape != target.shape or not _fits(strips, target):
        strips = None if in_turn or _overlaps(target) else tiles_of([target, *given])
    if strips is None or strips.shape != target.shape:
        return None
    window = target.ctypes.data, target.shape, target.dtype
    others = (x for x in given if (x.ctypes.data, x.shape, x.dtype) != window)
    return None if any(np.may_share_memory(x, target) for x in others) else strips
