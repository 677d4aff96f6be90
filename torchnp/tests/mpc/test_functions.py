"""Functions compared with NumPy's, in units of the last place."""

import numpy as np
import pytest

from torchnp.mpc import functions
from torchnp.tests.mpc.sharing import Parties

# The rounding of the result and that of the argument's mantissa are one unit each; sigmoid adds two roundings, and tanh
# twice those. Larger results also have the relative error of the mantissa, 2**-22.
UNITS = {"sigmoid": 4, "tanh": 8}
RANGES = {
    "exp": (np.exp, -30, 9), "log": (np.log, 0.01, 1000), "sqrt": (np.sqrt, 0, 1000), "rsqrt": (lambda x: x**-0.5, 0.01, 1000),
    "reciprocal": (np.reciprocal, 0.01, 1000), "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), -40, 40), "tanh": (np.tanh, -20, 20),
}  # fmt: skip


@pytest.mark.parametrize("bits", [12, 18, 20])
@pytest.mark.parametrize("name", RANGES)
def test_functions_of_one_number(name, bits):
    reference, low, high = RANGES[name]
    parties = Parties(bits=bits)
    unit = 2.0**-bits
    x = np.concatenate([np.linspace(low, high, 500), np.geomspace(max(low, 0.01), high, 500)])
    x = np.rint(x / unit) * unit
    with np.errstate(over="ignore"):
        got = parties.values(getattr(functions, name)(parties.protocol, parties.numbers(x)))
    want = reference(x)
    assert (np.abs(got - want) <= UNITS.get(name, 2) * unit + 2.0**-21 * np.abs(want)).all()


def test_reciprocals_of_negative_numbers_and_of_zero():
    parties = Parties()
    with np.errstate(over="ignore"):
        got = parties.values(functions.reciprocal(parties.protocol, parties.numbers([-0.5, -3, 0])))
    assert np.allclose(got, [-2, -1 / 3, 0], atol=2.0**-15)


def test_division_has_the_error_of_the_quotient():
    """1000 / 3000 by a rounded reciprocal would be off by up to 1000 units of the last place."""
    parties, rng = Parties(), np.random.default_rng(1)
    x, y = rng.uniform(-1000, 1000, 500), rng.uniform(1, 3000, 500)
    x, y = np.rint(x * 2**16) / 2**16, np.rint(y * 2**16) / 2**16
    with np.errstate(over="ignore"):
        got = parties.values(functions.divide(parties.protocol, parties.numbers(x), parties.numbers(y)))
    assert (np.abs(got - x / y) <= 2 * 2.0**-16 + 2.0**-20 * np.abs(x / y)).all()


@pytest.mark.parametrize("n", [1, 2, 5, 8, 13])
def test_the_largest_and_the_first_of_equal_ones(n):
    parties, rng = Parties(), np.random.default_rng(2)
    x = rng.integers(-3, 3, (40, n)).astype(float)
    with np.errstate(over="ignore"):
        top, place = functions.largest(parties.protocol, parties.numbers(x), True)
        assert np.array_equal(parties.values(top), x.max(1))
        assert np.array_equal(parties.words(place), np.eye(n)[x.argmax(1)])
