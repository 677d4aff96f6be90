"""The discrete Gaussian: each decision is exact, and the distribution is right."""

from __future__ import annotations

import inspect
import math
import random
import time
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from torchnp.rpc.server.privacy import noise

SIGMAS = [(3, 10), (1, 1), (15, 2), (355, 1), (10_000, 1)]


def _fits(samples, sigma):
    """Return the p-value of a chi-square test in at most 400 bins with at least 5 expected samples each."""
    reach = math.ceil(sigma * 12) + 2
    support = np.arange(-reach, reach + 1)
    weights = np.exp(-((support / sigma) ** 2) / 2)
    cumulative = np.cumsum(weights / weights.sum())
    least = max(5 / len(samples), 1 / 400)
    edges = [0]
    for i, c in enumerate(cumulative):
        if c - (cumulative[edges[-1] - 1] if edges[-1] else 0) >= least:
            edges.append(i + 1)
    edges[-1] = len(support)
    expected = np.diff([0, *[cumulative[e - 1] for e in edges[1:]]]) * len(samples)
    assert abs(samples).max() <= reach
    places = np.searchsorted(edges[1:-1], samples + reach, side="right")
    return stats.chisquare(np.bincount(places, minlength=len(expected)), expected).pvalue


@pytest.mark.parametrize(("p", "q"), SIGMAS)
def test_samples_fit_the_exact_distribution(p, q):
    # The entropy has no seed. One failure in a million runs is chance; three of them in a row are a fault.
    assert any(_fits(noise.discrete_gaussian(300_000, p, q), p / q) > 1e-6 for _ in range(3))


def test_a_wrong_sigma_is_noticed():
    assert (
        _fits(noise.discrete_gaussian(300_000, 10_000), 10_400) < 1e-6
    )  # a divergence of 2% may pass once in some thousand runs
    assert _fits(noise.discrete_gaussian(300_000, 1) + 1, 1) < 1e-6


@pytest.mark.parametrize(("p", "q"), SIGMAS)
def test_the_slow_path_alone_gives_the_same_distribution(p, q, monkeypatch):
    """The tables leave every comparison undecided, so each is decided with digits computed for it."""
    undecided = lambda k, r, p: (np.zeros(len(k), np.int64), np.full(len(k), 2**31))
    monkeypatch.setattr(noise, "_threshold_bounds", undecided)
    monkeypatch.setattr(
        noise, "_draw_k", lambda words: (k := np.array([noise._k_of(int(w), 64) for w in words]), k >= 0)
    )
    assert any(_fits(noise.discrete_gaussian(4000, p, q), p / q) > 1e-6 for _ in range(3))


def test_the_bounds_of_the_fast_path_hold():
    draw = random.Random(0)
    p = np.array([draw.choice([1, 3, 10, 10_000, 2**20, 2**32 - 5, 2**32]) for _ in range(4000)])
    k = np.array([draw.randrange(0, 16) for _ in p])
    r = np.array([draw.choice([0, 1, n - 1, draw.randrange(n)]) % n for n in map(int, p)])
    for n in set(p.tolist()):
        at = p == n
        low, high = noise._threshold_bounds(k[at], r[at], n)
        for i, (a, b) in enumerate(zip(k[at].tolist(), r[at].tolist())):
            least, most = noise._exp_bounds(b * (2 * a * n + b), 2 * n * n, 31 + 64)
            assert low[i] <= least >> 64 and most <= int(high[i]) << 64, (a, b, n)
            assert high[i] - low[i] < 200


def test_a_k_beyond_the_tables_is_left_to_the_slow_path():
    low, high = noise._threshold_bounds(np.array([16]), np.array([1]), 3)
    assert (low[0], high[0]) == (0, 2**31)


def test_exp_is_enclosed():
    from mpmath import mp

    for a, b, bits in [(0, 1, 64), (1, 2, 95), (7, 3, 300), (200, 1, 128), (1, 2**40, 200)]:
        with mp.workdps(200):
            exact = mp.exp(-mp.mpf(a) / b) * mp.mpf(2) ** bits
            low, high = noise._exp_bounds(a, b, bits)
            assert low <= exact <= high and high - low <= 3


