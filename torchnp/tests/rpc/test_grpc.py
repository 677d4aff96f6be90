"""gRPC: the behaviour of other transports over calls; its health service, tokens in metadata, and its errors."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time

import grpc
import pytest
import torch

import torchnp.rpc.client.transports.reconnect as client_link
from torchnp import rpc
from torchnp.rpc import wire
from torchnp.rpc.server.process.fork_server import _let_go_of_all_but
from torchnp.rpc.server.session.server_state import ServerState
from torchnp.rpc.server.transports.server import Server
from torchnp.tests.rpc import server_pool
from torchnp.tests.rpc.certificates import Authority
from torchnp.tests.rpc.proxy import Boundary, Proxy, ends_in_grpc
from torchnp.tests.rpc.test_reconnect import alike, training


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(client_link, "FIRST_WAIT", 0.02)


@pytest.fixture(scope="module")
def plain():
    with server_pool.process("--grpc", "--token", "sesame", "--lease-seconds", "20") as (where, _):
        yield where


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ours"), "ours")


def port_of(where):
    return int(where.rpartition(":")[2])


def works(session):
    with session:
        big = torch.arange(1_000_000.0)
        assert torch.equal((session.send(big) * 2).publish(), big * 2)


def test_a_token_goes_with_the_metadata(plain):
    assert plain.startswith("grpc://127.0.0.1:")
    works(rpc.connect(plain, token="sesame"))
    for token in (None, "wrong"):
        with pytest.raises(rpc.AuthenticationError, match=r"rpc\.connect\(\.\.\., token=\)"):
            rpc.connect(plain, token=token)
    with pytest.raises(ValueError, match="ASCII"):
        rpc.connect(plain, token="sésame")
    with Proxy(port_of(plain)) as proxy, rpc.connect(f"grpc://127.0.0.1:{proxy.port}", token="sesame") as session:
        session.sync()
        assert b"Bearer sesame" in proxy.up


def test_certificates_both_ways(ours, tmp_path):
    pair, mine = ours.issued("127.0.0.1"), ours.issued("ann@example.org")
    others = Authority(tmp_path, "others")
    theirs = others.issued("ann@example.org")
    options = ("--grpc", "--tls-cert", pair.cert, "--tls-key", pair.key, "--tls-client-ca", ours.ca)
    with server_pool.process(*map(str, options)) as (where, _):
        assert where.startswith("grpcs://")
        works(rpc.connect(where, ca=ours.ca, cert=mine.cert, key=mine.key))
        with pytest.raises(rpc.AuthenticationError, match="is not trusted"):
            rpc.connect(where, ca=others.ca, cert=mine.cert, key=mine.key)
        for wrong in ({}, {"cert": theirs.cert, "key": theirs.key}):
            with pytest.raises(rpc.RPCError, match=r"grpcs://"):
                rpc.connect(where, ca=ours.ca, **wrong)
        with pytest.raises(rpc.RPCError, match="grpc://"):
            rpc.connect(where.replace("grpcs", "grpc"))


def test_the_other_protocol_is_named(plain, ours):
    with pytest.raises(rpc.RPCError, match="does not speak TLS: connect to grpc://"):
        rpc.connect(plain.replace("grpc", "grpcs"), ca=ours.ca)
    with pytest.raises(rpc.RPCError):
        rpc.connect(plain.replace("grpc", "tcp"), timeout=3.0)
    with server_pool.process() as (where, _), pytest.raises(rpc.RPCError):
        rpc.connect(where.replace("tcp", "grpc"), timeout=3.0)
    with pytest.raises(rpc.ConnectionLost, match=r"no server of gRPC answers at grpc://127\.0\.0\.1:1:"):
        rpc.connect("grpc://127.0.0.1:1")


def test_connections_that_are_lost(plain):
    with Proxy(port_of(plain)) as proxy, rpc.connect(f"grpc://127.0.0.1:{proxy.port}", token="sesame") as session:
        x = session.send(torch.ones(3))
        for i in range(5):
            for _ in range(50):
                x.add_(1)
            proxy.drop()
            for _ in range(50):
                x.add_(1)
            assert x[0].publish() == 1 + 100 * (i + 1)
        assert proxy.connections == 6


@pytest.mark.weekly  # test_reconnect has the same test over tcp
def test_a_step_of_training_cut_at_every_frame_boundary(plain):
    with rpc.connect(plain, token="sesame") as session:
        right = training(session)
        frames = {"up": session.channel.transport._unacknowledged.next, "down": session.channel.transport._due}
    cuts = 0
    for way, last in frames.items():
        for n in range(2, last):
            cut = Boundary(way, n, ends_in_grpc)
            with (
                Proxy(port_of(plain), cut) as proxy,
                rpc.connect(f"grpc://127.0.0.1:{proxy.port}", token="sesame") as session,
            ):
                assert alike(training(session), right), (way, n)
            assert proxy.connections <= 1 + cut.done
            cuts += proxy.connections - 1
    assert cuts > 30


def test_health(plain):
    """Encode a message of grpc.health.v1: a name in field 1, a status in field 1."""
    with grpc.insecure_channel(plain.removeprefix("grpc://")) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        name = wire.GRPC_SERVICE.encode()
        for request in (b"", b"\x0a" + bytes([len(name)]) + name):
            assert check(request, timeout=10) == b"\x08\x01"
        with pytest.raises(grpc.RpcError) as caught:
            check(b"\x0a\x01x", timeout=10)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=10)
        assert next(watch) == b"\x08\x01"
        watch.cancel()


def test_a_server_that_stops_says_so():
    with server_pool.process("--grpc") as (where, process):
        session = rpc.connect(where)
        x = session.send(torch.ones(3))
        session.sync()
        with grpc.insecure_channel(where.removeprefix("grpc://")) as channel:
            watch = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=30)
            assert next(watch) == b"\x08\x01"
            start = time.monotonic()
            process.terminate()
            assert next(watch) == b"\x08\x02"
            process.wait(20)
        assert time.monotonic() - start < 10
        assert process.returncode == 0
        with pytest.raises(rpc.ConnectionLost, match="the server has been stopped"):
            x.publish()


def test_a_call_that_says_nothing_or_nonsense(plain):
    with grpc.insecure_channel(plain.removeprefix("grpc://")) as channel:
        session = channel.stream_stream(f"/{wire.GRPC_SERVICE}/Session")
        for first in (b"", b"nonsense", bytes(wire.MAX_HELLO + 1)):
            err = wire.decode_reply(next(session(iter([first]), timeout=10)))
            assert (err.kind, err.fatal) == ("protocol", True)
        go = threading.Event()

        def silent():
            go.wait(10)
            yield from ()

        call = session(silent(), timeout=0.5)  # the client sets its own deadline
        with pytest.raises(grpc.RpcError) as caught:
            next(call)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        go.set()
    works(rpc.connect(plain, token="sesame"))


def test_a_server_that_never_answers_is_waited_for_in_time():
    """Accept connections, and send nothing."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        start = time.monotonic()
        with pytest.raises(rpc.ConnectionLost, match=r"did not answer within 0\.5 s"):
            rpc.connect(f"grpc://127.0.0.1:{deaf.getsockname()[1]}", timeout=0.5)
        assert time.monotonic() - start < 10


