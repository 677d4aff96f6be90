"""Tools that record programs (make_fx, linearize, torch.fx, jit.trace, torch.compile) record handles as tensors, or say
what to do."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from torchnp import rpc

PRIMAL, OTHER, TANGENT = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), torch.tensor([0.5, 0.25])


@pytest.fixture
def session():
    with rpc.local() as s:
        yield s


def linearized(function):
    """Compute the derivative at the first tensor, by that tensor and twice by a tangent."""
    return lambda x, y, t: [torch.func.linearize(lambda x: function(x, y), x)[1](v) for v in (x, t, 2 * t)]


FUNCTIONS = {
    "linearize": linearized(lambda x, y: x.sin()),
    "linearize-closure": linearized(lambda x, y: (x * y).sum() + y.cos()),
    "linearize-matrix": lambda x, y, t: torch.func.linearize(torch.tanh, x.outer(y))[1](y.outer(t)),
    "linearize-two": lambda x, y, t: torch.func.linearize(torch.mul, x, y)[1](t, t),
    "make_fx-closure": lambda x, y, t: make_fx(lambda v: (v + 1) * y - torch.ones(2))(x)(t),
    "make_fx-constants": lambda x, y, t: make_fx(lambda v: (v + 1) * (y + 1).conj())(x)(t),
    "make_fx-plain": lambda x, y, t: make_fx(lambda v: (v + 1) * y)(torch.ones(2))(t),
    "make_fx-complex": lambda x, y, t: make_fx(lambda v: v * torch.complex(y, y).conj())(x)(t),
    "make_fx-jvp": lambda x, y, t: make_fx(lambda v: torch.func.jvp(torch.sin, (y,), (v,))[1])(x)(t),
    "symbolic_trace": lambda x, y, t: torch.fx.symbolic_trace(lambda v: torch.cat([y * v, v.sin()]))(t),
    "jit.trace": lambda x, y, t: torch.jit.trace(lambda v: (v + 1) * y, x, check_trace=False)(t),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_recorded_is_run_again_with_other_values(session, name):
    want = FUNCTIONS[name](PRIMAL, OTHER, TANGENT)
    got = FUNCTIONS[name](*map(session.send, (PRIMAL, OTHER, TANGENT)))
    torch.testing.assert_close(session.publish(got), want)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torch_compile_runs_handles_as_they_are(session):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    x = torch.randn(4, 2)
    want = model(x)
    want.sum().backward()
    moved = session.module(model)
    got = torch.compile(moved, backend="eager")(session.send(x))
    got.sum().backward()
    torch.testing.assert_close(got.publish(), want)
    torch.testing.assert_close(moved[0].weight.grad.publish(), model[0].weight.grad)
    scaled = torch.compile(lambda h, plain: plain * h + 1, backend="eager")
    torch.testing.assert_close(scaled(session.send(OTHER), TANGENT).publish(), TANGENT * OTHER + 1)
    torch._dynamo.reset()


REFUSED = {
    "outside": lambda s: make_fx(lambda v: s.send(torch.ones(2)) + v)(torch.ones(2)),
    "and pass handles": lambda s: make_fx(lambda v: (v + 1).publish())(s.send(PRIMAL)),
    "would be a constant": lambda s: torch.jit.trace(lambda v: s.send(v) + 1, PRIMAL),
    "send outside of the function": lambda s: torch.fx.symbolic_trace(lambda v: s.send(v) + 1),
    "check_trace=False": lambda s: torch.jit.trace(torch.sin, s.send(PRIMAL)),
    r"compares what \.publish\(\) gives": lambda s: torch.testing.assert_close(s.send(PRIMAL), s.send(PRIMAL)),
    'tracing_mode="real"': lambda s: make_fx(torch.sin, tracing_mode="fake")(s.send(PRIMAL)),
    "torch.export takes the plain module": lambda s: torch.export.export(
        s.module(nn.Linear(2, 2)), (s.send(torch.ones(1, 2)),)
    ),
    "gradcheck compares values": lambda s: torch.autograd.gradcheck(
        torch.sin, (s.send(torch.ones(2, dtype=torch.float64), requires_grad=True),)
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_recorded_says_what_to_do(session, words):
    with pytest.raises((rpc.HandleError, rpc.ValueAccessError, TypeError), match=words):
        REFUSED[words](session)
