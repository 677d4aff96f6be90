"""Programs: functions that are sent once and called by their hash do what the functions do, or say why they are none."""

from __future__ import annotations

import collections
import contextlib
import copy
import gc
import pickle
import random
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
from torchnp.rpc import wire
from torchnp.rpc.client import calling, recording
from torchnp.tests import programs, rpc_server

OPTIMIZERS = {
    "SGD": {"lr": 0.1},
    "SGD with momentum": {"lr": 0.1, "momentum": 0.9},
    "Adam": {"lr": 0.05, "fused": True},
    "AdamW": {"lr": 0.05, "fused": True, "amsgrad": True},
    "Adagrad": {"lr": 0.05, "fused": True},
    "RMSprop": {"lr": 0.01, "momentum": 0.9},
    "Adadelta": {},
}
UNCOUNTED = ("SGD", "SGD with momentum")


def trained(session, name, order, as_program, steps=12):
    """Losses, the model and the last step's frames, of training with dropout and a batch norm."""
    torch.manual_seed(0)
    model = session.module(nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(0.3), nn.Linear(16, 3)))
    optimizer = getattr(torch.optim, name.split()[0])(model.parameters(), **OPTIMIZERS[name])
    if name not in UNCOUNTED:
        session.optimizer(optimizer)

    def step(x, y, *, scale=1.0):
        if order == "first":
            optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y) * scale
        loss.backward()
        optimizer.step()
        if order == "last":
            optimizer.zero_grad()
        return {"loss": loss, "batch": (y, 6)}

    run = session.program(step) if as_program else step
    xs, ys = torch.randn(steps, 6, 8), torch.randint(0, 3, (steps, 6))
    losses, versions = [], []
    for x, y in zip(xs, ys):
        y = session.send(y)
        found = run(session.send(x), y, scale=2.0)
        assert found["batch"][0] is y and found["batch"][1] == 6
        losses.append(found["loss"].detach().publish())
        versions.append([p._version for p in model.parameters()])
        assert all((p.grad is None) == (order == "last") for p in model.parameters())
    grads = [p.grad.publish() for p in model.parameters()] if order == "first" else []
    gc.collect()
    status = session.sync()
    return losses, versions, grads, session.publish([model.state_dict(), optimizer.state_dict()]), status, run


def flat(x):
    if isinstance(x, dict):
        return [t for v in x.values() for t in flat(v)]
    if isinstance(x, (list, tuple)):
        return [t for v in x for t in flat(v)]
    return [x] if isinstance(x, torch.Tensor) else []


