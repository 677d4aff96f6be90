"""A session reports every failure, and names wrong arguments where they are given."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from torchnp import rpc
from torchnp.rpc.client.session import pending
from torchnp.rpc.client.transports.transport import InProcess
from torchnp.rpc.server.session.protocol import Connection, ServerState
from torchnp.rpc.server.transports.server import Server
from torchnp.tests.rpc import server_pool


@pytest.fixture(scope="module", autouse=True)
def _stop_server():
    yield
    server_pool.stop()


@pytest.fixture(params=server_pool.TRANSPORTS)
def opened(request):
    return lambda: server_pool.session(request.param)


@pytest.fixture
def session(opened):
    with opened() as s:
        yield s


def failing(s):
    """Return an operator whose failure only the server can notice."""
    return F.embedding(s.send(torch.tensor([9])), s.send(torch.randn(4, 3)))


# ---------------------------------------------------------------- failures are heard of


def test_the_end_of_a_session_raises_what_nobody_published(opened):
    with pytest.raises(IndexError, match="index out of range in self") as caught, opened() as s:
        failing(s)
    assert caught.value.op == "aten::embedding"
    assert __file__ in caught.value.location
    assert s.channel.closed
    s = opened()
    failing(s)
    with pytest.raises(rpc.RemoteOpError):
        s.close()
    s.close()
    with pytest.raises(rpc.SessionClosed):
        s.sync()


def test_an_exception_of_the_users_own_is_not_replaced(opened):
    with pytest.raises(KeyError, match="mine"), opened() as s:
        failing(s)
        raise KeyError("mine")
    assert s.channel.closed


def test_what_was_raised_once_is_not_raised_at_the_end(opened):
    with opened() as s:
        failing(s)
        with pytest.raises(IndexError):
            s.sync()
    with opened() as s:
        bad = failing(s)
        for _ in range(2):
            with pytest.raises(IndexError):
                (bad + 1).publish()
    with opened() as s:
        s.send(torch.ones(3)).publish()
        before = s.stats.round_trips
    assert s.stats.round_trips == before


def test_a_publish_raises_only_what_its_value_depends_on(session):
    bad = failing(session)
    fine = session.send(torch.ones(3)) + 1
    assert fine.publish().tolist() == [2, 2, 2]
    other = failing(session)
    with pytest.raises(IndexError) as first:
        bad.publish()
    with pytest.raises(IndexError) as second:
        session.sync()
    assert second.value.seq > first.value.seq
    with pytest.raises(IndexError) as again:
        other.publish()
    assert again.value.seq == second.value.seq


def test_a_quota_that_nobody_published_against_is_raised_at_the_end():
    with pytest.raises(rpc.QuotaError, match="4,000 more are too many"), rpc.local(limits=rpc.Limits(1000)) as s:
        s.send(torch.zeros(1000))


def test_a_connection_that_broke_unheard_is_raised_at_the_end():
    class Broken(InProcess):
        broken = False

        def send(self, frames):
            if self.broken:
                raise rpc.ConnectionLost("the wire is cut")
            super().send(frames)

    def opened():
        state = ServerState()
        return rpc.Session(Broken(Connection(state)), agreed=state.agreement)

    with pytest.raises(rpc.ConnectionLost, match="cut"), opened() as s:
        x = s.send(torch.ones(3))
        s.channel.transport.broken = True
        x + 1
        while s.channel._dead is None:  # the sending thread notices
            pass
    with opened() as s:
        x = s.send(torch.ones(3))
        s.channel.transport.broken = True
        with pytest.raises(rpc.ConnectionLost):
            x.publish()


def test_a_flood_of_failures_is_bounded(monkeypatch):
    monkeypatch.setattr(pending, "MAX_FAILURES", 5)
    with rpc.local() as s:
        for _ in range(20):
            failing(s)
        s.send(torch.ones(1)).publish()
        assert len(s.channel._sent._failures) == 5
        with pytest.raises(IndexError, match="4 more"):
            s.sync()


def test_the_server_logs_failures_in_one_line(caplog):
    caplog.set_level(logging.INFO, "torchnp.rpc")
    with pytest.raises(IndexError) as raised, rpc.local() as s:
        failing(s)
    told = f"local session {s.number}: operator failed client=client op=aten::embedding error=IndexError"
    (line,) = [m for m in caplog.messages if m.startswith(told)]
    # The owner finds the client's failure by its number, with the stack; the client gets only its own line.
    number, stack = re.fullmatch(rf"{told} seq=(\d+) stack=(\S+)", line).groups()
    assert int(number) == raised.value.seq and "test_session.py" in raised.value.location
    places = stack.split("<")
    assert 1 < len(places) <= 8 and all(re.fullmatch(r"[\w.-]+/\w+\.py:\d+:[\w<>]+", place) for place in places)
    assert places[0].startswith(("kernels/embedding.py", "core/")) and "kernels" not in str(raised.value)
    caplog.clear()
    with pytest.raises(rpc.QuotaError), rpc.local(limits=rpc.Limits(10)) as s:
        s.send(torch.ones(10))
    assert any("operator failed client=client op=send error=QuotaError" in m for m in caplog.messages)
    caplog.clear()
    with server_pool.process() as (where, process):
        with pytest.raises(IndexError), rpc.connect(where) as s:
            failing(s)
        process.terminate()
        lines = [m for m in process.communicate(timeout=20)[1].splitlines() if "failed" in m]
    assert len(lines) == 1
    assert "INFO torchnp.rpc: 127.0.0.1:" in lines[0]


# ---------------------------------------------------------------- messages


def test_sessions_have_numbers():
    with rpc.local() as a, rpc.local() as b:
        assert b.number == a.number + 1
        assert repr(a) == f"<torchnp.rpc session {a.number} with local>"
        with pytest.raises(
            rpc.HandleError, match=f"one is of session {a.number} with local, .* session {b.number} with"
        ):
            a.send(torch.ones(3)) + b.send(torch.ones(3))


def test_wrong_arguments_are_type_errors_here(session):
    x = session.send(torch.ones(3))
    for run, words in (
        (lambda: session.module("a"), r"takes a torch\.nn\.Module, not a value of type str"),
        (lambda: session.module(nn.Linear), r"not the class Linear; write Linear\(\.\.\.\)"),
        (lambda: session.module(None), "not a value of type NoneType"),
        (lambda: session.send("abc"), "session.send takes a tensor.*type str"),
        (lambda: session.send(None), "type NoneType"),
        (lambda: session.send(np.array([None])), "type ndarray"),
        (lambda: session.send(nn.Linear(1, 1)), r"session\.module\(model\)"),
        (lambda: session.dataset(3), "name of a dataset, not a value of type int"),
        (lambda: session.manual_seed("a"), "takes an integer"),
        (lambda: rpc.connect("tcp://127.0.0.1:1", token=5), "a token is a string"),
        (lambda: rpc.connect(7077), "an address is a string"),
        (lambda: rpc.local(datasets=[1]), "dict of names and arrays"),
        (lambda: rpc.local(datasets={"a": ["x"]}), "the dataset 'a' of dtype"),
        (lambda: rpc.local(limits=5), r"rpc\.Limits"),
        (lambda: rpc.Limits(max_bytes="1"), "max_bytes is an integer"),
        (lambda: ServerState(token=5), "a token is a string"),
        (lambda: Server(ServerState(), port="80"), "a port is an integer"),
        (lambda: np.sum(x), r"np\.sum takes arrays.*use torch\.sum"),
        (lambda: np.mean(x), r"use torch\.mean"),
        (lambda: np.stack([x, x]), r"use torch\.stack"),
        (lambda: np.trim_zeros(x), "functions of torch's, which run there: Slice from the first"),
        (lambda: np.ones(3) + x, r"torch\.from_numpy"),
    ):
        with pytest.raises(TypeError, match=words):
            run()
    assert (np.float32(2) * x).publish().tolist() == [2, 2, 2]
    assert (1 + x).publish().tolist() == [2, 2, 2]
    assert session.send([[1, 2], [3, 4]]).publish().tolist() == [[1, 2], [3, 4]]
    assert session.send(np.float32(2)).publish() == 2
    with pytest.raises(rpc.HandleError, match="handle already"):
        session.send([x[0], x[1]])


def test_values_out_of_range_are_value_errors():
    for port in (99999, -1, 65536):
        with pytest.raises(ValueError, match=f"there is no port {port}: give one from 1 to 65535"):
            Server(ServerState(), port=port)
        with pytest.raises(ValueError, match="there is no port"):
            rpc.serve(port=port)
    for address in ("tcp://127.0.0.1:99999", "tcp://127.0.0.1:0"):
        with pytest.raises(ValueError, match="write tls://HOST:PORT or tcp"):
            rpc.connect(address)
    with pytest.raises(ValueError, match="max_objects cannot be -1"):
        rpc.Limits(max_objects=-1)


# ---------------------------------------------------------------- torch's own code


@pytest.mark.parametrize("name", ["LBFGS", "Adafactor"])
def test_optimizers_that_read_values_say_so(session, name):
    model = session.module(nn.Linear(3, 1))
    x = session.send(torch.ones(2, 3))
    optimizer = getattr(torch.optim, name)(model.parameters())

    def closure():
        optimizer.zero_grad()
        loss = model(x).sum()
        loss.backward()
        return loss

    with pytest.raises(rpc.ValueAccessError, match=rf"torch/optim/_?{name.lower()}\.py reads values.*SGD, Adam"):
        optimizer.step(closure)
    with pytest.raises(rpc.ValueAccessError) as caught:
        torch.optim.SGD(model.parameters()).step(lambda: float(closure()))
    assert "optimizer" not in str(caught.value)


def test_muon_runs_on_the_server(session):
    w = torch.randn(4, 3)
    found = []
    for p in (session.send(w, requires_grad=True), w.clone().requires_grad_()):
        optimizer = torch.optim.Muon([p])
        for _ in range(2):
            optimizer.zero_grad()
            p.square().sum().backward()
            optimizer.step()
        found.append(p)
    torch.testing.assert_close(found[0].publish(), found[1].detach(), rtol=1e-3, atol=1e-4)


def test_transforms_of_short_time(session):
    x, window = torch.randn(64), torch.hann_window(16)
    h = session.send(x, requires_grad=True)
    got = torch.stft(h, 16, window=window, return_complex=True)
    want = torch.stft(x, 16, window=window, return_complex=True)
    torch.testing.assert_close(got.publish(), want)
    got.abs().sum().backward()
    x.requires_grad_()
    torch.stft(x, 16, window=window, return_complex=True).abs().sum().backward()
    torch.testing.assert_close(h.grad.publish(), x.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.transpose_(0, 2),
        lambda x: x.transpose_(dim0=1, dim1=-1),
        lambda x: x.swapaxes_(0, 1),
        lambda x: x.swapdims_(0, 1),
        lambda x: x.squeeze_(),
        lambda x: x.squeeze_(1),
        lambda x: x.squeeze_((0, 1)),
        lambda x: x.unsqueeze_(-1),
        lambda x: x.as_strided_((3, 2), (1, 3)),
    ],
)
def test_every_change_of_strides_in_place(session, change):
    x = torch.arange(6.0).reshape(2, 1, 3)
    h = session.send(x)
    assert change(h) is h
    change(x)
    assert (h.shape, h.stride()) == (x.shape, x.stride())
    assert torch.equal(h.publish(), x)


def test_the_data_of_a_plain_tensor_does_not_become_a_handle(session):
    x = session.send(torch.ones(3))
    for plain in (torch.zeros(3), nn.Parameter(torch.zeros(3))):
        with pytest.raises(rpc.HandleError, match=r"\.data of a plain tensor.*session\.module"):
            plain.data = x
        assert plain.tolist() == [0, 0, 0]
        plain.data = x.publish()
        assert plain.tolist() == [1, 1, 1]
    y = session.send(torch.zeros(3))
    y.data = x
    assert y.publish().tolist() == [1, 1, 1]
    with torch._subclasses.FakeTensorMode() as mode:
        fake = torch.zeros(3)
        fake.data = mode.from_tensor(torch.ones(3))


# ---------------------------------------------------------------- the documentation


def test_the_documentation_names_all_errors():
    page = Path(rpc.__file__).parents[2] / "docs" / "remote_reference.md"
    if not page.exists():
        pytest.skip(reason="installed without the documentation")
    assert all(
        name in page.read_text() for name in rpc.__all__ if name.endswith(("Error", "Lost", "Closed", "Mismatch"))
    )
