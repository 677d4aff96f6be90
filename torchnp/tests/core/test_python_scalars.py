"""Python numbers converted to every dtype, against torch, through ops that convert them in each of torch's ways."""

import itertools

import numpy as np
import pytest
import torch

import torchnp
from torchnp import dtypes as dt
from torchnp.core import python_scalars
from torchnp.interop import to_numpy, to_torch

TORCH = {d: getattr(torch, dt.dtype_name(d)) for d in dt.ALL}

_LIMITS = [n for bits in (7, 8, 15, 16, 31, 32, 63, 64) for n in (2**bits - 1, 2**bits)]
INTS = [0, 1, 2, *_LIMITS, *(-n for n in [1, 2, *_LIMITS]), -(2**63) - 1, -129, 10**400]
FLOATS = [
    0.0, -0.0, 0.5, -0.5, -0.99, -1.0, 1.5, 127.5, 128.0, 255.5, 256.0, 1e-40, 1e-320, 1e10, -1e10, 2.0**63, 2.0**64,
    9.3e18, 1.9e19, np.inf, -np.inf, np.nan, 240.0, 241.0, 448.0, 449.0, 465.0, 57344.0, 57345.0, 61440.0, 65504.0,
    65519.0, 65520.0, 2.0**127, 3.3895e38, 3.395e38, 3.4e38, 3.5e38, -3.5e38, 1e300,
]  # fmt: skip
COMPLEX = [
    1 + 0j, 0j, 1j, 0.5j, -1 + 0j, 255.5 + 0j, 256 + 0j, 70000 + 0j, 70000j, 2.0**63 + 0j, 1e39 + 0j, 1e300 + 0j,
    complex(np.inf, 0), complex(np.nan, 0), complex(0, np.nan), complex(0, np.inf), complex(1, -0.0), complex(-0.0, 0),
]  # fmt: skip
NUMBERS = [True, False, *INTS, *FLOATS, *COMPLEX]

# Each op with its arguments: "x" stands for zeros, "1" for ones of the dtype, "v" for the number.
OPS = {
    # these check the range
    "fill.Scalar": ("x", "v"),
    "full_like": ("x", "v"),
    "constant_pad_nd": ("x", [1, 1], "v"),
    "masked_fill.Scalar": ("x", np.array([True, True]), "v"),
    "index_fill.int_Scalar": ("x", 0, np.array([0, 1]), "v"),
    "scatter.value": ("x", 0, np.array([0, 1]), "v"),
    "threshold": ("x", 1, "v"),
    "index_add": ("x", 0, np.array([0, 1]), "1", {"alpha": "v"}),
    "addcmul": ("x", "1", "1", {"value": "v"}),
    "addmm": ("m", "m", "m", {"beta": "v"}),
    "addmv": ("x", "m", "x", {"beta": "v"}),
    "addr": ("m", "1", "1", {"alpha": "v"}),
    "add.Tensor": ("x", "1", {"alpha": "v"}),
    "lerp.Scalar": ("x", "1", "v"),
    "hardshrink": ("1", "v"),
    "pow.Tensor_Scalar": ("1", "v"),
    "clamp": ("x", "v", "v"),
    "clamp_max": ("x", "v"),
    "arange.start_step": (0, 3, "v", {"dtype": "d"}),
    # these convert to dtypes narrower than float without a check
    "scalar_tensor": ("v", {"dtype": "d"}),
    "where.ScalarOther": (np.array([False, True]), "x", "v"),
    # these convert without a check
    "copy": ("x", "v"),
    "mul.Tensor": ("1", "v"),
    "eq.Scalar": ("1", "v"),
}


def arguments(given, dtype, number, array, name):
    *args, named = given if isinstance(given[-1], dict) else (*given, {})

    def made(a):
        if isinstance(a, np.ndarray):
            return array(a)
        if not isinstance(a, str):
            return a
        zeros = {"x": lambda: np.zeros(2, dtype), "m": lambda: np.zeros((2, 2), dtype), "1": lambda: np.ones(2, dtype)}
        return number if a == "v" else name(dtype) if a == "d" else array(zeros[a]())

    return [made(a) for a in args], {k: made(v) for k, v in named.items()}


def outcome(f, args, named):
    """Return the values as text, with nan unsigned, or the class and first line of the error."""
    try:
        out = f(*args, **named)
    except Exception as error:  # torch is the oracle, whatever it raises
        return type(error).__name__, str(error).partition("\n")[0]
    out = to_numpy(out) if isinstance(out, torch.Tensor) else np.asarray(out)
    wide = dt.cast(out, dt.complex128) if dt.is_inexact(out.dtype) else out
    return str(out.dtype), [str(x).replace("-nan", "nan") for x in wide.reshape(-1)]


@pytest.mark.parametrize("op", OPS)
def test_a_number_in_every_dtype(op):
    base, _, overload = op.partition(".")
    theirs = getattr(getattr(torch.ops.aten, base), overload or "default")
    ours = torchnp.table[f"aten::{op}"]
    wrong = []
    for dtype, number in itertools.product(dt.ALL, NUMBERS):
        if op == "arange.start_step" and abs(number) < 0.5:
            continue  # more elements than memory holds
        args = arguments(OPS[op], dtype, number, to_torch, TORCH.get)
        expected = outcome(theirs, *args)
        found = outcome(ours, *arguments(OPS[op], dtype, number, lambda a: a, dt.dtype_name))
        if found != expected:
            wrong.append((str(dtype), str(number)[:24], expected, found))
    assert not wrong, (len(wrong), wrong[:5])


@pytest.mark.parametrize("convert", [python_scalars.number, python_scalars.scalar])
def test_what_is_remembered_cannot_be_written(convert):
    made = convert(3, dt.float32)
    assert made is convert(3, dt.float32)
    assert not made.flags.writeable
    assert np.signbit(convert(-0.0, dt.float64))
    assert not np.signbit(convert(0.0, dt.float64))
    assert np.signbit(convert(complex(0.0, -0.0), dt.complex64).imag)


@pytest.mark.parametrize("dtype", dt.ALL, ids=str)
def test_item(dtype):
    x = torch.ones(1, dtype=TORCH[dtype])
    assert python_scalars.item(to_numpy(x)) == x.item()
    assert type(python_scalars.item(to_numpy(x))) is type(x.item())


@pytest.mark.parametrize("number", [2**63, 2**64, -(2**63), -(2**63) - 1, 10**400])
def test_integers_that_are_no_int64(number):
    x = torch.ones(3)
    for op, args in (("squeeze.dim", (number,)), ("sum.dim_IntList", ([number],)), ("huber_loss", (x, 1, number))):
        base, _, overload = op.partition(".")
        expected = outcome(getattr(getattr(torch.ops.aten, base), overload or "default"), (x, *args), {})
        found = outcome(torchnp.table[f"aten::{op}"], (to_numpy(x), *(to_numpy(a) if a is x else a for a in args)), {})
        assert found == expected, op
