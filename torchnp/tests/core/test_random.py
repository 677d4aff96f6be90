"""The random engine and its fills against torch's CPU generator: same seed, same values, same state afterwards."""

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
from torchnp.tests.core.random_twins import ALL, FLOATS, SIZES, A, call, in_step, needs_avx2, same, seed, tensor

pytestmark = needs_avx2

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


def test_reading_ahead_takes_only_what_is_used():
    for used in (0, 1, 5, 100):
        ours, theirs = torchnp.Generator(3), torch.Generator().manual_seed(3)
        with ours.read_ahead() as ahead:
            values = []
            while len(values) < used:
                ahead.extend(4)
                taken = min(used - len(values), 4)
                values += ahead.values[:taken]
                ahead.drop(taken)
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


@pytest.mark.parametrize("n", [32767, 32768, 32769, 98304, 98305, 131089])
def test_fills_across_tiles_and_strips(n):
    seed(6)
    for dtype in (torch.float32, torch.bfloat16, torch.float64, torch.complex64):
        for name, args in (
            ("uniform_", (0.5, 2.0)), ("normal_", (1.0, 2.0)), ("random_", ()), ("random_.from", (3, 90)),
            ("exponential_", ()), ("cauchy_", ()), ("log_normal_", ()), ("geometric_", (0.4,)), ("bernoulli_.float", (0.4,)),
        ):  # fmt: skip
            call(name, torch.zeros(n, dtype=dtype), *args)
            call(name, torch.zeros(2, n // 2, dtype=dtype).t(), *args)
            call(name, torch.zeros(n, 2, dtype=dtype)[:, 1], *args)
        call("exponential_", torch.zeros(n, dtype=dtype), -1.0)
        call("randn", (n,), dtype=dtype)
    call("randperm", n)
    call("random_", torch.zeros(n, dtype=torch.int64))


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


@pytest.mark.parametrize("layout", STRIDED)
@pytest.mark.parametrize(
    "name, dtype",
    [
        *((f"{name}.out", dtype) for name in ("rand", "randn", "bernoulli", "poisson") for dtype in FLOATS),
        *((f"randint.{low}out", dtype) for low in ("", "low_") for dtype in ("int64", "uint8", "float32", "bool")),
        ("bernoulli.out", "int64"), ("_standard_gamma.out", "float32"), ("rand_like.out", "float32"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("grown", [1, 40])
def test_out_in_any_memory_order(grown, name, dtype, layout):
    shape, stride = STRIDED[layout]().shape, STRIDED[layout]().stride()
    shape = (*shape[:-1], shape[-1] * grown) if stride[-1] == max(stride) else tuple(shape)
    base = tensor(4 * 252 * grown, dtype)
    theirs, flat = base.as_strided(shape, stride), to_numpy(base).copy()
    ours = np.ndarray(shape, flat.dtype, flat, strides=[s * flat.itemsize for s in stride])
    packet, overload = name.split(".")
    args = {"rand": (shape,), "randn": (shape,), "randint": (*((0,) if "low" in overload else ()), 2, shape)}.get(
        packet
    )
    given = args or (torch.rand(shape, dtype=theirs.dtype if dtype in FLOATS else torch.float32),)
    seed(8)
    getattr(getattr(A, packet), overload)(*given, out=theirs)
    torchnp.table[f"aten::{name}"](*(to_numpy(x) if isinstance(x, torch.Tensor) else x for x in given), out=ours)
    same(flat, base)
    in_step()


def test_expanded_memory_is_refused():
    x = np.broadcast_to(np.zeros((3, 1)), (3, 4))
    for name in ("uniform_", "normal_", "bernoulli_.float"):
        with pytest.raises(RuntimeError, match="unsupported operation: more than one element"):
            getattr(A, name.partition(".")[0])(torch.zeros(3, 1).expand(3, 4), 0.5)
        with pytest.raises(RuntimeError, match="unsupported operation: more than one element"):
            torchnp.table[f"aten::{name}"](x, 0.5)


def test_parameters_are_refused_before_expanded_memory():
    for name, bad in (("bernoulli_.float", 1.5), ("normal_", 0.0)):
        args = (bad,) if name != "normal_" else (0.0, -1.0)
        with pytest.raises(RuntimeError) as expected:
            getattr(getattr(A, name.partition(".")[0]), name.partition(".")[2] or "default")(
                torch.zeros(3, 1).expand(3, 4), *args
            )
        with pytest.raises(RuntimeError) as caught:
            torchnp.table[f"aten::{name}"](np.broadcast_to(np.zeros((3, 1), np.float32), (3, 4)), *args)
        assert str(caught.value) == str(expected.value).split("\n")[0]


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
