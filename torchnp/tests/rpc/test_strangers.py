"""Abuse of every transport by unauthenticated connections of one host: a right token from there still works, and
nothing is kept."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import threading
import time
import types
import zlib
from pathlib import Path

import grpc
import pytest
import torch

import torchnp.rpc.server.transports.server as module
from torchnp import rpc
from torchnp.rpc import wire
from torchnp.rpc.server.session.server_state import ServerState
from torchnp.rpc.server.transports import auth_throttle, grpc_transport
from torchnp.rpc.server.transports.listen import ServerCertificates
from torchnp.rpc.server.transports.server import Server
from torchnp.rpc.wire import framing
from torchnp.tests.rpc.certificates import Authority
from torchnp.tests.rpc.server_pool import until

TRANSPORTS = ("tcp", "tls", "grpc", "grpcs")
HELLO_SECONDS = 1.5
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"  # with an empty settings frame


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"), "ours")


@pytest.fixture(params=TRANSPORTS)
def served(request, authority, monkeypatch):
    monkeypatch.setattr(module, "HELLO_SECONDS", HELLO_SECONDS)
    scheme = request.param
    tls = ServerCertificates(*authority.issued("127.0.0.1")) if scheme[-1] == "s" else None
    with Server(ServerState(token="sesame"), tls=tls, grpc=scheme.startswith("grpc")) as server:
        safe = {"ca": authority.ca} if tls else {}
        yield types.SimpleNamespace(
            server=server, scheme=scheme, where=f"{scheme}://127.0.0.1:{server.port}", safe=safe, ca=authority.ca
        )


def gets_in(served):
    """A right token is accepted, whatever else is going on."""
    with rpc.connect(served.where, token="sesame", timeout=30.0, **served.safe) as session:
        assert (session.send(torch.ones(3)) + 1).publish().tolist() == [2, 2, 2]


def encrypted(served, connection):
    """Return the connection, after the TLS handshake if there is one."""
    if not served.safe:
        return connection
    context = ssl.create_default_context(cafile=served.ca)
    if served.scheme == "grpcs":
        context.set_alpn_protocols(["h2"])
    return context.wrap_socket(connection, server_hostname="127.0.0.1")


def connected(served, stack, count):
    made = []
    for _ in range(count):
        connection = socket.create_connection(("127.0.0.1", served.server.port), timeout=30)
        made.append(stack.enter_context(contextlib.closing(connection)))
    return made


def is_closed(connection):
    """Return whether the server has closed its side, whatever it sent before."""
    connection.settimeout(0.01)
    try:
        while connection.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def silent(served, connection):
    pass


def half_a_handshake(served, connection):
    connection.sendall(b"\x16\x03\x01\x02\x00" if served.safe else PREFACE[:10] if "grpc" in served.scheme else b"\0\0")


def half_a_frame(served, connection):
    connection.sendall(PREFACE + b"\0\0\x20\1\4" if "grpc" in served.scheme else b"\0\0\1\0half")


def settings_alone(served, connection):
    connection.sendall(PREFACE if "grpc" in served.scheme else b"\0")


@pytest.mark.parametrize(
    "abuse",
    [silent, half_a_frame, *(pytest.param(f, marks=pytest.mark.weekly) for f in (half_a_handshake, settings_alone))],
)
def test_connections_that_say_too_little_lock_nobody_out(served, abuse):
    shakes = abuse in (half_a_frame, settings_alone)
    with contextlib.ExitStack() as stack:
        those = connected(served, stack, 40 if shakes and served.safe else 260)
        for i, connection in enumerate(those):
            with contextlib.suppress(OSError):  # closed in favour of a later one
                if shakes:
                    those[i] = connection = stack.enter_context(contextlib.closing(encrypted(served, connection)))
                abuse(served, connection)
        gets_in(served)
        assert len(served.server._strangers) <= auth_throttle.MAX_OF_HOST
        until(lambda: not served.server._strangers, HELLO_SECONDS + 25)
        until(lambda: all(map(is_closed, those)))
    gets_in(served)


def test_a_byte_now_and_then_is_no_way_around_the_deadline(served):
    for start in (b"", b"\x16\x03\x01\x7f\x00\x01\x00\x7e") if served.safe else (PREFACE, b"\0\0\x0f\0"):
        with contextlib.ExitStack() as stack:
            (connection,) = connected(served, stack, 1)
            begun = time.monotonic()
            with contextlib.suppress(OSError):
                connection.sendall(start)
                while not is_closed(connection):
                    assert time.monotonic() - begun < HELLO_SECONDS + 25
                    connection.sendall(b"\0")
                    time.sleep(0.05)


def test_one_host_takes_no_place_of_another(served):
    """If there are too many unauthenticated connections, one of the host with the most is closed."""
    strangers = auth_throttle.Strangers()
    with contextlib.ExitStack() as stack:
        connected(served, stack, 200)
        until(lambda: len(served.server._strangers) == auth_throttle.MAX_OF_HOST)

    class Task(threading.Event):
        def add_done_callback(self, _):
            pass

        cancel = threading.Event.set

    first = Task()
    strangers.add(first, "a")
    for host in "bcd":
        for _ in range(auth_throttle.MAX_OF_HOST + 10):
            strangers.add(Task(), host)
    assert len(strangers) == auth_throttle.MAX_STRANGERS
    assert not first.is_set()


def test_many_wrong_tokens_delay_no_right_one(served, monkeypatch):
    monkeypatch.setattr(auth_throttle, "FIRST_DELAY", 20.0)
    monkeypatch.setattr(auth_throttle, "LAST_DELAY", 20.0)
    monkeypatch.setattr(auth_throttle, "MAX_DELAYED_OF_HOST", 5)
    refused = []

    def wrong():
        try:
            rpc.connect(served.where, token="open", timeout=60.0, **served.safe)
        except rpc.RPCError as error:
            refused.append(error)

    threads = [threading.Thread(target=wrong, daemon=True) for _ in range(12)]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    until(lambda: served.server._refusals._delayed.total() == 5)
    gets_in(served)
    until(lambda: len(refused) == 12 - 5)  # the first, and those beyond the queue
    assert time.monotonic() - begun < 20
    assert all(isinstance(e, rpc.AuthenticationError) for e in refused)


def test_addresses_of_one_network_are_one_host():
    assert (
        auth_throttle.host_of("2001:db8::1")
        == auth_throttle.host_of("2001:db8::ffff:1%eth0")
        != auth_throttle.host_of("2001:db8:0:1::1")
    )
    assert auth_throttle.host_of("::ffff:10.0.0.1") == auth_throttle.host_of("10.0.0.1") == "10.0.0.1"
    assert auth_throttle.host_of("a client that left") == "a client that left"


# ---------------------------------------------------------------- calls of gRPC


CALLS = pytest.mark.parametrize("served", ["grpc", "grpcs"], indirect=True)


@pytest.fixture
def called(served):
    target = f"127.0.0.1:{served.server.port}"
    if not served.safe:
        channel = grpc.insecure_channel(target)
    else:
        channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(Path(served.ca).read_bytes()))
    with channel:
        yield served, channel


@CALLS
def test_calls_that_say_nothing_end(called):
    served, channel = called
    session = channel.stream_stream(f"/{wire.GRPC_SERVICE}/Session")
    go = threading.Event()

    def silent():
        go.wait(60)
        yield from ()

    calls = [session(silent()) for _ in range(3 * grpc_transport.MAX_STREAMS)]
    gets_in(served)
    until(lambda: not served.server._strangers, 60)
    for call in calls[: grpc_transport.MAX_STREAMS]:
        with contextlib.suppress(grpc.RpcError):
            assert list(call) == []
    go.set()
    gets_in(served)


@CALLS
def test_watches_are_few_and_end(called, monkeypatch):
    monkeypatch.setattr(grpc_transport, "WATCH_SECONDS", 3 * HELLO_SECONDS)
    served, channel = called
    watch = channel.unary_stream("/grpc.health.v1.Health/Watch")
    watches, full, begun = [], 0, time.monotonic()
    for _ in range(grpc_transport.MAX_WATCHES_OF_HOST + 4):
        watches.append(watch(b"", timeout=60))
        try:
            assert next(watches[-1]) == b"\x08\x01"
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            full += 1
            watches.pop()
    assert full == 4
    gets_in(served)
    assert [list(w) for w in watches] == [[]] * len(watches)
    assert time.monotonic() - begun > 2 * HELLO_SECONDS  # a connection with a session is not limited
    assert next(watch(b"", timeout=60)) == b"\x08\x01"


@CALLS
def test_a_flood_before_anybody_is_known_ends_the_connection(called):
    served, _ = called
    with contextlib.ExitStack() as stack:
        (connection,) = connected(served, stack, 1)
        connection = stack.enter_context(contextlib.closing(encrypted(served, connection)))
        ping = b"\0\0\x08\6\0\0\0\0\0" + bytes(8)
        begun = time.monotonic()
        with contextlib.suppress(OSError):
            connection.sendall(PREFACE)
            for _ in range(10_000):
                connection.sendall(ping)
        until(lambda: is_closed(connection))
        assert time.monotonic() - begun < 20
    gets_in(served)


def _frame(kind, stream, payload=b"", flags=0):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def _headers(path, **more):
    """Return an HTTP/2 request with each of its headers in full."""
    fields = more | {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": "x",
        "content-type": "application/grpc",
    }
    fields["te"] = "trailers"
    texts = [(k.encode(), v.encode(errors="surrogateescape")) for k, v in fields.items()]
    return b"".join(b"\0" + bytes([len(k)]) + k + bytes([len(v)]) + v for k, v in texts)


@CALLS
def test_a_call_that_takes_no_answer_loses_its_connection(called):
    served, _ = called
    no_room = _frame(4, 0, b"\0\4\0\0\0\0")  # sets the initial window to 0
    call = _frame(1, 1, _headers(f"/{wire.GRPC_SERVICE}/Session"), 4) + _frame(0, 1, b"\0\0\0\0\3bad")
    with contextlib.ExitStack() as stack:
        (connection,) = connected(served, stack, 1)
        connection = stack.enter_context(contextlib.closing(encrypted(served, connection)))
        connection.sendall(PREFACE[:24] + no_room + call)
        until(lambda: is_closed(connection), 60)
        until(lambda: not served.server._strangers, 60)
    gets_in(served)


@CALLS
def test_a_method_whose_name_is_no_text_ends_its_own_connection_alone(called, caplog):
    served, _ = called
    with rpc.connect(served.where, token="sesame", **served.safe) as session, contextlib.ExitStack() as stack:
        kept = session.send(torch.ones(3))
        session.sync()
        for _ in range(2):
            (connection,) = connected(served, stack, 1)
            connection = stack.enter_context(contextlib.closing(encrypted(served, connection)))
            path = f"/{wire.GRPC_SERVICE}/\udcff\udcfea-word-of-a-client's"
            connection.sendall(PREFACE + _frame(1, 1, _headers(path), 4))
            until(lambda: is_closed(connection), 60)
        assert (kept + 1).publish().tolist() == [2, 2, 2]
    assert not [r for r in caplog.records if r.name != "grpc._cython.cygrpc" and "a-word" in r.getMessage()]
    gets_in(served)


@CALLS
def test_a_message_that_is_compressed_is_refused_before_it_is_unpacked(called):
    served, _ = called
    packed = zlib.compress(bytes(1000), wbits=31)
    call = _headers(f"/{wire.GRPC_SERVICE}/Session", **{"grpc-encoding": "gzip"})
    with contextlib.ExitStack() as stack:
        (connection,) = connected(served, stack, 1)
        connection = stack.enter_context(contextlib.closing(encrypted(served, connection)))
        data = b"\1" + len(packed).to_bytes(4, "big") + packed
        connection.sendall(PREFACE + _frame(1, 1, call, 4) + _frame(0, 1, data))
        heard = b""
        while b"grpc-status" not in heard:
            heard += (part := connection.recv(1 << 16))
            assert part
    assert heard.partition(b"grpc-status")[2].startswith(b"\x0212")  # UNIMPLEMENTED
    gets_in(served)


@CALLS
def test_a_watch_makes_nobody_known(called):
    """Its connection may stay, and send no more than others before it says who it is."""
    served, _ = called
    with contextlib.ExitStack() as stack:
        (connection,) = connected(served, stack, 1)
        connection = stack.enter_context(contextlib.closing(encrypted(served, connection)))
        watch = _frame(1, 1, _headers("/grpc.health.v1.Health/Watch"), 4) + _frame(0, 1, bytes(5), 1)
        connection.sendall(PREFACE + watch)
        heard = b""
        while b"\0\0\0\0\2\x08\1" not in heard:
            heard += (part := connection.recv(1 << 16))
            assert part
        with contextlib.suppress(OSError):
            for _ in range(10_000):
                connection.sendall(b"\0\0\x08\6\1\0\0\0\0" + bytes(8))
        until(lambda: is_closed(connection))
    gets_in(served)


def test_who_speaks_goes_after_those_who_are_silent():
    loop = asyncio.new_event_loop()
    strangers, tasks = auth_throttle.Strangers(), [loop.create_future() for _ in range(auth_throttle.MAX_OF_HOST + 1)]
    for task in tasks[:-1]:
        strangers.add(task, "a")
    strangers.spoke(tasks[0])
    strangers.add(tasks[-1], "a")
    assert [t.cancelled() for t in tasks[:3]] == [False, True, False]
    loop.close()


def test_no_file_stays_open(served):
    gets_in(served)
    until(lambda: not served.server.sessions)
    before = len(os.listdir("/dev/fd"))
    with contextlib.ExitStack() as stack:
        for connection in connected(served, stack, 30):
            connection.sendall(PREFACE)
        gets_in(served)
    until(lambda: not served.server._strangers and not served.server.sessions, 60)
    until(lambda: len(os.listdir("/dev/fd")) <= before + 8, 60)


def test_a_peer_that_does_not_close_is_not_waited_for():
    """It also counts until it is closed here."""

    async def closed():
        ours, theirs = socket.socketpair()
        with theirs:
            ours.setblocking(False)
            _, stream = await asyncio.get_running_loop().connect_accepted_socket(lambda: framing.ByteStream(0.2), ours)
            stream.transport.write(bytes(1 << 24))  # the peer does not read it
            await stream.close(b"last")
            return stream._closed or stream.transport.is_closing()

    assert asyncio.run(closed())
