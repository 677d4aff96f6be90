"""torch's dtypes, type promotion and conversions, without torch.

A dtype here is a ``np.dtype``: NumPy's own where it has one, else ml_dtypes' (``bfloat16``, ``float8_*``,
``complex32``, ``bcomplex32``). Promotion is torch's: four categories (bool, integer, float, complex) and three tiers of
operands (tensors with dimensions, 0-d tensors, Python numbers); an operand of a weaker tier counts only if its category
is higher. The rules are those of ``torch.promote_types`` and ``torch.result_type`` in torch 2.13; the tests compare all
cases.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from torchnp.core.target import since
from torchnp.float_to_integer import to_integer

ndarray = np.ndarray

# ---------------------------------------------------------------- the dtypes

bool_ = np.dtype(np.bool_)
uint8, uint16, uint32, uint64 = (np.dtype(t) for t in (np.uint8, np.uint16, np.uint32, np.uint64))
int8, int16, int32, int64 = (np.dtype(t) for t in (np.int8, np.int16, np.int32, np.int64))
float16, float32, float64 = (np.dtype(t) for t in (np.float16, np.float32, np.float64))
bfloat16 = np.dtype(ml_dtypes.bfloat16)
complex32 = np.dtype(ml_dtypes.complex32)
bcomplex32 = np.dtype(ml_dtypes.bcomplex32)  # two bfloat16 numbers; since torch 2.14
complex64, complex128 = np.dtype(np.complex64), np.dtype(np.complex128)
float8_e4m3fn = np.dtype(ml_dtypes.float8_e4m3fn)
float8_e4m3fnuz = np.dtype(ml_dtypes.float8_e4m3fnuz)
float8_e5m2 = np.dtype(ml_dtypes.float8_e5m2)
float8_e5m2fnuz = np.dtype(ml_dtypes.float8_e5m2fnuz)
float8_e8m0fnu = np.dtype(ml_dtypes.float8_e8m0fnu)

INTS = (uint8, int8, int16, int32, int64)
BARE_UNSIGNED = (uint16, uint32, uint64)
HALVES = (float16, bfloat16)
FLOATS = (float16, bfloat16, float32, float64)
FLOAT8S = (float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu)
COMPLEXES = (complex32, complex64, complex128)
HALF_COMPLEXES = (complex32, bcomplex32)
ALL = (bool_, *INTS, *BARE_UNSIGNED, *FLOATS, *COMPLEXES, *FLOAT8S)
"""All dtypes with which kernels compute. bcomplex32, which torch only stores and converts, is not among them."""
STORED = (*ALL, bcomplex32)

_SCALAR_NAMES = {
    bool_: "Bool", uint8: "Byte", int8: "Char", int16: "Short", int32: "Int", int64: "Long",
    uint16: "UInt16", uint32: "UInt32", uint64: "UInt64",
    float16: "Half", bfloat16: "BFloat16", float32: "Float", float64: "Double",
    complex32: "ComplexHalf", bcomplex32: "BComplex32", complex64: "ComplexFloat", complex128: "ComplexDouble",
    float8_e4m3fn: "Float8_e4m3fn", float8_e4m3fnuz: "Float8_e4m3fnuz", float8_e5m2: "Float8_e5m2",
    float8_e5m2fnuz: "Float8_e5m2fnuz", float8_e8m0fnu: "Float8_e8m0fnu",
}  # fmt: skip
# C++ names of integers in error messages, in three spellings: the compiler's, the demangled one, and the source code's.
_C_INTEGERS = {
    "long int": {
        uint8: "unsigned char", int8: "signed char", int16: "short int", int32: "int", int64: "long int",
        uint16: "short unsigned int", uint32: "unsigned int", uint64: "long unsigned int",
    },
    "long": {
        uint8: "unsigned char", int8: "signed char", int16: "short", int32: "int", int64: "long",
        uint16: "unsigned short", uint32: "unsigned int", uint64: "unsigned long",
    },
    "int64_t": {
        uint8: "uint8_t", int8: "int8_t", int16: "int16_t", int32: "int", int64: "int64_t",
        uint16: "uint16_t", uint32: "uint32_t", uint64: "uint64_t",
    },
}  # fmt: skip
_C_NAMES = {
    bool_: "bool", float32: "float", float64: "double",
    complex32: "c10::complex<c10::Half>", bcomplex32: "c10::complex<c10::BFloat16>", complex64: "c10::complex<float>", complex128: "c10::complex<double>",
}  # fmt: skip
_BY_NAME = {str(dt): dt for dt in _SCALAR_NAMES} | {
    "half": float16, "float": float32, "double": float64, "long": int64, "int": int32, "short": int16,
    "chalf": complex32, "cfloat": complex64, "cdouble": complex128,
}  # fmt: skip
_CATEGORY = {dt: 3 if dt in COMPLEXES else 2 if dt in FLOATS + FLOAT8S else 0 if dt is bool_ else 1 for dt in ALL}
_CATEGORY[bcomplex32] = 3


def as_dtype(dtype: Any) -> np.dtype:
    """Return the ``np.dtype`` for a NumPy dtype, an ml_dtypes or Python type, a torch dtype or its name."""
    if type(dtype).__module__ == "torch":
        dtype = str(dtype)
    if type(dtype) is str:
        found = _BY_NAME.get(dtype.removeprefix("torch."))
        if found is None or (found is bcomplex32 and not since("2.14")):
            raise TypeError(f"unknown dtype {dtype!r}: torchnp knows {', '.join(map(str, ALL))}")
        return found
    found = np.dtype(dtype)  # Python's float is float64, as in torch
    found = found if found.isnative else found.newbyteorder("=")
    if found not in _CATEGORY or (found == bcomplex32 and not since("2.14")):
        raise TypeError(f"torch has no dtype {found}: torchnp knows {', '.join(map(str, ALL))}")
    return found


def dtype_name(dtype: np.dtype) -> str:
    """Return torch's name of a dtype: ``"float32"``, ``"bfloat16"``, ``"bool"``."""
    return str(dtype)


