"""Lost connections: the session continues over the next connection, and each frame is applied once."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import random
import re
import socket
import threading
import time
import tracemalloc
from collections import Counter

import numpy as np
import pytest
import torch
from torch import nn

import torchnp.rpc.client.transports.reconnect as client_link
from torchnp import rpc
from torchnp.core.schema import load
from torchnp.rpc import wire
from torchnp.rpc.client.session import session_thread
from torchnp.rpc.client.transports.reconnect import ReconnectingTransport
from torchnp.rpc.client.transports.transport import Tcp
from torchnp.rpc.server.config.tokens import Token, hash_of, new_token
from torchnp.rpc.server.privacy.ledger import Ledger
from torchnp.rpc.server.process.link import Link as ServerLink
from torchnp.rpc.server.session.server_state import ServerState
from torchnp.rpc.server.transports.server import Server
from torchnp.tests.rpc.proxy import Boundary, Disorder, Proxy

SERVICE = ServerState(limits=rpc.Limits(lease_seconds=5.0))


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(client_link, "FIRST_WAIT", 0.005)


@pytest.fixture(scope="module")
def shared():
    with Server(SERVICE) as server:
        yield server


def until(test, seconds=10.0):
    end = time.monotonic() + seconds
    while not test():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)


def at(port):
    return f"tcp://127.0.0.1:{port}"


def training(session, steps=2, as_program=False):
    """Run steps of training with everything that crosses a wire: uploads, operators, failures, deletes, publishes."""
    torch.manual_seed(3)
    model = session.module(nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = session.send(torch.randn(5, 3))
    seen = []

    def step():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = session.program(step) if as_program else step
    for _ in range(steps):
        seen.append(run().publish().item())
    assert not as_program or run.calls == steps - 3
    del run
    bad = nn.functional.embedding(session.send(torch.tensor([9])), session.send(torch.zeros(4, 3)))
    with pytest.raises(IndexError):
        bad.publish()
    state = session.publish(model.state_dict())
    gc.collect()  # an error and the frame through which it passed refer to each other
    return seen, state, session.sync().objects


# ---------------------------------------------------------------- resume


PROGRAM = pytest.param({"steps": 5, "as_program": True}, id="a program", marks=pytest.mark.weekly)


@pytest.mark.parametrize("how", [pytest.param({}, id="operators"), PROGRAM])
def test_a_step_of_training_cut_at_every_frame_boundary(shared, how):
    with rpc.connect(at(shared.port)) as session:
        right = training(session, **how)
        frames = {"up": session.channel.transport._unacknowledged.next, "down": session.channel.transport._due}
    cuts = 0
    for way, last in frames.items():
        for n in range(2, last):  # the first message in each direction is no part of the session, and the last is BYE
            cut = Boundary(way, n)
            with Proxy(shared.port, cut) as proxy, rpc.connect(at(proxy.port)) as session:
                assert alike(training(session, **how), right), (way, n)
            assert proxy.connections <= 1 + cut.done
            cuts += proxy.connections - 1
    assert cuts > 30
    until(lambda: not shared.sessions)


def published(server):
    return server.counters.totals()["exact"]


def alike(one, other):
    """Return whether two runs of training ended with the same losses, parameters and number of objects."""
    states = zip(one[1].values(), other[1].values(), strict=True)
    return one[0] == other[0] and one[2] == other[2] and all(torch.equal(a, b) for a, b in states)


def disordered(server, what, steps=2):
    """Train while messages arrive twice or late; return the result or the error, and the number of publishes."""
    disorder, before = Disorder(what), published(server)
    with Proxy(server.port, change=disorder) as proxy:
        try:
            with rpc.connect(at(proxy.port)) as session:
                got = training(session, steps)
        except rpc.ProtocolError as error:
            got = str(error)
    until(lambda: not server.sessions)
    return got, published(server) - before, disorder.seen


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.weekly)])
@pytest.mark.parametrize("what", ["twice", "late"])
def test_a_run_of_training_each_of_whose_messages_comes_twice_or_late(shared, what, every):
    """One message at a time: a repeated frame changes nothing, and a late one is reported if it matters."""
    right, publishes, seen = disordered(shared, lambda way, n: "")
    told = 0
    for way, last in seen.items():
        for k in (k for k in range(last) if k < 2 or k % every == 0):
            got, times, _ = disordered(shared, lambda w, n, one=(way, k): what if (w, n) == one else "")
            if isinstance(got, str):
                assert re.search("frame .* came|sent frame|malformed|a second ticket", got), (way, k)
                assert what == "late" or k < 2, (way, k, got)  # HELLO, WELCOME and TICKET are not numbered
                assert times <= publishes
                told += 1
            else:
                assert alike(got, right), (way, k)
                assert times == publishes
    assert told > 10 / every if what == "late" else told == 3


def test_a_longer_run_of_training_with_many_messages_that_come_twice(shared):
    """The second copy arrives at once, or after the next message."""
    rng = random.Random(4)
    right, publishes, _ = disordered(shared, lambda way, n: "", 30)
    counts = Counter()

    def what(way, n):
        found = rng.choice(("", "twice", "again")) if n > 1 else ""
        counts[way, found] += 1
        return found

    got, times, _ = disordered(shared, what, 30)
    assert alike(got, right)
    assert times == publishes
    assert min(counts[way, found] for way in ("up", "down") for found in ("twice", "again")) > 10


def test_connections_cut_anywhere_and_again(shared):
    """Connections are also cut within messages, in both directions, for large tensors and attempts to resume."""
    left = {"up": 40_000, "down": 30_000}

    def cut(way, part):
        left[way] -= len(part)
        if left[way] > 0:
            return None
        passes = len(part) + left[way]
        left[way] = 1_500_001 if way == "up" else 1_300_009
        return max(passes, 0)

    with Proxy(shared.port, cut) as proxy, rpc.connect(at(proxy.port)) as session:
        for i in range(4):
            x = torch.randn(300_000) + i
            handle = session.send(x)
            for _ in range(100):
                handle = handle * 1
            assert torch.equal(handle.publish(), x)
    assert proxy.connections > 4


def test_nothing_is_released_twice(tmp_path):
    """If the reply of a release was lost, the same result arrives later, and is paid for once."""
    ledger = Ledger(tmp_path / "ledger.db", create=True)
    ledger.set_budget("x", 100.0, 1e-6)
    ledger.set_budget("x", 100.0, 1e-6, "client")
    ledger.close()  # so that a forked process has none of its locks
    twice = Disorder(lambda way, n: "twice" if n > 1 else "")
    faults = [{"cut": Boundary("down", n)} for n in range(2, 7)] + [{"change": twice}]
    with Server(ServerState(datasets={"x": np.ones((4, 2))}, ledger=tmp_path / "ledger.db")) as server:
        for fault in faults:
            with Proxy(server.port, **fault) as proxy, rpc.connect(at(proxy.port)) as session:
                session.dataset("x").publish(reduce="sum", clip=1.0, eps=1.0)
    ledger = Ledger(tmp_path / "ledger.db")
    kinds = [entry.kind for entry in ledger.entries()]
    ledger.close()
    assert kinds.count("debit") == kinds.count("result") == 6


def test_duplicates_are_ignored_and_gaps_refused(shared):
    add = SERVICE.agreement.index["aten::add_.Tensor"]
    raw = memoryview(np.ones(1, np.float32).tobytes())
    data = wire.numbered(1, wire.encode(wire.Data(0, 0, "float32", [1], [0], 0, raw)))
    ops = wire.numbered(2, wire.encode(wire.Ops(1, [wire.Op(add, 1, 0, [wire.Handle(0), 1], {}, [])])))
    publish = wire.numbered(3, wire.encode(wire.Publish(1, 2, 0)))

    def answers(messages):
        stream = Tcp("127.0.0.1", shared.port)
        stream.send([hello(), *messages])
        assert type(wire.decode_reply(stream.receive(10))) is wire.Welcome
        replies = []
        while not replies or type(replies[-1]) not in (wire.Err, wire.Result):
            number, frame = wire.split(stream.receive(10))
            if number:
                replies.append(wire.decode_reply(frame))
            elif type(control := wire.decode_control(frame)) is wire.Err:
                replies.append(control)
        stream.close()
        return replies[-1]

    for messages in ([data, data, ops, ops, data, ops, publish], [data, ops, publish, publish]):
        assert np.frombuffer(answers(messages).raw, np.float32).tolist() == [2]
    for messages, words in (
        ([data, publish, ops], "frame 3 came where 2 was due"),
        ([ops, data], "frame 2 came where 1 was due"),
        ([data, wire.numbered(0, wire.encode(wire.Sync(1, 0)))], "malformed"),
        ([data, wire.numbered(0, wire.encode(wire.Credit(9)))], "waits for frame 9"),
        ([data, b"short"], "a message of 5 bytes"),
    ):
        err = answers(messages)
        assert err.fatal
        assert words in err.text


def hello(**more):
    agreed = SERVICE.agreement
    return wire.encode(wire.Hello(wire.VERSION, agreed.digest, len(agreed.names), "x", "", **more))


def test_a_client_cannot_have_what_it_was_not_sent():
    """A client cannot acknowledge frames that have not been sent yet; otherwise nothing would be sent in their
    place."""

    class Stuck:
        def __init__(self):
            self.messages = [wire.numbered(0, wire.encode(wire.Credit(2)))]

        async def write(self, messages):
            await asyncio.sleep(60)

        async def read(self):
            return self.messages.pop()

    async def talk():
        link = ServerLink(None)
        link.keep(b"reply")
        await link.talk(Stuck(), 1, [])

    with pytest.raises(rpc.ProtocolError, match="the client waits for frame 2, which is not between 1 and 1"):
        asyncio.run(talk())


def test_replies_that_come_twice_or_out_of_order():
    class Stream:
        name, bytes_sent, bytes_received = "here", 0, 0

        def __init__(self, messages):
            self.messages = messages

        def receive(self, timeout):
            return self.messages.pop(0) if self.messages else None

        def close(self):
            pass

    ack = wire.encode(wire.Ack(1))
    link = ReconnectingTransport(lambda seconds: Stream([wire.numbered(n, ack) for n in (1, 1, 2, 1, 2, 4)]))
    assert [link.receive(0), link.receive(0)] == [ack, ack]
    with pytest.raises(rpc.ProtocolError, match="here sent frame 4 where 3 was due"):
        link.receive(0)


def test_an_idle_session_connects_again_before_its_lease_is_over(shared, monkeypatch):
    monkeypatch.setattr(session_thread, "LOOK_SECONDS", 0.05)
    with Proxy(shared.port) as proxy, rpc.connect(at(proxy.port)) as session:
        x = session.send(torch.ones(3))
        session.sync()
        proxy.drop()
        until(lambda: proxy.connections == 2)
        assert x.publish().tolist() == [1, 1, 1]


def test_a_server_that_stops_while_nobody_asks_is_told_at_the_next_use(monkeypatch):
    monkeypatch.setattr(session_thread, "LOOK_SECONDS", 0.05)
    with Server(SERVICE) as server:
        session, other = rpc.connect(at(server.port)), rpc.connect(at(server.port))
        x = session.send(torch.ones(3))
        session.sync()
    until(lambda: session.channel.dead and other.channel.dead)
    with pytest.raises(rpc.ConnectionLost, match="the server has been stopped"):
        x.publish()
    session.close()
    other.close()  # nothing of the session was lost


# ---------------------------------------------------------------- who resumes what


def test_only_the_secret_resumes_a_session(shared):
    with rpc.connect(at(shared.port)) as session:
        x = session.send(torch.ones(3))
        session.sync()
        secret = session.channel.transport._resume
        assert len(secret) > 32
        for wrong in (secret[:-1], secret + "x", secret.swapcase(), "x"):
            stream = Tcp("127.0.0.1", shared.port)
            stream.send([hello(resume=wrong)])
            err = wire.decode_reply(stream.receive(10))
            assert (err.kind, err.fatal) == ("lost", True)
            stream.close()
        assert (x + 1).publish().tolist() == [2, 2, 2]


def test_a_token_is_asked_for_again():
    with Server(ServerState(token="sesame")) as server, rpc.connect(at(server.port), "sesame") as session:
        stream = Tcp("127.0.0.1", server.port)
        stream.send([hello(resume=session.channel.transport._resume)])
        assert wire.decode_reply(stream.receive(10)).kind == "auth"
        stream.close()


def test_a_new_connection_takes_a_session_over_from_one_that_hangs(shared, monkeypatch):
    with Proxy(shared.port) as proxy, rpc.connect(at(proxy.port)) as session:
        x = session.send(torch.ones(3))
        session.sync()
        link = session.channel.transport
        stream, before = link._stream, set(shared.sessions)
        with session.channel.owned:  # the server's side stays open
            link._connect_again(rpc.ConnectionLost("nothing comes any more"))
        assert stream is not link._stream
        assert (x + 1).publish().tolist() == [2, 2, 2]
        assert set(shared.sessions) <= before


def test_a_session_is_kept_for_its_lease_alone(caplog):
    caplog.set_level(logging.INFO)
    with Server(ServerState(limits=rpc.Limits(lease_seconds=0.3))) as server, Proxy(server.port) as proxy:
        session = rpc.connect(at(proxy.port))
        x = session.send(torch.ones(3))
        session.sync()
        proxy.drop()
        until(lambda: any("connection lost client=client lease=0.3" in r.getMessage() for r in caplog.records))
        assert len(server.sessions) == 1
        until(lambda: not server.sessions)
        with pytest.raises(rpc.ConnectionLost, match=r"lost for longer than the 0\.3 s that the server keeps it"):
            x.publish()


def test_a_session_that_ends_while_its_client_is_away_says_why_when_it_comes_back():
    limits = rpc.Limits(op_seconds=0.5, lease_seconds=20.0)
    with Server(ServerState(limits=limits)) as server, Proxy(server.port) as proxy:
        session = rpc.connect(at(proxy.port))
        x = session.send(torch.ones(1)).expand(2**25, 2**25)
        session.sync()
        proxy._target = 1  # nobody listens there
        x.amax()
        until(lambda: server.budget.where(0))
        proxy.drop()
        until(lambda: not server.sessions)
        proxy._target = server.port
        with pytest.raises(rpc.QuotaError, match=r"aten::amax took longer than the 0\.5 s"):
            session.sync()


def test_a_place_that_is_needed_is_taken_from_a_lost_session():
    with Server(ServerState(), max_clients=1) as server, Proxy(server.port) as proxy:
        session = rpc.connect(at(proxy.port))
        x = session.send(torch.ones(3))
        session.sync()
        with pytest.raises(rpc.QuotaError, match="1 clients, as many as it takes"):
            rpc.connect(at(server.port))
        proxy.drop()
        until(lambda: next(iter(server._held.values())).timer is not None)
        with rpc.connect(at(server.port)) as other:
            assert other.send(torch.ones(3)).sum().publish() == 3
        with pytest.raises(rpc.ConnectionLost, match="or it needed the place"):
            x.publish()


def test_a_session_is_resumed_with_its_own_token_alone():
    secrets = {name: new_token() for name in ("alice", "bob")}
    limits = {"alice": rpc.Limits(lease_seconds=20.0), "bob": rpc.Limits(lease_seconds=0)}
    tokens = [Token(name, hash_of(secret), limits=limits[name]) for name, secret in secrets.items()]
    with Server(ServerState(tokens=tokens)) as server, Proxy(server.port) as proxy:
        agreed = server.state.agreement

        def answer(token, resume):
            hello = wire.Hello(wire.VERSION, agreed.digest, len(agreed.names), "x", token, resume)
            with socket.create_connection(("127.0.0.1", server.port)) as s:
                s.settimeout(10)
                s.sendall(wire.lengthened(wire.encode(hello)))
                stream = s.makefile("rb")
                return wire.decode_reply(stream.read(int.from_bytes(stream.read(4), "big")))

        session = rpc.connect(at(proxy.port), secrets["alice"])
        x = session.send(torch.ones(3))
        session.sync()
        link = session.channel.transport
        for _ in range(2):  # with a connection, and after it was lost
            refused = answer(secrets["bob"], link._resume)
            assert (refused.kind, refused.fatal) == ("auth", True)
            assert "another token" in refused.text
            assert answer("wrong", link._resume).kind == "auth"
            proxy._target = 1  # nobody listens there
            proxy.drop()
            until(lambda: next(iter(server._held.values())).timer is not None)
        proxy._target = server.port
        assert (x + 1).publish().tolist() == [2, 2, 2]
        assert server.counters.totals()["token"] == 4
        assert server.counters.totals()["sessions"] == 1
        with rpc.connect(at(server.port), secrets["bob"]) as other:
            assert not other.channel.transport._resume  # the server keeps none of bob's sessions


def test_a_place_of_a_token_is_taken_from_a_lost_session_of_its_own():
    secrets = {name: new_token() for name in ("alice", "bob")}
    tokens = [Token(name, hash_of(secret), max_clients=1) for name, secret in secrets.items()]
    with Server(ServerState(tokens=tokens), max_clients=3) as server:
        proxies = {name: Proxy(server.port).__enter__() for name in secrets}
        sessions = {name: rpc.connect(at(proxies[name].port), secrets[name], reconnect=1) for name in secrets}
        with pytest.raises(
            rpc.QuotaError, match="the server has 1 sessions of the client 'alice', as many as it takes"
        ):
            rpc.connect(at(server.port), secrets["alice"])
        handles = {name: session.send(torch.ones(3)) for name, session in sessions.items()}
        for session in sessions.values():
            session.sync()
        for proxy in proxies.values():
            proxy._target = 1  # nobody listens there
            proxy.drop()
        until(lambda: all(held.timer is not None for held in server._held.values()))
        with rpc.connect(at(server.port), secrets["alice"]) as other:
            assert other.send(torch.ones(3)).sum().publish() == 3
        proxies["bob"]._target = proxies["alice"]._target = server.port
        assert (handles["bob"] + 1).publish().tolist() == [2, 2, 2]
        with pytest.raises(rpc.ConnectionLost, match="or it needed the place"):
            handles["alice"].publish()
        for proxy in proxies.values():
            proxy.__exit__()


def test_a_server_that_was_started_again_says_so():
    with Server(SERVICE) as first:
        session = rpc.connect(at(first.port))
        x = session.send(torch.ones(3))
        session.sync()
        proxy = Proxy(first.port).__enter__()
        proxied = rpc.connect(at(proxy.port))
        y = proxied.send(torch.ones(3))
        proxied.sync()
        proxy.drop()
    with Server(SERVICE) as second:
        proxy._target = second.port
        with pytest.raises(rpc.ConnectionLost, match="the server has been started again, and knows nothing of"):
            (y + 1).publish()
    with pytest.raises(rpc.ConnectionLost, match="the server has been stopped"):
        x.publish()
    proxy.__exit__()


def test_a_server_that_does_not_come_back_is_given_up():
    with Server(SERVICE) as server, Proxy(server.port) as proxy:
        sessions = [rpc.connect(at(proxy.port), reconnect=seconds) for seconds in (0, 0.3, 60)]
        handles = [session.send(torch.ones(3)) for session in sessions]
        for session in sessions:
            session.sync()
    with pytest.raises(rpc.ConnectionLost, match="handles have no values"):
        handles[0].publish()
    with pytest.raises(rpc.ConnectionLost, match=r"nobody answered there for 0\.3 s"):
        handles[1].publish()
    failures = []

    def ask():
        try:
            handles[2].publish()
        except rpc.RPCError as error:
            failures.append(error)

    waiting = threading.Thread(target=ask)
    waiting.start()
    time.sleep(0.2)
    assert waiting.is_alive()
    start = time.monotonic()
    sessions[2].channel.close()  # ends its attempts to reconnect
    waiting.join(10)
    assert failures
    assert time.monotonic() - start < 8


# ---------------------------------------------------------------- credit


def test_a_slow_server_lets_nobody_fill_its_memory_or_the_clients():
    """Data in transit is bounded by the window on both sides, whatever the network buffers."""
    go = threading.Event()

    def neg(self):
        time.sleep(0.3)
        return self

    neg.schema = load()["aten::neg"]
    table = {"aten::neg": neg}
    with Server(ServerState(table)) as server, rpc.connect(at(server.port), table=table) as session:
        session.send(torch.ones(1)).neg()
        tracemalloc.start()
        link, most = session.channel.transport, 0

        def look():
            nonlocal most
            while not go.wait(0.002):
                held = next(iter(server._held.values())).link
                most = max(most, link._unacknowledged.cost, held._inbox_cost)

        watcher = threading.Thread(target=look)
        watcher.start()
        kept = [session.send(torch.ones(1 << 20, dtype=torch.uint8)) for _ in range(24)]
        session.sync()
        go.set()
        watcher.join()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert wire.CHUNK < most <= wire.WINDOW
        assert len(kept) == 24
        assert peak < 64 << 20


def test_more_than_there_is_credit_for_is_refused():
    def neg(self):
        time.sleep(3)
        return self

    neg.schema = load()["aten::neg"]
    state = ServerState({"aten::neg": neg})
    with Server(state) as server:
        agreed = state.agreement
        raw = memoryview(bytes(wire.CHUNK))
        op = wire.encode(wire.Ops(1, [wire.Op(0, 1, 1, [wire.Handle(0)], {}, [])]))
        size = [64 * wire.CHUNK]
        frames = [
            wire.encode(wire.Data(0, 0, "uint8", [1], [0], 0, memoryview(b"x"))),
            op,
            *(wire.encode(wire.Data(2, 2, "uint8", size, [0], i * wire.CHUNK, raw)) for i in range(12)),
        ]
        messages = [wire.numbered(i, frame) for i, frame in enumerate(frames, 1)]
        first = wire.encode(wire.Hello(wire.VERSION, agreed.digest, len(agreed.names), "x", ""))
        with socket.create_connection(("127.0.0.1", server.port)) as s:
            s.settimeout(10)
            with contextlib.suppress(OSError):
                s.sendall(b"".join(map(wire.lengthened, [first, *messages])))
            said = b""
            while part := s.recv(1 << 16):
                said += part
        assert b"bytes that the server gives credit for" in said
