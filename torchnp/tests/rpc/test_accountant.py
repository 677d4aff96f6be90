"""The conversion of zCDP to epsilon: never below the true value, and no looser than the formula."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from dp_accounting import dp_event
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.rdp import RdpAccountant
from scipy import stats

from torchnp.rpc.server.privacy import accountant as acc


def _exact_gaussian_delta(epsilon, mu):
    """Return delta of one Gaussian with sensitivity / sigma = mu (Balle and Wang 2018)."""
    return stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon + stats.norm.logcdf(-mu / 2 - epsilon / mu))


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-10])
@pytest.mark.parametrize("sigma", [0.5, 1.0, 4.0, 30.0, 400.0])
@pytest.mark.parametrize("releases", [1, 7, 300])
def test_never_below_the_truth_nor_above_the_orders_of_dp_accounting(sigma, releases, delta):
    rho = releases * acc.gaussian_rho(1, sigma)
    ours = acc.epsilon_of(rho, delta)
    # The composition of k Gaussians with sigma is one Gaussian with sigma / sqrt(k).
    assert _exact_gaussian_delta(ours, math.sqrt(releases) / sigma) <= delta * (1 + 1e-9)
    orders = RdpAccountant()
    orders.compose(dp_event.GaussianDpEvent(sigma), releases)
    theirs = orders.get_epsilon(delta)
    assert ours <= theirs * (1 + 1e-9)  # the other library searches among fixed orders
    assert ours <= float(rho) + 2 * math.sqrt(float(rho) * math.log(1 / delta))  # Bun and Steinke's simple bound


@pytest.mark.parametrize("sigma", [0.7, 2.0, 8.0])
@pytest.mark.parametrize("releases", [1, 20])
def test_never_below_the_loss_distribution_of_the_discrete_gaussian(sigma, releases):
    for make in (pld.from_discrete_gaussian_mechanism, pld.from_gaussian_mechanism):
        lower = make(sigma, pessimistic_estimate=False, value_discretization_interval=1e-3).self_compose(releases)
        for delta in (1e-3, 1e-6):
            ours = acc.epsilon_of(releases * acc.gaussian_rho(1, sigma), delta)
            assert lower.get_epsilon_for_delta(delta) <= ours * (1 + 1e-9), (make, delta)


def test_float_arithmetic_never_rounds_down():
    from mpmath import mp, mpf

    for rho in (1e-9, 1e-4, 0.03, 1.0, 55.0, 1e5):
        for delta in (1e-2, 1e-6, 1e-15):
            ours = acc.epsilon_of(rho, delta)
            with mp.workdps(40):
                best = min(
                    mpf(rho) * (1 + x) - mp.log((1 + x) * mpf(delta)) / x + mp.log(x / (1 + x))
                    for x in (mp.sqrt(-mp.log(mpf(delta)) / mpf(rho)) * mp.exp(mpf(i) / 400) for i in range(-800, 801))
                )
            # No order of a fine grid is better by more than the grid's step and the added rounding.
            assert best <= 0 or 0 <= (ours - best) / best + 1e-5 <= 2e-5, (rho, delta)


@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-12])
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 3.0, 40.0])
def test_inverses_keep_the_promise(epsilon, delta):
    rho = acc.rho_of(epsilon, delta)
    assert acc.epsilon_of(rho, delta) <= epsilon
    assert acc.epsilon_of(rho * Fraction(1_000_001, 1_000_000), delta) > epsilon
    sigma = acc.sigma_of(rho, 3)
    assert acc.gaussian_rho(3, sigma) <= rho
    assert acc.gaussian_rho(3, sigma * (1 - 1e-12)) > rho


def test_rounding_is_against_the_spender():
    third = Fraction(1, 3)
    assert acc.units_up(third) * acc.UNIT > third > acc.units_down(third) * acc.UNIT
    assert acc.units_up(acc.UNIT) == acc.units_down(acc.UNIT) == 1
    assert acc._up(Fraction(1, 10)) >= Fraction(1, 10)
    assert acc._up(third) >= third and acc._up(Fraction(2, 3)) >= Fraction(2, 3)
    assert acc.epsilon_of(0, 1e-6) == 0


def test_what_makes_no_sense_is_refused():
    for call, words in [
        (lambda: acc.epsilon_of(1, 0.0), "delta is between 0 and 1"),
        (lambda: acc.epsilon_of(-1, 0.5), "rho is a finite number"),
        (lambda: acc.epsilon_of(math.inf, 0.5), "rho is a finite number"),
        (lambda: acc.rho_of(0.0, 0.5), "epsilon is a finite number above 0"),
        (lambda: acc.rho_of(math.nan, 0.5), "epsilon is a finite number above 0"),
        (lambda: acc.gaussian_rho(1, 0.0), "sigma is above 0"),
        (lambda: acc.sigma_of(0, 1), "rho is above 0"),
    ]:
        with pytest.raises(ValueError, match=words):
            call()
