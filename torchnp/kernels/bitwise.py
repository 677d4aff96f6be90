"""Operations on the bits of integers, and number theory."""

from __future__ import annotations

import numpy as np

from torchnp.core.write_spec import NO_VECTORS
from torchnp.kernels._elementwise import BOOL, INTS, UNSIGNED, binary, unary

ndarray = np.ndarray

_BITS = BOOL | INTS | UNSIGNED
_PROMOTION = ["three-tier-promotion", "number-wraps"]

unary("bitwise_not", np.invert, cpu="bitwise_not_cpu", takes=BOOL | INTS)
_function: np.ufunc
for _name, _function in (("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)):
    _names = "bitwise_{0}.Tensor bitwise_{0}.Scalar bitwise_{0}.Scalar_Tensor __{0}__.Tensor __{0}__.Scalar"
    binary(_names.format(_name), _function, cpu=f"bitwise_{_name}_cpu", takes=_BITS, differs=_PROMOTION)

for _name, _function in (("left_shift", np.left_shift), ("right_shift", np.right_shift)):
    _names = "bitwise_{0}.Tensor bitwise_{0}.Tensor_Scalar bitwise_{0}.Scalar_Tensor __{1}__.Tensor __{1}__.Scalar"
    _short = f"{_name[0]}shift"
    binary(
        _names.format(_name, _short),
        _function,
        cpu=f"{_short}_cpu",
        takes=INTS,
        differs=[*_PROMOTION, "missing-kernel"],
    )

# ---------------------------------------------------------------- number theory


def _gcd(a: ndarray, b: ndarray) -> ndarray:
    """NumPy's gcd, but Euclid's steps for the smallest integer: without an absolute value, a result may be negative."""
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
    """Least common multiple whose product wraps before its absolute value is taken; NumPy's wraps after."""
    if np.result_type(a, b).itemsize < 4:
        return np.lcm(a, b)
    divisor = _gcd(a, b)
    return np.abs(np.floor_divide(a, np.where(divisor == 0, divisor.dtype.type(1), divisor)) * b)


_OF_SMALLEST = ["three-tier-promotion", "missing-kernel", "gcd-of-smallest"]
for _name, _formula, _like in (("gcd", _gcd, np.gcd), ("lcm", _lcm, np.lcm)):
    binary(_name, _formula, cpu=f"{_name}_cpu", takes=INTS, like=_like, differs=_OF_SMALLEST, writes=NO_VECTORS)
