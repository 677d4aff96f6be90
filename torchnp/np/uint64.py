"""Arithmetic of uint64 on int64 tensors with the same bits, where it differs from signed arithmetic."""

from __future__ import annotations

import torch
from torch import Tensor

from torchnp.np.dtypes import values_are_here

_SIGN = torch.iinfo(torch.int64).min


def divmod_of_uint64(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Divide half the dividend, double the quotient, and add one if it is too small; division by 0 gives (0, 0)."""
    x, y = torch.broadcast_tensors(x, y)
    divisor = torch.where(y <= 0, torch.ones_like(y), y)
    quotient = torch.floor_divide(shift_of_uint64(x, torch.ones_like(x)), divisor) * 2
    quotient = quotient + (((x - quotient * divisor) ^ _SIGN) >= (divisor ^ _SIGN)).to(torch.int64)
    large = (x ^ _SIGN) >= (y ^ _SIGN)
    quotient = torch.where(y < 0, large.to(torch.int64), quotient)
    rest = torch.where(y < 0, torch.where(large, x - y, x), x - quotient * divisor)
    zero = torch.zeros_like(x)
    return torch.where(y == 0, zero, quotient), torch.where(y == 0, zero, rest)


def power_of_uint64(base: Tensor, exponent: Tensor) -> Tensor:
    """Compute powers by squaring, because large exponents would be negative in int64."""
    result = torch.ones_like(base)
    for bit in range(64):
        odd = torch.bitwise_and(torch.bitwise_right_shift(exponent, bit), 1) == 1
        result = torch.where(odd, result * base, result)
        base = base * base
    return result


def shift_of_uint64(x: Tensor, y: Tensor) -> Tensor:
    """Shift right, filling in zeros: first by one bit, clearing the sign bit, then by the remaining bits."""
    half = torch.bitwise_and(torch.bitwise_right_shift(x, 1), 2**63 - 1)
    known = (y > 0) & (y < 64)
    found = torch.bitwise_right_shift(half, torch.where(known, y - 1, torch.zeros_like(y)))
    return torch.where(known, found, torch.where(y == 0, x, torch.zeros_like(x)))


def gcd_of_uint64(a: Tensor, b: Tensor) -> Tensor:
    """Compute the gcd with Euclid's algorithm, which takes at most 93 steps."""
    a, b = torch.broadcast_tensors(a, b)
    for _ in range(93):
        if values_are_here(b) and not bool((b != 0).any()):
            break
        rest = divmod_of_uint64(a, b)[1]
        a, b = torch.where(b == 0, a, b), torch.where(b == 0, b, rest)
    return a


def lcm_of_uint64(x: Tensor, y: Tensor) -> Tensor:
    return divmod_of_uint64(x, gcd_of_uint64(x, y))[0] * y