@pytest.mark.parametrize("options", [("--grpc",), ("--lease-seconds", "0")], ids=["grpc", "tcp"])
def test_a_server_that_stops_answering_is_waited_for_in_time(options):
    with server_pool.process(*options) as (where, process):
        session = rpc.connect(where, timeout=0.5, reconnect=1.0, silence=0.5)
        x = session.send(torch.ones(3))
        session.sync()
        os.kill(process.pid, signal.SIGSTOP)
        start = time.monotonic()
        try:
            with pytest.raises(rpc.ConnectionLost, match=r"not a word came for 0\.5 s"):
                (x + 1).publish()
            assert time.monotonic() - start < 60  # a loaded machine needs this long
        finally:
            os.kill(process.pid, signal.SIGCONT)
            session.channel.close()


def test_a_process_with_a_session_over_grpc_forks(plain):
    """gRPC has its own fork handlers: a server in this process, its fork server and its workers survive them."""
    session = rpc.connect(plain, token="sesame")
    x = session.send(torch.ones(3))
    session.sync()
    for _ in range(2):
        with Server(ServerState()) as server:
            sessions = [rpc.connect(f"tcp://127.0.0.1:{server.port}") for _ in range(3)]
            for other in sessions:
                assert (other.send(torch.ones(2)) + 1).publish().tolist() == [2, 2]
                other.close()
        x.add_(1)
    child = os.fork()
    if not child:
        code = 1
        try:
            signal.alarm(60)
            with pytest.raises(rpc.SessionClosed, match="connect in this one"):
                x.publish()
            # The session belongs to the parent, so this process has no thread for it.
            assert not session.channel._thread.is_alive()
            session.close()
            works(rpc.connect(plain, token="sesame"))
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert x.publish().tolist() == [3, 3, 3]
    session.close()


def test_what_a_library_wakes_itself_with_stays_open():
    """All other file descriptors point to the null device, so that no number is reused for another file."""
    read, write = os.pipe()
    event, kept = os.eventfd(0), os.open(os.devnull, os.O_RDONLY)
    child = os.fork()
    if not child:
        code = 1
        try:
            _let_go_of_all_but(kept)
            assert os.write(event, (1).to_bytes(8, sys.byteorder)) == 8
            assert os.write(write, b"x") == 1 and os.read(read, 1) == b""
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    assert os.waitpid(child, 0)[1] == 0 and os.read(read, 1) == b""
    for file in (read, event, kept):
        os.close(file)


def test_a_worker_has_nothing_of_grpc_and_a_server_without_the_package_says_what_to_install():
    code = """
import sys
sys.modules["grpc"] = None
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *a: None if name == "grpc" else find(name, *a)
from torchnp import rpc
for call in (lambda: rpc.serve(grpc=True), lambda: rpc.connect("grpc://127.0.0.1:1")):
    try:
        call()
    except (ValueError, ModuleNotFoundError) as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.count("pip install 'torchnp[") == 2, done.stderr
    assert done.stdout.count("grpcio") == 2
