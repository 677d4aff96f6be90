"""Elementwise operators on both sides of the size from which they run strip by strip."""

import tracemalloc

import numpy as np
import pytest
import torch

import torchnp
from torchnp.core import elementwise_strips
from torchnp.core.elementwise_strips import MANY, STRIP, strips_of, takes_strips
from torchnp.interop import to_numpy

table = torchnp.table
ONE = ("digamma", "gelu", "softplus", "cosh", "erfc", "celu", "sigmoid", "nan_to_num", "logit", "conj_physical")
SIZES = (MANY - 1, MANY, MANY + 1, 2 * STRIP, 3 * STRIP + 37)


def bits(x):
    return np.asarray(x).tobytes(), x.shape, x.strides, x.dtype


@pytest.fixture
def whole(monkeypatch):
    """Return a function that calls a kernel without strips."""

    def call(kernel, *args, **kwargs):
        with monkeypatch.context() as patched:
            patched.setattr(elementwise_strips, "MANY", 1 << 40)
            return kernel(*args, **kwargs)

    return call


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("op", ONE)
def test_strips_give_the_bits_of_the_whole(op, size, dtype, whole):
    torch.manual_seed(0)
    x = to_numpy((torch.rand(size) * 0.9 + 0.05).to(dtype))
    kernel = table[f"aten::{op}"]
    assert bits(kernel(x)) == bits(whole(kernel, x))
    assert (kernel(x) is x) == (op == "conj_physical")


CALLS = {
    "lerp.Tensor": lambda x, row: (x, x * 2, row),
    "addcmul": lambda x, row: (x, row, x),
    "where.self": lambda x, row: (x > 0, x, row),
    "clamp.Tensor": lambda x, row: (x, row, None),
    "pow.Tensor_Tensor": lambda x, row: (x, row),
    "remainder.Tensor": lambda x, row: (x, row + 3),
}


@pytest.mark.parametrize("kind", ["row", "column", "number", "alone", "first"])
@pytest.mark.parametrize("op", CALLS)
def test_broadcast_operands(op, kind, whole):
    x = torch.randn(300, 700).numpy()
    row = {"row": x[0], "column": x[:, :1].copy(), "number": x[0, 0, ...], "alone": x[:1, :1].copy(), "first": x[:1]}[
        kind
    ]
    args, kernel = CALLS[op](x, np.asarray(row)), table[f"aten::{op}"]
    assert bits(kernel(*args)) == bits(whole(kernel, *args))


@pytest.mark.parametrize("op", ["digamma", "lerp.Tensor", "_add_relu.Tensor", "softplus_backward"])
@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0), (0, 2, 1)])
def test_other_orders_of_dimensions(order, op, whole):
    x = torch.rand(50, 60, 70).permute(order)
    more = {"digamma": (), "lerp.Tensor": (x, x), "_add_relu.Tensor": (x,), "softplus_backward": (x, 1.0, 20.0)}[op]
    args, kernel = tuple(to_numpy(a) if isinstance(a, torch.Tensor) else a for a in (x, *more)), table[f"aten::{op}"]
    mine = kernel(*args)
    assert bits(mine) == bits(whole(kernel, *args))
    row_major = table["aten::pow.Scalar"](2.0, to_numpy(x)), table["aten::angle"](to_numpy(x + 1j))
    assert all(found.flags.c_contiguous for found in row_major)
    base, _, overload = op.partition(".")
    torchs = getattr(getattr(torch.ops.aten, base), overload or "default")(x, *more)
    assert mine.strides == tuple(4 * s for s in torchs.stride())


@pytest.mark.parametrize("shape, order", [((1, 400, 300), (0, 2, 1)), ((300, 400, 1, 1), (3, 1, 2, 0))])
def test_dimensions_of_size_1_in_other_orders(shape, order, whole):
    x = np.random.default_rng(0).random(shape, np.float32).transpose(order)
    for name, *more in (("special_zeta.other_scalar", 2.5), ("true_divide_.Scalar", 3), ("erfcx.out",), ("digamma",)):
        name = f"aten::{'special_' if name.startswith('erf') else ''}{name}"
        out = {"out": np.empty_like(x)} if name.endswith("out") else {}
        found, kept = table[name](x.copy(order="K"), *more, **out).copy(order="K"), table[name]
        assert bits(found) == bits(whole(kept, x.copy(order="K"), *more, **out).copy(order="K"))
    assert strips_of([x]) is None and strips_of([x], settled=True).shape == x.shape


def test_shapes_that_do_not_fit_are_refused_in_torchs_words():
    x = np.ones((300, 700), np.float32)
    with pytest.raises(RuntimeError, match=r"The size of tensor a \(700\) must match the size of tensor b \(699\)"):
        table["aten::lerp.Tensor"](x, x[:, 1:].copy(), x)


def test_errors_name_the_shapes_of_the_whole(whole):
    x, out = np.ones((400, 300), np.float32), np.ones((400, 300), np.int64)
    calls = (
        ("prims::add", (x, x[0]), {}), ("aten::digamma.out", (x,), {"out": out}), ("aten::digamma_", (out,), {}),
        ("aten::_foreach_digamma_", ([out],), {}), ("aten::bitwise_and.Tensor", (x, x), {}),
    )  # fmt: skip
    for name, args, named in calls:
        told = []
        for run in (lambda kernel, *a, **k: kernel(*a, **k), whole):
            with pytest.raises((RuntimeError, NotImplementedError)) as error:
                run(table[name], *args, **named)
            told.append((type(error.value), str(error.value)))
        assert told[0] == told[1]
    assert (out == 1).all()


@pytest.mark.parametrize("op", ["digamma", "softplus", "ne.Scalar", "atan2", "lerp.Tensor"])
def test_outs_and_targets(op, whole):
    x = torch.rand(300, 700).numpy() + 0.5
    more = {"ne.Scalar": (1.0,), "atan2": (x * 2,), "lerp.Tensor": (x * 2, x)}.get(op, ())
    base, _, overload = op.partition(".")
    name = {"digamma": "digamma.out", "softplus": "softplus.out", "ne.Scalar": "ne.Scalar_out", "atan2": "atan2.out"}
    want = whole(table[f"aten::{op}"], x, *more)
    for out in (np.empty_like(want), np.empty((700, 300), want.dtype).T, np.empty((0,), want.dtype), x.copy()):
        got = table[f"aten::{name.get(op, 'lerp.Tensor_out')}"](x, *more, out=out)
        assert got is out and np.array_equal(got, want.astype(got.dtype))
    shared = x.copy()
    if name.get(op) and want.dtype == x.dtype:
        assert np.array_equal(table[f"aten::{name[op]}"](shared, *more, out=shared), want)
    if op != "softplus":  # softplus has no in-place form
        target = x.copy()
        assert table[f"aten::{base}_{'.' * bool(overload)}{overload}"](target, *more) is target
        assert np.array_equal(target, want.astype(target.dtype))


@pytest.mark.parametrize(
    "op", ["add_.List", "lerp_.ScalarList", "addcmul_.Scalar", "sqrt_", "clamp_min_.ScalarList", "copy_"]
)
def test_lists_of_targets(op):
    torch.manual_seed(1)
    lists = [[torch.rand(*s) + 0.5 for s in ((300, 700), (3,), (120_000,))] for _ in range(3)]
    more = {
        "add_.List": (lists[1],), "lerp_.ScalarList": (lists[1], [0.25, 2.0, 0.75]), "addcmul_.Scalar": (*lists[1:], 2),
        "sqrt_": (), "clamp_min_.ScalarList": ([0.75, 1, 0.8],), "copy_": (lists[2],),
    }[op]  # fmt: skip
    mine = [t.numpy().copy() for t in lists[0]]
    given = [[x.numpy() if isinstance(x, torch.Tensor) else x for x in m] if isinstance(m, list) else m for m in more]
    table[f"aten::_foreach_{op}"](mine, *given)
    base, _, overload = op.partition(".")
    getattr(getattr(torch.ops.aten, f"_foreach_{base}"), overload or "default")(lists[0], *more)
    for a, b in zip(mine, lists[0], strict=True):
        np.testing.assert_allclose(a, b.numpy(), 1e-6)


def test_an_out_of_another_shape_is_resized():
    row = np.ones(1022, np.float32)
    out = np.empty((1022, 1022), bool)
    with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
        got = table["aten::ne.Scalar_out"](row, 0, out=out)
    assert got.shape == (1022,) and got.all()


def test_an_operand_that_is_part_of_the_target_is_refused():
    x = np.ones((300, 700), np.float32)
    with pytest.raises(RuntimeError, match="unsupported operation: some elements of the input tensor"):
        table["aten::lerp_.Tensor"](x, x[:1], x[1:2])


def test_what_is_cut():
    x = np.ones((STRIP, 2), np.float32)
    assert strips_of([x, x]) == ((STRIP, 2), (0, 1), 2 * STRIP, STRIP)
    assert strips_of([x, x[0]]) == ((STRIP, 2), None, STRIP, STRIP // 2)
    assert strips_of([x.T, x.T]) == ((2, STRIP), (1, 0), 2 * STRIP, STRIP)
    assert strips_of([x[: STRIP // 2]]) is strips_of([x[::2]]) is strips_of([x, x.reshape(2, -1).T]) is None
    assert not takes_strips(table["aten::sum"].schema) and not takes_strips(table["aten::bernoulli"].schema)
    assert takes_strips(table["aten::digamma"].schema)


@pytest.mark.parametrize("name", ["digamma", "digamma.out", "digamma_"])
def test_the_peak_is_the_result_and_some_strips(name):
    x = np.random.default_rng(0).random((1 << 21,), np.float32) + 1
    out = {"out": np.empty_like(x)} if name.endswith("out") else {}
    kernel = table[f"aten::{name}"]
    kernel(x, **out)
    before = torchnp.get_num_threads()
    torchnp.set_num_threads(1)
    tracemalloc.start()
    try:
        kernel(x, **out)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        torchnp.set_num_threads(before)
    assert peak < x.nbytes * (name == "digamma") + 24 * 4 * STRIP