def scalar_name(dtype: np.dtype) -> str:
    """Return torch's C++ name of a dtype, as its error messages print it: ``"Long"``, ``"BFloat16"``."""
    return _SCALAR_NAMES.get(dtype) or str(dtype)


def c_name(dtype: np.dtype, integers: str = "long int") -> str:
    """Return a dtype's C++ type as some error messages spell it: ``"long int"``, ``"c10::BFloat16"``.

    ``integers`` is the spelling of int64 in that message: ``"long int"``, ``"long"`` or ``"int64_t"``.
    """
    return _C_NAMES.get(dtype) or _C_INTEGERS[integers].get(dtype) or f"c10::{scalar_name(dtype)}"


# ---------------------------------------------------------------- categories


def category(dtype: np.dtype) -> int:
    """Return the category: 0 for bool, 1 for integers, 2 for floats, 3 for complex numbers."""
    return _CATEGORY[dtype]


def is_bool(dtype: np.dtype) -> bool:
    return dtype == bool_


def is_integral(dtype: np.dtype) -> bool:
    """Return whether a dtype is an integer dtype; bool is not one."""
    return _CATEGORY[dtype] == 1


def is_floating(dtype: np.dtype) -> bool:
    return _CATEGORY[dtype] == 2


def is_complex(dtype: np.dtype) -> bool:
    return _CATEGORY[dtype] == 3


def is_inexact(dtype: np.dtype) -> bool:
    return _CATEGORY[dtype] >= 2


def is_signed(dtype: np.dtype) -> bool:
    return not (dtype == bool_ or dtype.kind == "u")


def is_half(dtype: np.dtype) -> bool:
    """Return whether a dtype is float16 or bfloat16."""
    return dtype in (float16, bfloat16)


def has_infinity(dtype: np.dtype) -> bool:
    """Return whether a floating dtype has infinities; of the float8s, only float8_e5m2 has."""
    return dtype not in FLOAT8S or dtype == float8_e5m2


# ---------------------------------------------------------------- related dtypes

_OPMATH = dict.fromkeys(HALVES + FLOAT8S, float32) | {complex32: complex64, bcomplex32: complex64}
_TO_REAL = {complex32: float16, bcomplex32: bfloat16, complex64: float32, complex128: float64}
_TO_COMPLEX = {float16: complex32, bfloat16: complex64, float32: complex64, float64: complex128}

_default = float32


def get_default_dtype() -> np.dtype:
    """Return the dtype of Python floats, and of float functions of integers, as `torch.get_default_dtype`.

    Returns
    -------
    numpy.dtype
        float32, until `set_default_dtype` sets another dtype.
    """
    return _default


def set_default_dtype(dtype: Any) -> None:
    """Set the dtype of Python floats, and of float functions of integers, as `torch.set_default_dtype`.

    Parameters
    ----------
    dtype : dtype, str or torch.dtype
        A floating point dtype.

    Raises
    ------
    TypeError
        The dtype is not floating point, or is a float8.
    """
    global _default
    new = as_dtype(dtype)
    if not is_floating(new):
        raise TypeError("only floating-point types are supported as the default type")
    if new in FLOAT8S:
        raise TypeError(f"couldn't find storage object {scalar_name(new)}Storage")
    _default = new


