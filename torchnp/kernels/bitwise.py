"""Operations on the bits of integers, and number theory."""

from __future__ import annotations

import numpy as np

from torchnp.kernels._elementwise import BOOL, INTS, UNSIGNED, binary, unary

_BITS = BOOL | INTS | UNSIGNED
_PROMOTION = ["three-tier-promotion"]

unary("bitwise_not", np.invert, cpu="bitwise_not_cpu", takes=BOOL | INTS)
binary(
    "bitwise_and.Tensor bitwise_and.Scalar bitwise_and.Scalar_Tensor __and__.Tensor __and__.Scalar",
    np.bitwise_and,
    cpu="bitwise_and_cpu",
    takes=_BITS,
    differs=_PROMOTION,
)
binary(
    "bitwise_or.Tensor bitwise_or.Scalar bitwise_or.Scalar_Tensor __or__.Tensor __or__.Scalar",
    np.bitwise_or,
    cpu="bitwise_or_cpu",
    takes=_BITS,
    differs=_PROMOTION,
)
binary(
    "bitwise_xor.Tensor bitwise_xor.Scalar bitwise_xor.Scalar_Tensor __xor__.Tensor __xor__.Scalar",
    np.bitwise_xor,
    cpu="bitwise_xor_cpu",
    takes=_BITS,
    differs=_PROMOTION,
)

# ---------------------------------------------------------------- shifts: beyond the width nothing is left but the sign

binary(
    "bitwise_left_shift.Tensor bitwise_left_shift.Tensor_Scalar bitwise_left_shift.Scalar_Tensor "
    "__lshift__.Tensor __lshift__.Scalar",
    np.left_shift,
    cpu="lshift_cpu",
    takes=INTS,
    differs=_PROMOTION,
)
binary(
    "bitwise_right_shift.Tensor bitwise_right_shift.Tensor_Scalar bitwise_right_shift.Scalar_Tensor "
    "__rshift__.Tensor __rshift__.Scalar",
    np.right_shift,
    cpu="rshift_cpu",
    takes=INTS,
    differs=_PROMOTION,
)

# ---------------------------------------------------------------- number theory

binary("gcd", np.gcd, cpu="gcd_cpu", takes=INTS, differs=_PROMOTION)
binary("lcm", np.lcm, cpu="lcm_cpu", takes=INTS, differs=_PROMOTION)
