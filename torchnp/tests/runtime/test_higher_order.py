"""Programs with branches, loops, maps, scans and effects: torch's results, and errors for subgraphs that do not fit."""

import copy
import json

import numpy as np
import pytest
import torch
from torch import nn
from torch._higher_order_ops import scan, while_loop
from torch._higher_order_ops.map import map as map_over
from torch.utils import _pytree as pytree

import torchnp
from torchnp.core.target import parse
from torchnp.runtime import ProgramError
from torchnp.runtime.graph import parse_graph
from torchnp.runtime.loading import link
from torchnp.runtime.run import run
from torchnp.tests.runtime import exported

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
AUTO = torch.export.Dim.AUTO


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x, flag):
        return torch.cond(flag, lambda x: self.linear(x), lambda x: x * 2, (x,)), x + 1


class OfSizes(nn.Module):
    """A branch that depends on a size, with another branch inside, and several results."""

    def forward(self, x):
        def small(x):
            return torch.cond(x.sum() > 0, lambda x: (x.sin(), x.sum()), lambda x: (x.cos(), x.mean()), (x,))

        return torch.cond(x.shape[0] > 4, lambda x: (x * x.shape[0], x.amax()), small, (x,))


class Loop(nn.Module):
    def forward(self, x, n):
        def go_on(i, x):
            return i < n

        def body(i, x):
            return i + 1, x * 1.5 + n

        return while_loop(go_on, body, (torch.tensor(0), x))


class Newton(nn.Module):
    """Iterates square roots until they are precise; values decide how often."""

    def forward(self, x):
        return while_loop(
            lambda y: ((y * y - x).abs() > 1e-4).any(), lambda y: ((y + x / y) / 2,), (torch.ones_like(x),)
        )[0]


class Mapped(nn.Module):
    def forward(self, xs, y):
        return map_over(lambda x, y: {"a": x[0].sin() + y, "b": (x[1] * y).sum()}, xs, y)