@contextlib.contextmanager
def default_dtype(dtype: Any) -> Iterator[None]:
    """Set the default dtype inside a ``with`` block, as `set_default_dtype` does."""
    before = _default
    if before != dtype:
        set_default_dtype(dtype)
    try:
        yield
    finally:
        if before != dtype:
            set_default_dtype(before)


def opmath(dtype: np.dtype) -> np.dtype:
    """Return the dtype in which torch computes: float32 for the half types and float8s, complex64 for complex32."""
    return _OPMATH.get(dtype, dtype)


def to_real(dtype: np.dtype) -> np.dtype:
    """Return the real dtype of the same precision: complex64 -> float32; real dtypes unchanged."""
    return _TO_REAL.get(dtype, dtype)


def to_complex(dtype: np.dtype) -> np.dtype:
    """Return the complex dtype of the same precision: float32 -> complex64; complex dtypes unchanged."""
    if dtype == bfloat16 and since("2.14"):
        return bcomplex32
    found = dtype if is_complex(dtype) else _TO_COMPLEX.get(dtype)
    if found is None:
        raise RuntimeError(f"Unknown Complex ScalarType for {scalar_name(dtype)}")
    return found


def number_dtype(number: Any) -> np.dtype:
    """Return the dtype of a Python number: bool, int64 (uint64 from 2**63 on), the default float or its complex."""
    if type(number) is bool or isinstance(number, np.bool_):
        return bool_
    if isinstance(number, int):
        return int64 if number < 2**63 else uint64
    return to_complex(_default) if isinstance(number, complex) else _default


# ---------------------------------------------------------------- promotion


def promote_types(a: Any, b: Any) -> np.dtype:
    """Return the smallest dtype to which torch promotes both, as `torch.promote_types`.

    Parameters
    ----------
    a, b : dtype, str or torch.dtype
        Two dtypes, in any order. ml_dtypes' types, and torch's names such as ``"bfloat16"``, are accepted too.

    Returns
    -------
    numpy.dtype
        The dtype by torch's rules. NumPy's differ: int64 with float32 gives float32 here.

    Raises
    ------
    TypeError
        One of the arguments is not a torch dtype.
    RuntimeError
        torch does not promote the pair: float8 with anything else, or uint16/32/64 with other integers, bool or
        complex.
    """
    a, b = as_dtype(a), as_dtype(b)
    if a == b:
        return a
    if a in FLOAT8S or b in FLOAT8S:
        raise RuntimeError(
            f"Promotion for Float8 Types is not supported, attempted to promote {scalar_name(a)} and {scalar_name(b)}"
        )
    if a in BARE_UNSIGNED or b in BARE_UNSIGNED:
        other = b if a in BARE_UNSIGNED else a
        if is_floating(other):
            return other
        raise RuntimeError(
            "Promotion for uint16, uint32, uint64 types is not supported, "
            f"attempted to promote {scalar_name(a)} and {scalar_name(b)}"
        )
    low, high = sorted((a, b), key=category)
    if category(low) == category(high):
        if category(low) == 1:
            return int16 if {a, b} == {uint8, int8} else max(a, b, key=lambda dt: (dt.itemsize, dt.kind == "i"))
        if {a, b} == {float16, bfloat16}:
            return float32
        if {a, b} == {complex32, bcomplex32}:
            return complex64
        return max(a, b, key=lambda dt: dt.itemsize)
    if is_complex(high) and is_floating(low):
        return high if (low, high) == (bfloat16, bcomplex32) else promote_types(high, _TO_COMPLEX[low])
    return high


PROMOTE: dict[tuple[np.dtype, np.dtype], np.dtype] = {}
for _a in ALL:
    for _b in ALL:
        with contextlib.suppress(RuntimeError):
            PROMOTE[_a, _b] = promote_types(_a, _b)
del _a, _b


def _demote(stronger: np.dtype, weaker: np.dtype) -> np.dtype:
    """Return the dtype of a strong tier combined with a weaker tier's, which counts only if its category is higher."""
    if _CATEGORY[weaker] <= _CATEGORY[stronger]:
        return stronger
    # A number or 0-d tensor of a higher category decides the dtype. But a complex one keeps the precision of a floating
    # tensor.
    if is_complex(weaker):
        return to_complex(stronger) if is_floating(stronger) else weaker
    return promote_types(stronger, weaker)


