"""Prims on other libraries' arrays, written with the array API standard, give the results of torch's functions."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest
import torch

from torchnp import table
from torchnp.interop import to_numpy

FLAGS = torch.tensor([[True, False, False], [True, True, False]])
INTS = torch.tensor([[-7, 5, 0], [2, -9, 12]])
REALS = torch.tensor([[0.5, -1.75, 3.25], [-0.0, 2.5, -6.125]])
DOUBLES = REALS.double() + 2.0**-40
COMPLEX = torch.complex(REALS, REALS.flip(1) * 3)
KINDS = {"bool": FLAGS, "int64": INTS, "float32": REALS, "float64": DOUBLES, "complex64": COMPLEX}
ORDERED = ["bool", "int64", "float32", "float64"]


@pytest.fixture(params=["strict", "torch"])
def library(request):
    """A library: how to convert an array to it, and back."""
    if request.param == "torch":
        return (lambda t: t.clone()), (lambda y: y)
    return (lambda t: array_api_strict.asarray(to_numpy(t))), (lambda y: torch.from_numpy(np.array(np.asarray(y))))


def same(ours, theirs, **near):
    torch.testing.assert_close(ours, theirs, **(near or {"rtol": 0, "atol": 0}))


# ---------------------------------------------------------------- reductions

DIMS = [[0], [1], [0, 1], []]


def over(t, f, dims):
    """Apply ``f`` to one dimension after another; no ``dims`` means all."""
    for d in sorted(dims or range(t.ndim), reverse=True):
        t = f(t, d)
    return t


@pytest.mark.parametrize("dims", DIMS)
@pytest.mark.parametrize("dtype", KINDS)
def test_sums(library, dtype, dims):
    into, out = library
    same(out(table["prims::sum"](into(KINDS[dtype]), dims)), KINDS[dtype].sum(dims or None), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dims", DIMS)
@pytest.mark.parametrize("dtype", ORDERED)
def test_extrema(library, dtype, dims):
    into, out = library
    for t in (KINDS[dtype], ~KINDS[dtype] if dtype == "bool" else -KINDS[dtype]):
        same(out(table["prims::amax"](into(t), dims)), t.amax(dims))
        same(out(table["prims::amin"](into(t), dims)), t.amin(dims))


@pytest.mark.parametrize("dims", DIMS)
@pytest.mark.parametrize("dtype", ["bool", "int64", "float32", "complex64"])
def test_products(library, dtype, dims):
    into, out = library
    t = KINDS[dtype] if dtype == "bool" else KINDS[dtype] + 1
    given = into(t)
    found = out(table["prims::prod"](given, dims))
    same(found, over(t, torch.prod, dims) if dims else t, rtol=1e-6, atol=1e-6)
    assert dims or out(table["prims::prod"](given, dims)) is not given


@pytest.mark.parametrize("correction", [0, 1, None, 1.5])
@pytest.mark.parametrize("dims", DIMS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_variances(library, dtype, dims, correction):
    into, out = library
    found = out(table["prims::var"](into(KINDS[dtype]), dims, correction))
    want = KINDS[dtype].var(dims or None, correction=1 if correction is None else correction)
    same(found, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["sum", "amax", "amin", "var"])
def test_of_one_number(library, name):
    into, out = library
    one, options = torch.tensor(2.5), {"correction": 0} if name == "var" else {}
    for dims in ([], [0]):
        same(out(table[f"prims::{name}"](into(one), dims, **options)), torch.tensor(0.0) if options else one)


# ---------------------------------------------------------------- element by element


@pytest.mark.parametrize("dtype", ["int64", "float32", "float64"])
def test_remainders_have_the_sign_of_the_dividend(library, dtype):
    into, out = library
    t = KINDS[dtype]
    for by in (3, -3, 4):
        divisor = torch.full_like(t, by)
        same(out(table["prims::fmod"](into(t), into(divisor))), t.fmod(divisor))
    swapped = torch.tensor([[2, 3, 4], [5, -6, 7]], dtype=t.dtype)
    same(out(table["prims::fmod"](into(t), into(swapped))), t.fmod(swapped))


@pytest.mark.parametrize("dtype", ORDERED)
def test_signs(library, dtype):
    into, out = library
    t = KINDS[dtype]
    same(out(table["prims::signbit"](into(t))), t.signbit())
    same(out(table["prims::sign"](into(t))), t.sign())


@pytest.mark.parametrize("to", KINDS)
@pytest.mark.parametrize("dtype", KINDS)
def test_conversions(library, dtype, to):
    into, out = library
    want = KINDS[dtype].real if dtype == "complex64" and to != "complex64" else KINDS[dtype]
    found = out(table["prims::convert_element_type"](into(KINDS[dtype]), to))
    same(found, want.to(KINDS[to].dtype))


def test_conversions_of_double_complex_numbers(library):
    into, out = library
    wide = COMPLEX.to(torch.complex128)
    same(out(table["prims::convert_element_type"](into(wide), "float32")), REALS)
    same(out(table["prims::convert_element_type"](into(wide), "complex64")), COMPLEX)


def test_what_the_standard_has_no_function_for(library):
    into, out = library
    same(out(table["prims::lgamma"](into(DOUBLES))), torch.lgamma(DOUBLES), rtol=1e-12, atol=1e-12)
    mantissa, exponent = table["prims::frexp"](into(REALS))
    same(out(mantissa), torch.frexp(REALS).mantissa)
    same(out(exponent), torch.frexp(REALS).exponent)
    same(out(table["prims::gcd"](into(INTS), into(INTS + 6))), torch.gcd(INTS, INTS + 6))
    same(out(table["prims::zeta"](into(DOUBLES.abs() + 2), into(DOUBLES.abs() + 1))),
         torch.special.zeta(DOUBLES.abs() + 2, DOUBLES.abs() + 1), rtol=1e-12, atol=1e-12)  # fmt: skip
    assert type(table["prims::lgamma"](into(DOUBLES))) is type(into(DOUBLES)) is type(mantissa)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("shape", [(), (1, 1)])
def test_the_only_element_is_a_number(library, dtype, shape):
    into, _ = library
    one = KINDS[dtype][0, 0].reshape(shape)
    found = table["prims::item"](into(one))
    assert found == one.item() and type(found) is type(one.item())


# ---------------------------------------------------------------- transforms

SIGNAL = torch.linspace(-1, 2, 60, dtype=torch.float64).view(3, 4, 5).sin()
WAVES = torch.complex(SIGNAL, SIGNAL.flip(2).cos())


def near(found, want):
    torch.testing.assert_close(found, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dim", [[0], [1], [2], [0, 2], [1, 0], [0, 1, 2]])
def test_transforms(library, dim):
    into, out = library
    r2c, c2c, c2r = (table[f"prims::fft_{name}"] for name in ("r2c", "c2c", "c2r"))
    near(out(r2c(into(SIGNAL), dim=dim, onesided=True)), torch.fft.rfftn(SIGNAL, dim=dim))
    near(out(r2c(into(SIGNAL), dim=dim, onesided=False)), torch.fft.fftn(SIGNAL, dim=dim))
    near(out(c2c(into(WAVES), dim=dim, forward=True)), torch.fft.fftn(WAVES, dim=dim))
    near(out(c2c(into(WAVES), dim=dim, forward=False)), torch.fft.ifftn(WAVES, dim=dim, norm="forward"))
    most = (WAVES.shape[dim[-1]] - 1) * 2
    for last in (most, most + 1, most - 1, 3):
        sizes = [WAVES.shape[d] for d in dim[:-1]] + [last]
        want = torch.fft.irfftn(WAVES, s=sizes, dim=dim, norm="forward")
        near(out(c2r(into(WAVES), dim=dim, last_dim_size=last)), want)
