"""TLS: encrypted sessions compute the same, and each kind of wrong certificate has its own message."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import sys
import time

import pytest
import torch

import torchnp.rpc.server.transports.server as module
from torchnp import rpc
from torchnp.rpc.server.session.server_state import ServerState
from torchnp.rpc.server.transports.listen import ServerCertificates
from torchnp.rpc.server.transports.server import Server
from torchnp.tests.rpc import server_pool
from torchnp.tests.rpc.certificates import Authority
from torchnp.tests.rpc.proxy import Proxy


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ours"), "ours")


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("others"), "others")


@pytest.fixture(scope="module")
def served(ours):
    with Server(ServerState(), tls=ServerCertificates(*ours.issued("127.0.0.1"))) as server:
        yield server


@pytest.fixture(scope="module")
def mutual(ours):
    with Server(ServerState(), tls=ServerCertificates(*ours.issued("127.0.0.1"), ours.ca)) as server:
        yield server


def works(session):
    with session:
        assert (session.send(torch.ones(3)) + 1).publish().tolist() == [2, 2, 2]
        big = torch.arange(1_000_000.0)
        assert torch.equal((session.send(big) * 2).publish(), big * 2)


def test_a_server_process_with_certificates_from_the_command_line(ours):
    pair = ours.issued("127.0.0.1")
    options = ("--tls-cert", pair.cert, "--tls-key", pair.key, "--tls-client-ca", ours.ca)
    with server_pool.process(*map(str, options)) as (where, _):
        assert where.startswith("tls://")
        client = ours.issued("ann@example.org")
        with rpc.connect(where, ca=ours.ca, cert=client.cert, key=client.key) as session:
            assert repr(session).endswith(f"with {where}>")
            works(session)


def test_nothing_is_readable_on_the_way(served, ours):
    """A program between client and server sees no lengths and no frames."""
    with Proxy(served.port) as proxy:
        with rpc.connect(f"tls://127.0.0.1:{proxy.port}", ca=ours.ca) as session:
            session.send(torch.full((100,), 2.0)).publish()
        seen = bytes(proxy.up)
    assert b"float32" not in seen
    assert seen.startswith(b"\x16\x03")


def test_a_certificate_that_nobody_trusts(served, others):
    where = f"tls://127.0.0.1:{served.port}"
    for ca in (None, others.ca):
        with pytest.raises(rpc.AuthenticationError, match=r"the certificate of tls://.* is not trusted: .*ca=FILE"):
            rpc.connect(where, ca=ca)


def test_a_certificate_of_another_host(ours):
    tls = ServerCertificates(*ours.issued("data.example.org"))
    words = r"IP address mismatch.*the host that it is for"
    with Server(ServerState(), tls=tls) as server, pytest.raises(rpc.AuthenticationError, match=words):
        rpc.connect(f"tls://127.0.0.1:{server.port}", ca=ours.ca)


def test_a_client_without_a_certificate_where_one_is_wanted(mutual, ours):
    with pytest.raises(rpc.AuthenticationError, match=r"wants a certificate of its clients.*cert=FILE, key=FILE"):
        rpc.connect(f"tls://127.0.0.1:{mutual.port}", ca=ours.ca)
    assert mutual.counters.totals()["certificate"] == 1


def test_a_client_with_a_certificate_of_others(mutual, ours, others):
    mine = others.issued("ann@example.org")
    with pytest.raises(rpc.AuthenticationError, match=r"it does not trust this one"):
        rpc.connect(f"tls://127.0.0.1:{mutual.port}", ca=ours.ca, cert=mine.cert, key=mine.key)
    mine = ours.issued("ann@example.org")
    works(rpc.connect(f"tls://127.0.0.1:{mutual.port}", ca=ours.ca, cert=mine.cert, key=mine.key))


def test_a_plain_client_on_a_port_of_tls(served):
    with pytest.raises(rpc.ProtocolError, match=r"this port speaks TLS: connect to tls://"):
        rpc.connect(f"tcp://127.0.0.1:{served.port}")


def test_a_client_of_tls_on_a_plain_port(ours):
    with Server(ServerState()) as server:
        with pytest.raises(rpc.ProtocolError, match=r"does not speak TLS: connect to tcp://127"):
            rpc.connect(f"tls://127.0.0.1:{server.port}", ca=ours.ca)
        works(rpc.connect(f"tcp://127.0.0.1:{server.port}"))


def test_a_handshake_that_does_not_come(served, ours, monkeypatch):
    monkeypatch.setattr(module, "HELLO_SECONDS", 0.3)
    for start in (b"", b"\x16", b"\x16\x03\x01\x02\x00"):
        with socket.create_connection(("127.0.0.1", served.port)) as s:
            s.settimeout(10)
            s.sendall(start)
            assert s.recv(1) == b""
    works(rpc.connect(f"tls://127.0.0.1:{served.port}", ca=ours.ca))


def test_each_step_of_a_connection_has_what_the_others_leave(served, ours, monkeypatch):
    monkeypatch.setattr(module, "HELLO_SECONDS", 3.0)
    monkeypatch.setattr(module, "LINGER_SECONDS", 0.1)
    begun = time.monotonic()
    inward, outward = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context(cafile=ours.ca)
    talk = context.wrap_bio(inward, outward, server_hostname="127.0.0.1")
    with socket.create_connection(("127.0.0.1", served.port)) as s:
        s.settimeout(20)
        time.sleep(1.2)  # before the handshake, in it, and after it
        for pause in (1.2, 0):
            with contextlib.suppress(ssl.SSLWantReadError):
                talk.do_handshake()
            s.sendall(outward.read())
            if pause:
                inward.write(s.recv(1 << 16))
            time.sleep(pause)
        with contextlib.suppress(OSError):
            while s.recv(1 << 16):
                pass
    assert 2.5 < time.monotonic() - begun < 4.8


def test_files_that_are_no_certificates(ours, tmp_path):
    pair = ours.issued("127.0.0.1")
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("nothing")
    for cert, key in ((wrong, pair.key), (pair.cert, wrong), (tmp_path / "none", pair.key), (pair.cert, None)):
        with pytest.raises(ValueError, match="cannot use the certificate|give --tls-cert FILE and --tls-key FILE"):
            ServerCertificates(cert, key)
    with pytest.raises(ValueError, match="cannot use the authorities of clients"):
        ServerCertificates(*pair, wrong)
    for files in ({"ca": wrong}, {"ca": tmp_path / "none"}, {"cert": pair.cert, "key": wrong}):
        with pytest.raises(ValueError, match="cannot use"):
            rpc.connect("tls://127.0.0.1:1", **files)
    with pytest.raises(ValueError, match="goes with its key"):
        rpc.connect("tls://127.0.0.1:1", cert=pair.cert)
    with pytest.raises(ValueError, match="write tls://127"):
        rpc.connect("tcp://127.0.0.1:1", ca=ours.ca)
    command = [sys.executable, "-m", "torchnp.rpc.server", "--tls-cert", str(wrong), "--tls-key", str(pair.key)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "cannot use the certificate" in done.stderr
    assert "Traceback" not in done.stderr
