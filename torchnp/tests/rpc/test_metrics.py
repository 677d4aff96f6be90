"""What an owner sees of a running server: its log, and the metrics that Prometheus reads; never a value."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import socket
import subprocess
import sys
import urllib.request

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from torchnp import rpc
from torchnp.rpc import wire
from torchnp.rpc.server.config.tokens import hash_of, new_token
from torchnp.rpc.server.monitoring.counters import NAMES, REASONS, Counters
from torchnp.rpc.server.monitoring.metrics import MAX_SCRAPES
from torchnp.rpc.server.privacy.ledger import Ledger
from torchnp.rpc.server.session.protocol import Connection
from torchnp.tests.rpc import server_pool
from torchnp.tests.rpc.server_pool import until

SECRET = 987654321.25  # an owner's value; a client's texts are WORDS
WORDS = "a-word-of-a-client's"


# ---------------------------------------------------------------- the log


def test_json_lines_have_events_and_no_word_of_a_client(tmp_path):
    np.save(tmp_path / "x.npy", np.full((3, 2), SECRET))
    options = ("--log-format", "json", "--token", "sesame", "--dataset", f"{tmp_path.name}={tmp_path}/x.npy")
    with server_pool.process(*options, "--log-level", "info") as (where, process):
        with pytest.raises(rpc.AuthenticationError):
            rpc.connect(where, token=WORDS)
        with rpc.connect(where, token="sesame") as session:
            x = session.dataset(tmp_path.name)
            with pytest.raises(rpc.PrivacyError):
                x.publish()
            with pytest.raises(IndexError):
                F.embedding(session.send(torch.tensor([987654321])), session.send(torch.ones(2, 2))).publish()
            name, y = "aten::linalg_norm.ord_str", session.send(torch.ones(2, 2))
            args = [wire.Handle(y._object.id), WORDS]
            id_ = session.channel.call(wire.agreement().index[name], 1, args, {}, [], None, make=int)[0]
            with pytest.raises(rpc.RemoteOpError, match=WORDS):
                session.channel.publish(id_)
        session = rpc.connect(where, token="sesame")
        session.channel.transport.send([wire.encode(wire.Data(0, 0, WORDS, [1], [0], 0, memoryview(b"")))])
        with pytest.raises(rpc.ProtocolError, match=WORDS):
            session.sync()
        session.channel.transport.close()
        process.terminate()
        _, err = process.communicate(timeout=20)
    lines = [json.loads(line) for line in err.splitlines()]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"]) for line in lines)
    events = [line["event"] for line in lines]
    assert events[0] == "serving" and events[-1] == "stopped"
    assert events.count("session opened") == 2 and events.count("wrong token") == 1
    refused = next(line for line in lines if line["event"] == "release refused")
    assert (refused["reason"], refused["client"]) == ("private", "client")
    assert [line["op"] for line in lines if line["event"] == "operator failed"] == [
        "aten::embedding",
        "aten::linalg_norm.ord_str",
    ]
    (broken,) = [line for line in lines if line["event"] == "protocol error"]
    assert re.fullmatch(r"wire/\w+\.py:\d+", broken["at"])
    assert not [w for w in (WORDS, "987654321", "sesame") if w in err]


def test_an_error_inside_the_server_is_logged_without_its_text(caplog, monkeypatch):
    caplog.set_level(logging.INFO, "torchnp.rpc")

    def broken(self, request):
        raise ValueError(WORDS)

    monkeypatch.setattr(Connection, "_sync", broken)
    with contextlib.suppress(rpc.ProtocolError), rpc.local() as session:
        session.sync()
    (told,) = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert re.search(r"internal error client=client error=ValueError at=rpc/test_metrics\.py:\d+$", told)
    assert WORDS not in caplog.text


def test_text_lines_have_no_word_of_other_packages():
    """gRPC, for example, logs a client's metadata that is no UTF-8."""
    say = "import logging; from torchnp.rpc.server.monitoring.event_log import configure, note; configure();"
    say += f"note(logging.INFO, 'serving', operators=3); logging.getLogger('grpc').error({WORDS!r})\n"
    say += f"try: raise ValueError({WORDS!r})\nexcept ValueError: logging.getLogger('asyncio').exception({WORDS!r})"
    told = subprocess.run([sys.executable, "-c", say], capture_output=True, text=True, check=True).stderr.splitlines()
    assert [line.partition(",")[2].partition(" ")[2] for line in told] == [
        "INFO torchnp.rpc: serving operators=3",
        "ERROR grpc: a message",
        "ERROR asyncio: a message",
    ]


def test_the_log_tells_nothing_of_private_values(caplog):
    caplog.set_level(logging.INFO, "torchnp.rpc")
    with rpc.local(datasets={"rows": np.array([9, 1])}) as s:
        F.embedding(s.dataset("rows"), s.send(torch.randn(4, 3)))
    assert not any("failed" in m for m in caplog.messages)


# ---------------------------------------------------------------- numbers


def test_processes_count_in_rows_of_their_own():
    counters = Counters(3)
    for row in range(3):
        count = counters.row(row)
        count("operators", 10**row)
        count(REASONS[-1])
    totals = counters.totals()
    assert (totals["operators"], totals[REASONS[-1]], sum(totals.values())) == (111, 3, 114)
    assert len(set(NAMES)) == len(NAMES)


