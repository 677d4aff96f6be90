"""Windows of a drawn call: consistent sizes, strides, padding and dilation, and the resulting output sizes.

All are drawn at once, because a gradient, whose size follows from them, is drawn before its operator's other arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .constraints.constraint import T


@dataclass(frozen=True)
class Windows:
    """Window arguments of a pool, a convolution or a transposed one: numbers for each dimension, by argument name."""

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
    """Limits of windows: kernel size, dilation, padding, and how much the image may exceed the smallest one.

    Pools (``half``) are padded by at most half a kernel, may use ceil_mode, and may default stride to the kernel size.
    """

    dims: int
    kernel: int = 3
    dilation: int = 2
    padding: int = 2
    spare: int = 4
    half: bool = False
    covered: bool = False  # whether the unpadded image must be at least as large as the window


POOLS = {n: WindowKind(n, 5 if n < 3 else 3, padding=9, spare=5 if n < 3 else 2, half=True) for n in (1, 2, 3)}
AVERAGES = {n: WindowKind(n, 4, 1, 9, half=True, covered=n == 3) for n in (1, 2, 3)}
CONVOLUTIONS = {n: WindowKind(n, 3 if n < 3 else 2, spare=3 if n < 3 else 1) for n in (1, 2, 3)}
DENSE = {n: WindowKind(n, 3 if n < 3 else 2, 1, spare=3 if n < 3 else 1) for n in (1, 2, 3)}


def windows_of(call: Any, kind: WindowKind) -> Windows:
    """Return the windows of a call, drawn on first use."""
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
    """Draw the numbers of one dimension; with ``back``, those of a transposed convolution."""
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
        out -= 1  # the last window must start in the image or its leading padding
    return kernel, stride, padding, dilation, 0, size, out


def over(kind: WindowKind, lead: str, which: str = "sizes", **given: Any) -> Callable:
    """Return a draw function of an array whose last dimensions are the ``sizes``, ``out`` or ``kernel_size``."""

    def draw(call: Any) -> Any:
        w = windows_of(call, kind)
        # In some of torch's loops infinities meet zero padding, or zeros between a filter's elements.
        tame = {"values": "tame"} if not kind.half and max(w.dilation) > 1 else {}
        return call.array(T(" ".join([lead, *map(str, getattr(w, which))]), **(tame | given)))

    return draw


def _broken(call: Any, names: tuple[str, ...]) -> list[str]:
    """Return the one or two arguments that a wild call breaks; none in other calls."""
    if "broken" not in call.once:
        call.once["broken"] = call.permuted(names)[: call.integer(1, 2)] if call.wild else []
    return call.once["broken"]


def numbers(kind: WindowKind, *names: str) -> dict[str, Callable]:
    """Return draw functions of the named arguments, which are drawn together; wild calls break some of them."""

    def draw_of(name: str) -> Callable:
        def draw(call: Any) -> Any:
            found = getattr(windows_of(call, kind), name)
            if name in _broken(call, names) and name not in call.row.unchecked and not isinstance(found, bool):
                return [call.integer(-1, 4) for _ in range(kind.dims)]
            return found

        return draw

    return {name: draw_of(name) for name in names}
