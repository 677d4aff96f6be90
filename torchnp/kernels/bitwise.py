"""Operations on the bits of integers, and number theory."""

from __future__ import annotations

from functools import partial

import numpy as np

from torchnp.core.inplace_out_spec import NO_VECTORS
from torchnp.kernels._elementwise import BOOL, INTS, UNSIGNED, binary, unary

ndarray = np.ndarray

_BITS = BOOL | INTS | UNSIGNED
_PROMOTION = ["three-tier-promotion", "number-wraps"]

unary("bitwise_not", np.invert, cpu="bitwise_not_cpu", takes=BOOL | INTS)
_bits = partial(binary, takes=_BITS, differs=_PROMOTION)
_bits(
    "bitwise_and.Tensor bitwise_and.Scalar bitwise_and.Scalar_Tensor __and__.Tensor __and__.Scalar",
    np.bitwise_and,
    cpu="bitwise_and_cpu",
)
_bits(
    "bitwise_or.Tensor bitwise_or.Scalar bitwise_or.Scalar_Tensor __or__.Tensor __or__.Scalar",
    np.bitwise_or,
    cpu="bitwise_or_cpu",
)
_bits(
    "bitwise_xor.Tensor bitwise_xor.Scalar bitwise_xor.Scalar_Tensor __xor__.Tensor __xor__.Scalar",
    np.bitwise_xor,
    cpu="bitwise_xor_cpu",
)

_shift = partial(binary, takes=INTS, differs=[*_PROMOTION, "missing-kernel"])
_LEFT = "bitwise_left_shift.Tensor bitwise_left_shift.Tensor_Scalar bitwise_left_shift.Scalar_Tensor"
_RIGHT = "bitwise_right_shift.Tensor bitwise_right_shift.Tensor_Scalar bitwise_right_shift.Scalar_Tensor"
_shift(f"{_LEFT} __lshift__.Tensor __lshift__.Scalar", np.left_shift, cpu="lshift_cpu")
_shift(f"{_RIGHT} __rshift__.Tensor __rshift__.Scalar", np.right_shift, cpu="rshift_cpu")

# ---------------------------------------------------------------- number theory


def _gcd(a: ndarray, b: ndarray) -> ndarray:
    """Compute np.gcd; for the smallest integer use Euclid's algorithm, as in torch: its result may be negative."""
    value = np.asarray(np.gcd(a, b))
    if value.dtype.kind == "i":
        least = np.iinfo(value.dtype).min
        odd = (a == least) | (b == least)
        if odd.any():
            a, b = (np.abs(v[odd]) for v in np.broadcast_arrays(a, b))
            while a.any():
                a, b = np.where(a == 0, a, np.fmod(b, a)), np.where(a == 0, b, a)
            value[odd] = b
    return value


def _lcm(a: ndarray, b: ndarray) -> ndarray:
    """Compute the least common multiple with torch's overflow: the product wraps before its absolute value is taken."""
    if np.result_type(a, b).itemsize < 4:
        return np.lcm(a, b)
    divisor = _gcd(a, b)
    return np.abs(np.floor_divide(a, np.where(divisor == 0, divisor.dtype.type(1), divisor)) * b)


_OF_SMALLEST = ["three-tier-promotion", "missing-kernel", "gcd-of-smallest"]
for _name, _formula, _like in (("gcd", _gcd, np.gcd), ("lcm", _lcm, np.lcm)):
    binary(_name, _formula, cpu=f"{_name}_cpu", takes=INTS, like=_like, differs=_OF_SMALLEST, writes=NO_VECTORS)