def test_the_tables_of_k_end_where_the_sum_does():
    lows, highs = zip(*[noise._exp_bounds(i * i, 2, 63 + 64) for i in range(60)])
    for k, floor in enumerate(noise._k_bounds().tolist()):
        assert floor == sum(lows[: k + 1]) >> 64 == sum(highs[: k + 1]) >> 64
    assert sum(highs) + 1 >> 64 == floor


def test_a_k_at_the_edge_is_drawn_with_more_bits(monkeypatch):
    edge = int(noise._k_bounds()[1])
    for extra, want in ((0, 1), (2**64 - 1, 2)):
        monkeypatch.setattr(noise.secrets, "randbits", lambda bits: extra)
        k, kept = noise._draw_k(np.array([edge], np.uint64))
        assert kept[0] and k[0] == want
    k, kept = noise._draw_k(np.array([2**64 - 1], np.uint64))
    assert not kept[0]


def test_comparisons_at_the_edge_draw_more_bits(monkeypatch):
    floor = noise._exp_bounds(1, 2, 31 + 64)[0] >> 64
    for extra, below in ((0, True), (2**64 - 1, False)):
        monkeypatch.setattr(noise.secrets, "randbits", lambda bits: extra)
        assert noise._below_exp(floor, 31, 1, 2) is below


def test_large_sigmas_reach_the_width_that_they_say():
    for sigma in (1 << 20, (1 << 32) - 1, 1 << 32):
        spread = noise.discrete_gaussian(100_000, sigma).std() / sigma
        assert 0.98 < spread < 1.02
    assert noise.discrete_gaussian(0, 5).size == 0
    with pytest.raises(ValueError, match="integers from 1 to 2\\*\\*32"):
        noise.discrete_gaussian(1, (1 << 32) + 1)
    with pytest.raises(ValueError, match="integers from 1"):
        noise.discrete_gaussian(1, 0)


def test_no_function_takes_a_seed():
    for name, function in inspect.getmembers(noise, inspect.isfunction):
        assert not {"seed", "generator", "rng"} & set(inspect.signature(function).parameters), name
    source = inspect.getsource(noise)
    assert "np.random" not in source and "import random" not in source


def _in_pure_python(sigma2, draw=random.SystemRandom()):
    """The sampler of Canonne, Kamath and Steinke, as in their paper."""

    def bernoulli(f):
        return draw.randrange(f.denominator) < f.numerator

    def bernoulli_exp1(x):
        k = 1
        while bernoulli(x / k):
            k += 1
        return k % 2 == 1

    def bernoulli_exp(x):
        while x > 1:
            if not bernoulli_exp1(Fraction(1)):
                return False
            x -= 1
        return bernoulli_exp1(x)

    def laplace(t):
        while True:
            u = draw.randrange(t)
            if not bernoulli_exp(Fraction(u, t)):
                continue
            v = 0
            while bernoulli_exp1(Fraction(1)):
                v += 1
            n = u + t * v
            if draw.randrange(2):
                if n:
                    return -n
            else:
                return n

    t = math.isqrt(sigma2) + 1
    while True:
        y = laplace(t)
        if bernoulli_exp((abs(y) - Fraction(sigma2, t)) ** 2 / (2 * sigma2)):
            return y


def test_it_is_faster_than_a_loop_in_python():
    noise.discrete_gaussian(1000, 100)
    start = time.perf_counter()
    noise.discrete_gaussian(200_000, 100)
    ours = 200_000 / (time.perf_counter() - start)
    start = time.perf_counter()
    theirs_drawn = np.array([_in_pure_python(100**2) for _ in range(2000)])
    theirs = 2000 / (time.perf_counter() - start)
    assert 85 < theirs_drawn.std() < 115
    assert ours > 20 * theirs, f"{ours:,.0f} values/s, {ours / theirs:.0f} times a loop in Python"
