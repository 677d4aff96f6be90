"""Windows of a drawn call: sizes, steps, padding and dilation that go together, and how many places the windows have.

A gradient is drawn before what its pool or convolution was given, and has the size that these leave: all are drawn at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .constraints.constraint import T


@dataclass(frozen=True)
class Windows:
    """Numbers along each dimension, by the names of the arguments: of a pool, a convolution or a transposed one."""

    kernel_size: list[int]
    stride: list[int]
    padding: list[int]
    dilation: list[int]
    output_padding: list[int]
    sizes: list[int]
    out: list[int]
    ceil_mode: bool


@dataclass(frozen=True)
class WindowKind:
    """What windows may be: how large, how far apart, how far they reach beyond the image, and how much larger that is.

    Those of a pool (``half``) are padded by half of themselves at most, may be rounded up, and have their own size for a
    stride that is not given.
    """

    dims: int
    kernel: int = 3
    dilation: int = 2
    padding: int = 2
    spare: int = 4
    half: bool = False
    covered: bool = False  # whether the image has to be as large as the window without its padding


POOLS = {n: WindowKind(n, 5 if n < 3 else 3, padding=9, spare=5 if n < 3 else 2, half=True) for n in (1, 2, 3)}
AVERAGES = {n: WindowKind(n, 4, 1, 9, half=True, covered=n == 3) for n in (1, 2, 3)}
CONVOLUTIONS = {n: WindowKind(n, 3 if n < 3 else 2, spare=3 if n < 3 else 1) for n in (1, 2, 3)}
DENSE = {n: WindowKind(n, 3 if n < 3 else 2, 1, spare=3 if n < 3 else 1) for n in (1, 2, 3)}


def windows_of(call: Any, kind: WindowKind) -> Windows:
    """Return the windows of a call, drawn when they are first asked for."""
    if "windows" not in call.once:
        ceil, apart = kind.half and call.chance(40), not kind.half or call.chance(85)
        back = "transposed" in call.row.sizes and bool(call.size("transposed"))
        lines = [_line(call, kind, ceil, apart, back) for _ in range(kind.dims)]
        found: list[Any] = [*map(list, zip(*lines, strict=True)), ceil]
        if not apart:
            found[1] = []
        call.once["windows"] = Windows(*found)
    return call.once["windows"]


def _line(call: Any, kind: WindowKind, ceil: bool, apart: bool, back: bool) -> tuple[int, ...]:
    """Return the numbers along one dimension; ``back`` from the places to the image, as a transposed convolution goes."""
    kernel = call.integer(1, kind.kernel)
    stride = call.integer(1, 3) if apart else kernel
    dilation = call.integer(1, kind.dilation) if call.chance(50) else 1
    padding = call.integer(0, min(kernel // 2 if kind.half else kernel, kind.padding))
    span = dilation * (kernel - 1) + 1
    if back:
        beyond = call.integer(0, max(stride, dilation) - 1)
        least = max(1, -((span + beyond - 1 - 2 * padding) // stride) + 1)
        size = call.integer(least, least + kind.spare)
        return kernel, stride, padding, dilation, beyond, size, (size - 1) * stride - 2 * padding + span + beyond
    least = max(1, span - (0 if kind.covered else 2 * padding))
    size = call.integer(least, least + kind.spare)
    out = (size + 2 * padding - span + (stride - 1 if ceil else 0)) // stride + 1
    if ceil and (out - 1) * stride >= size + padding:
        out -= 1  # the last window begins within the image or the padding before it
    return kernel, stride, padding, dilation, 0, size, out


def over(kind: WindowKind, lead: str, which: str = "sizes", **given: Any) -> Callable:
    """Return a draw of an array with the ``sizes``, ``out`` or ``kernel_size`` for its last dimensions."""

    def draw(call: Any) -> Any:
        w = windows_of(call, kind)
        # Infinities meet the zeros around an image, and between the elements of a filter, in some of torch's loops.
        tame = {"values": "tame"} if not kind.half and max(w.dilation) > 1 else {}
        return call.array(T(" ".join([lead, *map(str, getattr(w, which))]), **(tame | given)))

    return draw


def _broken(call: Any, names: tuple[str, ...]) -> list[str]:
    """Return which of the arguments a wild call breaks: one or two of them."""
    if "broken" not in call.once:
        call.once["broken"] = call.permuted(names)[: call.integer(1, 2)] if call.wild else []
    return call.once["broken"]


def numbers(kind: WindowKind, *names: str) -> dict[str, Callable]:
    """Return draws of arguments by these names, which were drawn together; some wild calls break some of them."""

    def draw_of(name: str) -> Callable:
        def draw(call: Any) -> Any:
            found = getattr(windows_of(call, kind), name)
            if name in _broken(call, names) and name not in call.row.unchecked and not isinstance(found, bool):
                return [call.integer(-1, 4) for _ in range(kind.dims)]
            return found

        return draw

    return {name: draw_of(name) for name in names}
