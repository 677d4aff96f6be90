"""The random engine and its kernels against torch's CPU generator: same seed, same values, same state afterwards."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch

import torchnp
from torchnp import random as engine
from torchnp.interop import to_numpy

A = torch.ops.aten
SIZES = [0, 1, 2, 15, 16, 17, 31, 32, 33, 1000, 100003]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
COMPLEX = ["complex32", "complex64", "complex128"]
INTS = ["uint8", "int8", "int16", "int32", "int64"]
ALL = [*FLOATS, *COMPLEX, *INTS, "bool", "uint16", "uint32", "uint64", "float8_e4m3fn"]

pytestmark = pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"),
    reason="without AVX2 torch rounds a * b + c twice and evaluates other sines: the last bits differ",
)

# ---------------------------------------------------------------- helpers


def twin(x):
    """A copy with the same strides."""
    extent = 1 + sum((size - 1) * stride for size, stride in zip(x.shape, x.strides, strict=True)) // x.itemsize
    memory = np.zeros(max(extent, 1), x.dtype)
    copied = np.ndarray(x.shape, x.dtype, memory, strides=x.strides)
    copied[...] = x
    return copied


def bits(x):
    x = np.ascontiguousarray(x)
    return x.view(np.uint8) if x.ndim else x.reshape(1).view(np.uint8)


def same(ours, theirs):
    theirs = to_numpy(theirs)
    assert isinstance(ours, np.ndarray)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    assert np.array_equal(bits(ours), bits(theirs)), f"{ours.ravel()[:6]} {theirs.ravel()[:6]}"


def in_step():
    assert np.array_equal(engine.get_rng_state(), torch.get_rng_state().numpy()), "the streams have parted"


def seed(s):
    torch.manual_seed(s)
    torchnp.manual_seed(s)


def call(name, *args, **kwargs):
    """The table's row and torch's op on the same arguments (torch tensors are converted), from where both stand."""
    packet, _, overload = name.partition(".")
    theirs_op = getattr(getattr(A, packet), overload or "default")
    ours_kwargs = {
        k: str(v).removeprefix("torch.") if isinstance(v, (torch.dtype, torch.memory_format)) else
        to_numpy(v) if isinstance(v, torch.Tensor) else v
        for k, v in kwargs.items()
    }  # fmt: skip
    ours_args = [to_numpy(a) if isinstance(a, torch.Tensor) else a for a in args]
    if packet.endswith("_"):  # torch is about to write the memory that both would share
        ours_args[0] = twin(ours_args[0])
    try:
        theirs = theirs_op(*args, **kwargs)
    except Exception as error:
        with pytest.raises(type(error)) as caught:
            torchnp.table[f"aten::{name}"](*ours_args, **ours_kwargs)
        words = str(error).split("\n")[0][:60]
        assert str(caught.value).startswith(words), f"{caught.value} | {error}"
        return None
    ours = torchnp.table[f"aten::{name}"](*ours_args, **ours_kwargs)
    if isinstance(theirs, tuple):
        for a, b in zip(ours, theirs, strict=True):
            same(a, b)
    else:
        same(ours, theirs)
    in_step()
    return ours, theirs


def tensor(shape, dtype):
    return torch.zeros(shape, dtype=getattr(torch, dtype))


# ---------------------------------------------------------------- the engine


@pytest.mark.parametrize("s", [0, 1, -1, 5489, 2**31, 2**32 - 1, 2**32, 2**63, 2**64 - 1, -(2**63), 12345678901234567])
def test_seeds(s):
    seed(s)
    in_step()
    assert engine.initial_seed() == torch.initial_seed()
    call("rand", (700,))
    ours, theirs = torchnp.Generator(s), torch.Generator().manual_seed(s)
    assert ours.initial_seed() == theirs.initial_seed()
    same(ours.get_state(), theirs.get_state())


@pytest.mark.parametrize("s", [2**64, -(2**63) - 1, 1.5, "3", True, None])
def test_bad_seeds(s):
    ours, theirs = torchnp.Generator(), torch.Generator()
    with pytest.raises((RuntimeError, ValueError)) as expected:
        theirs.manual_seed(s)
    with pytest.raises(expected.type) as caught:
        ours.manual_seed(s)
    assert str(caught.value).startswith(str(expected.value)[:40].split("None")[0])


def test_default_seed_and_reseeding():
    assert torchnp.Generator().initial_seed() == torch.Generator().initial_seed()
    g = torchnp.Generator()
    assert g.seed() == g.initial_seed() != torchnp.Generator().seed()
    assert engine.seed() == engine.initial_seed() == torchnp.default_generator.initial_seed()
    assert torchnp.manual_seed(3) is torchnp.default_generator
    assert torchnp.manual_seed(3.7).initial_seed() == torch.manual_seed(3.7).initial_seed()
    assert g.manual_seed(4) is g and g.device == "cpu"


@pytest.mark.parametrize("drawn", [0, 1, 623, 624, 625, 1247, 1248, 5000])
@pytest.mark.parametrize("normals", [0, 3])
def test_state_goes_both_ways(drawn, normals):
    ours, theirs = torchnp.Generator(7), torch.Generator().manual_seed(7)
    ours.random32(drawn), torch.rand(drawn, generator=theirs)
    ours.normal64(normals), torch.randn(normals, dtype=torch.float64, generator=theirs)
    state = ours.get_state()
    assert state.dtype == np.uint8 and state.shape == (5056,)
    same(state, theirs.get_state())
    from_torch = torchnp.Generator().set_state(theirs.get_state().numpy())
    to_torch = torch.Generator()
    to_torch.set_state(torch.from_numpy(state))
    for _ in range(3):
        expected = torch.randn(5, dtype=torch.float64, generator=theirs)
        same(from_torch.normal64(5), expected)
        assert torch.equal(torch.randn(5, dtype=torch.float64, generator=to_torch), expected)
    same(from_torch.get_state(), to_torch.get_state())
    assert from_torch.initial_seed() == theirs.initial_seed()


def test_state_keeps_the_float_normal_of_other_builds():
    state = torchnp.Generator(1).get_state()
    state[5052] = 1
    state[5048:5052] = np.frombuffer(np.float32(0.5).tobytes(), np.uint8)
    assert np.array_equal(torchnp.Generator().set_state(state).get_state(), state)
    theirs = torch.Generator()
    theirs.set_state(torch.from_numpy(state))
    same(state, theirs.get_state())


@pytest.mark.parametrize(
    "state",
    [np.zeros(5055, np.uint8), np.zeros(5056, np.uint8), np.zeros(5056, np.float32), 3],
    ids=["size", "zeros", "dtype", "type"],
)
def test_bad_states(state):
    given = torch.from_numpy(state) if isinstance(state, np.ndarray) else state
    with pytest.raises((RuntimeError, TypeError)) as expected:
        torch.Generator().set_state(given)
    with pytest.raises(expected.type) as caught:
        torchnp.Generator().set_state(state)
    assert str(caught.value) == str(expected.value).split("\n")[0]


def test_offsets_are_for_other_devices():
    for act in (lambda g: g.get_offset(), lambda g: g.set_offset(1)):
        with pytest.raises(RuntimeError, match="CPU Generator does not use offset"):
            act(torchnp.Generator())


def test_copies_go_their_own_way():
    g = torchnp.Generator(9)
    g.normal64(3)
    copies = [g.clone_state(), copy.deepcopy(g), pickle.loads(pickle.dumps(g))]
    expected = g.normal64(9)
    for c in copies:
        assert np.array_equal(c.normal64(9), expected)


def test_the_default_generator_is_left_alone_by_others():
    seed(5)
    before = engine.get_rng_state()
    torchnp.table["aten::rand.generator"]((9,), generator=torchnp.Generator(1))
    assert np.array_equal(engine.get_rng_state(), before)
    engine.set_rng_state(torchnp.Generator(2).get_state())
    torch.manual_seed(2)
    in_step()


def test_one_by_one_takes_only_what_is_used():
    for used in (0, 1, 5, 100):
        ours, theirs = torchnp.Generator(3), torch.Generator().manual_seed(3)
        with ours.one_by_one(4) as uniform:
            values = [uniform() for _ in range(used)]
        same(np.array(values, np.float64), torch.rand(used, dtype=torch.float64, generator=theirs))
        same(ours.get_state(), theirs.get_state())


def test_the_engine_imports_no_torch():
    code = "import torchnp.random, torchnp.kernels.sampling, torchnp.kernels.dropout, sys; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


# ---------------------------------------------------------------- fills


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", ALL)
def test_creation(dtype, n):
    dtype = getattr(torch, dtype)
    for s in (0, 11, -3):
        seed(s)
        call("rand", (n,), dtype=dtype)
        call("randn", (n,), dtype=dtype)
        call("randint", 17, (n,), dtype=dtype)
        call("randint.low", 1, 100, (n,), dtype=dtype)
        call("normal.float_float", 1.5, 0.3, (n,), dtype=dtype)
        call("rand", (2, n))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", ALL)
def test_fills(dtype, n):
    x = tensor(n, dtype)
    for s in (0, 21):
        seed(s)
        call("uniform", x, -1.3, 3.1)
        call("uniform_", x, 0.25, 1.0)
        call("normal_functional", x, 0.7, 1.9)
        call("normal_", x)
        call("normal_", x, -2.0, 0.1)
        call("random", x)
        call("random_", x)
        call("random.from", x, 3, 90)
        call("random_.to", x, 11)
        call("random.from", x, 0, None)
        call("random.from", x, -(2**63), None)
        call("random.from", x, -(2**31), 2**31)
        call("random.to", x, 2**28)
        call("random.to", x, 2**28 - 1)
        call("random.from", x, -(2**62), 2**62)
        call("exponential", x, 1.7)
        call("exponential_", x)
        call("cauchy", x, 0.3, 1.7)
        call("cauchy_", x)
        call("log_normal", x, 0.3, 0.8)
        call("log_normal_", x)
        call("geometric", x, 0.3)
        call("geometric_", x, 0.9)
        call("bernoulli.p", x, 0.3)
        call("bernoulli_.float", x, 0.9)
        call("bernoulli_.float", x)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_large_integers_in_floats(dtype):
    x = tensor(500, dtype)
    for low, high in [
        (0, 2049),
        (-2049, 5),
        (0, 2**24 + 3),
        (0, 65504),
        (-65504, 0),
        (1, 2**40),
        (-(2**40) - 1, 2**33),
    ]:
        seed(low % 97)
        call("random.from", x, low, high)


def test_randn_is_bit_equal_over_a_million_values():
    for s in range(3):
        seed(s)
        call("randn", (1 << 20,))
        call("normal_", torch.empty(100_000), 0.3, 1.7)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "complex64", "int64"])
@pytest.mark.parametrize("memory_format", [None, "channels_last", "contiguous_format", "preserve_format"])
def test_like(dtype, memory_format):
    shapes = [torch.zeros(2, 3, 4, 5), torch.zeros(2, 3, 4, 5).permute(3, 1, 0, 2), torch.zeros(2, 8, 4, 5)[:, ::2]]
    shapes += [
        torch.zeros(1, 3, 1, 5).expand(2, 3, 4, 5),
        torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last),
    ]
    options = {"memory_format": getattr(torch, memory_format)} if memory_format else {}
    seed(4)
    for x in shapes:
        x = x.to(getattr(torch, dtype))
        for name, args in [
            ("rand_like", ()),
            ("randn_like", ()),
            ("randint_like", (9,)),
            ("randint_like.low_dtype", (3, 9)),
        ]:
            results = call(name, x, *args, **options)
            if results is not None:
                ours, theirs = results
                assert tuple(s // ours.itemsize for s in ours.strides) == theirs.stride()
    call("rand_like", shapes[1], dtype=torch.float64)
    call("randint_like.Tensor", shapes[1], torch.tensor(12))
    call("randint_like.Tensor", shapes[1], torch.tensor([12]))


STRIDED = {
    "transposed": lambda: torch.zeros(9, 7).t(),
    "permuted": lambda: torch.zeros(3, 4, 5).permute(2, 0, 1),
    "sliced": lambda: torch.zeros(9, 14)[:, ::2],
    "sliced and transposed": lambda: torch.zeros(9, 14)[:, 1::3].t(),
    "column": lambda: torch.zeros(40, 3)[:, 1],
}


@pytest.mark.parametrize("layout", STRIDED)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "complex64", "int64"])
@pytest.mark.parametrize(
    "name, args",
    [
        ("uniform_", (-1.0, 2.5)), ("normal_", (0.5, 1.7)), ("random_", ()), ("random_.from", (2, 60)),
        ("bernoulli_.float", (0.4,)), ("exponential_", ()), ("cauchy_", ()), ("log_normal_", ()), ("geometric_", (0.4,)),
    ],
)  # fmt: skip
def test_in_place_on_strided_memory(layout, dtype, name, args):
    base = tensor(2 * 14 * 9, dtype)
    theirs = base.as_strided(STRIDED[layout]().shape, STRIDED[layout]().stride())
    flat = to_numpy(base).copy()
    strides = [s * flat.itemsize for s in theirs.stride()]
    ours = np.ndarray(tuple(theirs.shape), flat.dtype, flat, strides=strides)
    packet, _, overload = name.partition(".")
    seed(8)
    try:
        getattr(getattr(A, packet), overload or "default")(theirs, *args)
    except NotImplementedError as error:
        with pytest.raises(NotImplementedError, match=str(error)[:30].replace("(", r"\(")):
            torchnp.table[f"aten::{name}"](ours, *args)
        return
    except RuntimeError as error:
        with pytest.raises(RuntimeError, match=str(error)[:40]):
            torchnp.table[f"aten::{name}"](ours, *args)
        return
    assert torchnp.table[f"aten::{name}"](ours, *args) is ours
    same(flat, base)
    in_step()


@pytest.mark.parametrize("name", ["uniform", "normal_functional", "random", "exponential", "geometric", "bernoulli.p"])
def test_functional_on_strided_tensors(name):
    seed(9)
    for make in STRIDED.values():
        call(name, make(), *((0.5,) if name in ("geometric", "bernoulli.p") else ()))


def test_expanded_memory_is_refused():
    x = np.broadcast_to(np.zeros((3, 1)), (3, 4))
    for name in ("uniform_", "normal_", "bernoulli_.float"):
        with pytest.raises(RuntimeError, match="unsupported operation: more than one element"):
            getattr(A, name.partition(".")[0])(torch.zeros(3, 1).expand(3, 4), 0.5)
        with pytest.raises(RuntimeError, match="unsupported operation: more than one element"):
            torchnp.table[f"aten::{name}"](x, 0.5)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "complex64"])
def test_prims(dtype):
    seed(10)
    dtype, device = getattr(torch, dtype), torch.device("cpu")
    named = str(dtype).removeprefix("torch.")
    for shape, stride in [((4, 5), (5, 1)), ((4, 5), (1, 4)), ((20,), (2,)), ((0, 3), (3, 1)), ((), ())]:
        theirs = torch.ops.prims.uniform(shape, low=-1.0, high=2.3, dtype=dtype, device=device, stride=stride)
        ours = torchnp.table["prims::uniform"](shape, low=-1.0, high=2.3, dtype=named, device="cpu", stride=stride)
        same(ours, theirs)
        assert ours.size == 0 or tuple(s // ours.itemsize for s in ours.strides) == theirs.stride()
        options = {"mean": 0.5, "std": 1.5, "requires_grad": False}
        theirs = torch.ops.prims.normal(shape, dtype=dtype, device=device, **options)
        same(torchnp.table["prims::normal"](shape, dtype=named, device="cpu", **options), theirs)
        in_step()


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
        # more draws than one from 1,000 half-precision weights meet ties, which topk does not order
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
            if noise.is_contiguous():  # torch writes row-major slopes into the memory of any other noise
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


# ---------------------------------------------------------------- long sequences


@pytest.mark.parametrize("s", range(6))
def test_interleaved_operators_stay_in_step(s):
    rng = np.random.default_rng(s)
    seed(s)
    for _ in range(150):
        n = int(rng.choice([0, 1, 3, 15, 16, 17, 40, 700]))
        dtype = getattr(torch, str(rng.choice(FLOATS)))
        x = torch.zeros(n, dtype=dtype)
        column = torch.zeros(n, 2, dtype=dtype)[:, 0]
        steps = [
            lambda: call("rand", (n,), dtype=dtype),
            lambda: call("randn", (n,), dtype=dtype),
            lambda: call("normal_", column, 1.0, 2.0),
            lambda: call("randint", 10, (n,)),
            lambda: call("randint", 2**40, (n,)),
            lambda: call("randperm", n),
            lambda: call("bernoulli_.float", x, 0.3),
            lambda: call("bernoulli", x),
            lambda: call("dropout", x + 1, 0.2, True),
            lambda: call("native_dropout", x + 1, 0.2, True),
            lambda: call("exponential", x),
            lambda: call("log_normal", x),
            lambda: call("poisson", x + 3),
            lambda: call("randn", (n,), dtype=torch.complex64),
        ]
        steps[int(rng.integers(len(steps)))]()
    in_step()
