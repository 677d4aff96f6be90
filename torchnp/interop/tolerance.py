"""Tolerances of crosscheck: how far a kernel's floating point result may differ from torch's."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import torch

Tensor = torch.Tensor

# torch.testing's default tolerances, as (relative, absolute)
_TOLERANCE = {
    torch.float16: (1e-3, 1e-5), torch.bfloat16: (1.6e-2, 1e-5), torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7), torch.complex32: (1e-3, 1e-5), torch.complex64: (1.3e-6, 1e-5),
    torch.complex128: (1e-7, 1e-7), torch.float8_e4m3fn: (0.125, 1e-5), torch.float8_e4m3fnuz: (0.125, 1e-5),
    torch.float8_e5m2: (0.25, 1e-5), torch.float8_e5m2fnuz: (0.25, 1e-5), torch.float8_e8m0fnu: (0.0, 0.0),
}  # fmt: skip
_HALVES = (torch.float16, torch.bfloat16, torch.complex32)
_UNSUMMED = tuple(getattr(torch.Tag, name) for name in ("pointwise", "inplace_view") if hasattr(torch.Tag, name))


def terms(func: Any, inputs: list[Tensor]) -> list[int]:
    """Return data from which `_length` estimates the length of an op's sums; an empty list if the op sums nothing.

    The first item is the longest dimension; the inputs' numbers of elements follow.
    """
    if any(tag in func.tags for tag in _UNSUMMED):
        return []
    return [max((n for x in inputs for n in x.size()), default=1), *(x.numel() for x in inputs)]


def _length(terms: list[int], results: int) -> float:
    """Return the estimated length of the sum for each result.

    For example, a product of (m, k) and (k, n) has sums of length k.
    """
    if not terms or not results:
        return 0.0
    longest, *sizes = terms
    alone = max(sizes, default=0) / results
    pairs = max((math.sqrt(a * b / results) for a, b in itertools.combinations(sizes, 2)), default=0.0)
    return max(longest, alone, pairs)


class ErrorBounds(NamedTuple):
    """Relative and absolute tolerance, and the expected rounding error of sums, as an absolute number.

    A sum of n terms in any order is off by about sqrt(n) roundings of its largest terms, however small the sum is.
    """

    rtol: float
    atol: float
    rounding: float

    @classmethod
    def of(cls, expected: Tensor, terms: list[int]) -> ErrorBounds:
        rtol, atol = _TOLERANCE.get(expected.dtype, (0.0, 0.0))
        length = _length(terms, expected.numel())
        if not length or not rtol:
            return cls(rtol, atol, 0.0)
        size = _wide(expected).abs()
        size = size[size.isfinite()]
        half = expected.dtype in _HALVES
        epsilon = torch.finfo(torch.float32 if half else expected.dtype).eps
        # Half types are also rounded between the parts of a sum.
        share = 2 * epsilon * math.sqrt(length) + (4 * torch.finfo(expected.dtype).eps if half else 0.0)
        return cls(rtol, atol, share * float(size.square().mean().sqrt()) if size.numel() else 0.0)

    def allow(self, expected: Tensor, got: Tensor) -> bool:
        e, g = _plain(expected), _plain(got)
        if expected.dtype not in _TOLERANCE:
            return torch.equal(e, g)
        return bool(self._near(e, g).all())

    def _near(self, e: Tensor, g: Tensor) -> Tensor:
        return torch.isclose(g, e, rtol=self.rtol, atol=self.atol + self.rounding, equal_nan=True)

    def broken_by(self, expected: Tensor, got: Tensor) -> str:
        """Describe how many values exceed the bounds, and which one exceeds them most."""
        e, g = _wide(expected), _wide(got)
        wrong = ~self._near(e, g)
        absolute = torch.where(wrong, (g - e).abs(), 0.0)
        absolute = torch.where(absolute.isnan(), torch.inf, absolute)
        relative = torch.where(wrong, absolute / e.abs(), 0.0)
        at = tuple(int(i) for i in torch.unravel_index(absolute.flatten().argmax(), e.shape)) if e.ndim else ()
        rounding = f", {self.rounding:g} for the rounding of sums" if self.rounding else ""
        return (
            f"{int(wrong.sum())} of {wrong.numel()} values differ by more than rtol {self.rtol:g}, "
            f"atol {self.atol:g}{rounding}\n"
            f"largest absolute error {absolute.max().item():g} at {list(at)} (torch {e[at].item()!r}, "
            f"kernel {g[at].item()!r}), largest relative error {relative.nan_to_num(torch.inf).max().item():g}"
        )


def _plain(x: Tensor) -> Tensor:
    """Return the values with conjugate and negative bits resolved, in a dtype wide enough for subtraction."""
    x = x.detach().resolve_conj().resolve_neg()
    if x.is_complex():
        return x.to(torch.complex128)
    return x.to(torch.float64) if x.is_floating_point() else x


def _wide(x: Tensor) -> Tensor:
    x = _plain(x)
    return x if x.is_complex() else x.to(torch.float64)
