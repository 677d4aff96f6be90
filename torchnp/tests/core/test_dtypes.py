"""Promotion and conversion against torch's own functions, over every dtype, tier and kind of number."""

import itertools

import numpy as np
import pytest
import torch

from torchnp import dtypes as dt
from torchnp.interop import to_numpy

TORCH = {d: getattr(torch, dt.dtype_name(d)) for d in dt.ALL}
NUMBERS = (True, 2, 2.5, 2j)


def outcome(f):
    """Return a dtype's name, or the class and text of the error."""
    try:
        return str(f()).removeprefix("torch.")
    except (RuntimeError, TypeError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("a", dt.ALL, ids=str)
def test_promote_types(a):
    for b in dt.ALL:
        expected = outcome(lambda: torch.promote_types(TORCH[a], TORCH[b]))
        assert outcome(lambda: dt.promote_types(a, b)) == expected, (a, b)


@pytest.mark.parametrize("a", dt.ALL, ids=str)
def test_result_type_of_two_tensors(a):
    for b, shape_a, shape_b in itertools.product(dt.ALL, ((), (2,)), ((), (2,))):
        tensors = torch.empty(shape_a, dtype=TORCH[a]), torch.empty(shape_b, dtype=TORCH[b])
        arrays = np.empty(shape_a, a), np.empty(shape_b, b)
        expected = outcome(lambda: torch.result_type(*tensors))
        assert outcome(lambda: dt.result_type(*arrays)) == expected, (a, shape_a, b, shape_b)


@pytest.mark.parametrize("default", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_result_type_with_numbers(default):
    torch.set_default_dtype(default)
    dt.set_default_dtype(str(default))
    try:
        for a, shape, number in itertools.product(dt.ALL, ((), (2,)), NUMBERS):
            expected = outcome(lambda: torch.result_type(torch.empty(shape, dtype=TORCH[a]), number))
            assert outcome(lambda: dt.result_type(np.empty(shape, a), number)) == expected, (a, shape, number)
        for m, n in itertools.product(NUMBERS, NUMBERS):
            assert outcome(lambda: dt.result_type(m, n)) == outcome(lambda: torch.result_type(m, n)), (m, n)
    finally:
        torch.set_default_dtype(torch.float32)
        dt.set_default_dtype("float32")


def test_result_type_of_three():
    """`where` and `addcmul` promote three operands; `torch.where` and `cat` show torch's fold."""
    for a, b, c in itertools.product((dt.int32, dt.float16, dt.float32, dt.complex64), repeat=3):
        expected = outcome(lambda: torch.cat([torch.empty(1, dtype=TORCH[x]) for x in (a, b, c)]).dtype)
        assert outcome(lambda: dt.result_type(*(np.empty(1, x) for x in (a, b, c)))) == expected


def test_can_cast():
    for a, b in itertools.product(dt.ALL, dt.ALL):
        assert dt.can_cast(a, b) == torch.can_cast(TORCH[a], TORCH[b]), (a, b)


@pytest.mark.parametrize("name", ["int64", "float8_e5m2"])
def test_default_dtype_is_a_float(name):
    expected = outcome(lambda: torch.set_default_dtype(getattr(torch, name)))
    assert outcome(lambda: dt.set_default_dtype(name)) == expected


FLOATS = [0, -0.0, 1, -1, 1.5, 2.5, -2.5, 100, 3, 127, 0.1, 1 / 3]
# Beyond the range of integer types, C does not define the conversion of floats, so these go to inexact dtypes only.
EXTREMES = [448, 449, 464, 465, 480, 57344, 61440, 65504, 65519, 65520, 70000, 1e30, -1e30, 1e-8, 6e-8, 3e-8, 2**-9]
EXTREMES += [2**-10, 2**-16, 2**-17, 1 + 2**-11 + 2**-30, 1 + 2**-8 + 2**-30, float("inf"), -float("inf"), float("nan")]
INTEGERS = [
    0,
    1,
    -1,
    3,
    100,
    127,
    -128,
    255,
    65519,
    65520,
    16777217,
    33554435,
    2**31 - 1,
    -(2**31),
    2**53 + 1,
    2**63 - 1,
]


@pytest.mark.parametrize("source", dt.ALL, ids=str)
@pytest.mark.filterwarnings("ignore:Casting complex values")
@np.errstate(all="ignore")  # kernels call cast with NumPy's warnings off
def test_cast(source):
    for target in dt.ALL:
        if dt.is_inexact(source):
            values = torch.tensor(FLOATS + (EXTREMES if dt.category(target) != 1 else []), dtype=torch.float64)
            if dt.is_complex(source):
                values = torch.complex(values, values.flip(0))
        else:
            values = torch.tensor(INTEGERS)
        tensor = values.to(TORCH[source])
        expected, got = to_numpy(tensor.to(TORCH[target])), dt.cast(to_numpy(tensor), target)
        assert got.dtype == target
        wide = np.complex128 if dt.is_complex(target) else np.float64 if dt.is_inexact(target) else target
        np.testing.assert_array_equal(
            dt.cast(got, np.dtype(wide)), dt.cast(expected, np.dtype(wide)), err_msg=f"{source} -> {target}"
        )
        if dt.is_floating(target):
            got, expected = (x.astype(np.float32) for x in (got, expected))
            zero = expected == 0
            np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(expected[zero]))


def test_as_dtype():
    assert dt.as_dtype("bfloat16") == dt.bfloat16
    assert dt.as_dtype("torch.float32") == dt.as_dtype(np.float32) == dt.float32
    assert dt.as_dtype(np.dtype(">f4")) == dt.float32
    with pytest.raises(TypeError, match="unknown dtype 'float33'"):
        dt.as_dtype("float33")
    with pytest.raises(TypeError, match="torch has no dtype"):
        dt.as_dtype(np.dtype("datetime64[s]"))
