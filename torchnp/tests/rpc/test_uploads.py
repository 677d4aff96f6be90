"""Compressed and repeated uploads, and tensors made by the server: same values, fewer bytes, nothing useful for an
attacker."""

from __future__ import annotations

import tracemalloc
import zlib

import numpy as np
import pytest
import torch

from torchnp import rpc
from torchnp.rpc import wire
from torchnp.rpc.exceptions import ProtocolError
from torchnp.rpc.server.session.protocol import Connection, ServerState
from torchnp.tests.rpc.test_transports import same_bits


def digits(n: int) -> torch.Tensor:
    return torch.randint(0, 17, (n,), generator=torch.Generator().manual_seed(0)).float()


def sent(session: rpc.Session, x: torch.Tensor) -> float:
    """Return the bytes sent for sending and publishing a tensor, divided by its size."""
    before = session.stats.bytes_sent
    assert same_bits(session.send(x).publish(), x)
    return (session.stats.bytes_sent - before) / x.nbytes


# ---------------------------------------------------------------- compression


def test_compressed_uploads(session):
    assert sent(session, digits(700_001)) > 1
    session.compress = True
    assert sent(session, digits(700_001)) < 0.35
    noise = torch.randn(300_000, generator=torch.Generator().manual_seed(0))
    assert 1 < sent(session, noise) < 1.01  # compression does not pay, so the tensor is sent as it is
    mixed = torch.cat([digits(300_000), noise])
    assert 0.5 < sent(session, mixed) < 0.9
    for x in (torch.zeros(()), torch.zeros(0, 3), torch.zeros(100), digits(24).reshape(4, 6).t(), torch.zeros(9) > 0):
        assert same_bits(session.send(x).publish(), x)
    with pytest.raises(TypeError, match="compress is a bool"):
        session.compress = 1


def test_replies_are_not_compressed(session):
    """The length reveals nothing about values, neither public ones nor an owner's."""
    session.compress = True
    received = []
    for x in (torch.zeros(100_000), torch.randn(100_000)):
        before = session.stats.bytes_received
        session.send(x).publish()
        received.append(session.stats.bytes_received - before)
    assert abs(received[0] - received[1]) < 200 and min(received) > 400_000  # acknowledgements are grouped differently


def connection() -> Connection:
    made = Connection(ServerState())
    agreed = wire.agreement()
    (welcome,) = made.handle(wire.encode(wire.Hello(wire.VERSION, agreed.digest, len(agreed.names), "test", "")))
    assert type(wire.decode_reply(welcome)) is wire.Welcome
    return made


def packed(raw: bytes, size: int, shape=(1 << 20,), offset=0, id_=0) -> bytes:
    return wire.encode(wire.Packed(0, id_, "uint8", list(shape), [0], offset, size, memoryview(raw)))


@pytest.mark.parametrize(
    "raw, size",
    [
        (b"no zlib stream", 100), (b"", 1), (zlib.compress(bytes(101)), 100), (zlib.compress(bytes(99)), 100),
        (zlib.compress(bytes(100))[:-1], 100), (zlib.compress(bytes(100)) + b"x", 100),
        (zlib.compress(bytes(1 << 28)), 1 << 20),
    ],
    ids=["garbage", "nothing", "longer", "shorter", "cut off", "more after it", "a bomb"],
)  # fmt: skip
def test_wrong_compressed_chunks_end_the_session(raw, size):
    """The server allocates at most a chunk besides the tensor itself."""
    server = connection()
    frame = packed(raw, size)
    tracemalloc.start()
    (reply,) = server.handle(frame)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    reply = wire.decode_reply(reply)
    assert reply.fatal and reply.kind == "protocol" and "a compressed chunk" in reply.text
    assert server.closed and peak < 4 << 20


@pytest.mark.parametrize("size", [0, wire.CHUNK + 1, 1 << 62])
def test_sizes_are_checked_before_anything_is_decompressed(size):
    with pytest.raises(ProtocolError, match="malformed frame"):
        wire.decode_request(packed(zlib.compress(bytes(100)), size))


def test_a_compressed_tensor_has_no_more_bytes_than_its_shape():
    (reply,) = connection().handle(packed(zlib.compress(bytes(101)), 101, shape=(100,)))
    assert "do not fit together" in wire.decode_reply(reply).text


# ---------------------------------------------------------------- uploads by content


def test_the_same_content_is_sent_once(session):
    x = digits(50_000).reshape(100, 500)
    session.cache_bytes = 1 << 20
    assert sent(session, x) > 1
    assert sent(session, x.clone()) < 0.01 and session.stats.bytes_reused == x.nbytes
    first = session.send(x)
    first.add_(1)  # each upload is a separate copy
    assert sent(session, x) < 0.01
    assert torch.equal(first.publish(), x + 1)
    # The same bytes with another dtype, shape or strides.
    for other in (x.view(torch.int32), x.reshape(500, 100), x.t()):
        assert sent(session, other) > 1
    turned = x.t()
    assert session.send(turned).stride() == turned.stride() and sent(session, turned) < 0.01
    model = torch.nn.Linear(500, 100)
    assert torch.equal(session.publish(session.module(model).state_dict())["weight"], model.weight)
    assert session.send(torch.nn.Parameter(x)).requires_grad


