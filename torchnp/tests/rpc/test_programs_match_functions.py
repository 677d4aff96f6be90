"""Programs compared with the functions from which they were recorded: values, gradients, versions, leaves and random
numbers."""

from __future__ import annotations

import collections
import contextlib
import copy
import gc
import pickle
import re
import threading
import types
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from torchnp import rpc
from torchnp.rpc.client.program import remote_program


def ones(session, *shape, **kwargs):
    return session.send(torch.ones(*shape), **kwargs)


def an_argument_is_used_beside(session, program):
    w, other = ones(session, 3), session.send(torch.full((3,), 5.0))
    run = program(lambda x: (w.add_(1), x + 2 * w)[1])
    return [(run(x).publish().tolist(), w._version) for x in (w, other, w) for _ in range(4)]


def bits_of_an_argument(session, program):
    x = session.send(torch.tensor([1 + 2j, 3 - 1j]))
    run = program(lambda x: x * 2 + x.real)
    lazy = (x.conj(), torch._neg_view(x), torch._neg_view(x.conj()), x)
    return [run(a).publish().tolist() for a in lazy for _ in range(4)]


def arguments_that_overlap(session, program):
    x, y, found = ones(session, 6), ones(session, 3), []
    run = program(lambda a, b: (a.mul_(2), b.add_(1))[0])
    pairs = ((x[:3], y), (x[:3], x[:3]), (x[:3], x[1:4]), (x[:3], x[:3].flip(0)), (x[:3], x[:3].detach()))
    for a, b in pairs:
        for _ in range(4):
            run(a, b)
            found.append((x.publish().tolist(), y.publish().tolist(), x._version, y._version))
    return found


def views_are_returned(session, program):
    w, x, found = ones(session, 4, 3, requires_grad=True), ones(session, 4, 3), []
    for run in (program(lambda x: (x, x[0])), program(lambda x: (y := x * 2, y[0]))):
        for _ in range(5):
            y, view = run(x)
            z = (w * y).sum()
            view.mul_(2)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                z.backward()
            found.append(x._version)
    return found


def one_result_twice(session, program):
    x, run = ones(session, 3), program(lambda x: (y := (x * 2).add_(1), {"again": y}))
    found = [run(x) for _ in range(5)]
    return [(a is b["again"], a._version, a.publish().tolist()) for a, b in found]


def new_leaves(session, program):
    x, run = ones(session, 3), program(lambda x: (x * 2).requires_grad_())
    return [(y.requires_grad, y.is_leaf) for y in (run(x) for _ in range(5))]


def new_parameters(session, program):
    x, run = ones(session, 3), program(lambda x: nn.Parameter(x * 2))
    return [isinstance(run(x), nn.Parameter) for _ in range(5)]


def a_graph_is_written(session, program):
    w, found = ones(session, 3, requires_grad=True), []
    run = program(lambda x: (x.add_(w), None)[1])
    for _ in range(5):
        x = ones(session, 3)
        run(x)
        x.sum().backward()
        found.append(w.grad.publish().tolist())
    return found


def a_graph_from_before(session, program):
    h, held, found = ones(session, 3, requires_grad=True), [], []
    h.grad, x = session.send(torch.zeros(3)), h * 2
    backward = program(lambda: (x * 3).sum().backward(retain_graph=True))
    for i in range(8):
        backward()
        found.append(h.grad.publish().tolist())
        if i == 5:
            held.append(h.grad)
            h.grad = session.send(torch.zeros(3))
    return found


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return None, grad.sum()


def gradients_that_are_replaced(session, program):
    """Gradients are replaced: of an argument, of a used leaf, and of a leaf that only an autograd function has."""
    found = []
    w, v = ones(session, 3, requires_grad=True), ones(session, (), requires_grad=True)
    steps = (
        (w, program(lambda x: (x * 3).sum().backward()), [w]),
        (w, program(lambda: (w * 3).sum().backward()), []),
        (v, program(lambda x: Double.apply(x, v).sum().backward()), [ones(session, 3)]),
    )
    for leaf, run, arguments in steps:
        leaf.grad, held = torch.zeros_like(leaf), []
        for i in range(12):
            if i in (5, 7, 9):
                held.append(leaf.grad)
                leaf.grad = None if i == 7 else torch.zeros_like(leaf)
            run(*arguments)
            found.append([g.publish().tolist() for g in (leaf.grad, *held)])
        leaf.grad = None
    return found


