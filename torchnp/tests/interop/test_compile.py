"""``torch.compile`` with the backend ``torchnp``: eager torch's results, gradients, writes, views and random numbers."""

import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import threadpoolctl
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils import _pytree as pytree

from torchnp import compiler
from torchnp.compiler import aot, one_core
from torchnp.core.target import parse
from torchnp.tests.interop import models
from torchnp.tests.runtime import exported

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")


@pytest.fixture(autouse=True)
def reset():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(f, **kwargs):
    return torch.compile(f, backend=compiler.backend, **kwargs)


def storages(args, results):
    """Return which results share memory with which arguments, and with each other."""
    found = [x.untyped_storage()._cdata for x in pytree.tree_leaves((args, results)) if isinstance(x, torch.Tensor)]
    return [found.index(x) for x in found]


def both(f, *calls, **kwargs):
    """Compare a compiled function with the function itself: results, strides, aliases, and writes."""
    g = compiled(f, **kwargs)
    for make in calls:
        torch.manual_seed(1)
        args = make()
        expected = f(*args)
        after = torch.rand(2)
        torch.manual_seed(1)
        given = make()
        found = g(*given)
        assert torch.equal(after, torch.rand(2)), "the random numbers that follow"
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(given, args, check_stride=True)
        assert storages(given, found) == storages(args, expected)
        for x, y in zip(pytree.tree_leaves(found), pytree.tree_leaves(expected), strict=True):
            if isinstance(y, torch.Tensor):
                assert (x.stride(), x.storage_offset()) == (y.stride(), y.storage_offset())


# ---------------------------------------------------------------- models


@pytest.mark.parametrize("name", models.CASES)
@pytest.mark.parametrize("p", [0.0, 0.3])
def test_training(name, p):
    """Return the losses of five steps, with dropout from torch's own random numbers."""
    losses = []
    for wrap in (lambda m: m, compiled):
        model, batch = models.build(name, torch.float32, p)
        run, optimizer = wrap(model), models.OPTIMIZERS["adam"](model.parameters())
        torch.manual_seed(3)
        for _ in range(5):
            optimizer.zero_grad()
            loss = models.CASES[name].loss(run(batch), models.LABELS)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    torch.testing.assert_close(torch.stack(losses[5:]), torch.stack(losses[:5]), rtol=2e-6, atol=2e-6)


# "lookup" returns as many rows as its values say, and "sizes" changes the gradient mode; both are tested below.
@pytest.mark.parametrize("name", sorted({*exported.CASES} - {*models.CASES, "lookup", "sizes", "tied", "attention"}))
def test_inference(name):
    torch.manual_seed(7)
    case = exported.CASES[name]
    model = case.model().train(case.train)
    torch.manual_seed(8)
    args = case.args()
    state = {key: x.clone() for key, x in model.state_dict().items()}
    with torch.no_grad():
        expected = model(*args, **case.kwargs())
        written = {key: x.clone() for key, x in model.state_dict().items()}
        model.load_state_dict(state)
        found = compiled(model)(*args, **case.kwargs())
    tolerance = {"rtol": 1e-5, "atol": 1e-5}
    for x, y in zip(pytree.tree_leaves(found), pytree.tree_leaves(expected), strict=True):
        torch.testing.assert_close(x, y, **({} if y.dtype == torch.bfloat16 else tolerance), check_stride=True)
    torch.testing.assert_close(model.state_dict(), written, **tolerance)


@pytest.mark.parametrize("kind", ["sgd-momentum", "adamw"])
def test_a_step_of_an_optimizer(kind):
    weights = []
    for wrap in (lambda f: f, compiled):
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = models.OPTIMIZERS[kind](model.parameters())
        step = wrap(optimizer.step)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(2, 3)).square().sum().backward()
            step()
        weights.append(model.weight.detach())
    torch.testing.assert_close(*weights)


