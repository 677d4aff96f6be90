"""Elementwise kernels on large arrays: strip by strip, so that what a kernel keeps between its steps stays in cache.

A kernel of several steps makes an array in each. Of a large tensor these come from memory and go back there; of a strip
they do not leave the processor's cache. The peak is the result and a few strips, and threads share the strips.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from torchnp.core.schema import Schema
from torchnp.layout.stride_rules import WRITTEN
from torchnp.threads import LARGE, piece, share, within

ndarray = np.ndarray
STRIP = 1 << 16  # elements: a multiple of every vector's length, so that only the last strip has a shorter one
_OF_PLACES = frozenset({"axis", "dim", "dims", "memory_format"})  # arguments by which an element's place matters


def takes_strips(schema: Schema) -> bool:
    """Whether each element of the only result depends on the arguments' elements at its place alone."""
    return (
        "pointwise" in schema.tags
        and "nondeterministic_seeded" not in schema.tags
        and [str(r) for r in schema.returns] == ["Tensor"]
        and not any(a.name in _OF_PLACES or a.type.startswith(("Tensor[", "Tensor?[")) for a in schema.args)
        and not (schema.is_view or schema.mutates)
    )


def in_strips(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an elementwise kernel: large dense arrays that fit together are cut along their first dimension."""

    def stripped(*args: Any, **kwargs: Any) -> Any:
        for x in args:
            if type(x) is ndarray and x.size > STRIP:
                cut = _cut([*args, *kwargs.values()])
                if cut is None:
                    break
                return _run(kernel, cut, args, kwargs)
        return kernel(*args, **kwargs)

    return stripped


def _cut(values: list[Any]) -> tuple[tuple[int, ...], bool] | None:
    """The result's shape, and whether arrays are cut as if they had one dimension; None if they can't be cut."""
    arrays = [x for x in values if type(x) is ndarray and x.ndim]
    if not all(x.flags.c_contiguous and x.size for x in arrays):
        return None
    if type(WRITTEN.target) is ndarray and not WRITTEN.target.flags.c_contiguous:
        return None
    shape = max((x.shape for x in arrays), key=lambda shape: (len(shape), prod(shape)))
    if all(x.shape == shape or x.size == 1 for x in arrays):
        return shape, True
    row = prod(shape[1:])
    if row > STRIP or any(x.ndim == len(shape) and x.shape[0] not in (1, shape[0]) for x in arrays):
        return None
    try:
        return (shape, False) if np.broadcast_shapes(*(x.shape for x in arrays)) == shape else None
    except ValueError:  # the kernel says so in torch's words
        return None


def _run(kernel: Callable[..., Any], cut: tuple[tuple[int, ...], bool], args: tuple, kwargs: dict[str, Any]) -> ndarray:
    shape, flat = cut
    length, row = (prod(shape), 1) if flat else (shape[0], prod(shape[1:]))
    step = max(STRIP // row, 1)

    def laid_flat(x: Any) -> Any:
        return x.reshape(-1) if flat and type(x) is ndarray and x.ndim else x

    def part_of(x: Any, strip: slice) -> Any:
        is_cut = type(x) is ndarray and x.ndim == (1 if flat else len(shape)) and x.shape[0] == length
        return x[strip] if is_cut else x

    args, kwargs = tuple(map(laid_flat, args)), {name: laid_flat(x) for name, x in kwargs.items()}

    def compute(strip: slice) -> ndarray:
        return kernel(*(part_of(x, strip) for x in args), **{name: part_of(x, strip) for name, x in kwargs.items()})

    first = compute(slice(0, step))
    out = np.empty(length if flat else shape, first.dtype)
    out[:step] = first

    def strips(some: slice) -> None:
        for strip in within(some, step):
            out[strip] = compute(strip)

    left, size = slice(step, length), length * row
    share(strips, within(left, max(piece(size) // (step * row), 1) * step) if size >= LARGE else [left])
    return out.reshape(shape)
