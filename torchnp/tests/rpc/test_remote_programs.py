"""Programs: functions that are sent once and called by their hash give the functions' results, or say why they
cannot."""

from __future__ import annotations

import gc
import random
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from torchnp import rpc
from torchnp.rpc import wire
from torchnp.rpc.client.program import recording, remote_program
from torchnp.tests.rpc import random_torch_programs, server_pool

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
    """Return the losses, the model and the last step's frames of a training with dropout and a batch norm."""
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
    """All bits agree: losses, gradients, parameters, state, versions, random numbers, counters, and the server's
    objects."""
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
        (call,) = [f for frames in sent for f in frames if type(wire.decode_request(f)) is wire.CallProgram]
        assert len(call) < 400 and len(forward._kinds) == 1
        assert forward.__name__ == "forward" and forward.calls == 3
        name, programs = wire.decode_request(call).program, session.channel.transport._connection.programs
        assert programs.get(name).count == 80
        forward.forget()
        session.sync()
        with pytest.raises(rpc.ProtocolError, match="there is no program"):
            programs.get(name)


def test_over_a_wire():
    with server_pool.process() as (where, _):
        found = []
        for as_program in (False, True):
            with rpc.connect(where) as session:
                found.append(trained(session, "Adam", "first", as_program))
        assert found[1][-1].calls >= 6
        for x, y in zip(flat(found[0][:4]), flat(found[1][:4]), strict=True):
            assert torch.equal(x, y)


# ---------------------------------------------------------------- random functions


def function_of(lines, leaves):
    """Return a function of the first tensors of a random program; it returns all other tensors, and gradients.

    ``leaves`` are the names of those tensors, and whether they get gradients.
    """

    def run(*given):
        own = {n: t.detach().requires_grad_(grad) for (n, grad), t in zip(leaves.items(), given)}
        scope, errors = {"torch": torch, "F": F, **own}, []
        for line in lines:
            error = random_torch_programs.step(line, scope)
            if error is not None and not isinstance(error, rpc.RPCError):
                errors.append(type(error).__name__)
        found = {n: t.detach().clone() for n, t in random_torch_programs.tensors(scope).items() if n not in leaves}
        found |= {f"{n}.grad": t.grad for n, t in own.items() if t.grad is not None}
        return found, str(errors)

    return run


def refreshed(session, begin, call):
    """Return the inputs of a random program, with other values for each call."""
    scope = random_torch_programs.scope_with(lambda t, grad: session.send(t + call if t.is_floating_point() else t))
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
        lines = random_torch_programs.drawn(seed)
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
    "kept": (
        kept_outside,
        "a result that it does not return lives on, of the operator issued at .*test_remote_programs.py",
    ),
    "numbers": (
        with_numbers_of_its_own,
        r"aten::mul.* issued at .*test_remote_programs.py:\d+ has 5.0 where it had 4.0",
    ),
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
    monkeypatch.setattr(remote_program, "LOOK_AGAIN", 5)
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
    """The function clears no gradients, so the existing ones decide whether gradients are made or added."""
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
    """A parameter is replaced by another object, another object gets its place, and one argument occurs twice."""
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
        with pytest.raises(IndexError, match=r"aten::embedding, issued at .*test_remote_programs.py:\d+, failed"):
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
    """The losses are the same, and the server runs as many operators."""

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
    """After a thousand kinds of arguments, client and server have dropped those that were not used for long."""
    with rpc.local() as session:
        x = session.send(torch.ones(2))
        program = session.program(lambda x, n: x * n)
        draw = random.Random(1)
        for _ in range(40):
            n = draw.randrange(60)
            for _ in range(4):
                assert program(x, n).publish().tolist() == [n] * 2
        session.sync()
        assert len(program._kinds) == remote_program.KINDS
        assert len(session.channel.transport._connection.programs._known) == remote_program.KINDS
