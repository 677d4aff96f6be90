"""Releases: the sensitivity that is paid for is the actual one, and what a session learns about them."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy import stats

from torchnp import rpc
from torchnp.rpc.exceptions import PrivacyError
from torchnp.rpc.server.privacy import accountant, publish_rows
from torchnp.rpc.server.privacy.ledger import Ledger
from torchnp.rpc.server.privacy.noise import discrete_gaussian
from torchnp.rpc.server.privacy.release import draw, lattice_rows, plan
from torchnp.rpc.server.privacy.row_labels import Mixed, Rows

ROWS = Rows("d", 0)
DELTA = 1e-6

NASTY = {
    "small": lambda r: r.normal(size=(50, 7)) * 1e-3,
    "large": lambda r: r.normal(size=(50, 7)) * 1e200,
    "tiny": lambda r: r.normal(size=(50, 7)) * 1e-310,
    "on the sphere": lambda r: (x := r.normal(size=(50, 7))) / np.linalg.norm(x, axis=1, keepdims=True) * 0.7,
    "nan and inf": lambda r: np.where(r.random((50, 7)) < 0.1, np.nan, np.where(r.random((50, 7)) < 0.1, np.inf, 5.0)),
    "one entry": lambda r: np.eye(50, 7) * 10.0 ** r.integers(-300, 300, (50, 1)),
    "float32": lambda r: r.normal(size=(50, 7)).astype(np.float32) * 1e30,
    "int64": lambda r: r.integers(-(2**63), 2**63 - 1, (50, 7)),
    "wide": lambda r: r.normal(size=(3, 100_000)),
    "empty": lambda r: np.zeros((4, 0)),
}


@pytest.mark.parametrize("make", NASTY.values(), ids=NASTY)
@pytest.mark.parametrize(("clip", "sigma"), [(0.7, 3.0), (1e-5, 1e-3), (123.0, 0.5), (1.0, 1e5)])
def test_rows_on_the_lattice_are_within_the_bound(make, clip, sigma):
    array = make(np.random.default_rng(0))
    release = plan(ROWS, array, "sum", clip, sigma, None, DELTA)
    units = lattice_rows(array.astype(np.float64), release)
    norms = [sum(int(v) ** 2 for v in row) for row in units]
    assert max(norms, default=0) <= release.bound**2
    assert release.bound * Fraction(2) ** release.exponent <= Fraction(clip)
    # The charge is the exact rho of the sensitivity on the lattice, and at least the requested rho.
    assert (
        release.rho == Fraction(4 * release.bound**2, 2 * release.noise**2) <= accountant.gaussian_rho(2 * clip, sigma)
    )
    assert release.noise >= 2**20


def test_rows_keep_their_values_but_for_clipping():
    rng = np.random.default_rng(0)
    array = rng.normal(size=(300, 5))
    release = plan(ROWS, array, "sum", 1.5, 2.0, None, DELTA)
    norms = np.linalg.norm(array, axis=1, keepdims=True)
    clipped = array * np.minimum(1, 1.5 / norms)
    assert np.abs(np.ldexp(lattice_rows(array, release), release.exponent) - clipped).max() < 1e-5


def test_a_row_is_clipped_alone():
    rng = np.random.default_rng(1)
    array = rng.normal(size=(20, 5))
    release = plan(ROWS, array, "sum", 1.0, 2.0, None, DELTA)
    other = array.copy()
    other[3] = [np.nan, 1e308, -np.inf, 0, 1]
    same = np.arange(20) != 3
    assert np.array_equal(lattice_rows(array, release)[same], lattice_rows(other, release)[same])
    assert not lattice_rows(other, release)[3].any()


@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_the_result_is_the_sum_and_noise_of_sigma(reduce, dim):
    rng = np.random.default_rng(2)
    array = np.moveaxis(rng.normal(size=(40, 30, 50)).astype(np.float32), 0, dim)
    release = plan(Rows("d", dim), array, reduce, 10.0, 0.25, None, DELTA)
    noised = draw(array, release)
    rows = np.moveaxis(array.astype(np.float64), dim, 0)
    rows *= np.minimum(1, 10 / np.sqrt((rows**2).sum((1, 2), keepdims=True)))
    want = getattr(rows, reduce)(0)
    assert noised.dtype == np.float32 and noised.shape == want.shape
    assert release.sigma == pytest.approx(0.25, rel=1e-5) and release.sigma >= 0.25
    assert stats.kstest((noised - want).ravel() / 0.25, "norm").pvalue > 1e-7
    assert not np.array_equal(noised, draw(array, release))


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 8.0])
def test_eps_is_what_a_release_costs_alone(epsilon):
    release = plan(ROWS, np.ones((30, 2)), "mean", 0.3, None, epsilon, DELTA)
    assert 0.999 * epsilon < accountant.epsilon_of(release.rho, DELTA) <= epsilon


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_an_attack_on_neighbours_stays_under_the_claimed_epsilon(epsilon):
    """Apply the best test of one row against its opposite to 200,000 releases of each; return a lower bound of
    epsilon."""
    delta, n = 1e-2, 200_000
    release = plan(ROWS, np.ones((2, 1)), "sum", 1.0, None, epsilon, delta)
    outputs = []
    for first in (1.0, -1.0):
        one = lattice_rows(np.array([[first], [0.3]]), release).sum(0)
        outputs.append(one + discrete_gaussian(n, release.noise))
    best = 0.0
    for threshold in np.quantile(outputs[1], [0.5, 0.7, 0.9, 0.97]):
        hits, misses = ((o > threshold).sum() for o in outputs)
        # Clopper and Pearson's bounds, each wrong once in a million.
        sure = stats.beta.ppf(1e-6, hits, n - hits + 1)
        most = stats.beta.ppf(1 - 1e-6, misses + 1, n - misses)
        best = max(best, math.log(max(sure - delta, 1e-12) / most))
    assert 0.4 * epsilon < best <= epsilon


def test_the_attack_would_notice_half_the_noise():
    """The same attack on releases with half the noise finds a larger epsilon than was claimed."""
    delta, n = 1e-2, 200_000
    release = plan(ROWS, np.ones((2, 1)), "sum", 1.0, None, 2.0, delta)
    plus, minus = (
        lattice_rows(np.array([[v]]), release).sum() + discrete_gaussian(n, release.noise // 2) for v in (1.0, -1.0)
    )
    threshold = np.quantile(minus, 0.97)
    sure = stats.beta.ppf(1e-6, (plus > threshold).sum(), n)
    most = stats.beta.ppf(1 - 1e-6, (minus > threshold).sum() + 1, n)
    assert math.log((sure - delta) / most) > 2.0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"label": None}, "is public: publish\\(\\) gives its exact values"),
        ({"label": Mixed("aten::sort")}, "mixes an owner's rows \\(at aten::sort\\).*vmap"),
        ({"clip": 0.0}, "clip is a norm above 0"),
        ({"clip": math.nan}, "clip is a norm above 0"),
        ({"sigma": -1.0}, "sigma is a finite number above 0"),
        ({"sigma": math.inf}, "sigma is a finite number above 0"),
        ({"sigma": None}, "sigma=, or what it may cost with eps="),
        ({"epsilon": 1.0}, "not both"),
        ({"reduce": "max"}, "reduce is 'sum' or 'mean'"),
        ({"sigma": 1e-9}, "take more noise"),
        ({"sigma": 1e-320, "clip": 1e-310}, "or another scale"),
        ({"array": np.zeros((0, 3))}, "has no rows"),
        ({"array": np.zeros((2, 3), complex)}, "view_as_real"),
    ],
)
def test_what_cannot_be_is_refused_with_the_way(change, words):
    asked = {"label": ROWS, "array": np.ones((4, 3)), "reduce": "sum", "clip": 1.0, "sigma": 1.0, "epsilon": None}
    with pytest.raises(rpc.PrivacyError, match=words):
        plan(**(asked | change), delta=DELTA)


# ---------------------------------------------------------------- in a session


@pytest.fixture
def path(tmp_path):
    ledger = Ledger(tmp_path / "l.db", create=True)
    ledger.set_budget("d", 5.0, DELTA)
    ledger.set_budget("d", 3.0, DELTA, "client")
    ledger.close()
    return tmp_path / "l.db"


def _arrays(scale=1.0):
    rng = np.random.default_rng(0)
    return {"d.x": (rng.normal(size=(60, 4)) * scale).astype(np.float32), "d.y": rng.integers(0, 2, 60)}


def test_a_session_publishes_rows_and_nothing_else(path):
    with rpc.local(datasets=_arrays(), ledger=path) as session:
        x = session.dataset("d.x")
        quote = x.quote(reduce="mean", clip=2.0, eps=1.0)
        assert quote == session.quote(x, reduce="mean", clip=2.0, eps=1.0)
        assert (quote.dataset, quote.budget, quote.spent, quote.delta) == ("d", 3.0, 0.0, DELTA)
        assert 0.999 < quote.epsilon <= 1 and quote.releases == 7
        mean = x.publish(reduce="mean", clip=2.0, eps=1.0)
        assert mean.shape == (4,) and mean.dtype == torch.float32 and type(mean) is torch.Tensor
        after = x.quote(reduce="mean", clip=2.0, eps=1.0)
        assert after.spent == pytest.approx(quote.after) and after.releases == 6
        assert x.T.publish(reduce="sum", clip=1.0, sigma=20.0).shape == (4,)
        assert session.dataset("d.y").publish(reduce="sum", clip=1.0, sigma=20.0).dtype == torch.float64
        for mixed in (x.sum(0), x @ x.T, x.flatten(), x.sort(0)[0]):
            with pytest.raises(rpc.PrivacyError, match="mixes an owner's rows"):
                mixed.publish(reduce="sum", clip=1.0, eps=0.1)
        with pytest.raises(rpc.PrivacyError, match="is public"):
            (session.send(torch.ones(3)) * 2).publish(reduce="sum", clip=1.0, eps=0.1)
        with pytest.raises(rpc.PrivacyError, match="releases noised sums of rows"):
            x.publish()
        with pytest.raises(rpc.BudgetError, match="Nothing was spent"):
            x.publish(reduce="sum", clip=1.0, eps=3.0)
        for wrong in (
            {"reduce": "sum"},
            {"clip": 1.0, "eps": 1.0},
            {"reduce": "sum", "clip": 1.0, "eps": 1.0, "sigma": 1.0},
        ):
            with pytest.raises(TypeError, match="a release takes"):
                x.publish(**wrong)
        with pytest.raises(ValueError, match="eps is a finite number"):
            x.publish(reduce="sum", clip=1.0, eps=-1)


def test_a_nest_is_published_exactly_and_a_release_is_of_one_handle(path):
    terms = {"reduce": "sum", "clip": 1.0, "sigma": 20.0}
    with rpc.local(datasets=_arrays(), ledger=path) as session:
        x, mine = session.dataset("d.x"), session.send(torch.ones(2))
        assert session.publish(x, **terms).shape == (4,)
        spent = x.quote(**terms).spent
        with pytest.raises(TypeError, match="a release is of one handle"):
            session.publish({"x": x, "again": x}, **terms)
        with pytest.raises(rpc.PrivacyError, match="releases noised sums of rows"):
            session.publish([mine, x])
        assert x.quote(**terms).spent == spent
        assert [t.tolist() for t in session.publish([mine, {"a": mine}["a"]])] == [[1, 1]] * 2
        opposite = torch._neg_view(x)  # a lazy view has the rows of its base
        assert opposite.quote(**terms) == x.quote(**terms)
        assert opposite.publish(**terms).shape == (4,)
        assert x.quote(**terms).spent > spent


def test_without_a_ledger_nothing_is_released():
    with rpc.local(datasets=_arrays()) as session:
        with pytest.raises(rpc.PrivacyError, match="no ledger.*torchnp serve --ledger FILE"):
            session.dataset("d.x").publish(reduce="sum", clip=1.0, eps=0.1)
        with pytest.raises(rpc.PrivacyError, match="no ledger"):
            session.dataset("d.x").quote(reduce="sum", clip=1.0, eps=0.1)


def test_any_two_datasets_of_one_shape_cost_the_same(tmp_path):
    spent = []
    datasets = [_arrays(), _arrays(1e30), {"d.x": np.full((60, 4), np.nan, np.float32), "d.y": np.zeros(60, int)}]
    for number, arrays in enumerate(datasets):
        ledger = Ledger(tmp_path / str(number), create=True)
        ledger.set_budget("d", 2.0, DELTA)
        ledger.set_budget("d", 2.0, DELTA, "client")
        said = []
        with rpc.local(datasets=arrays, ledger=ledger.path) as session:
            x, y = session.dataset("d.x"), session.dataset("d.y")
            asked = [
                x,
                x.relu(),
                x[:, :2] * y[:, None],
                x.sum(0),
                x.log(),
                x[torch.tensor([3, 1])],
                x.gather(1, y[:, None]),
            ]
            for handle in asked:
                for terms in ({"eps": 0.9}, {"sigma": 9.0}):
                    try:
                        said.append(handle.quote(reduce="sum", clip=1.0, **terms))
                        said.append(handle.publish(reduce="sum", clip=1.0, **terms).shape)
                    except rpc.PrivacyError as error:
                        said.append(str(error))
        spent.append((said, [(e.kind, e.units, e.body) for e in ledger.entries() if e.kind != "result"]))
    assert spent[0] == spent[1] == spent[2]
    assert len({str(x) for x in spent[0][0]}) > 5


def test_arrays_of_one_dataset_have_the_same_rows():
    with pytest.raises(ValueError, match="arrays of the dataset 'd' have 3 and 4 rows"):
        rpc.local(datasets={"d.x": np.ones((3, 2)), "d.y": np.ones(4)})


def test_a_server_process_keeps_a_ledger(path, tmp_path):
    from torchnp.tests.rpc import server_pool

    np.save(tmp_path / "x.npy", _arrays()["d.x"])
    options = ("--dataset", f"d.x={tmp_path / 'x.npy'}", "--ledger", str(path))
    with server_pool.process(*options) as (address, _), rpc.connect(address) as session:
        x = session.dataset("d.x")
        assert x.publish(reduce="sum", clip=1.0, eps=0.5).shape == (4,)
    ledger = Ledger(path)
    assert [e.kind for e in ledger.entries()] == ["budget", "grant", "debit", "result"]
    ledger.verify()


@pytest.mark.parametrize("terms", [(1e-9, 1.0, None), (1e-100, 1e-6, None), (1.0, 1e7, None)])
def test_a_release_whose_rows_vanish_is_refused(terms):
    """Rows whose norm is 0 in units of the noise would cost nothing, so such releases could be repeated without end."""
    clip, sigma, epsilon = terms
    with pytest.raises(PrivacyError, match="vanish in noise"):
        plan(Rows("d", 0), np.ones((5, 2)), "sum", clip, sigma, epsilon, 1e-6)


def test_each_release_costs_a_unit_at_least():
    made = plan(Rows("d", 0), np.ones((5, 2)), "sum", 1.0, 2.0**20.9, None, 1e-6)
    assert made.bound == 1 and publish_rows._units(made) >= 1
    vanishing = replace(made, noise=made.noise << 200)
    assert accountant.units_up(vanishing.rho) <= 1 and publish_rows._units(vanishing) == 1
    assert publish_rows._units(replace(made, bound=0)) == 1