def test_what_a_module_keeps_is_written():
    class Counted(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(2))
            self.norm = nn.BatchNorm1d(3)

        def forward(self, x):
            self.calls.add_(1)
            return self.norm(x) * self.calls.sum()

    models_ = []
    for wrap in (lambda m: m, compiled):
        torch.manual_seed(0)
        models_.append(Counted())
        run = wrap(models_[-1])
        for n in (4, 6):
            torch.manual_seed(n)
            run(torch.randn(n, 3)).sum().backward()
    torch.testing.assert_close(models_[1].state_dict(), models_[0].state_dict())
    torch.testing.assert_close(models_[1].norm.weight.grad, models_[0].norm.weight.grad)


# ---------------------------------------------------------------- shapes, breaks, writes and views


def test_dynamic_shapes():
    calls = [lambda k=k: (torch.randn(k, 5),) for k in (3, 4, 7, 2)]
    both(lambda x: F.softmax(x @ x.mT, -1).sum(0) * x.shape[0], *calls, dynamic=True, fullgraph=True)
    graphs = []

    def counting(module, inputs):
        graphs.append(module)
        return compiler.backend(module, inputs)

    f = torch.compile(lambda x: x.view(-1, 2).sum(0).repeat(x.shape[0]) + x.numel(), backend=counting)
    for k in (3, 4, 7, 9):
        x = torch.randn(k, 4)
        torch.testing.assert_close(f(x), x.view(-1, 2).sum(0).repeat(k) + 4 * k)
    assert len(graphs) == 2  # one for the first size, one for all others


def test_graph_breaks():
    def f(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return y + 1 if y.sum() > 0 else y.cos() * 2

    both(f, lambda: (torch.ones(4),), lambda: (-torch.ones(4),))


def _written(x, y):
    x.add_(1)
    y[1:].mul_(2)
    y.T[0].fill_(3)
    return x * y, x.view(-1), y


def _views(x):
    y = x.exp()
    return y[1:], y[2:], x.T[1], x, y.T[1:], x.expand(2, 4, 3)


def _autocast(x):
    with torch.autocast("cpu"):
        return x @ x


CALLS = {
    "writes": (_written, lambda: (torch.randn(4, 3), torch.randn(4, 3))),
    "views": (_views, lambda: (torch.randn(4, 3),)),
    "one view": (lambda x: x.exp()[1:], lambda: (torch.randn(4, 3),)),
    "a conjugate": (lambda z: z.conj(), lambda: (torch.randn(3, dtype=torch.complex64),)),
    "of a conjugate": (lambda z: (z.conj() * 2).imag, lambda: (torch.randn(3, dtype=torch.complex64).conj(),)),
    "into a conjugate": (lambda z: z.mul_(2j), lambda: (torch.randn(3, dtype=torch.complex64).conj(),)),
    "constants": (lambda x: x * torch.tensor([1.0, 2, 3]) + torch.arange(3.0), lambda: (torch.randn(3),)),
    "random": (
        lambda x: F.dropout(x, 0.5) + torch.rand(4) + torch.randn_like(x) + torch.randperm(4),
        lambda: (torch.randn(4),),
    ),
    "numbers": (lambda x: (x.shape[0] * 2, x + 1, None), lambda: (torch.randn(3),)),
    "lists": (lambda xs: [x + 1 for x in torch._foreach_mul(xs, 2)], lambda: ([torch.ones(2), torch.ones(3)],)),
    "bfloat16": (lambda x: F.gelu(x) @ x.T, lambda: (torch.randn(3, 3).bfloat16(),)),
    "resized": (lambda x: torch.add(x, 1, out=torch.empty(0)), lambda: (torch.randn(3),)),
    "cond": (lambda x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x.cos(), (x,)), lambda: (torch.randn(3),)),
    "vmap": (lambda x: torch.func.vmap(torch.func.grad(lambda x: x.sin().sum()))(x), lambda: (torch.randn(3, 2),)),
    "attention": (lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), lambda: (torch.randn(2, 2, 5, 8),)),
    "autocast": (_autocast, lambda: (torch.randn(3, 3),)),
    "linalg": (lambda x: torch.linalg.inv(x) + torch.linalg.qr(x)[0], lambda: (torch.eye(3) * 2,)),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    f, make = CALLS[name]
    both(f, make, make)