@pytest.mark.parametrize("order", ["first", "last"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training(name, order):
    """To the bit: losses, gradients, parameters, state, versions, random numbers, counters, and what the server holds."""
    found = []
    for as_program in (False, True):
        with rpc.local() as session:
            found.append((*trained(session, name, order, as_program), session.overloads))
            session.channel.close()
    (*plain, a, _, ops), (*ours, b, run, same_ops) = found
    assert run.calls >= 6 and not run.why_not and f"{run.calls} calls" in repr(run)
    assert plain[1] == ours[1]
    for x, y in zip(flat(plain), flat(ours), strict=True):
        assert torch.equal(x, y)
    assert (a.ops, a.objects, a.object_bytes, ops) == (b.ops, b.objects, b.object_bytes, same_ops)


def test_a_call_is_one_short_frame(monkeypatch):
    sent = []
    with rpc.local() as session:
        send = session.channel.transport.send
        monkeypatch.setattr(session.channel.transport, "send", lambda frames: (sent.append(list(frames)), send(frames)))
        layers = session.module(nn.Sequential(*[nn.Linear(4, 4) for _ in range(40)]))

        @session.program
        def forward(x):
            with torch.no_grad():
                return layers(x)

        x = session.send(torch.ones(2, 4))
        values = []
        for _ in range(5):
            sent.clear()
            values.append(forward(x).publish())
        assert all(torch.equal(v, values[0]) for v in values)
        (call,) = [f for frames in sent for f in frames if type(wire.decode_request(f)) is wire.Call]
        assert len(call) < 400 and len(forward._kinds) == 1
        assert forward.__name__ == "forward" and forward.calls == 3
        name, programs = wire.decode_request(call).program, session.channel.transport._connection.programs
        assert programs.get(name).count == 80
        forward.forget()
        session.sync()
        with pytest.raises(rpc.ProtocolError, match="there is no program"):
            programs.get(name)


def test_over_a_wire():
    with rpc_server.process() as (where, _):
        found = []
        for as_program in (False, True):
            with rpc.connect(where) as session:
                found.append(trained(session, "Adam", "first", as_program))
        assert found[1][-1].calls >= 6
        for x, y in zip(flat(found[0][:4]), flat(found[1][:4]), strict=True):
            assert torch.equal(x, y)


# ---------------------------------------------------------------- random functions


def function_of(lines, leaves):
    """A function of the first tensors of a random program, which returns all others, and gradients.

    ``leaves`` are the names of those tensors, and whether they get gradients.
    """

    def run(*given):
        own = {n: t.detach().requires_grad_(grad) for (n, grad), t in zip(leaves.items(), given)}
        scope, errors = {"torch": torch, "F": F, **own}, []
        for line in lines:
            error = programs.step(line, scope)
            if error is not None and not isinstance(error, rpc.RPCError):
                errors.append(type(error).__name__)
        found = {n: t.detach().clone() for n, t in programs.tensors(scope).items() if n not in leaves}
        found |= {f"{n}.grad": t.grad for n, t in own.items() if t.grad is not None}
        return found, str(errors)

    return run


def refreshed(session, begin, call):
    """The inputs of a random program, with other values for each call."""
    scope = programs.scope_with(lambda t, grad: session.send(t + call if t.is_floating_point() else t))
    for line in begin:
        exec(line, scope)
    return [scope[line.partition(" ")[0]] for line in begin]


def published(handle):
    try:
        return handle.publish()
    except rpc.RemoteOpError as error:
        return str(error).partition("\n")[0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("first", range(0, 60, 30))
def test_random_functions(first):
    called = 0
    for seed in range(first, first + 30):
        lines = programs.drawn(seed)
        begin = [line for line in lines if "send(" in line]
        leaves = {line.partition(" ")[0]: line.endswith("True)") for line in begin}
        run = function_of(lines[len(begin) :], leaves)
        with rpc.local() as session:
            program = session.program(run)
            for call in range(5):
                results = []
                for function in (run, program):
                    given = refreshed(session, begin, call)
                    torch.manual_seed(call)
                    found, errors = function(*given)
                    found = {
                        n: t.resolve_conj().resolve_neg() for n, t in found.items() if isinstance(t, rpc.RPCTensor)
                    }
                    found |= {n: t.detach() for n, t in zip(leaves, given)}
                    values = {n: published(t) for n, t in found.items()}
                    results.append((values, errors, [t._version for t in given]))
                (one, *rest), (other, *same) = results
                assert one.keys() == other.keys() and rest == same, (seed, call)
                for n in one:
                    if isinstance(one[n], str):
                        assert one[n] == other[n]
                        continue
                    assert one[n].dtype == other[n].dtype and one[n].stride() == other[n].stride(), (seed, call, n)
                    assert torch.equal(one[n].nan_to_num(), other[n].nan_to_num()), (seed, call, n)
            called += program.calls > 0
            session.channel.close()
    assert called >= 12, called


# ---------------------------------------------------------------- what is no program


def kept_outside(x, outside=[]):  # noqa: B006
    outside.append(x + 1)
    return x * 2


def with_numbers_of_its_own(x, outside=[1.0]):  # noqa: B006
    outside[0] += 1
    return x * outside[0]


def on_a_plain_tensor(x, outside=torch.zeros(2)):
    outside += 1
    return x * 2


class Thing:
    pass


NONE = {
    "sends": (lambda x: x + torch.ones(3), "sends a tensor"),
    "publishes": (lambda x: x * x.sum().publish().item(), "asks for values"),
    "a plain result": (lambda x: torch.ones(2), "returns a plain tensor"),
    "a thing": (lambda x: Thing(), "returns a value of type Thing"),
    "random": (lambda x: x * float(torch.rand(())), "draws random numbers here"),
    "a generator": (lambda x: torch.bernoulli(x, generator=torch.Generator()), "has a generator of its own"),
    "seeded": (lambda x: (torch.manual_seed(3), torch.rand_like(x))[1], "seeds or restores torch's generator"),
    "conjugate": (lambda x: torch.complex(x, x).conj(), "returns a lazy conjugate"),
    "kept": (kept_outside, "a result that it does not return lives on, of the operator issued at .*test_rpc_called.py"),
    "numbers": (with_numbers_of_its_own, r"aten::mul.* issued at .*test_rpc_called.py:\d+ has 5.0 where it had 4.0"),
    "a plain tensor": (on_a_plain_tensor, "writes a plain tensor"),
    "Adam": (None, "writes a plain tensor.*session.optimizer"),
    "data": (lambda x: setattr(x, "data", x * 2), r"go over to another object \(.data"),
}


def stepping(session):
    layer = session.module(nn.Linear(3, 3))
    adam = torch.optim.Adam(layer.parameters())

    def step(x):
        adam.zero_grad()
        layer(x).sum().backward()
        adam.step()

    return step


@pytest.mark.parametrize("what", NONE)
def test_what_is_no_program_runs_as_it_is(what):
    function, why = NONE[what]
    with rpc.local() as session:
        program = session.program(function or stepping(session))
        with pytest.warns(UserWarning, match=f"(?s)runs operator by operator, and not as a program: .*{why}") as told:
            for _ in range(8):
                program(session.send(torch.ones(3)))
        assert len(told) == 1 and told[0].filename == __file__
        assert program.calls == 0 and program.why_not and program.why_not in repr(program)
        session.channel.close()


def test_arguments_that_are_no_handles():
    with rpc.local() as session:
        program = session.program(lambda x, y: x * y.item() if isinstance(y, torch.Tensor) else x * y)
        x = session.send(torch.ones(3))
        with pytest.warns(UserWarning, match=r"a plain tensor or an array is among its arguments: session.send\(\) it"):
            for i in range(6):
                assert program(x, torch.tensor(i)).publish().tolist() == [i] * 3
        for i in range(3):
            for _ in range(5):
                assert program(x, i).publish().tolist() == [i] * 3
                assert program(x, y=-0.0).publish().signbit().all() and not program(x, y=0.0).publish().signbit().any()
        assert program.calls > 5


def test_another_sessions_handles_are_refused_as_ever():
    with rpc.local() as session, rpc.local() as other:
        program = session.program(lambda x, y: x + y)
        with pytest.raises(rpc.HandleError, match="handles of two sessions cannot meet"):
            program(session.send(torch.ones(3)), other.send(torch.ones(3)))
        with pytest.warns(UserWarning, match="handles of another session"):
            for _ in range(5):
                session.program(torch.neg)(other.send(torch.ones(3))), program(other.send(torch.ones(3)), 2)
        other.channel.close()


def test_wrong_arguments():
    with rpc.local() as session:
        with pytest.raises(TypeError, match="session.program takes a function, not a value of type int"):
            session.program(3)
        with pytest.raises(
            TypeError, match="session.optimizer takes a torch.optim.Optimizer, not a value of type list"
        ):
            session.optimizer([])
        parameters = [nn.Parameter(session.send(torch.ones(3)))]
        for optimizer, words in (
            (torch.optim.Adam, "make it with fused=True"),
            (torch.optim.NAdam, "take one that has fused"),
        ):
            with pytest.raises(rpc.HandleError, match=words):
                session.optimizer(optimizer(parameters))


# ---------------------------------------------------------------- what changes in between


def test_the_key_tells_what_a_function_goes_by():
    rate = [2.0]
    with rpc.local() as session:
        x = session.send(torch.ones(3))
        program = session.program(lambda x: x * rate[0], key=lambda: rate[0])
        for rate[0] in (2.0, 3.0, 2.0):
            for _ in range(5):
                assert program(x).publish().tolist() == [rate[0]] * 3
        assert program.calls == 3 + 3 + 5
        with pytest.raises(TypeError, match="unhashable"):
            session.program(lambda x: x, key=list)(x)


def test_a_function_that_has_changed_is_found_out(monkeypatch):
    monkeypatch.setattr(calling, "LOOK_AGAIN", 5)
    rate = [2.0]
    with rpc.local() as session:
        x = session.send(torch.ones(3))
        program = session.program(lambda x: x * rate[0])
        for _ in range(12):
            assert program(x).publish().tolist() == [2.0] * 3
        rate[0] = 3.0
        with pytest.raises(
            rpc.HandleError, match=r"not what was recorded any more: aten::mul.* has 3.0 where it had 2.0"
        ):
            for _ in range(5):
                program(x)
        for _ in range(6):
            assert program(x).publish().tolist() == [3.0] * 3
        rate[0] = 4.0
        program.forget()
        for _ in range(6):
            assert program(x).publish().tolist() == [4.0] * 3


def test_modes_have_recordings_of_their_own():
    with rpc.local() as session:
        w = session.send(torch.ones(3), requires_grad=True)
        program = session.program(lambda: (w * 2).sum() if torch.is_grad_enabled() else (w * 3).sum())
        for _ in range(5):
            assert program().publish() == 6
            with torch.no_grad():
                assert program().publish() == 9


@pytest.mark.parametrize("outside", [False, True])
def test_gradients_add_up_as_they_would(outside):
    """Of a function that zeroes none: what is there before decides whether they are made or added to."""
    found = []
    for as_program in (False, True):
        with rpc.local() as session:
            w = session.send(torch.ones(3), requires_grad=True)
            run = (
                (lambda x: (w * x).sum().backward())
                if not as_program
                else session.program(lambda x: (w * x).sum().backward())
            )
            seen, held = [], []
            for i in range(12):
                run(session.send(torch.full((3,), float(i))))
                seen.append(w.grad.publish().tolist())
                held.append(w.grad)
                if outside or i in (5, 6, 9):
                    w.grad = None
            found.append((seen, [h.publish().tolist() for h in held]))
            if as_program:
                assert run.calls > 0
    assert found[0] == found[1]


def test_other_objects_are_looked_for():
    """A parameter that goes over to another object, one that another takes the place of, and one argument twice."""
    with rpc.local() as session:
        layer = session.module(nn.Linear(2, 2, bias=False))
        program = session.program(lambda x, y: (layer.weight * x).sum() - y.sum())
        a, b = session.send(torch.ones(2)), session.send(torch.zeros(2))
        for weights in (1.0, 2.0, 3.0):
            with torch.no_grad():
                if weights == 2.0:
                    layer.weight.data = session.send(torch.full((2, 2), weights))
                else:
                    layer.weight = nn.Parameter(session.send(torch.full((2, 2), weights)))
            for x, y, want in ((a, b, 4 * weights), (a, a, 4 * weights - 2), (b, a, -2.0)):
                for _ in range(4):
                    assert program(x, y).publish() == want
        assert program.calls > 10


def test_writes_are_seen_by_autograd():
    with rpc.local() as session:
        w, x = session.send(torch.ones(3), requires_grad=True), session.send(torch.ones(3))
        program = session.program(lambda x: x.mul_(2))
        for i in range(6):
            y = (w * x).sum()
            assert program(x) is x
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                y.backward()
            assert x.publish().tolist() == [2.0 ** (i + 1)] * 3
        assert program.calls > 2


def test_a_failure_names_its_place():
    with rpc.local() as session:
        table = session.send(torch.zeros(4, 3))
        program = session.program(lambda i: F.embedding(i, table) * 2)
        for _ in range(5):
            program(session.send(torch.tensor([1])))
        bad, good = program(session.send(torch.tensor([9]))), program(session.send(torch.tensor([2])))
        assert good.publish().tolist() == [[0.0] * 3]
        with pytest.raises(IndexError, match=r"aten::embedding, issued at .*test_rpc_called.py:\d+, failed"):
            bad.publish()
        assert program.calls > 3


def test_programs_within_programs_and_threads():
    with rpc.local() as session:
        inner = session.program(lambda x: x * 2)
        outer = session.program(lambda x: inner(x) + 1)
        x = session.send(torch.ones(2))
        for _ in range(6):
            assert outer(x).publish().tolist() == [3.0] * 2
        assert outer.calls > 2 and inner.calls == 0
        for _ in range(6):
            assert inner(x).publish().tolist() == [2.0] * 2
        with pytest.warns(UserWarning, match="calls another program"):
            again = session.program(lambda x: inner(x) + 1)
            monkey, recording_tape = session.channel, recording.Tape()
            monkey.tape = recording_tape
            try:
                session.channel.play(
                    inner._kinds[next(iter(inner._kinds))].recording.playable, [x._object.id], [], make=int
                )
            finally:
                monkey.tape = None
            assert recording_tape.problem == "calls another program"
            warnings.warn(recording_tape.problem, UserWarning, stacklevel=1)
        assert again(x).publish().tolist() == [3.0] * 2
        session.channel.close()


def test_a_session_has_room_for_so_much(monkeypatch):
    monkeypatch.setattr(wire, "MAX_PROGRAMS", 500)
    with rpc.local() as session:
        x = session.send(torch.ones(2))
        kept = [session.program(lambda x, n=n: [x := x * n for _ in range(20)][-1]) for n in (2, 3, 4)]
        with pytest.warns(UserWarning, match="with it the session's programs would have .* bytes, of 500"):
            for program in kept:
                for _ in range(4):
                    program(x)
        assert [bool(p.calls) for p in kept] == [True, False, False]
        del kept[0], program
        anew = session.program(lambda x: [x := x * 4 for _ in range(20)][-1])
        for _ in range(5):
            assert anew(x).publish().tolist() == [4.0**20] * 2
        assert anew.calls == 3
        session.sync()


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_a_repeated_step_is_a_tenth_of_the_bytes(session, name):
    """The same losses, and no fewer operators on the server."""

    def steps(as_program):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3))
        model, x, y = session.module(model), session.send(torch.randn(6, 8)), session.send(torch.randint(0, 3, (6,)))
        optimizer = getattr(torch.optim, name)(model.parameters(), **OPTIMIZERS[name])
        if name not in UNCOUNTED:
            session.optimizer(optimizer)

        def step():
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        run, losses = session.program(step) if as_program else step, []
        for _ in range(3):
            before = session.sync()
            losses += [run(), run(), run(), run()]
            after = session.sync()
        return after.bytes_sent - before.bytes_sent, after.ops - before.ops, [x.publish() for x in losses]

    called, ops, losses = steps(True)
    sent, same_ops, same = steps(False)
    assert (ops, losses) == (same_ops, same)
    assert 10 * called < sent, (called, sent)


def test_a_step_may_be_the_last_of_its_kind():
    """A thousand kinds of arguments: those that were not met for long are forgotten, and the server forgets them."""
    with rpc.local() as session:
        x = session.send(torch.ones(2))
        program = session.program(lambda x, n: x * n)
        draw = random.Random(1)
        for _ in range(40):
            n = draw.randrange(60)
            for _ in range(4):
                assert program(x, n).publish().tolist() == [n] * 2
        session.sync()
        assert len(program._kinds) == calling.KINDS
        assert len(session.channel.transport._connection.programs._known) == calling.KINDS


# ---------------------------------------------------------------- held against the function itself


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
    """Of an argument, of a leaf that is used, and of one that only a function of its own has."""
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
    """By a program alone, by one that has not used the leaves, and where there were some that it would have added to."""
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


ALIKE = {  # and how many calls are frames, or why none is
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
    monkeypatch.setattr(calling, "LOOK_AGAIN", 2)
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
