"""Windows of a random call: consistent kernel sizes, strides, padding, dilation and image sizes, and the output sizes.

All are chosen together, because a gradient operator's first argument, the gradient, has a size that depends on them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .constraints.constraint import T


@dataclass(frozen=True)
class Windows:
    """Window arguments of pooling, convolution or transposed convolution: by name, a number for each dimension."""

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
    """Limits for random windows: kernel size, dilation, padding, and how far images exceed their smallest size.

    Pools (``half``) have padding of at most half a kernel, may use ceil_mode, and may omit the stride.
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
    """Return the windows of a call, which are chosen at the first use."""
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
    """Return random window arguments and sizes for one dimension, with ``back`` for a transposed convolution."""
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
    """Return a function that generates an array whose last dimensions are the ``sizes``, ``out`` or ``kernel_size``."""

    def draw(call: Any) -> Any:
        w = windows_of(call, kind)
        # In some of torch's loops zeros of the padding, or between a filter's elements, are multiplied: infinities give
        # NaN.
        tame = {"values": "tame"} if not kind.half and max(w.dilation) > 1 else {}
        return call.array(T(" ".join([lead, *map(str, getattr(w, which))]), **(tame | given)))

    return draw


def _broken(call: Any, names: tuple[str, ...]) -> list[str]:
    """Return one or two names of arguments to make wrong, if the call may have wrong arguments, else an empty list."""
    if "broken" not in call.once:
        call.once["broken"] = call.permuted(names)[: call.integer(1, 2)] if call.wild else []
    return call.once["broken"]


def numbers(kind: WindowKind, *names: str) -> dict[str, Callable]:
    """Return functions that generate the named arguments together; some get wrong values if the call may be wrong."""

    def draw_of(name: str) -> Callable:
        def draw(call: Any) -> Any:
            found = getattr(windows_of(call, kind), name)
            if name in _broken(call, names) and name not in call.row.unchecked and not isinstance(found, bool):
                return [call.integer(-1, 4) for _ in range(kind.dims)]
            return found

        return draw

    return {name: draw_of(name) for name in names}