def test_numbers_as_arguments():
    calls = [lambda k=k: (torch.randn(3), k, k + 0.5) for k in (2, 3, 4)]
    both(lambda x, k, s: x * k + s, *calls)


@torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True)
def test_sizes_of_values():
    both(lambda x: torch.zeros(x.sum().item()) + 1, lambda: (torch.tensor([2, 3]),), fullgraph=True)
    both(lambda x: x.nonzero().sum(0) + x[x > 0].sum().long(), lambda: (torch.randn(5),), fullgraph=True)


def test_as_strided_counts_from_the_storage():
    def f(x):
        written = torch.as_strided_scatter(x, -torch.ones(2, 2), (2, 2), (3, 1), 1)
        return torch.as_strided_copy(x, (2, 3), (3, 1), 1), x.as_strided((4,), (9,), 0) + 1, written

    x = torch.arange(40.0)[3:].as_strided((3, 4), (9, 2), 5)
    for wanted, found in zip(f(x), compiled(f)(x)):
        assert torch.equal(wanted, found)
    t = torch.arange(24.0)
    conjugate = torch.complex(t, t + 1)[2:20].conj()
    for x in (conjugate, conjugate.conj().imag[2:].neg(), torch._neg_view(t[3:])):
        f = lambda x: x.as_strided((3,), (1,), 1) * 2
        assert torch.equal(compiled(f)(x), f(x))
    f = lambda x: x.as_strided((2, 2), (1, 1), 0) + 1
    x = torch.arange(3.0).as_strided((16,), (0,), 0)  # its storage extends beyond its last element
    assert torch.equal(compiled(f)(x), f(x))


def test_what_hands_an_argument_on_gives_its_memory():
    """The result shares the argument's memory, although torch's compiler treats it as a new tensor."""
    x = torch.arange(20).as_strided((3, 4), (5, 1), 2)
    found = compiled(lambda x: torch.ops.prims.device_put(x, torch.device("cpu")))(x)
    assert found.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() and found.stride() == (5, 1)
    found += 1
    assert torch.equal(found, x) and x[0, 0] == 3


def test_gradients_through_views():
    found = []
    for wrap in (lambda f: f, compiled):
        torch.manual_seed(0)
        x, w = torch.randn(3, 4), torch.randn(4, 2, requires_grad=True)

        def f(x, w):
            y = x @ w
            return y.relu(), y[1:], w.T

        a, b, c = wrap(f)(x, w)
        (a.sum() + (b * b).sum() + c.prod()).backward()
        found.append(w.grad)
    torch.testing.assert_close(*found)


def test_checkpoint():
    from torch.utils.checkpoint import checkpoint

    model, grads = nn.Linear(3, 3), []

    def f(x):
        return checkpoint(lambda x: model(x).sigmoid(), x, use_reentrant=False).sum()

    for run in (f, compiled(f)):
        model.zero_grad()
        run(torch.ones(2, 3)).backward()
        grads.append(model.weight.grad.clone())
    torch.testing.assert_close(*grads)


def test_the_default_dtype():
    torch.set_default_dtype(torch.float64)
    try:
        both(lambda x: x.div(2) + torch.arange(1.0, 4.0) + torch.full((3,), 2.0), lambda: (torch.arange(3),))
    finally:
        torch.set_default_dtype(torch.float32)


def test_inference_mode():
    model = nn.Linear(3, 3)
    with torch.inference_mode():
        x = torch.randn(2, 3)
        torch.testing.assert_close(compiled(model)(x), model(x))


