"""Transforms of programs on JAX: gradients, training, vmap, compiled loops, branches, recurrent layers."""

import numpy as np
import pytest
import torch
from torch import nn

jax = pytest.importorskip("jax")

from torchnp.tests.portable.exported import check, example, export, load  # noqa: E402
from torchnp.tests.portable.models import EXAMPLES  # noqa: E402

jax.config.update("jax_enable_x64", True)
jnp = jax.numpy


def floats(state):
    return {k: v for k, v in state.items() if jnp.issubdtype(v.dtype, jnp.floating)}


@pytest.mark.parametrize("name", ("mlp", "gpt"))
def test_gradients_are_torchs(name):
    exported = example(name)
    program = load(exported, "jax")
    x = program.lib.from_numpy(exported.inputs[0])
    gradients = jax.jit(jax.grad(lambda s: jnp.sum(program.pure(s, x)[0] ** 2)))(floats(program.state))
    torch.manual_seed(0)
    module = EXAMPLES[name].make().eval()
    module(torch.from_numpy(exported.inputs[0])).square().sum().backward()
    parameters = dict(module.named_parameters())
    assert gradients.keys() == parameters.keys()
    for key, found in gradients.items():
        wanted = parameters[key].grad.numpy()
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4 * max(1, abs(wanted).max()))


def test_training_lowers_the_loss():
    exported = example("mlp")
    program = load(exported, "jax")
    x, y = program.lib.from_numpy(exported.inputs[0]), jnp.arange(4)

    def loss(state):
        logits, _ = program.pure(state, x)
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean()

    @jax.jit
    def step(state):
        value, gradients = jax.value_and_grad(loss)(state)
        return value, {k: state[k] - 0.1 * gradients[k] for k in state}

    state, losses = floats(program.state), []
    for _ in range(10):
        value, state = step(state)
        losses.append(float(value))
    assert losses[-1] < losses[0] / 2


def test_vmap():
    exported = example("mlp")
    program = load(exported, "jax")
    xs = jnp.stack([program.lib.from_numpy(exported.inputs[0])] * 3) * jnp.arange(1, 4)[:, None, None]
    found = jax.vmap(lambda x: program.pure(program.state, x)[0])(xs)
    for x, y in zip(xs, found):
        np.testing.assert_allclose(program(x), y, atol=1e-5)


class Loop(nn.Module):
    """Doubles until a sum is reached."""

    def forward(self, x):
        from torch._higher_order_ops import while_loop

        return while_loop(lambda i, v: v.sum() < 100, lambda i, v: (i + 1, v * 2), (torch.tensor(0), x))


def test_while_loop():
    exported = export(Loop(), (torch.rand(3) + 0.5,))
    program = load(exported, "jax")
    given = [program.lib.from_numpy(x) for x in exported.inputs]
    check(program, jax.jit(program.pure)(program.state, *given)[0], exported)
    strict = load(exported, "array_api_strict")
    check(strict, strict(*exported.inputs), exported)


class Layers(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)


RECURRENT = {
    "a projected lstm": lambda: nn.LSTM(4, 6, proj_size=3),
    "lstm without biases": lambda: nn.LSTM(4, 6, bias=False, batch_first=True),
    "a bidirectional gru": lambda: nn.GRU(4, 6, 2, bidirectional=True),
    "tanh": lambda: nn.RNN(4, 6),
    "relu": lambda: nn.RNN(4, 6, nonlinearity="relu"),
}


@pytest.mark.parametrize("xp", ("jax", "array_api_strict"))
@pytest.mark.parametrize("kind", RECURRENT)
def test_recurrent_layers(kind, xp):
    torch.manual_seed(0)
    exported = export(Layers(RECURRENT[kind]().eval()), (torch.randn(5, 2, 4),))
    program = load(exported, xp)
    check(program, program(*exported.inputs), exported)
    assert {"host"} & set(program.tiers().values()) == set()


CONVOLUTIONS = {
    "depthwise": lambda: nn.Conv2d(4, 4, 3, 2, 1, groups=4),
    "grouped": lambda: nn.Conv2d(4, 6, 3, groups=2, dilation=2),
    "transposed": lambda: nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1, groups=2),
    "a depth multiplier": lambda: nn.Conv2d(4, 8, 3, groups=4, bias=False),
    "same": lambda: nn.Conv2d(4, 3, (2, 4), padding="same"),
}


@pytest.mark.parametrize("xp", ("jax", "array_api_strict"))
@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_convolutions(kind, xp):
    torch.manual_seed(0)
    exported = export(CONVOLUTIONS[kind](), (torch.randn(2, 4, 9, 9),))
    program = load(exported, xp)
    check(program, program(*exported.inputs), exported)