def parameters_are_frozen(session, program):
    layer, found = session.module(nn.Linear(2, 2)), []
    run = program(lambda x: (layer.zero_grad(), layer(x).sum().backward(), None)[2])
    for i in range(12):
        layer.weight.requires_grad_(i // 4 != 1)
        run(ones(session, 2, 2))
        found.append([p.grad is None for p in layer.parameters()])
    return found


def seeds_within(session, program):
    x, seeds, found = ones(session, 20), iter(range(20)), []

    def run(x):
        torch.manual_seed(next(seeds))
        return F.dropout(x, 0.5)

    run = program(run)
    for _ in range(6):
        found.append((run(x).publish().tolist(), torch.rand(()).item()))
    return found


def a_fork_of_the_generator(session, program):
    def run(x):
        with torch.random.fork_rng():
            return F.dropout(x, 0.5)

    torch.manual_seed(0)
    x, run = ones(session, 20), program(run)
    return [(run(x).publish().tolist(), torch.rand(()).item()) for _ in range(6)]


def seeds_outside(session, program):
    x, run, found = ones(session, 20), program(lambda x: F.dropout(x, 0.5)), []
    for _ in range(6):
        torch.manual_seed(3)
        found += [run(x).publish().tolist(), run(x).publish().tolist()]
    return found


def forward_mode(session, program):
    x, t, run, found = ones(session, 3), ones(session, 3), program(lambda x: x * x), []
    for _ in range(4):
        run(x)
    with torch.autograd.forward_ad.dual_level():
        for _ in range(4):
            dual = torch.autograd.forward_ad.make_dual(x, t)
            found.append(torch.autograd.forward_ad.unpack_dual(run(dual)).tangent.publish().tolist())
    return found, [torch.func.vmap(run)(x).publish().tolist() for _ in range(4)]


def inference(session, program):
    with torch.inference_mode():
        x = ones(session, 3)
    y, twice = ones(session, 3), program(lambda x: x.mul_(2))
    with torch.inference_mode():
        versions = [twice(t)._version for t in 4 * [y] if twice(x) is x]
    within = program(torch.inference_mode()(lambda x: x + 1))
    return versions, [within(y).is_inference() for _ in range(5)]


def a_step_in_a_dict(session, program):
    numbers = iter(range(20))
    x, run = ones(session, 3), program(lambda x: {"step": torch.tensor(next(numbers) // 4), "y": x * 2})
    return [run(x)["step"].item() for _ in range(9)]


def data_of_a_parameter(session, program):
    p, held, found = nn.Parameter(ones(session, 3)), [], []
    run = program(lambda: (p.data.mul_(2), None)[1])
    for i in range(10):
        if i == 6:
            held.append(p.data)
            p.data = session.send(torch.full((3,), 7.0))
        run()
        found.append([t.publish().tolist() for t in (p, *held)])
    return found


def attributes_of_a_result(session, program):
    def run(x):
        y = x * 2
        y.tag = "y"
        return y

    x, run = ones(session, 3), program(run)
    return [run(x).tag for _ in range(5)]


def methods(session, program):
    class Trainer:
        def __init__(self, value):
            self.w = session.send(torch.full((3,), value))

        @program
        def step(self, x):
            return x + self.w

    x, one, two, found = ones(session, 3), Trainer(1.0), Trainer(2.0), []
    for trainer in (one, two, one):
        for _ in range(4):
            found.append(trainer.step(x).publish().tolist())
        held, trainer.w = trainer.w, session.send(torch.full((3,), 5.0))
        for _ in range(4):
            found.append((trainer.step(x).publish().tolist(), held.publish().tolist()))
    return found


def slices_of_a_dataset(session, program):
    data, run = session.send(torch.arange(60.0).reshape(60, 1)), program(lambda x, n: x.square() + n)
    return [run(data[i : i + 3], n=slice(2).stop).publish().tolist() for i in range(0, 60, 3)]


def places_in_memory(session, program):
    data, run = session.send(torch.arange(12.0)), program(lambda x: x.as_strided((2,), (1,)) * 2)
    return [run(data[i : i + 3]).publish().tolist() for i in (0, 3, 6) for _ in range(4)]


def fresh_leaves(session, program):
    run, found = program(lambda x: (x * 2).sum()), []
    for _ in range(40):
        found.append(run(ones(session, 3, requires_grad=True)).publish().item())
    gc.collect()
    return found, session.sync().objects


def a_scaler(session, program):
    torch.manual_seed(0)
    layer = session.module(nn.Linear(3, 1))
    optimizer, scaler = torch.optim.SGD(layer.parameters(), 0.1, momentum=0.9), torch.amp.GradScaler("cpu", 1024.0)
    found = []

    def step(x):
        optimizer.zero_grad()
        scaler.scale(layer(x).square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()

    step = program(step)
    for i in range(9):
        step(session.send(torch.randn(4, 3) if i not in (4, 6) else torch.full((4, 3), torch.inf)))
        found.append(session.publish([layer.weight, scaler._scale]))
    return str(found)


def gradients_that_are_cleared(session, program):
    """Gradients are cleared: by a program of its own, by a program that has not used the leaves, and where gradients
    would add up."""
    torch.manual_seed(0)
    layer, other = session.module(nn.Linear(2, 1)), session.module(nn.Linear(2, 1))
    optimizer, found = torch.optim.SGD(layer.parameters(), lr=0.1), []
    step = program(lambda x: (layer(x).sum().backward(), optimizer.step(), optimizer.zero_grad(), None)[-1])
    zero, alone = program(optimizer.zero_grad), program(lambda x: (layer.zero_grad(), other(x).square().mean())[1])
    for run, with_some in ((step, (5, 8)), (lambda x: zero(), (0, 1, 2, 3, 6, 8)), (alone, (0, 1, 2, 3, 6, 8))):
        for i in range(12):
            if i in with_some:
                layer(ones(session, 3, 2) * i).sum().backward()
            run(ones(session, 3, 2))
            found.append([(p.publish().tolist(), p.grad is None) for p in layer.parameters()])
    return found


def gradients_that_are_given(session, program):
    w = ones(session, 3, requires_grad=True)
    optimizer, found = torch.optim.SGD([w], lr=0.1), []

    def run(g):
        w.grad = g
        optimizer.step()

    run = program(run)
    for i in range(8):
        run(session.send(torch.full((3,), float(i))))
        found.append((w.publish().tolist(), w.grad.publish().tolist()))
    return found


def gradients_of_the_frozen(session, program):
    layer, found = session.module(nn.Linear(2, 1)), []
    torch.nn.init.ones_(layer.weight.requires_grad_(False))
    torch.nn.init.ones_(layer.bias)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    run = program(lambda x: (layer(x).sum().backward(), optimizer.step(), setattr(layer.bias, "grad", None))[2])
    for i in range(10):
        if i == 5:
            layer.weight.grad = ones(session, 1, 2)
        run(ones(session, 3, 2))
        found.append([p.publish().tolist() for p in layer.parameters()])
    return found


def gradients_over_several_calls(session, program):
    torch.manual_seed(0)
    layer, found = session.module(nn.Linear(3, 1)), []
    optimizer = session.optimizer(torch.optim.Adam(layer.parameters(), lr=0.1, fused=True))
    accumulate = program(lambda x: layer(x).square().mean().backward())
    apply = program(lambda: (optimizer.step(), optimizer.zero_grad(set_to_none=False), None)[2])
    for i in range(20):
        accumulate(session.send(torch.randn(4, 3)))
        if i % 3 == 2:
            apply()
        found.append([(p.publish().tolist(), p.grad.publish().tolist(), p.grad._version) for p in layer.parameters()])
    return found


def modes_that_are_left(session, program):
    x, run, found = ones(session, 3), program(lambda x: (torch.set_grad_enabled(False), x * 2)[1]), []
    for _ in range(5):
        run(x)
        found.append(torch.is_grad_enabled())
        torch.set_grad_enabled(True)
    return found


def what_arguments_hold(session, program):
    batch, queue = types.SimpleNamespace(x=ones(session, 3)), collections.deque([ones(session, 3)] * 2, maxlen=2)
    run, held, found = program(lambda batch, queue, scale: (batch.x + sum(queue)) * scale), [], []
    for i in range(12):
        found.append(run(batch, queue, np.float64(0.5)).publish().tolist())
        if i % 6 == 5:
            held += [batch.x, queue[0]]
            batch.x = session.send(torch.full((3,), 7.0))
            queue.append(session.send(torch.full((3,), 5.0)))
    return found


def hooks_of_saved_tensors(session, program):
    w, x, found = ones(session, 3, requires_grad=True), ones(session, 3), []
    run = program(lambda x: (setattr(w, "grad", None), (w * x * w).sum().backward())[1])
    for hooked in (True, False, True):
        for _ in range(4):
            with contextlib.ExitStack() as stack:
                if hooked:
                    stack.enter_context(torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t))
                run(x)
            found.append(w.grad.publish().tolist())
    return found


ALIKE = {  # the number of calls that are frames, or the reason why none is
    an_argument_is_used_beside: 4, bits_of_an_argument: 8, arguments_that_overlap: 8, one_result_twice: 3, new_leaves: 3,
    views_are_returned: "a view of a handle that was there before.*two handles on the same memory",
    new_parameters: "a new parameter, or a handle with attributes",
    a_graph_is_written: "has a handle from before require a gradient",
    a_graph_from_before: "uses a handle that was computed from what requires a gradient",
    gradients_that_are_replaced: 12, parameters_are_frozen: 5, seeds_within: "seeds or restores torch's generator",
    a_fork_of_the_generator: "seeds or restores torch's generator", seeds_outside: 10, forward_mode: 2, inference: 7,
    a_step_in_a_dict: "returns a plain tensor", data_of_a_parameter: "a handle that is gone when it ends",
    attributes_of_a_result: "handle with attributes", methods: 12, slices_of_a_dataset: 18, places_in_memory: 6,
    fresh_leaves: "32 kinds of arguments", a_scaler: 5, gradients_that_are_cleared: 15, gradients_of_the_frozen: 5,
    gradients_that_are_given: "has a handle from before for the gradient of a leaf", gradients_over_several_calls: 18,
    hooks_of_saved_tensors: 2, modes_that_are_left: "changes torch's modes", what_arguments_hold: 8,
}  # fmt: skip


@pytest.mark.parametrize("case", ALIKE, ids=lambda case: case.__name__)
def test_as_the_function_does(case):
    found, programs_, words = [], [], []
    for wrap in (
        lambda session: lambda f: f,
        lambda session: lambda f: programs_.append(session.program(f)) or programs_[-1],
    ):
        with rpc.local() as session, warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found.append(case(session, wrap(session)))
            words = [str(w.message) for w in told]
    assert found[0] == found[1]
    calls = sum(program.calls for program in programs_)
    if isinstance(ALIKE[case], str):
        assert calls == 0 and re.search(ALIKE[case], " ".join(words)), words
    else:
        assert calls >= ALIKE[case] and not words, (calls, words)


@pytest.mark.parametrize(
    "case", [c for c, calls in ALIKE.items() if not isinstance(calls, str)], ids=lambda c: c.__name__
)
def test_looking_again_finds_the_same(case, monkeypatch):
    monkeypatch.setattr(remote_program, "LOOK_AGAIN", 2)
    with rpc.local() as session:
        found = case(session, lambda f: f)
    with rpc.local() as session:
        assert found == case(session, session.program)


def test_threads_record_one_at_a_time():
    with rpc.local() as session:
        functions = [session.program(lambda x, n=n: [x := x * 1.5 + n for _ in range(30)][-1]) for n in range(4)]
        wrong = []

        def work(n):
            for i in range(30):
                x = session.send(torch.full((2,), float(i)))
                found = functions[n](x).publish()
                for _ in range(30):
                    x = x * 1.5 + n
                wrong.extend([] if torch.equal(found, x.publish()) else [(n, i)])

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong


def test_a_program_is_not_copied():
    with rpc.local() as session:
        program = session.program(lambda x: x)
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="cannot be copied or pickled: it is of one session"):
                copied(program)


def test_an_argument_with_a_graph():
    with rpc.local() as session:
        w, program = session.send(torch.ones(3), requires_grad=True), session.program(lambda x: (x * 2).sum())
        with pytest.warns(
            UserWarning, match=r"an argument has been computed from what requires a gradient: detach\(\)"
        ):
            assert [program(w * 2).publish().item() for _ in range(6)] == [12.0] * 6
        assert [program((w * 2).detach()).publish().item() for _ in range(6)] == [12.0] * 6
        assert program.calls == 4
