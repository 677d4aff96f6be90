"""Clients that die, lie, stall or are too many: the server survives, frees their memory, and gives the reason."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import random
import resource
import socket
import struct
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

import torchnp.rpc.server.transports.server as module
from torchnp import rpc
from torchnp.rpc import wire
from torchnp.rpc.client.session.channel import Channel
from torchnp.rpc.client.transports.reconnect import ReconnectingTransport
from torchnp.rpc.client.transports.transport import Tcp
from torchnp.rpc.server.session import overload_info
from torchnp.rpc.server.session.protocol import Connection
from torchnp.rpc.server.session.server_state import ServerState
from torchnp.rpc.server.transports.server import Server
from torchnp.tests.rpc.hostile_client import Hostile, over_tcp
from torchnp.tests.rpc.server_pool import until

SERVICE = ServerState(limits=rpc.Limits(lease_seconds=0.2))


@pytest.fixture
def server(caplog):
    """A server whose sessions can be inspected, and which must end without errors of its own."""
    with caplog.at_level(logging.INFO), Server(SERVICE, max_clients=16) as running:
        yield running
        until(lambda: answers(running))
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR] == []


def address(server):
    return f"tcp://127.0.0.1:{server.port}"


def answers(server):
    try:
        with rpc.connect(address(server)) as session:
            return (session.send(torch.ones(3)) + 1).publish().tolist() == [2, 2, 2]
    except rpc.QuotaError:  # the server has not yet noticed clients that left before they were accepted
        return False


def in_threads(n, work):
    """Run ``work(0)`` to ``work(n - 1)`` at once."""
    threads = [threading.Thread(target=work, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)


def raw_connection(server):
    s = socket.create_connection(("127.0.0.1", server.port), 10)
    s.settimeout(10)
    return s


def everything(s):
    parts = []
    while part := s.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def hello():
    agreed = SERVICE.agreement
    return wire.encode(wire.Hello(wire.VERSION, agreed.digest, len(agreed.names), "x", ""))


def conversation():
    """Return the messages of a session that sends, computes, deletes, syncs and publishes."""
    add = SERVICE.agreement.index["aten::add.Tensor"]
    ones = np.ones((2, 3), np.float32).tobytes()
    frames = [
        wire.encode(wire.Data(0, 0, "float32", [2, 3], [0, 1], 0, memoryview(ones))),
        wire.encode(wire.Ops(1, [wire.Op(add, 1, 1, [wire.Handle(0), 2], {"alpha": 1}, [[3, 1]])])),
        wire.encode(wire.Ops(2, [wire.Op(add, 2, 1, [wire.Handle(0), wire.Handle(1)], {})])),
        wire.encode(wire.Del(3, [(0, 0)])),
        wire.encode(wire.Sync(1, 3)),
        wire.encode(wire.Publish(2, 3, 2)),
    ]
    return [hello(), *(wire.numbered(i, frame) for i, frame in enumerate(frames, 1))]


# ---------------------------------------------------------------- frames


@pytest.mark.parametrize("seed", range(3))
def test_frames_with_wrong_bytes_harm_nobody(server, seed):
    """Return a valid conversation with one byte, or a run of bytes, changed, cut out or doubled."""
    rng = random.Random(seed)
    with rpc.connect(address(server)) as other:
        x = other.send(torch.ones(3))
        for _ in range(60):
            frames = [bytearray(f) for f in conversation()]
            frame = rng.choice(frames)
            at = rng.randrange(len(frame))
            change = rng.choice(["byte", "cut", "double", "noise", "swap"])
            if change == "byte":
                frame[at] = rng.randrange(256)
            elif change == "cut":
                del frame[at : at + rng.randrange(1, 9)]
            elif change == "double":
                frame[at:at] = frame[at : at + 8]
            elif change == "noise":
                frame[at:] = rng.randbytes(rng.randrange(40))
            else:
                rng.shuffle(frames)
            with raw_connection(server) as s:
                s.sendall(b"".join(wire.lengthened(bytes(f)) for f in frames))
                s.shutdown(socket.SHUT_WR)
                everything(s)
        assert (x + 1).publish().tolist() == [2, 2, 2]
    until(lambda: not server.sessions)


def test_lengths_that_lie(server):
    for raw in (b"", b"\x00", struct.pack(">I", 2**32 - 1), struct.pack(">I", 100) + b"x"):
        with raw_connection(server) as s:
            s.sendall(raw)
    frames = wire.lengthened(hello()) + struct.pack(">I", wire.MAX_FRAME) + b"half of it"
    with raw_connection(server) as s:
        s.sendall(frames)
    until(lambda: not server.sessions)


def test_the_reason_always_arrives(server):
    """The client gets the reason even if it has sent more than the server has read; a reset would discard the
    reason."""
    for _ in range(25):
        with rpc.connect(address(server)) as session:
            x = session.send(torch.ones(3))
            session.sync()
            with session.channel.owned:  # the session's thread owns the transport
                session.channel.transport.send([b"\x91\x63", *[bytes(1000)] * 300])
            with pytest.raises(rpc.ProtocolError, match="malformed"):
                x.publish()


# ---------------------------------------------------------------- clients that leave


def test_a_killed_client_leaves_nothing(server):
    code = f"""