def test_the_oldest_content_is_dropped(session):
    parts = [torch.full((2000,), float(i)) for i in range(3)]
    session.cache_bytes = 2 * parts[0].nbytes
    before = session.sync().objects
    for x in (*parts, parts[2], parts[1]):
        session.send(x)
    assert session.stats.bytes_reused == 2 * parts[0].nbytes
    assert sent(session, parts[0]) > 1  # it was the oldest, so it was dropped
    assert session.sync().objects == before + 2
    session.cache_bytes = 0
    assert sent(session, parts[0]) > 1


def test_what_found_no_room_is_not_kept():
    with rpc.local(limits=rpc.Limits(max_bytes=100_000), cache_bytes=1 << 20) as session:
        other = session.send(torch.ones(15_000))
        x = digits(12_000)
        with pytest.raises(rpc.QuotaError):
            session.send(x).publish()
        with pytest.raises(rpc.QuotaError):
            session.sync()
        del other
        session._cache.clear()
        assert torch.equal(session.send(x).publish(), x)
        session.sync()


def test_sessions_share_nothing():
    """So a short upload cannot reveal what another client has sent."""
    state = ServerState()
    from torchnp.rpc.client.transports.transport import InProcess

    first, second = (rpc.Session(InProcess(Connection(state)), cache_bytes=1 << 20) for _ in range(2))
    x = digits(50_000)
    assert sent(first, x) > 1 and sent(second, x) > 1 and sent(second, x) < 0.01
    first.close()
    second.close()


def test_sending_in_a_recorded_function_is_noticed(session):
    session.cache_bytes = 1 << 20
    inputs = iter([torch.full((2000,), float(i // 2)) for i in range(8)])

    @session.program
    def step(x):
        return x + session.send(next(inputs))

    x = session.send(torch.zeros(2000))
    with pytest.warns(UserWarning, match="sends"):
        found = [step(x).publish()[0].item() for _ in range(8)]
    assert found == [0, 0, 1, 1, 2, 2, 3, 3]


# ---------------------------------------------------------------- tensors that the server makes

MADE = {
    "rand": ((3, 2), {}), "randn": (((4, 5),), {}), "randint": ((2, 9, (4,)), {}), "randperm": ((7,), {}),
    "zeros": ((2, 3), {}), "ones": ((2,), {"dtype": torch.bool}), "full": (((2, 2), 3.5), {}), "arange": ((1, 6, 0.5), {}),
    "linspace": ((0, 1, 5), {}), "logspace": ((0, 1, 3), {}), "eye": ((3, 2), {"dtype": torch.float64}),
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_factories(session, name):
    args, options = MADE[name]
    torch.manual_seed(4)
    want = getattr(torch, name)(*args, **options)
    before = session.stats.bytes_sent
    torch.manual_seed(4)
    made = getattr(session, name)(*args, **options)
    assert type(made) is rpc.RPCTensor and same_bits(made.publish(), want)
    assert session.stats.bytes_sent - before < 1000
    torch.manual_seed(4)
    with session.default_device():
        again = getattr(torch, name)(*args, **options)
    assert type(again) is rpc.RPCTensor and same_bits(again.publish(), want)


def test_what_factories_take(session):
    assert session.rand(3, requires_grad=True).requires_grad and not session.empty(3).publish().any()
    torch.manual_seed(9)
    first = session.rand(4, generator=torch.Generator().manual_seed(5)).publish()
    assert torch.equal(first, session.rand(4, generator=torch.Generator().manual_seed(5)).publish())
    for options, words in (({"device": "cpu"}, "no device="), ({"out": torch.empty(3)}, "no out="),
                           ({"layout": torch.sparse_coo}, "dense"), ({"pin_memory": True}, "dense")):  # fmt: skip
        with pytest.raises(TypeError, match=words):
            session.zeros(3, **options)
    with pytest.raises(TypeError, match="takes no generator="):
        session.randperm(3, generator=torch.Generator())
    with pytest.raises(RuntimeError, match="negative dimension"):
        session.zeros(-1)


def test_a_default_device(session):
    with session.default_device():
        model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
        x, here = torch.tensor([[1.0, 2, 3, 4], [4, 3, 2, 2]]), torch.ones(2, device="cpu")
        window = torch.hann_window(4)
        loss = model(x).square().sum()
    loss.backward()
    assert type(here) is torch.Tensor and torch.equal(window.publish(), torch.hann_window(4))
    assert model[0].weight.grad.publish().shape == (3, 4) and type(torch.ones(2)) is torch.Tensor
    assert model[1].running_mean.publish().any()


def test_the_servers_quota_holds_for_what_it_makes():
    with rpc.local(limits=rpc.Limits(max_bytes=10_000)) as session:
        for make in (lambda: session.zeros(10**9), lambda: session.rand(1 << 40), lambda: session.arange(10**12)):
            with pytest.raises(rpc.QuotaError):
                make().publish()
        session.sync()


def test_programs_draw_anew(session):
    @session.program
    def step(x):
        return x + session.rand(3)

    x = session.send(torch.zeros(3))
    found = np.stack([step(x).publish().numpy() for _ in range(8)])
    assert step.calls > 0 and len(np.unique(found, axis=0)) == 8
