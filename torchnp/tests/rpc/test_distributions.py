"""torch's distributions over handles: shapes and dtypes of samples, and computed values, are torch's."""

from __future__ import annotations

import contextlib

import pytest
import torch
import torch.distributions as D

from torchnp import rpc
from torchnp.engine.tensor.handles import BaseHandleTensor

CASES = {
    "Bernoulli": lambda a: D.Bernoulli(a / 4),
    "Bernoulli-logits": lambda a: D.Bernoulli(logits=a),
    "Beta": lambda a: D.Beta(a, 2 * a),
    "Binomial": lambda a: D.Binomial(5, a / 4),
    "Categorical": lambda a: D.Categorical(a),
    "Cauchy": lambda a: D.Cauchy(a, a),
    "Chi2": lambda a: D.Chi2(a),
    "ContinuousBernoulli": lambda a: D.ContinuousBernoulli(a / 4),
    "Dirichlet": lambda a: D.Dirichlet(a),
    "Exponential": lambda a: D.Exponential(a),
    "FisherSnedecor": lambda a: D.FisherSnedecor(a, a + 6),
    "Gamma": lambda a: D.Gamma(a, a),
    "GeneralizedPareto": lambda a: D.GeneralizedPareto(a, a, a / 8),
    "Geometric": lambda a: D.Geometric(a / 4),
    "Gumbel": lambda a: D.Gumbel(a, a),
    "HalfCauchy": lambda a: D.HalfCauchy(a),
    "HalfNormal": lambda a: D.HalfNormal(a),
    "Independent": lambda a: D.Independent(D.Normal(a, a), 1),
    "InverseGamma": lambda a: D.InverseGamma(a + 3, a),
    "Kumaraswamy": lambda a: D.Kumaraswamy(a, a),
    "LKJCholesky": lambda a: D.LKJCholesky(3, a[0]),
    "Laplace": lambda a: D.Laplace(a, a),
    "LogNormal": lambda a: D.LogNormal(a, a / 4),
    "LogisticNormal": lambda a: D.LogisticNormal(a, a),
    "LowRankMultivariateNormal": lambda a: D.LowRankMultivariateNormal(a, torch.diag(a)[:, :2], a),
    "MixtureSameFamily": lambda a: D.MixtureSameFamily(D.Categorical(a), D.Normal(a, a)),
    "Multinomial": lambda a: D.Multinomial(5, a),
    "MultivariateNormal": lambda a: D.MultivariateNormal(a, torch.diag(a)),
    "MultivariateNormal-precision": lambda a: D.MultivariateNormal(a, precision_matrix=torch.diag(a)),
    "MultivariateNormal-tril": lambda a: D.MultivariateNormal(a, scale_tril=torch.diag(a)),
    "NegativeBinomial": lambda a: D.NegativeBinomial(5, a / 4),
    "Normal": lambda a: D.Normal(a, a),
    "OneHotCategorical": lambda a: D.OneHotCategorical(a),
    "OneHotCategoricalStraightThrough": lambda a: D.OneHotCategoricalStraightThrough(a),
    "Pareto": lambda a: D.Pareto(a, a + 4),
    "Poisson": lambda a: D.Poisson(a),
    "RelaxedBernoulli": lambda a: D.RelaxedBernoulli(a[0], a / 4),
    "RelaxedOneHotCategorical": lambda a: D.RelaxedOneHotCategorical(a[0], a),
    "StudentT": lambda a: D.StudentT(a + 5, a, a),
    "TransformedDistribution": lambda a: D.TransformedDistribution(D.Normal(a, a / 4), [D.ExpTransform()]),
    "Uniform": lambda a: D.Uniform(a - 1, a),
    "VonMises": lambda a: D.VonMises(a, a),
    "Weibull": lambda a: D.Weibull(a, a + 1),
}
PARAMETERS = torch.tensor([0.5, 1.0, 2.0])
DRAWS = 2000
# Distributions without a variance, or whose variance needs more samples.
WILD = {"Cauchy", "HalfCauchy", "Categorical", "LKJCholesky", "LogisticNormal", "FisherSnedecor",
  "OneHotCategoricalStraightThrough"}  # fmt: skip