import time
import numpy as np
from torchnp.rpc.client.session.channel import Channel
from torchnp.rpc.client.transports.reconnect import ReconnectingTransport
from torchnp.rpc.client.transports.transport import Tcp
from torchnp.rpc.wire import agreement
channel = Channel(ReconnectingTransport(lambda seconds: Tcp("127.0.0.1", {server.port}, seconds)), agreement())
channel.upload("float32", [1000], [0], memoryview(np.zeros(4000, np.uint8)), make=int)
channel.sync()
print("ready", flush=True)
time.sleep(60)
"""
    clients = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(2)]
    for client in clients:
        assert client.stdout.readline() == b"ready\n"
    assert len(server.sessions) == 2
    for client in clients:
        client.kill()
        client.communicate()
    until(lambda: not server.sessions)


def test_clients_that_leave_at_any_moment(server):
    frames = b"".join(map(wire.lengthened, conversation()))
    for cut in range(0, len(frames), 7):
        with raw_connection(server) as s:
            if cut % 2:  # a reset instead of a FIN
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.sendall(frames[:cut])
    until(lambda: not server.sessions)


def test_a_client_that_does_not_read_holds_up_nobody(server):
    with raw_connection(server) as s:
        n = 1 << 20
        zeros = [wire.encode(wire.Data(0, 0, "uint8", [n], [0], 0, memoryview(bytes(n))))]
        asks = [wire.encode(wire.Publish(i, 1, 0)) for i in range(1, 40)]
        messages = [wire.numbered(i, frame) for i, frame in enumerate([*zeros, *asks], 1)]
        s.sendall(b"".join(map(wire.lengthened, [hello(), *messages])))
        until(lambda: server.sessions)
        assert answers(server)
    until(lambda: not server.sessions)


def test_a_connection_without_a_hello_is_closed(server, monkeypatch):
    monkeypatch.setattr(module, "HELLO_SECONDS", 0.1)
    with raw_connection(server) as silent, raw_connection(server) as slow:
        slow.sendall(struct.pack(">I", 50) + b"x")
        assert everything(silent) == everything(slow) == b""


# ---------------------------------------------------------------- crowds


def test_one_client_too_many_is_told_so(server):
    sessions = [rpc.connect(address(server)) for _ in range(16)]
    for _ in range(20):
        with pytest.raises(rpc.QuotaError, match="16 clients, as many as it takes"):
            rpc.connect(address(server))
    for session in sessions:
        session.close()
    until(lambda: not server.sessions)


def test_sessions_that_come_and_go_in_threads(server):
    failures = []

    def work(i):
        try:
            for k in range(6):
                session = rpc.connect(address(server))
                x = session.send(torch.full((20,), float(i)))
                for _ in range(30):
                    x = x + 1
                if k % 3 == 0:
                    assert x.publish()[0] == i + 30
                if k % 3 != 2:
                    session.close()
                del session, x  # the third is only dropped
        except Exception as error:
            failures.append(error)

    in_threads(5, work)
    assert not failures
    gc.collect()
    until(lambda: not server.sessions)


def test_one_session_in_threads_that_make_drop_fail_and_publish(server):
    wrong = []
    with rpc.connect(address(server)) as session:
        weight, far = session.send(torch.zeros(2, 2)), session.send(torch.full((4,), 99))

        def work(i):
            try:
                for k in range(40):
                    x = session.send(torch.full((5,), float(i)))
                    y = x + k
                    bad = torch.nn.functional.embedding(far, weight)
                    if y.publish().tolist() != [i + k] * 5:
                        wrong.append((i, k))
                    with pytest.raises(IndexError):
                        bad.publish()
            except Exception as error:
                wrong.append(error)

        in_threads(4, work)
        assert not wrong
        gc.collect()
        assert session.sync().objects == 2


# ---------------------------------------------------------------- servers that leave


def test_a_server_that_dies_is_told_at_the_next_use():
    with Server(SERVICE) as server:
        idle, busy = rpc.connect(address(server)), rpc.connect(address(server))
        x, y = idle.send(torch.ones(3)), busy.send(torch.ones(3))
        idle.sync()
        busy.sync()
    with pytest.raises(rpc.ConnectionLost, match="handles have no values"):
        x.publish()
    with contextlib.suppress(rpc.ConnectionLost):  # raised if the idle thread has noticed already
        y + 1
    until(lambda: busy.channel._dead is not None)
    for _ in range(2):
        with pytest.raises(rpc.ConnectionLost):
            y + 1
    busy.close()  # raised before
    idle.close()


def test_work_that_a_dead_server_took_along_is_told_by_close():
    with Server(SERVICE) as server:
        session = rpc.connect(address(server))
        x = session.send(torch.ones(3))
        session.sync()
    with pytest.raises(rpc.ConnectionLost):
        x + 1  # raises if the idle thread has noticed already
        session.close()
    session.close()


def test_a_listener_that_says_nothing_is_given_up():
    listener = socket.create_server(("127.0.0.1", 0))
    with listener, pytest.raises(rpc.ConnectionLost, match=r"did not answer within 0\.2 s"):
        rpc.connect(f"tcp://127.0.0.1:{listener.getsockname()[1]}", timeout=0.2)


def test_a_port_that_is_taken_is_said_at_once():
    listener = socket.create_server(("127.0.0.1", 0))
    taken = Server(SERVICE, port=listener.getsockname()[1])
    with listener, pytest.raises(OSError, match="(?i)address already in use"), taken:
        pass


# ---------------------------------------------------------------- processes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_cannot_talk_into_its_parents_session(server):
    agreed = SERVICE.agreement
    channel = Channel(ReconnectingTransport(lambda seconds: Tcp("127.0.0.1", server.port, seconds)), agreed)
    id_ = channel.upload("uint8", [3], [0], memoryview(b"abc"), make=int)
    child = os.fork()
    if not child:
        code = 1
        try:
            channel.publish(id_)
        except rpc.SessionClosed as error:
            code = 0 if "connect in this one" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert channel.publish(id_)[2].tobytes() == b"abc"
    channel.close()


def test_a_program_with_many_open_files(server):
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 1200:
        pytest.skip(reason="this process may not open so many files")
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1050)]
    try:
        assert answers(server)
    finally:
        for f in files:
            os.close(f)


# ---------------------------------------------------------------- hostile clients


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("allow", [None, ["aten::[a-g]*"]], ids=["everything", "allow-list"])
def test_hostile_frames_bring_nothing_about(allow):
    """Hostile frames cause no crash, hang, growth, foreign byte or unchecked operator.

    `hostile_client` can run many more.
    """
    hostile = Hostile(3 if allow else 2, allow)
    hostile.attack(3000)
    assert not hostile.faults + hostile.differences
    assert hostile.counts["fatal"] > 200 and hostile.counts["refused as op"] > 500
    assert len(hostile.told) >= 20  # at least twenty different messages


OFTEN = ("add.Tensor", "add_.Tensor", "mul.Scalar", "mm", "sum.dim_IntList", "view", "slice.Tensor", "select.int",
         "transpose.int", "zero_", "unsqueeze", "where.self")  # fmt: skip


class Closely(Hostile):
    """Sends the same few operators repeatedly, to a server and to one that checks each as if it were new."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.rows = [(i, schema) for i, schema in self.rows if schema.name.removeprefix("aten::") in OFTEN]
        assert len(self.rows) == len(OFTEN)

    def _connected(self) -> list[Connection]:
        made = super()._connected()
        quickly = made[0].executor._fast_path

        def counted(*args):
            values = quickly(*args)
            self.counts["quick" if values is not None else "closer look"] += 1
            return values

        made[0].executor._fast_path = counted
        made[1].executor._fast_path = lambda *_: None
        return made

    def _strike(self, raw: bytes, what: str) -> None:
        super()._strike(raw, what)
        books = [
            {i: (e.poison, e.rows, e.buffer and (e.buffer.public, e.buffer.users, e.buffer.nbytes)) for i, e in found}
            for found in (side.store.entries.items() for side in self.sides)
        ]
        if books[0] != books[1]:
            self.faults.append(f"the books differ after {what}")