class Recurrence(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(3, 3)

    def forward(self, h, xs):
        return scan(lambda h, x: (self.cell(h).tanh() + x, (h * x).sum()), h, xs)


class Asserted(nn.Module):
    def forward(self, x):
        torch._assert_async((x > 0).all(), "must be positive")
        return torch.linalg.inv(x), x + 1


CASES = {
    "branch": (Branch, lambda: [(torch.randn(4, 3), torch.tensor(f)) for f in (True, False)], None),
    "of sizes": (OfSizes, lambda: [(f * torch.ones(n, 3),) for f, n in ((1, 3), (-1, 3), (1, 6))], ({0: AUTO},)),
    "loop": (Loop, lambda: [(torch.randn(4, 3), torch.tensor(n)) for n in (3, 0, 1)], None),
    "newton": (Newton, lambda: [(torch.rand(4) + n,) for n in (1, 30)], None),
    "mapped": (Mapped, lambda: [((torch.randn(n, 3), torch.randn(n, 2, 3)), torch.randn(3))
      for n in (4, 2)], (({0: AUTO}, {0: AUTO}), None)),
    "recurrence": (Recurrence, lambda: [(torch.randn(3), torch.randn(n, 3)) for n in (5, 2)], (None, {0: AUTO})),
    "asserted": (Asserted, lambda: [(torch.eye(2) + 0.5,)], None),
}  # fmt: skip


def arrays(tree):
    return pytree.tree_map(lambda x: x.detach().numpy().copy() if isinstance(x, torch.Tensor) else x, tree)


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_it_gives_what_torch_gives(name, decomposed):
    torch.manual_seed(0)
    model, make, dynamic = CASES[name]
    module, calls = model().eval(), make()
    program = torch.export.export(module, calls[0], dynamic_shapes=dynamic)
    program = program.run_decompositions() if decomposed else program
    ours = torchnp.load(exported.archive(program))
    for args in calls:
        with torch.no_grad():
            expected, spec = pytree.tree_flatten(program.module()(*args))
        found, structure = pytree.tree_flatten(ours(*arrays(args)))
        assert spec == structure
        for x, y in zip(found, expected):
            assert [s // x.itemsize for s in x.strides] == list(y.stride())
            torch.testing.assert_close(torch.from_numpy(x), y)


def test_effects_happen(capsys):
    class Talks(nn.Module):
        def forward(self, x, y):
            torch._higher_order_ops.print("{} {{and}} {b}, {}", x.sum(), 3, b=y)
            return x + 1

    program = torch.export.export(Talks(), (torch.ones(2), torch.tensor(1.5)))
    for saved in (program, program.run_decompositions()):
        ours = torchnp.load(exported.archive(saved))
        capsys.readouterr()
        assert np.array_equal(ours(np.ones(2, "f4"), np.float32(2.5)), [2, 2])
        assert capsys.readouterr().out == "2.0 {and} 2.5, 3\n"
    ours = torchnp.load(exported.archive(torch.export.export(Asserted(), (torch.eye(2) + 1,)).run_decompositions()))
    checks_inverse = parse(torch.__version__) >= (2, 13)  # before, torch did not check that
    assert ("aten::_linalg_check_errors" in {r.name for r in ours.requires()}) == checks_inverse
    with pytest.raises(RuntimeError, match="must be positive"):
        ours(-np.eye(2, dtype="f4"))
    if checks_inverse:
        with pytest.raises(RuntimeError, match="singular"):
            ours(np.ones((2, 2), "f4"))


# ---------------------------------------------------------------- what does not fit

V = {"dtype": 7, "sizes": [], "strides": [], "storage_offset": {"as_int": 0}, "device": {"type": "cpu"}, "layout": 7}


def tensor(name):
    return {"as_tensor": {"name": name}}


def function(*inputs, reads=None):
    """Return a graph with an inner graph that returns its first input, or the value named by ``reads``."""
    inner = {"inputs": [*map(tensor, inputs)], "outputs": [tensor(reads or inputs[0])], "nodes": []}
    return {
        "as_graph": {"name": "f", "graph": {**inner, "tensor_values": dict.fromkeys(inputs, V), "sym_int_values": {}}}
    }


def program(target, *args, results=("y",), **kwargs):
    named = [{"name": n, "arg": x, "kind": 2} for n, x in kwargs.items()]
    node = {
        "target": f"torch.ops.higher_order.{target}",
        "inputs": [{"name": "", "arg": x, "kind": 1} for x in args] + named,
        "outputs": [tensor(n) if n else {"as_none": True} for n in results],
    }
    values = {"x": V, **{n: V for n in results if n}}
    return {
        "inputs": [tensor("x")],
        "outputs": [tensor("x")],
        "nodes": [node],
        "tensor_values": values,
        "sym_int_values": {},
    }


def read(record):
    graph = parse_graph(json.loads(json.dumps(copy.deepcopy(record))), "here")
    link(graph)
    return graph


X, XS, NONE = tensor("x"), {"as_tensors": [{"name": "x"}]}, {"as_tensors": []}
F, OF_TWO, OF_NONE = function("a"), function("a", "b"), function(reads="x")
OP = {"as_operator": "torch.ops.aten._linalg_check_errors.default"}
TEXT = lambda text: {"as_string": text}
GOOD = {
    "cond": program("cond", X, F, F, XS),
    "while_loop": program("while_loop", F, F, XS, NONE),
    "map": program("map_impl", OF_TWO, XS, XS),
    "scan": program("scan", OF_TWO, XS, XS, NONE),
    "grad mode": program("wrap_with_set_grad_enabled", {"as_bool": False}, F, X),
    "print": program("print", TEXT("{} {b}"), X, results=(None,), b=X),
    "effects": program("with_effects", X, OP, X, TEXT("inv"), results=("y", None), is_matrix={"as_bool": True}),
}
BAD = {
    "cond of no graph": program("cond", X, F, X, XS),
    "cond of one graph": program("cond", X, F, XS),
    "cond of a graph as condition": program("cond", F, F, F, XS),
    "cond of a value for a list": program("cond", X, F, F, X),
    "cond of too many values": program("cond", X, F, OF_TWO, XS),
    "cond with a keyword": program("cond", X, F, F, XS, extra=X),
    "cond of nothing": program("cond"),
    "cond whose branch reads outside": program("cond", X, OF_NONE, OF_NONE, NONE),
    "loop of few values": program("while_loop", F, F, NONE, NONE),
    "loop of no lists": program("while_loop", F, F, X, X),
    "map of few values": program("map_impl", OF_TWO, XS, NONE),
    "scan of few lists": program("scan", OF_TWO, XS, XS),
    "scan of many values": program("scan", F, XS, XS, NONE),
    "print of nothing": program("print", results=(None,)),
    "print of a tensor": program("print", X, results=(None,)),
    "print of an attribute": program("print", TEXT("{0.__class__}"), X, results=(None,)),
    "print of an item": program("print", TEXT("{0[0]}"), X, results=(None,)),
    "print with a width": program("print", TEXT("{:>99999999999}"), X, results=(None,)),
    "print of a missing value": program("print", TEXT("{} {}"), X, results=(None,)),
    "print of a missing place": program("print", TEXT("{7}"), X, results=(None,)),
    "print of a missing name": program("print", TEXT("{b}"), X, results=(None,)),
    "print of an open brace": program("print", TEXT("{"), X, results=(None,)),
    "effects without a token": program("with_effects", OP, X),
    "effects without an operator": program("with_effects", X, X),
    "effects without results": program("with_effects", X, OP, X, TEXT("inv"), results=()),
    "effects of another operator": program("with_effects", X, {"as_operator": "os.system"}, X),
    "effects of effects": program("with_effects", X, {"as_operator": "torch.ops.higher_order.with_effects"}, X),
    "effects of few arguments": program("with_effects", X, OP, results=("y", None)),
    "effects of a number": program("with_effects", X, {"as_operator": 3}, X),
    "an operator for a value": program("cond", OP, F, F, XS),
    "an operator in a graph": program("print", TEXT("{}"), OP, results=(None,)),
    "another operator": program("run_with_rng_state", X, OP, X),
}


@pytest.mark.parametrize("what", GOOD)
def test_what_the_bad_ones_are_made_of(what):
    assert read(GOOD[what])


@pytest.mark.parametrize("what", BAD)
def test_operators_that_do_not_fit_are_refused(what):
    with pytest.raises(ProgramError) as said:
        read(BAD[what])
    assert len(str(said.value)) > 20


def test_conditions_are_one_bool():
    with pytest.raises(RuntimeError, match="cond_fn must return a boolean scalar tensor or a boolean but got"):
        run(read(GOOD["while_loop"]), [np.ones((), "f4")])
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with more than one value is ambiguous"):
        run(read(GOOD["cond"]), [np.ones(2, "f4")])