def result_type(*operands: Any) -> np.dtype:
    """Return torch's result dtype of arrays (dimensioned or 0-d) and Python numbers, as `torch.result_type`.

    If a Python float, or a 0-d float tensor, is combined with an integer tensor, its dtype is the result (the default
    dtype for a Python float). Combined with a float tensor, it does not count.

    Parameters
    ----------
    *operands : ndarray or number
        The operands, in any order. Only their dtypes and their numbers of dimensions matter.

    Returns
    -------
    numpy.dtype
        The dtype of the arrays with dimensions. A 0-d array or number changes it only if its category is higher.

    Raises
    ------
    RuntimeError
        There is no operand, or torch does not promote two of the dtypes.
    """
    dim = zero = number = None
    for x in operands:
        if isinstance(x, (ndarray, np.generic)):
            if x.ndim:
                dim = x.dtype if dim is None or dim == x.dtype else promote_types(dim, x.dtype)
            else:
                zero = x.dtype if zero is None or zero == x.dtype else promote_types(zero, x.dtype)
        else:
            dt = number_dtype(x)
            number = dt if number is None else promote_types(number, dt)
    result = dim
    for weaker in (zero, number):
        if weaker is not None:
            result = weaker if result is None else _demote(result, weaker)
    if result is None:
        raise RuntimeError("result_type needs at least one operand")
    return result


def can_cast(source: Any, target: Any) -> bool:
    """Return whether torch writes a result of one dtype into a tensor of another, as `torch.can_cast`.

    Parameters
    ----------
    source, target : dtype, str or torch.dtype
        The dtypes of the result and of the tensor to which it is written.

    Returns
    -------
    bool
        False if a category would be lost: complex to real, floats to integers, anything else to bool.

    Raises
    ------
    TypeError
        One of the arguments is not a torch dtype.
    """
    source, target = as_dtype(source), as_dtype(target)
    if is_complex(source) and not is_complex(target):
        return False
    if is_floating(source) and category(target) < 2:
        return False
    return not (source != bool_ and target == bool_)


# ---------------------------------------------------------------- conversion


def cast(x: ndarray, dtype: np.dtype) -> ndarray:
    """Convert values as torch does; return ``x`` itself if it already has the dtype.

    Integers wrap. A complex number that becomes real loses its imaginary part. float64 and integers are converted to
    the half types and float8s through float32 (two roundings, as in c10::Half). float8_e4m3fn saturates. NaN, and
    floats that do not fit an integer dtype, give the result of x86's scalar instruction on every processor
    (`float_to_integer`). torch agrees on x86, except where its vector code converts to uint32 and uint64.
    """
    source = x.dtype
    if source is dtype:
        return x
    if (source, dtype) in _PLAINLY:
        return x.astype(dtype)
    if source == dtype:
        return x
    if dtype == bool_:
        return np.asarray(x != 0)  # comparing a 0-d array returns a NumPy scalar
    if _CATEGORY[source] == 3 and _CATEGORY[dtype] != 3:
        x = x.astype(complex64).real if source in HALF_COMPLEXES else x.real
        return cast(x, dtype)
    if dtype in HALF_COMPLEXES:
        return x.astype(complex64).astype(dtype)
    if source in HALF_COMPLEXES:
        return x.astype(complex64).astype(dtype, copy=False)
    through = _OPMATH.get(dtype)
    if through is not None:
        x = x.astype(through, copy=False)
        return _to_float8(x, dtype) if dtype in FLOAT8S else x.astype(dtype)
    if source in _OPMATH:
        x = x.astype(float32)
        if source in _NAN_IS_ZERO and dtype.kind in "iu":
            x = np.where(np.isnan(x), np.float32(0), x)
    if x.dtype.kind == "f" and dtype.kind in "iu":
        return to_integer(x, dtype)
    return x.astype(dtype, copy=False)


# Dtypes whose NaN becomes 0 when torch converts it to an integer.
_NAN_IS_ZERO = (float8_e4m3fnuz, float8_e5m2fnuz, float8_e8m0fnu)
# Floats that NumPy converts as torch does. float64 to a half type is not among them, because torch converts through
# float32.
_PLAINLY = frozenset((a, b) for a in FLOATS for b in FLOATS if a is not b and not (a is float64 and b in HALVES))


def _to_float8(x: ndarray, dtype: np.dtype) -> ndarray:
    if dtype == float8_e4m3fn and since("2.13"):  # before 2.13, values that are too large became nan
        return np.asarray(np.clip(x, -448.0, 448.0).astype(dtype))
    # The dtype has only an exponent: the sign is dropped, and zero becomes the smallest power.
    if dtype == float8_e8m0fnu:
        return np.maximum(np.abs(x), np.float32(2.0**-127)).astype(dtype)
    out = x.astype(dtype)
    if dtype == float8_e5m2:
        out.view(uint8)[np.isnan(x)] |= 1  # torch's NaN has all bits set
    return out
