"""Operations on the bits of integers, and number theory."""

from __future__ import annotations

import numpy as np

from torchnp.kernels._elementwise import BOOL, INTS, UNSIGNED, binary, unary

ndarray = np.ndarray

_BITS = BOOL | INTS | UNSIGNED
_PROMOTION = ["three-tier-promotion"]

unary("bitwise_not", np.invert, cpu="bitwise_not_cpu", takes=BOOL | INTS)
binary(
    "bitwise_and.Tensor bitwise_and.Scalar bitwise_and.Scalar_Tensor __and__.Tensor __and__.Scalar", np.bitwise_and,
    cpu="bitwise_and_cpu", takes=_BITS, differs=_PROMOTION,
)  # fmt: skip
binary(
    "bitwise_or.Tensor bitwise_or.Scalar bitwise_or.Scalar_Tensor __or__.Tensor __or__.Scalar", np.bitwise_or,
    cpu="bitwise_or_cpu", takes=_BITS, differs=_PROMOTION,
)  # fmt: skip
binary(
    "bitwise_xor.Tensor bitwise_xor.Scalar bitwise_xor.Scalar_Tensor __xor__.Tensor __xor__.Scalar", np.bitwise_xor,
    cpu="bitwise_xor_cpu", takes=_BITS, differs=_PROMOTION,
)  # fmt: skip

# ---------------------------------------------------------------- shifts: beyond the width nothing is left but the sign

binary(
    "bitwise_left_shift.Tensor bitwise_left_shift.Tensor_Scalar bitwise_left_shift.Scalar_Tensor "
    "__lshift__.Tensor __lshift__.Scalar", np.left_shift, cpu="lshift_cpu", takes=INTS, differs=_PROMOTION,
)  # fmt: skip
binary(
    "bitwise_right_shift.Tensor bitwise_right_shift.Tensor_Scalar bitwise_right_shift.Scalar_Tensor "
    "__rshift__.Tensor __rshift__.Scalar", np.right_shift, cpu="rshift_cpu", takes=INTS, differs=_PROMOTION,
)  # fmt: skip

# ---------------------------------------------------------------- number theory


def _gcd(a: ndarray, b: ndarray) -> ndarray:
    """NumPy's, but Euclid's steps on the least integer: it has no absolute value, and the result may be negative."""
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
    """The product wraps before its absolute value is taken, and NumPy's after."""
    if np.result_type(a, b).itemsize < 4:
        return np.lcm(a, b)
    divisor = _gcd(a, b)
    return np.abs(np.floor_divide(a, np.where(divisor == 0, divisor.dtype.type(1), divisor)) * b)


binary("gcd", _gcd, cpu="gcd_cpu", takes=INTS, like=np.gcd, differs=_PROMOTION)
binary("lcm", _lcm, cpu="lcm_cpu", takes=INTS, like=np.lcm, differs=_PROMOTION)