def test_a_write_is_seen_by_autograd():
    add = compiled(lambda x: x.add_(1))
    y = torch.randn(3, requires_grad=True).exp()
    z = y * y
    with torch.no_grad():
        add(y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_saved_values_are_freed():
    """Values that only the backward needs are freed once they are read, so a long chain needs only a few arrays at a
    time."""
    import tracemalloc

    def chain(x):
        for _ in range(20):
            x = x.sin()
        return x

    f = compiled(chain)
    x = torch.randn(1 << 18)
    f(x)
    tracemalloc.start()
    f(x)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * x.numel() * 4


# ---------------------------------------------------------------- refusals


def test_errors_are_torchs():
    if parse(torch.__version__) >= (2, 13):  # before, torch did not check the inverse
        with pytest.raises(torch.linalg.LinAlgError, match="singular"):
            compiled(lambda x: torch.linalg.inv(x))(torch.zeros(2, 2))

    def positive(x):
        torch._assert_async((x > 0).all(), "must be positive")
        return x + 1

    f = compiled(positive)
    assert torch.equal(f(torch.ones(2)), torch.full((2,), 2.0))
    with pytest.raises(RuntimeError, match="must be positive"):
        f(-torch.ones(2))


def test_what_cannot_run_is_named():
    with torch.library._scoped_library("torchnp_test", "FRAGMENT") as library:
        library.define("other(Tensor x) -> Tensor")
        library.impl("other", lambda x: x * 2, "CompositeExplicitAutograd")
        library._register_fake("other", lambda x: torch.empty_like(x))
        with pytest.raises(
            torch._dynamo.exc.BackendCompilerFailed, match="torchnp_test::other: another library.s operator"
        ):
            compiled(lambda x: torch.ops.torchnp_test.other(x) + 1)(torch.ones(2))
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="on the device meta"):
        compiled(lambda x: x + 1)(torch.ones(2, device="meta"))
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="has no option 'fast'"):
        compiled(lambda x: x + 1, options={"fast": True})(torch.ones(2))


def test_torch_finds_the_backend():
    project = Path(__file__).parents[3] / "pyproject.toml"
    if project.exists():  # a wheel does not contain it
        named = tomllib.loads(project.read_text())["project"]["entry-points"]["torch_dynamo_backends"]
        assert named == {"torchnp": "torchnp.compiler:backend"}
    (entry,) = entry_points(group="torch_dynamo_backends", name="torchnp")
    assert entry.load() is compiler.backend
    assert torch.equal(torch.compile(lambda x: x + 1, backend="torchnp")(torch.ones(2)), torch.full((2,), 2.0))


# ---------------------------------------------------------------- cores


def blas_threads():
    return [library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"]


def test_small_graphs_of_training_use_one_core_for_their_products(monkeypatch):
    """BLAS uses one thread for these graphs only, and as many as before afterwards."""
    seen = []
    real = aot.ExecutionPlan.__call__

    def call(self, inputs, report=None):
        seen.append(blas_threads())
        return real(self, inputs, report)

    monkeypatch.setattr(aot.ExecutionPlan, "__call__", call)
    monkeypatch.setattr(one_core.torch, "get_num_threads", lambda: 2)
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        many = blas_threads()
        model = torch.nn.Linear(8, 8)
        compiled = torch.compile(model, backend="torchnp")
        compiled(torch.ones(4, 8)).sum().backward()
        assert seen == [[1] * len(many)] * 2 and blas_threads() == many
        with torch.no_grad():
            compiled(torch.ones(4, 8))
        assert seen[2:] == [many]
        monkeypatch.setattr(one_core, "SMALL", 100)
        torch._dynamo.reset()  # forgets the graph of such a layer
        torch.compile(torch.nn.Linear(8, 8), backend="torchnp")(torch.ones(4, 8))
        assert seen[3:] == [many]
        monkeypatch.setattr(aot.ExecutionPlan, "__call__", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            compiled(torch.ones(4, 8))
        assert blas_threads() == many


def test_the_limit_of_cores_is_the_first_ones_to_set_and_the_last_ones_to_lift(monkeypatch):
    monkeypatch.setattr(one_core.torch, "get_num_threads", lambda: 2)
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        many = blas_threads()
        entered = [one_core.one_core() for _ in range(3)]
        for context in entered:
            context.__enter__()
        for context in entered[:2]:
            context.__exit__(None, None, None)
            assert blas_threads() == [1] * len(many)
        entered[2].__exit__(None, None, None)
        assert blas_threads() == many
