"""Random permutations, samplers with tensor parameters, dropout and invalid parameters, against torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import torchnp
from torchnp.interop import to_numpy
from torchnp.tests.core.random_twins import ALL, FLOATS, A, call, in_step, needs_avx2, same, seed, tensor

pytestmark = needs_avx2

# ---------------------------------------------------------------- permutations


@pytest.mark.parametrize("n", [0, 1, 2, 3, 100, 255, 1000, 4095, 4096, 4097, 5000, 100_003, 1_000_000])
def test_randperm(n):
    for s in range(1 if n > 10_000 else 5):
        seed(s)
        call("randperm", n)
        in_step()


@pytest.mark.parametrize("dtype", ALL)
def test_randperm_dtypes(dtype):
    seed(1)
    for n in (-1, 0, 1, 100, 127, 128, 255, 256, 257, 300, 2048, 2049, 2050, 40_000, 70_000):
        call("randperm", n, dtype=getattr(torch, dtype))


def test_randperm_of_very_many():
    from torchnp.kernels.randint import _inside_out

    n, source, words = 5000, torchnp.Generator(3), torchnp.Generator(3)
    expected = []
    for i, word in enumerate(words.random64(n).tolist()):
        j = word % (i + 1)
        expected.append(i)
        expected[i] = expected[j]
        expected[j] = i
    assert _inside_out(n, source).tolist() == expected


# ---------------------------------------------------------------- tensors of parameters


@pytest.mark.parametrize("dtype", ALL)
def test_bernoulli_of_tensors(dtype):
    seed(2)
    x = tensor((5, 7), dtype)
    for p in ("float32", "float64", "bfloat16", "float16", "int64"):
        p = torch.full((5, 7), 1).to(getattr(torch, p)) * 0.3 if p != "int64" else torch.ones(5, 7, dtype=torch.int64)
        call("bernoulli.Tensor", x, p)
        call("bernoulli_.Tensor", x, p[:1])
        call("bernoulli", p)
    call("bernoulli", x)
    call("bernoulli.Tensor", x, torch.linspace(0, 1, 7))
    call("bernoulli.Tensor", x, torch.tensor(0.5))
    call("bernoulli.Tensor", x, torch.ones(2, 5, 7))
    call("bernoulli.Tensor", x, torch.ones(3))


def test_bernoulli_of_strided_tensors():
    seed(3)
    p = torch.linspace(0, 1, 35).reshape(5, 7)
    for q in (p, p.t(), p[:, ::2], p.double().t()):
        call("bernoulli", q)
        call("bernoulli.Tensor", q, q)
        call("bernoulli.Tensor", torch.zeros_like(q, dtype=torch.int64), q)
    call("bernoulli", torch.linspace(0, 1, 100_003))


@pytest.mark.parametrize("n", [32767, 32768, 32769, 70001])
def test_bernoulli_of_tensors_across_tiles(n):
    seed(4)
    p = torch.linspace(0, 1, 3 * n).reshape(3, n)
    for q in (p, p.t(), p.double(), p.bfloat16(), p[:1], p[:, ::2]):
        call("bernoulli", q)
        call("bernoulli.Tensor", torch.zeros(q.expand(3, -1).shape if q.shape[0] == 1 else q.shape), q)
        call("bernoulli_.Tensor", torch.zeros(q.shape, dtype=torch.int16), q)


@pytest.mark.parametrize("mean", ["float32", "float64", "bfloat16", "complex64", "int64"])
@pytest.mark.parametrize("std", ["float32", "float64", "bfloat16", "complex64", "int64"])
def test_normal_of_tensors(mean, std):
    seed(6)
    for shapes in [((), ()), ((5,), (5,)), ((4, 1), (6,)), ((40,), ()), ((50,), (50,)), ((0,), (1,)), ((3,), (2,))]:
        m = (torch.arange(torch.Size(shapes[0]).numel()).reshape(shapes[0]) / 7).to(getattr(torch, mean))
        d = (torch.arange(torch.Size(shapes[1]).numel()).reshape(shapes[1]) / 3 + 0.1).to(getattr(torch, std))
        call("normal.Tensor_Tensor", m, d)
        call("normal.Tensor_float", m, 1.3)
        call("normal.float_Tensor", 0.3, d)
    call("normal.Tensor_float", m.reshape(3, 1).expand(3, 7).t(), 1.3)
    call("normal.float_Tensor", 0.3, -torch.ones(3))


@pytest.mark.parametrize("dtype", [*FLOATS, "int64", "float8_e4m3fn", "bool"])
@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial(dtype, replacement):
    seed(12)
    for shape in [(1,), (7,), (1000,), (3, 50), (0, 3), (2, 2, 2), ()]:
        w = (torch.linspace(0.1, 5, max(torch.Size(shape).numel(), 1))[: torch.Size(shape).numel()]).reshape(shape)
        w = w.to(getattr(torch, dtype))
        # With 1,000 half-precision weights, several draws meet ties, which topk does not order.
        most = 1 if len(shape) == 1 and shape[0] == 1000 and "16" in dtype and not replacement else 40
        for samples in (0, 1, 2, 5, 40):
            if samples <= most:
                call("multinomial", w, samples, replacement)
    inf, nan = float("inf"), float("nan")
    for row in ([0.0, 0.0], [-1.0, 2.0], [inf, 1.0], [nan, 1.0]):
        call("multinomial", torch.tensor(row), 1, replacement)
    call("multinomial", torch.tensor([[0.0, 1.0], [1.0, 0.0]]), 1, replacement)


@pytest.mark.parametrize("dtype", [*FLOATS, "int64", "complex64"])
def test_poisson(dtype):
    seed(13)
    rates = torch.tensor([0.0, 0.3, 2.5, 9.99, 10.0, 33.0, 500.0, 60000.0]).repeat(40).to(getattr(torch, dtype))
    call("poisson", rates)
    call("poisson", rates.reshape(20, 16).t())
    call("poisson", rates[:0])
    call("poisson", -torch.ones(2))


@pytest.mark.parametrize("dtype", [*FLOATS, "int64", "complex64"])
def test_binomial(dtype):
    seed(14)
    counts = torch.tensor([0.0, 1.0, 12.0, 100.0, 3000.0]).repeat(60).to(getattr(torch, dtype))
    probs = torch.tensor([0.0, 0.01, 0.2, 0.5, 0.7, 0.999, 1.0]).repeat_interleave(60)[:300].to(getattr(torch, dtype))
    call("binomial", counts, probs)
    call("binomial", counts[:5, None], probs[::60])
    call("binomial", counts[:3], probs[:2])
    call("binomial", torch.ones(2), torch.ones(2).double())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [0, 1, 2047, 2048, 2049, 4500])
def test_samplers_across_blocks(dtype, n):
    seed(18)
    x = torch.linspace(0.0, 1.0, max(n, 1))[:n].to(getattr(torch, dtype))
    for scale in (0.9, 3.0, 40.0):
        call("_standard_gamma", x * scale)
        call("randn", (3,), dtype=torch.float64)  # the saved second normal passes from one sampler to the next
        call("_standard_gamma", (x * scale).flip(0))
        call("poisson", x * scale)
        call("binomial", (x * scale * 10).floor(), x.flip(0))
        call("binomial", (x * scale * 1e4).floor(), x.flip(0))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gamma_of_unusual_shapes(dtype):
    seed(19)
    shapes = torch.tensor([0.0, 1e-3, 0.3, 1.0, 0.999, 7.0, 1e30, -0.3, -0.0]).to(getattr(torch, dtype))
    call("_standard_gamma", shapes.repeat(30).reshape(9, 30))
    call("_standard_gamma", shapes.repeat(30).reshape(9, 30).t())
    call("_sample_dirichlet", shapes[1:6].repeat(8).reshape(20, 2))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [0, 1, 8191, 8192, 8193])
def test_gradients_of_draws_across_parts(dtype, n):
    rng = np.random.default_rng(n)
    alpha, beta, x = (torch.from_numpy(rng.uniform(0.05, high, n)).to(getattr(torch, dtype)) for high in (12, 12, 1))
    # float32: the C library's logarithms differ from NumPy's in the last bit, and terms of series cancel
    tolerance = {"rtol": 1e-3, "atol": 1e-6} if dtype == "float32" else {"rtol": 1e-9, "atol": 1e-12}
    for name, given in (
        ("_dirichlet_grad", (x, alpha, alpha + beta)),
        ("_dirichlet_grad", (x[None], alpha[:1], alpha + beta)),
        ("_standard_gamma_grad", (alpha * 3, alpha * (1.7 - x))),
    ):
        if all(t.numel() for t in given):
            ours = torchnp.table[f"aten::{name}"](*map(to_numpy, given))
            np.testing.assert_allclose(ours, getattr(A, name)(*given).numpy(), **tolerance)


def test_a_bad_rate_is_refused_where_it_is_met():
    seed(20)
    call("poisson", torch.tensor([3.0, 20.0, -1.0, 5.0]))
    in_step()


# ---------------------------------------------------------------- dropout and randomized ReLU


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize(
    "name", ["native_dropout", "dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout"]
)
def test_dropout(name, dtype):
    seed(15)
    values = torch.linspace(-3, 3, 2 * 3 * 5 * 7).reshape(2, 3, 5, 7)
    for x in (values, values.permute(3, 1, 0, 2), values[..., ::2], values[0, 0, 0], values[:0], torch.tensor(2.0)):
        x = x.to(getattr(torch, dtype), memory_format=torch.preserve_format)
        for p in (0.0, 0.1, 0.5, 1 / 3, 1.0, 1.5, -0.1):
            for train in (True, False) if name != "native_dropout" else (True, False, None):
                call(name, x, p, train)
    special = torch.tensor([float("inf"), float("nan"), -0.0, -1.0] * 10).reshape(2, 20)
    call(name, special, 0.5, True)


def test_dropout_gives_the_input_back_when_there_is_nothing_to_do():
    x = np.ones(3, np.float32)
    assert torchnp.table["aten::dropout"](x, 0.0, True) is x
    assert torchnp.table["aten::dropout"](x, 0.5, False) is x


@pytest.mark.parametrize("dtype", [*FLOATS, "int64", "complex64"])
def test_rrelu(dtype):
    seed(16)
    values = torch.linspace(-3, 3, 35).reshape(5, 7).to(getattr(torch, dtype))
    for x in (values, values.t(), values[:, ::2], values[:0]):
        noise = torch.zeros_like(x)
        for training in (True, False):
            call("rrelu", x, 0.125, 1 / 3, training)
            call("rrelu", x, 0.1, 0.7, training)
            if noise.is_contiguous():  # for other noise, torch writes row-major slopes into the noise's memory
                call("rrelu_with_noise_functional", x, noise, 0.1, 0.4, training)
        call("rrelu_with_noise_functional", x, noise[:1], 0.1, 0.4, True)
    x, noise = -torch.ones(9), torch.zeros(9)
    ours_x, ours_noise = x.numpy().copy(), noise.numpy().copy()
    seed(17)
    A.rrelu_with_noise_(x, noise, 0.1, 0.4, True)
    torchnp.table["aten::rrelu_with_noise_"](ours_x, ours_noise, 0.1, 0.4, True)
    same(ours_x, x)
    same(ours_noise, noise)


# ---------------------------------------------------------------- bad parameters


@pytest.mark.parametrize(
    "name, args",
    [
        ("uniform", (2.0, 1.0)), ("uniform", (-3e38, 3e38)), ("uniform", (float("nan"), 1.0)), ("uniform", (0.0, 1e39)),
        ("normal_functional", (0.0, -1.0)), ("normal_", (0.0, float("nan"))), ("exponential", (0.0,)),
        ("exponential", (-1.5,)), ("cauchy", (0.0, 0.0)), ("log_normal", (0.0, 0.0)), ("geometric", (0.0,)),
        ("geometric", (1.0,)), ("bernoulli.p", (1.5,)), ("bernoulli_.float", (float("nan"),)), ("random.from", (5, 5)),
        ("random.to", (0,)), ("random.from", (-(2**40), 1)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "complex64", "int64"])
@pytest.mark.parametrize("n", [0, 3])
def test_bad_parameters(name, args, dtype, n):
    seed(0)
    call(name, tensor(n, dtype), *args)


def test_bad_sizes():
    seed(0)
    call("rand", (2, -1))
    call("randint", 5, (-3,))
    call("randint", 0, (3,))
    call("randint.low", 5, 5, (3,))
    call("randint", 5, (3,), dtype=None)
    call("bernoulli", torch.full((3,), 1.5))
    call("bernoulli.Tensor", torch.zeros(3), torch.tensor(float("nan")))
