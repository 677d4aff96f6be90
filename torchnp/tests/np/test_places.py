"""The same functions where tensors have no values (handles), and with gradients."""

import warnings

import numpy as np
import pytest
import torch

import torchnp.np as tnp
from torchnp import rpc

pytestmark = pytest.mark.filterwarnings("ignore:Degrees of freedom:RuntimeWarning")
X = torch.from_numpy(np.random.default_rng(0).standard_normal((4, 5)))
CALLS = {
    "var": lambda n, t: n.var(t, axis=0), "std": lambda n, t: n.std(t, ddof=1), "median": lambda n, t: n.median(t, axis=1),
    "nanmean": lambda n, t: n.nanmean(n.where(t > 1, n.nan, t), axis=0), "nanvar": lambda n, t: n.nanvar(t, axis=1, ddof=1),
    "nanstd": lambda n, t: n.nanstd(n.where(t > 1, n.nan, t), axis=0, ddof=3), "nanmedian": lambda n, t: n.nanmedian(t, axis=0),
    "quantile": lambda n, t: n.quantile(t, 0.3, axis=0, method="hazen"),
    "of discrete methods": lambda n, t: n.quantile(t, [0.3, 0.9], axis=1, method="inverted_cdf", keepdims=True),
    "percentile": lambda n, t: n.percentile(t, [20, 70]), "of nans": lambda n, t: n.percentile(n.where(t > 1, n.nan, t), 50, 1),
    "average": lambda n, t: n.average(t, axis=0, weights=[1, 2, 3, 4]), "cov": lambda n, t: n.cov(t), "corrcoef": lambda n, t: n.corrcoef(t),
    "cumprod": lambda n, t: n.cumprod(t, 1), "accumulate": lambda n, t: n.multiply.accumulate(t), "diff": lambda n, t: n.diff(t, 2),
    "gradient": lambda n, t: n.gradient(t, axis=1), "trapezoid": lambda n, t: n.trapezoid(t), "clip": lambda n, t: n.clip(t, -0.5, 0.5),
    "pad": lambda n, t: n.pad(t, ((1, 2), (0, 1)), mode="symmetric"), "insert": lambda n, t: n.insert(t, 1, 7.0, axis=0),
    "delete": lambda n, t: n.delete(t, 1, 0), "append": lambda n, t: n.append(t, t), "tile": lambda n, t: n.tile(t, (2, 1)),
    "block": lambda n, t: n.block([[t, t], [t, t]]), "vander": lambda n, t: n.vander(t[0]), "kron": lambda n, t: n.kron(t, t),
    "cross": lambda n, t: n.cross(t[:, :3], t[:, 1:4]), "einsum": lambda n, t: n.einsum("ij,kj->ik", t, t), "dot": lambda n, t: n.dot(t, t.T),
    "norm": lambda n, t: n.linalg.norm(t), "nuclear norm": lambda n, t: n.linalg.norm(t, "nuc"), "pinv": lambda n, t: n.linalg.pinv(t),
    "det": lambda n, t: n.linalg.det(t[:, :4]), "solve": lambda n, t: n.linalg.solve(t[:, :4], t[:, 4]),
    "floor_divide": lambda n, t: n.floor_divide(t, 0.7), "piecewise": lambda n, t: n.piecewise(t, [t < 0, t > 1], [lambda x: -x, 5, 2]),
    "i0": lambda n, t: n.i0(t), "sinc": lambda n, t: n.sinc(t), "interp": lambda n, t: n.interp(t, [-1.0, 0, 1], [3.0, 4, 5]),
    "polyval": lambda n, t: n.polyval([1.0, 2, 3], t), "convolve": lambda n, t: n.convolve(t[0], t[1], "same"),
    "searchsorted": lambda n, t: n.searchsorted([-1.0, 0, 1], t), "digitize": lambda n, t: n.digitize(t, [-1.0, 0, 1]),
    "apply_along_axis": lambda n, t: n.apply_along_axis(lambda row: row.sum(), 0, t), "rfft": lambda n, t: n.abs(n.fft.rfft(t)),
}  # fmt: skip


def expected(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.as_tensor(np.asarray(CALLS[name](np, X.numpy())))


@pytest.fixture(scope="module")
def session():
    with rpc.local() as made:
        yield made


@pytest.mark.parametrize("name", CALLS)
def test_on_handles(session, name):
    result = CALLS[name](tnp, session.send(X))
    torch.testing.assert_close(result.publish(), expected(name), equal_nan=True)


@pytest.mark.parametrize(
    "name", [n for n in CALLS if expected(n).is_floating_point() and not expected(n).isnan().any()]
)
def test_gradients(name):
    assert torch.autograd.gradcheck(lambda t: CALLS[name](tnp, t), (X.clone().requires_grad_(),))


def test_out_may_be_an_operand():
    """NumPy's own code writes so; autograd has saved the operand."""
    x = torch.tensor([1.0, 2.0, 4.0], requires_grad=True)
    y = x * 1
    tnp.multiply(y, y, out=y)
    tnp.divide(1, y, out=y)
    tnp.clip(y, 0.1, 0.9, out=y)
    tnp.multiply.accumulate(y, out=y)
    y.sum().backward()
    z = x.detach().clone().requires_grad_()
    torch.cumprod((1 / (z * z)).clip(0.1, 0.9), 0).sum().backward()
    torch.testing.assert_close(x.grad, z.grad)


def test_what_needs_values_is_refused_in_plain_words(session):
    handle = session.send(X)
    for refused in (lambda: tnp.histogram(handle), lambda: tnp.linspace(handle[0], 1), lambda: tnp.nonzero(handle)):
        with pytest.raises(rpc.ValueAccessError, match="on the server local"):
            refused()