@pytest.fixture(scope="module")
def session():
    with rpc.local() as s:
        yield s


def outcomes(distribution, value):
    """Return what a distribution computes, by name; some distributions lack some methods."""
    found = {}
    for name in ("log_prob", "cdf", "entropy", "mean", "stddev"):
        if name == "stddev" and isinstance(distribution, D.StudentT):
            continue  # it selects elements by their values
        with contextlib.suppress(NotImplementedError, AttributeError):
            made = getattr(distribution, name)
            found[name] = made(value) if name in ("log_prob", "cdf") else made() if name == "entropy" else made
    return found


@pytest.mark.parametrize("name", CASES)
def test_distributions(session, name):
    theirs, mine = CASES[name](PARAMETERS), CASES[name](session.send(PARAMETERS))
    for shape in ((), (4, 2)):
        torch.manual_seed(1)
        want = theirs.sample(shape)
        torch.manual_seed(1)
        got = mine.sample(shape)
        assert isinstance(got, BaseHandleTensor)
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
    assert mine.has_rsample == theirs.has_rsample
    if theirs.has_rsample:
        assert mine.rsample().shape == theirs.rsample().shape
    assert mine.expand((2, *mine.batch_shape)).sample().shape == theirs.expand((2, *theirs.batch_shape)).sample().shape
    wanted, found = outcomes(theirs, want), outcomes(mine, session.send(want))
    torch.testing.assert_close(session.publish(found), wanted, rtol=1e-4, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("name", sorted(CASES.keys() - WILD))
def test_draws_are_of_the_distribution(session, name):
    """The means of samples are within six of their standard deviations."""
    theirs, mine = CASES[name](PARAMETERS), CASES[name](session.send(PARAMETERS))
    torch.manual_seed(2)
    draws = mine.sample((DRAWS,)).double().publish()
    if name == "VonMises":  # its mean and variance are those of angles
        draws, want = torch.cos(draws - PARAMETERS), 1 - theirs.variance
        spread = torch.ones(3)
    elif name in ("RelaxedBernoulli", "RelaxedOneHotCategorical", "TransformedDistribution"):
        more = theirs.sample((DRAWS,)).double()
        want, spread = more.mean(0), 2 * more.std(0)
    else:
        want, spread = theirs.mean, theirs.stddev
    assert ((draws.mean(0) - want).abs() <= 6 * spread / DRAWS**0.5 + 1e-3).all()


@pytest.mark.parametrize(
    "look",
    [
        lambda a: D.Normal(a, a, validate_args=True),
        lambda a: D.Wishart(a[0] + 4, torch.diag(a)),
        lambda a: D.StudentT(a).variance,
        lambda a: D.Dirichlet(a).mode,
        lambda a: D.Beta(a, a).mode,
    ],
)
def test_what_looks_at_values_is_refused(session, look):
    with pytest.raises(rpc.ValueAccessError):
        look(session.send(PARAMETERS))


def test_shapes_of_values_are_checked_all_the_same(session, monkeypatch):
    # Torch's compiler switches this off when it is imported.
    monkeypatch.setattr(D.Distribution, "_validate_args", True)
    theirs = D.MultivariateNormal(PARAMETERS, torch.eye(3))
    with pytest.raises(ValueError, match="right-most size"):
        theirs.log_prob(session.send(torch.ones(2)))
    with pytest.raises(ValueError, match="does not broadcast"):
        D.Normal(PARAMETERS, 1.0).log_prob(session.send(torch.ones(2)))
    with pytest.raises(ValueError, match="Expected parameter scale"):
        D.Normal(0.0, torch.tensor(-1.0))  # for plain tensors as before