@pytest.mark.filterwarnings("ignore")
def test_what_was_found_good_once_is_treated_as_all_else():
    closely = Closely(7)
    closely.attack(2500)
    assert not closely.faults + closely.differences
    assert closely.counts["quick"] > 100 < closely.counts["closer look"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("frames", [200, pytest.param(4000, marks=pytest.mark.weekly)])
def test_hostile_frames_over_tcp_end_their_own_session_alone(frames):
    hostile = over_tcp(5, frames)
    assert not hostile.faults
    assert hostile.counts["fatal"] > frames / 16


@pytest.mark.filterwarnings("ignore")
def test_the_hostile_client_finds_a_server_that_checks_nothing(monkeypatch):
    monkeypatch.setattr(overload_info, "checker", lambda schema, room: (lambda args, kwargs: None, {}))
    hostile = Hostile(2)
    hostile.attack(2000)
    assert any("which is no" in fault for fault in hostile.faults)


@pytest.mark.filterwarnings("ignore")
def test_the_hostile_client_finds_an_operator_that_no_list_stopped(monkeypatch):
    hostile = Hostile(2, ["aten::[a-g]*"])
    for side in hostile.services:
        side.clients["client"].allowed = None
    hostile._begin()
    hostile.attack(500)
    assert any("allowed: False" in fault for fault in hostile.faults)