def scraped(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as reply:
        text = reply.read().decode()
    numbers = dict(re.findall(r"^(torchnp_\S+(?:\{.*\})?) (\S+)$", text, re.MULTILINE))
    return {name: float(value) for name, value in numbers.items()}, text


def test_prometheus_finds_what_happened(tmp_path):
    pytest.importorskip("prometheus_client")
    books = Ledger(tmp_path / "ledger.db", create=True)
    books.set_budget("people", 3.0, 1e-6)
    books.set_budget("people", 1.0, 1e-6, "alice")
    books.close()
    np.save(tmp_path / "x.npy", np.full((1000, 2), SECRET))
    token, other = new_token(), new_token()
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    (tmp_path / "server.toml").write_text(
        f'ledger = "ledger.db"\nport = 0\nmetrics = {port}\nmax_bytes = 10000\nmax_clients = 2\n'
        f'allow = ["aten::[a-m]*", "aten::ones*"]\n[datasets]\npeople = "x.npy"\n'
        f'[tokens.alice]\nhash = "{hash_of(token)}"\n[tokens.bob]\nhash = "{hash_of(other)}"\nop_seconds = 3\n'
    )
    with server_pool.process("--config", f"{tmp_path}/server.toml") as (where, _):
        before, _ = scraped(port)
        assert not sum(v for k, v in before.items() if "budget" not in k)
        with rpc.connect(where, token) as session:
            x = session.send(torch.ones(10))
            assert (x + x).publish()[0] == 2
            people = session.dataset("people")
            people.publish(reduce="mean", clip=1.0, eps=0.5)
            for error, ask in (
                (rpc.PrivacyError, people.publish),
                (rpc.BudgetError, lambda: people.publish(reduce="mean", clip=1.0, eps=0.9)),
                (RuntimeError, lambda: x.tanh().publish()),
                (rpc.QuotaError, lambda: session.send(torch.zeros(9000)).publish()),
            ):
                with pytest.raises(error):
                    ask()
            with rpc.connect(where, other) as second:
                with pytest.raises(rpc.QuotaError, match="2 clients"):
                    rpc.connect(where, token)
                second.send(torch.ones(1)).expand(2**25, 2**25).amax()
                with pytest.raises(rpc.QuotaError, match="took longer"):
                    second.sync()
                during, _ = scraped(port)
                assert during["torchnp_open_sessions"] >= 1
        until(lambda: scraped(port)[0]["torchnp_open_sessions"] == 0)
        for wrong in ("wrong", None):
            with pytest.raises(rpc.AuthenticationError):
                rpc.connect(where, wrong)
        with socket.create_connection(("127.0.0.1", int(where.rpartition(":")[2])), 10) as s:
            s.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert s.recv(100)
        numbers, text = scraped(port)
    reasons = {"token": 2, "clients": 1, "protocol": 1, "operator": 1, "quota": 1, "private": 1, "budget": 1, "time": 1}
    for reason in REASONS:
        assert numbers[f'torchnp_refusals_total{{reason="{reason}"}}'] == reasons.get(reason, 0), reason
    assert numbers["torchnp_sessions_total"] == 2
    assert numbers['torchnp_publishes_total{kind="exact"}'] == numbers['torchnp_publishes_total{kind="noised"}'] == 1
    assert numbers["torchnp_operators_total"] == 4  # add, tanh, expand, amax
    assert numbers["torchnp_failures_total"] == 2
    assert numbers["torchnp_received_bytes_total"] > 100 and numbers["torchnp_sent_bytes_total"] > 100
    assert numbers['torchnp_budget_epsilon{client="alice",dataset="people"}'] == 1
    assert numbers['torchnp_budget_epsilon{client="(all)",dataset="people"}'] == 3
    spent = numbers['torchnp_budget_spent_epsilon{client="alice",dataset="people"}']
    assert 0.4 < spent <= 0.51
    assert not [w for w in (token, other, "98765", "wrong") if w in text]


def test_connections_to_the_port_for_metrics_are_few(tmp_path):
    pytest.importorskip("prometheus_client")
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    options = ("--metrics", str(port), "--log-level", "warning")
    with server_pool.process(*options) as (where, process), contextlib.ExitStack() as stack:
        for _ in range(10 * MAX_SCRAPES):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
            connection.sendall(b"GET /metrics HTTP/1.1\r\n")
        until(lambda: len(os.listdir(f"/proc/{process.pid}/task")) < 3 * MAX_SCRAPES)
        until(lambda: len(os.listdir(f"/proc/{process.pid}/fd")) < 5 * MAX_SCRAPES)
        assert scraped(port)[0]["torchnp_open_sessions"] == 0
        connection.sendall(b"Host: a\xff\r\n\r\n")
        with rpc.connect(where) as session:
            assert session.send(torch.ones(3)).sum().publish() == 3
        process.terminate()
        assert process.communicate(timeout=20)[1] == ""


def test_a_port_for_metrics_that_is_taken_is_said():
    pytest.importorskip("prometheus_client")
    with socket.create_server(("127.0.0.1", 0)) as s:
        code = f"from torchnp.cli import main; sys.exit(main(['serve', '--metrics', '{s.getsockname()[1]}']))"
        assert told_by(code) == (2, "torchnp serve: cannot listen: Address already in use\n")


def test_metrics_without_their_package_are_said():
    hide = "import importlib.util as u; f = u.find_spec; u.find_spec = lambda n, *a: None if n[:10] == 'prometheus' else f(n, *a)"
    code = f"{hide}\nfrom torchnp.cli import main; sys.exit(main(['serve', '--check', '--metrics', '0']))"
    said = "torchnp serve: metrics needs the package prometheus-client: pip install 'torchnp[metrics]'\n"
    assert told_by(code) == (2, said)


def told_by(code):
    done = subprocess.run([sys.executable, "-c", f"import sys\n{code}"], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr
