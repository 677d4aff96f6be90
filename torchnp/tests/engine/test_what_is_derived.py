"""Operators that an engine lacks are derived: writes, views, factories and composites, on read-only arrays."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import torchnp
from torchnp.engine import Engine, HandleError, MissingOperator
from torchnp.tests.engine.arrays import Arrays
from torchnp.tests.rpc import random_torch_programs

FEW = [
    f"aten::{name}"
    for name in [
        "add.Tensor",
        "mul.Tensor",
        "div.Tensor",
        "exp",
        "log",
        "sqrt",
        "tanh",
        "gt.Tensor",
        "where.self",
        "sum.dim_IntList",
        "amax",
        "mm",
        "view_copy",
        "permute_copy",
        "index_select",
        "_to_copy",
        "eq.Tensor",
        "lt.Tensor",
        "scatter_add",
        "gather",
        "logical_not",
    ]
]


@pytest.fixture
def engine():
    return Arrays()


@pytest.fixture
def few():
    return Arrays(FEW)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("first", range(0, 80, 20))
def test_random_programs(first):
    """Values, gradients, version counters, metadata and errors are torch's, on an engine without views and writes."""
    for seed in range(first, first + 20):
        said = random_torch_programs.difference(random_torch_programs.drawn(seed), Arrays())
        assert not said or "in which elements share memory" in said, (seed, said)


def test_views_follow_their_base_and_write_into_it(few):
    plain, x = torch.arange(12.0).reshape(3, 4), few.send(torch.arange(12.0).reshape(3, 4))
    for t in (plain, x):
        row, turned, part = t[1], t.t(), t[:, 1:3].t()
        t.mul_(2)
        row.add_(100)
        part[0] = 7
        turned[3].zero_()
        t.mul_(turned.t())
    for a, b in ((x, plain), (x[1], plain[1]), (x.t(), plain.t()), (x[:, 1:3].t(), plain[:, 1:3].t())):
        assert torch.equal(a.publish(), b)


def test_a_view_that_was_made_before_a_write(few):
    plain, x = torch.ones(2, 3), few.send(torch.ones(2, 3))
    seen = [t[0] for t in (plain, x)]
    for t in (plain, x):
        t.add_(1)
    assert torch.equal(seen[1].publish(), seen[0])
    for t in seen:
        t.add_(5)
    assert torch.equal(x.publish(), plain)


def test_a_write_that_cannot_be_made_is_refused(engine):
    x = engine.send(torch.ones(3))
    with pytest.raises(HandleError, match="elements share memory"):
        engine.send(torch.ones(3, 1)).expand(3, 2).copy_(engine.send(torch.zeros(3, 2)))
    with pytest.raises(HandleError, match="dtype is not its base's"):
        x.view(torch.int32).zero_()
    assert torch.equal(x.publish(), torch.ones(3))


def test_out_and_lists(engine):
    x, out = engine.send(torch.arange(3.0)), engine.send(torch.empty(0))
    torch.exp(x, out=out)
    torch.testing.assert_close(out.publish(), torch.arange(3.0).exp())
    values, places = engine.send(torch.empty(2)), engine.send(torch.empty(2, dtype=torch.int64))
    torch.max(engine.send(torch.eye(2)), dim=1, out=(values, places))
    assert values.publish().tolist() == [1, 1] and places.publish().tolist() == [0, 1]
    torch._foreach_mul_([x, out], 2.0)
    assert x.publish().tolist() == [0, 2, 4]


INDEXING = {
    "one": lambda x, i: x[i],
    "the second": lambda x, i: x[:, i],
    "two": lambda x, i: x[i, i],
    "apart": lambda x, i: x[i, :, i],
    "the last two": lambda x, i: x[:, i, i[:, None]],
    "a slice with a step": lambda x, i: x[1:, ::2] * x[:2, :2],
    "a diagonal": lambda x, i: x.diagonal(0, 0, 2),
    "index_select": lambda x, i: x.index_select(1, i[:2] * 0 + 1),
    "embedding": lambda x, i: F.embedding(i * 0 + 2, x[0]),
    "gather": lambda x, i: x.gather(0, (i * 0 + 1)[None, None, :].expand(2, 3, 3)),
}


@pytest.mark.parametrize("name", INDEXING)
def test_indexing_and_its_gradients(few, name):
    values, places = torch.arange(36.0).reshape(3, 3, 4), torch.tensor([2, 0, -2])
    for index in (places, few.send(places)):
        plain, x = values.clone().requires_grad_(), few.send(values).requires_grad_()
        want, got = INDEXING[name](plain, places), INDEXING[name](x, index)
        assert torch.equal(got.publish(), want) and got.stride() == want.stride()
        weights = torch.arange(1.0, want.numel() + 1).reshape(want.shape)
        want.backward(weights)
        got.backward(few.send(weights))
        assert torch.equal(x.grad.publish(), plain.grad)


def test_factories_and_randomness(few):
    x = few.send(torch.ones(1000))
    assert x.new_zeros(2).publish().tolist() == [0, 0]
    torch.manual_seed(3)
    kept = F.dropout(x, 0.25).publish()
    assert set(kept.tolist()) == {0.0, torch.tensor(4 / 3).item()} and 650 < kept.count_nonzero() < 850
    torch.manual_seed(3)
    assert torch.equal(F.dropout(x, 0.25).publish(), kept)
    assert torch.equal(torch.zeros_like(x).normal_().publish().isfinite(), torch.ones(1000, dtype=torch.bool))


