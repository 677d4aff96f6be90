"""Padding: constant, reflect, replicate and circular.

Pads are listed from the last dimension to the first: (left, right, top, bottom, ...). A negative pad crops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from torchnp.core.checks import broadcast_shapes, check, refuse
from torchnp.core.errors import negative_size, shape_text
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.dtypes import bool_
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._memory import RARE_OR_CHALF, bits, empty_in_order, take_slices
from torchnp.kernels._spatial import code_for
from torchnp.kernels.copy import clone
from torchnp.kernels.create import filled
from torchnp.kernels.slicing import at, narrow
from torchnp.layout import stride_rules

ndarray = np.ndarray
Pads = Sequence[int]
NOT_PADDED = RARE_OR_CHALF | {bool_}


def image_order(x: ndarray) -> tuple[int, ...] | None:
    """Return the axes in channels-last order if the tensor is dense in that order, else None."""
    order = stride_rules.CHANNELS_LAST.get(x.ndim)
    return order if order and not x.flags.c_contiguous and x.transpose(order).flags.c_contiguous else None


def sides(x: ndarray, pad: Pads) -> list[tuple[int, int, int]]:
    """List the padded dimensions, the last first, each with its left and right pad."""
    return [(x.ndim - 1 - i, pad[2 * i], pad[2 * i + 1]) for i in range(len(pad) // 2)]


@kernel("constant_pad_nd", like=np.pad, differs=["pad-order", "pad-crops"])
def constant_pad_nd(self, pad, value=0):
    """The tensor padded with the constant ``value``."""
    check(len(pad) % 2 == 0, f"Length of pad must be even but instead it equals {len(pad)}")
    words = "Length of pad should be no more than twice the number of dimensions of the input. Pad length is"
    check(len(pad) <= 2 * self.ndim, f"{words} {len(pad)}while the input has {self.ndim}dimensions.")
    part, shape, place = self, list(self.shape), [slice(None)] * self.ndim
    for dim, left, right in sides(self, pad):
        if left < 0:
            part = narrow(part, dim, -left, part.shape[dim] + left)
        if right < 0:
            part = narrow(part, dim, 0, part.shape[dim] + right)
        shape[dim] += left + right
        place[dim] = slice(max(left, 0), max(left, 0) + part.shape[dim])
    if all(n <= 0 for n in pad):
        return clone(part)
    out = filled(empty_in_order(shape, self.dtype, image_order(self)), value)
    out[tuple(place)] = part
    return out


# ---------------------------------------------------------------- reflection, replication, circular padding


def reflected(n: int, left: int, right: int) -> ndarray:
    """Return the source positions of a reflected dimension of size n."""
    i = np.abs(np.arange(-left, n + right))
    return (n - 1) - np.abs((n - 1) - i)


def replicated(n: int, left: int, right: int) -> ndarray:
    """Return the source positions of a replicated dimension of size n."""
    return np.clip(np.arange(-left, n + right), 0, n - 1)


def _circular(n: int, left: int, right: int) -> ndarray:
    # Negative pads crop first; the remaining elements are continued circularly.
    size = n + min(left, 0) + min(right, 0)
    shown = max(-left, 0) + np.arange(-max(left, 0), size + max(right, 0)) % max(size, 1)
    return np.minimum(shown, n - 1)  # if cropping leaves nothing, torch returns uninitialised memory


def _shown(x: ndarray, pad: Pads, positions: Callable[[int, int, int], ndarray]) -> ndarray:
    """Pad the last dimensions; ``positions`` computes the source index of each element along a dimension."""
    source, shape, place = bits(x), list(x.shape), [slice(None)] * x.ndim
    for dim, left, right in sides(x, pad):
        shape[dim] += left + right
        place[dim] = slice(left, left + x.shape[dim])
    out = empty_in_order(shape, source.dtype, image_order(x))
    if min(pad, default=0) < 0:
        for dim, left, right in sides(x, pad):
            source = source.take(positions(x.shape[dim], left, right), dim)
        out[...] = source
        return out.view(x.dtype)
    # The middle is copied once; each border is then filled from the part of the output that is already written.
    out[tuple(place)] = source
    for dim, left, right in sides(x, pad):
        shown = positions(x.shape[dim], left, right) + left
        out[at(dim, slice(0, left))] = take_slices(out, shown[:left], dim)
        out[at(dim, slice(shape[dim] - right, shape[dim]))] = take_slices(out, shown[len(shown) - right :], dim)
    return out.view(x.dtype)


def check_reflected(x: ndarray, pad: Pads, last: int) -> None:
    """Raise torch's error if a pad is not smaller than the dimension's size; ``last`` is the last padded dimension."""
    for i in range(len(pad) // 2):
        dim, left, right = last - i, pad[2 * i], pad[2 * i + 1]
        words = f"Argument #{4 + 2 * i}: Padding size should be less than the corresponding input dimension, but got:"
        found = f"padding ({left}, {right}) at dimension {dim} of input {shape_text(x.shape)}"
        check(left < x.shape[dim] and right < x.shape[dim], f"{words} {found}")


def check_padded(x: ndarray, pad: Pads, n: int, reflects: bool) -> None:
    """Check ranks, sizes and pads of reflection and replication as torch does."""
    found = f", but got: {len(pad)}" if reflects or since("2.15") else ""
    check(len(pad) == 2 * n, f"padding size is expected to be {2 * n}{found}")
    words = f"Expected {n + 1}D or {n + 2}D (batch mode) tensor with possibly 0 batch size and other non-zero"
    filled = 0 not in x.shape[x.ndim == n + 2 :]
    check(x.ndim in (n + 1, n + 2) and filled, f"{words} dimensions for input, but got: {shape_text(x.shape)}")
    if reflects:
        check_reflected(x, pad, x.ndim - 1)
    outs = [x.shape[dim] + left + right for dim, left, right in sides(x, pad)]
    if n > 1 and min(outs) < 1 and since("2.15" if reflects else "2.14"):
        letters = "DHW"[3 - n :]
        result = " ".join(f"{c}: {out}" for c, out in zip(letters, outs[::-1]))
        told = ", ".join(f"{c}: {size}" for c, size in zip(letters, x.shape[-n:]))
        raise RuntimeError(f"Calculated output {result} must be >= 1 in every dimension (input {told})")
    if max(outs) < 1:
        letters = "DHW"[3 - n :]
        told = ", ".join(f"{c}: {size}" for c, size in zip(letters, x.shape[-n:]))
        told += " " * (n == 2 and not reflects)  # torch's message has this space
        result = " ".join(f"{c}: {out}" for c, out in zip(letters, outs[::-1]))
        raise RuntimeError(f"input ({told}) is too small. Calculated output {result}")
    if min(outs) < 0:
        check(not reflects or n != 2, "numel: integer multiplication overflow")
        raise negative_size(min(outs), (*x.shape[: -len(outs)], *outs[::-1]))


def _padded(self, padding, *, op, n, positions):
    check_padded(self, padding, n, positions is reflected)
    refuse(code_for(op, self) if self.ndim == n + 2 else op, self.dtype, NOT_PADDED)
    return _shown(self, padding, positions)


_NAMES, _DIFFERS = "reflection_pad1d reflection_pad2d reflection_pad3d", ["pad-order", "pad-reflect-once", "pad-crops"]
_DOC = "The last dimensions padded by reflection at their first and last elements."
_REFLECT = rows(_NAMES, _padded, _DOC, like=np.pad, differs=_DIFFERS, positions=reflected)
_NAMES, _DIFFERS = "replication_pad1d replication_pad2d replication_pad3d", ["pad-order", "pad-crops"]
_DOC = "The last dimensions padded with copies of their first and last elements."
_REPLICATE = rows(_NAMES, _padded, _DOC, like=np.pad, differs=_DIFFERS, positions=replicated)


@kernel("_pad_circular", like=np.pad, differs=["pad-order", "pad-needs-batch", "pad-crops"])
def _pad_circular(self, pad):
    """The last dimensions padded circularly: each side continues with the elements at the other end."""
    n = len(pad) // 2
    words = "Invalid padding size, expected 1 or 2 non-padded dimensions, which would be equivalent to padding of"
    found = f"length {2 * (self.ndim - 1)} or {2 * (self.ndim - 2)} respectively but got {len(pad)}"
    check(self.ndim in (n + 1, n + 2), f"{words} {found}")
    for dim, left, right in sides(self, pad):
        check(max(left, right) <= self.shape[dim], "Padding value causes wrapping around more than once.")
        check(self.shape[dim] + left + right >= 0, "Negative padding value is resulting in an empty dimension")
    kept, held = list(self.shape), list(self.shape)
    for dim, left, right in sides(self, pad):  # torch crops by a slice, in which a negative stop counts from the end
        kept[dim] += min(left, 0) + min(right, 0)
        held[dim] = len(range(self.shape[dim])[max(-left, 0) : self.shape[dim] + min(right, 0)])
    broadcast_shapes([max(n, 0) for n in kept], held)
    return _shown(self, pad[: 2 * n], _circular)


_MODES = ("reflect", "replicate", "circular", "constant")


_ANY_MODE = ["pad-order", "pad-mode-names", "pad-needs-batch", "pad-reflect-once", "pad-crops"]


@kernel("pad", like=np.pad, differs=_ANY_MODE)
def pad(self, pad, mode="constant", value=None):
    """The tensor padded by a mode: constant, reflect, replicate or circular."""
    check(mode in _MODES, f"Unrecognised padding mode {mode}", NotImplementedError)
    return _pad_enum(self, pad, _MODES.index(mode), value)


@kernel("_pad_enum", like=np.pad, differs=["pad-order", "pad-mode-names", "pad-crops"])
def _pad_enum(self, pad, mode, value=None):
    """`pad` with the mode as torch's integer: 0 reflect, 1 replicate, 2 circular, 3 constant."""
    check(len(pad) % 2 == 0, "Padding length must be divisible by 2")
    words = "Padding length should be less than or equal to two times the input dimension but got padding length"
    check(len(pad) <= 2 * self.ndim, f"{words} {len(pad)} and input of dimension {self.ndim}")
    if mode == 3:
        return constant_pad_nd(self, pad, value or 0)
    if value:
        check(0 <= mode < 3, f"Invalid padding mode ({mode})")
        raise RuntimeError(f'Padding mode "{_MODES[mode]}" doesn\'t take in value argument')
    n = len(pad) // 2
    if n in (1, 2, 3) and self.ndim in (n + 1, n + 2) and 0 <= mode < 3:
        if mode == 2:
            return _pad_circular(self, pad)
        return (_REFLECT if mode == 0 else _REPLICATE)[n - 1](self, pad)
    raise NotImplementedError(f"Padding size {len(pad)} is not supported for {self.ndim}D input tensor.")
