"""A server that sends false replies: `publish` accepts only what was requested, over every transport."""

from __future__ import annotations

import contextlib
import itertools
import os

import pytest
import torch

from torchnp import rpc
from torchnp.rpc import wire
from torchnp.rpc.client.transports.reconnect import ReconnectingTransport
from torchnp.rpc.client.transports.requests import Announced, Request
from torchnp.rpc.server.session import protocol
from torchnp.rpc.server.session.server_state import ServerState
from torchnp.rpc.server.transports.listen import ServerCertificates
from torchnp.rpc.server.transports.server import Server
from torchnp.tests.rpc.certificates import Authority
from torchnp.tests.rpc.server_pool import resident

GROWTH = 96 << 20
CHUNK = bytes(wire.CHUNK)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"), "ours")


# A server in this process is forked while other tests' threads may be in gRPC, which does not support that: in rare
# cases the session's process dies. A separate server process forks before it starts gRPC.
OVER_GRPC = [pytest.param(kind, marks=pytest.mark.weekly) for kind in ("grpc", "grpcs")]


@pytest.fixture(params=["local", "tcp", "tls", *OVER_GRPC])
def lied_to(request, authority, monkeypatch):
    """Return a function that makes sessions with a server whose answers to PUBLISH come from a given function."""

    @contextlib.contextmanager
    def opened(results):
        monkeypatch.setattr(protocol, "_results", results)  # workers are forked, so they have the change, too
        if request.param == "local":
            with contextlib.closing(rpc.local()) as session:
                yield session
            return
        tls = ServerCertificates(*authority.issued("127.0.0.1")) if request.param[-1] == "s" else None
        with Server(ServerState(), tls=tls, grpc=request.param.startswith("grpc")) as server:
            safe = {"ca": authority.ca} if tls else {}
            session = rpc.connect(f"{request.param}://127.0.0.1:{server.port}", timeout=30.0, deadline=60.0, **safe)
            with contextlib.suppress(rpc.RPCError), contextlib.closing(session):
                yield session

    return opened


def result(request, shape, offset, raw, dtype="float32"):
    return wire.encode(wire.Result(request, dtype, shape, offset, raw))


def larger(request, array):
    """The header claims a quarter of a terabyte."""
    return (result(request, [1 << 36], i * len(CHUNK), CHUNK) for i in itertools.count())


def other_dtype(request, array):
    return (result(request, [3], i * len(CHUNK), CHUNK, "complex128") for i in itertools.count())


def more(request, array):
    """The shape is right, but the bytes never end."""
    return (result(request, [3], i * len(CHUNK), CHUNK) for i in itertools.count())


def grows(request, array):
    yield result(request, [3], 0, bytes(4))
    yield from (result(request, [1 << 36], 4 + i * len(CHUNK), CHUNK) for i in itertools.count())


def nothing(request, array):
    return (result(request, [3], 0, b"") for _ in itertools.count())


def strange(request, array):
    yield result(request, [3], 0, bytes(12), "nosuch")


@pytest.mark.parametrize("lie", [larger, other_dtype, more, grows, nothing, strange])
def test_what_is_not_as_announced_is_not_kept(lied_to, lie):
    with lied_to(lie) as session:
        x = session.send(torch.ones(3))
        before = resident(os.getpid())
        with pytest.raises(rpc.RPCError) as caught:
            x.publish()
        assert isinstance(caught.value, rpc.ProtocolError)
        assert resident(os.getpid()) < before + GROWTH


def small(request, array):
    yield result(request, [2, 2], 0, bytes(16))


def test_a_small_tensor_of_another_shape_is_told_and_the_session_goes_on(lied_to):
    with lied_to(small) as session:
        x = session.send(torch.ones(3))
        for _ in range(2):
            with pytest.raises(
                rpc.ProtocolError, match=r"shape \(2, 2\) where the client expects torch.float32 of shape"
            ):
                x.publish()
        assert session.sync().objects == 1
        assert session.send(torch.ones(2, 2)).publish().tolist() == [[0, 0], [0, 0]]


def unasked(request, array):
    """Send endless replies to requests that were never made."""
    return (wire.encode(wire.Result(request + 7, "float32", [1 << 36], 0, CHUNK)) for _ in itertools.count())


# In process, the caller's own thread handles replies, and would never return.
@pytest.mark.parametrize("lied_to", ["tcp", "tls", *OVER_GRPC], indirect=True)
def test_replies_to_nothing_fill_no_memory(lied_to):
    with lied_to(unasked) as session:
        session.deadline = 3.0
        x = session.send(torch.ones(3))
        before = resident(os.getpid())
        with pytest.raises(rpc.DeadlineExceeded):
            x.publish()
        assert resident(os.getpid()) < before + GROWTH
        session.channel.transport.interrupt()


def test_replies_that_wait_are_bounded(monkeypatch):
    monkeypatch.setattr("torchnp.rpc.client.transports.reconnect.MAX_WAITING", 10_000)

    class Endless:
        name, bytes_sent, bytes_received = "endless", 0, 0

        def __init__(self):
            self.numbers = itertools.count(1)

        def receive(self, timeout):
            return wire.numbered(next(self.numbers), wire.encode(wire.Ack(0)) + bytes(0))

        def send(self, messages):
            pass

    link = ReconnectingTransport(lambda seconds: Endless())
    with pytest.raises(rpc.ProtocolError, match="that nobody had asked for"):
        for _ in range(100):
            link.send([bytes(wire.MAX_FRAME)])  # the client does not read it
    assert len(link._replies) < 1000


@pytest.mark.parametrize("shape", [(3,), (2, 3), ()])
def test_a_release_has_a_dimension_less(shape):
    announced = Announced("s", ("float32",), shape, True)
    for n in range(len(shape)):
        assert not announced.wrong("float32", [*shape[:n], *shape[n + 1 :]])
    assert announced.wrong("float32", list(shape)) and announced.wrong("float64", list(shape[1:]))
    request = Request(wire.Publish, 1, announced=announced)
    with pytest.raises(rpc.ProtocolError):
        request.take(wire.Result(1, "float32", [1 << 40], 0, CHUNK))
    assert request.raw is None


def test_what_was_asked_for_comes_whole(lied_to):
    honest = protocol._results
    with lied_to(honest) as session:
        for tensor in (torch.arange(1_000_000.0), torch.ones(()), torch.zeros(0, 3), torch.ones(2, dtype=torch.bool)):
            assert torch.equal(session.send(tensor).publish(), tensor)