def test_losses_of_few_operators(few):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.LayerNorm(8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    x, y = torch.randn(7, 5), torch.randint(0, 3, (7,))
    moved = few.module(model)
    F.cross_entropy(model(x), y).backward()
    F.cross_entropy(moved(few.send(x)), few.send(y)).backward()
    for a, b in zip(moved.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(a.grad.publish(), b.grad)
    assert set(few.calls) <= set(FEW)


def test_a_missing_operator_is_named_itself_with_who_needs_it():
    without = Arrays([name for name in FEW if "gather" not in name])
    x, y = without.send(torch.zeros(2, 3)), without.send(torch.tensor([0, 2]))
    with pytest.raises(
        MissingOperator, match="^aten::gather: arrays has no such operator. aten::nll_loss_forward"
    ) as e:
        F.cross_entropy(x, y)
    assert e.value.op == "aten::gather" and e.value.needed_by == ("aten::nll_loss_forward",)
    assert "test_what_is_derived.py" in str(e.value) and "server" not in str(e.value)
    bare = Arrays([])
    with pytest.raises(MissingOperator, match="^aten::unsqueeze: .* nor aten::unsqueeze_copy or aten::view_copy"):
        bare.send(torch.ones(2)).unsqueeze(0)
    with pytest.raises(MissingOperator, match="^aten::asinh: "):
        bare.send(torch.ones(2)).asinh()
    with pytest.raises(MissingOperator, match="^aten::add.Tensor: .* aten::add_.Tensor needs it"):
        bare.send(torch.ones(2)).add_(1)


OF_PRIMS = {  # operators that torch computes with operators of its own, or by writing into a tensor that it makes
    "aten::erfinv": lambda x: x.erfinv(),
    "aten::pow.Tensor_Tensor": lambda x: x**x,
    "aten::cat": lambda x: torch.cat([x, x]),
    "aten::constant_pad_nd": lambda x: F.pad(x, (1, 1)),
    "aten::special_i0e": torch.special.i0e,
    "aten::im2col": lambda x: F.unfold(x, 2, padding=1),
}


@pytest.mark.parametrize("name", OF_PRIMS)
def test_a_missing_operator_has_a_name_that_an_engine_can_declare(name):
    with pytest.raises(MissingOperator) as error:
        OF_PRIMS[name](Arrays(["aten::exp"]).send(torch.ones(1, 4, 3)))
    assert name in (error.value.op, *error.value.needed_by) and error.value.op.startswith("aten::")
    assert not re.search("server|session|plain tensor|prims::", str(error.value))


def test_writes_by_a_mask(few):
    x, mask = torch.arange(12.0).reshape(2, 3, 2), torch.tensor([[True, False, True], [False, True, True]])
    there, chosen = few.send(x), few.send(mask)
    x[mask], there[chosen] = 7.0, 7.0
    x[:, mask[0]], there[:, chosen[0]] = -1.0, -1.0
    x[x > 6], there[there > 6] = 0.0, 0.0
    assert torch.equal(there.publish(), x)
    assert "aten::index_put" not in few.calls


def test_dtypes():
    engine = Arrays()
    engine.dtypes = ("float32", "bool")
    x = engine.send(torch.ones(3))
    assert (x > 0).publish().all()
    with pytest.raises(HandleError, match="a tensor of float64: arrays has no such dtype, only float32, bool"):
        engine.send(torch.ones(3).double())
    with pytest.raises(HandleError, match="aten::argmax gives a result of int64"):
        x.argmax()
    with pytest.raises(HandleError, match="a constant of int64"):
        x + torch.ones(3, dtype=torch.int64)


def test_options_and_nests():
    class Noted(Arrays):
        def upload(self, tensor, **options):
            self.noted.append(options)
            return super().upload(tensor)

        def download(self, payload, spec, factor=1):
            return super().download(payload, spec) * factor

    engine = Noted()
    engine.noted = []
    sent = engine.send({"x": torch.ones(2), "n": 3, "y": [torch.zeros(1)]}, owner="a")
    assert engine.noted == [{"owner": "a"}] * 2
    back = engine.publish(sent, factor=5)
    assert back["x"].tolist() == [5, 5] and back["n"] == 3 and back["y"][0].tolist() == [0]
    model = engine.module(torch.nn.Linear(2, 1), owner="b")
    assert engine.noted[2:] == [{"owner": "b"}] * 2
    state = engine.publish(model.state_dict())
    assert all(type(t) is torch.Tensor for t in state.values())


def test_payloads_may_be_anything():
    """A payload is a list of two integer shares for each number; to torch the tensor is float32."""

    class Shared(Engine):
        name, ops = "two shares", ["aten::add.Tensor", "aten::neg", "aten::sum.dim_IntList", "aten::expand_copy"]

        def upload(self, tensor):
            whole = np.round(tensor.numpy() * 256).astype(np.int64)
            mask = np.random.default_rng(0).integers(-(2**62), 2**62, whole.shape)
            return [np.asarray(whole - mask), np.asarray(mask)]

        def download(self, payload, spec):
            return torch.as_tensor(sum(payload) / 256).to(spec.dtype)

        def run(self, call):
            assert [r.dtype for r in call.results] == [torch.float32]
            options = {k: v for k, v in call.kwargs.items() if k != "dtype"}
            first = lambda a, i: a[i] if isinstance(a, list) and isinstance(a[0], np.ndarray) else a
            return [torchnp.table[call.op](*(first(a, i) for a in call.args), **options) for i in (0, 1)]

    engine = Shared()
    x, y = engine.send(torch.tensor([1.5, -2.25]), requires_grad=True), engine.send(torch.tensor([0.25, 1.0]))
    total = (x - y).sum()
    assert total.dtype == torch.float32 and total.publish() == -2.0
    total.backward()
    assert x.grad.publish().tolist() == [1, 1]


def test_an_engine_without_methods_says_what_is_missing():
    class Nothing(Engine):
        name, ops = "nothing", ["aten::neg"]

    with pytest.raises(TypeError, match="Nothing does not say how a tensor gets there"):
        Nothing().send(torch.ones(3))

    class Half(Nothing):
        def upload(self, tensor):
            return 0

    with pytest.raises(TypeError, match="Half does not say how its operators run"):
        -Half().send(torch.ones(3))
    with pytest.raises(TypeError, match="Half does not say how its values are published"):
        Half().send(torch.ones(3)).publish()

    class Wrong(Half):
        ops = ("aten::no_such_thing",)

    with pytest.raises(ValueError, match="torch has no 'aten::no_such_thing'"):
        -Wrong().send(torch.ones(3))
