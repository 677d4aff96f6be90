"""``out=`` under NumpyMode: the given tensor is written, resized by torch's rules, and returned."""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")
from torchnp.interop import NumpyMode  # noqa: E402

A = torch.tensor([[1.0, -2.0, 3.0], [0.5, 5.0, -6.0]])


def written(run, *outs):
    """Return outs and warnings after a call, and whether the call returned the given tensors."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        got = run(*outs)
    returned = got if isinstance(got, tuple) else (got,)
    return (
        outs,
        [t.stride() for t in outs],
        [str(w.message)[:90] for w in caught],
        [r is o for r, o in zip(returned, outs, strict=True)],
    )


CALLS = {
    "empty": (lambda o: torch.sin(A, out=o), lambda: [torch.empty(0)]),
    "right": (lambda o: torch.add(A, A, out=o), lambda: [torch.empty(2, 3)]),
    "smaller": (lambda o: torch.add(A, 1, out=o), lambda: [torch.empty(3)]),
    "larger": (lambda o: torch.sum(A, 0, out=o), lambda: [torch.empty(4, 4)]),
    "wider dtype": (lambda o: torch.cos(A, out=o), lambda: [torch.zeros(2, 3, dtype=torch.float64)]),
    "stepped view": (lambda o: torch.neg(A, out=o), lambda: [torch.zeros(4, 6)[::2, ::2]]),
    "transposed": (lambda o: torch.mul(A, 2, out=o), lambda: [torch.zeros(3, 2).t()]),
    "conjugate": (
        lambda o: torch.mul(A, 1 + 2j, out=o),
        lambda: [torch.zeros(2, 3, dtype=torch.complex64).conj()],
    ),
    "two": (lambda v, i: torch.max(A, 1, out=(v, i)), lambda: [torch.empty(0), torch.empty(0, dtype=torch.int64)]),
    "an input": (lambda o: torch.add(o, o, out=o), lambda: [A.clone()]),
    "arange": (lambda o: torch.arange(5, out=o), lambda: [torch.empty(0, dtype=torch.int64)]),
    "matmul": (lambda o: torch.mm(A, A.t(), out=o), lambda: [torch.empty(0)]),
}


@pytest.mark.parametrize("made_under_the_mode", [False, True])
@pytest.mark.parametrize("case", CALLS)
def test_as_torch_writes_it(case, made_under_the_mode):
    run, make = CALLS[case]
    expected = written(run, *make())
    outs = make()
    if made_under_the_mode:
        with NumpyMode():
            outs = make()
    with NumpyMode() as mode:
        got = written(run, *outs)
    torch.testing.assert_close(got[0], expected[0])
    assert got[1:] == expected[1:]
    assert not mode.fallbacks


@pytest.mark.parametrize(
    "run",
    [
        lambda: torch.add(A, A, out=torch.empty(2, 3, dtype=torch.int64)),
        lambda: torch.add(A[:1], A[1:], out=torch.zeros(1).expand(1, 3)),
        lambda: A.clone().add_(torch.ones(2, 2, 3)),
        lambda: torch.arange(3).add_(1.5),
        lambda: torch.zeros(1).expand(3).mul_(2),
    ],
)
def test_refused_in_torchs_words(run):
    with pytest.raises(RuntimeError) as expected:
        run()
    with NumpyMode(), pytest.raises(RuntimeError) as got:
        run()
    assert str(got.value).split("\n")[0][:60] == str(expected.value).split("\n")[0][:60]


def test_an_out_of_autograd_is_refused_by_torch():
    with NumpyMode(), pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        torch.add(A, A, out=torch.empty(2, 3, requires_grad=True))


def test_versions_count_out_writes():
    with NumpyMode():
        x = torch.zeros(2, 3)
        torch.add(A, A, out=x)
    assert x._version == 1
