"""Parties and a dealer in separate processes: they compute the same as one process, or end with an error that gives the
reason."""

import socket
import subprocess
import sys

import pytest

from torchnp import mpc

pytestmark = pytest.mark.weekly  # parties are processes that wait for each other

PROGRAM = """
import os
import signal
import sys
import torch
from torchnp import mpc

rank, fault, *ports = int(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:])
parties = [mpc.Party(f"127.0.0.1:{port}", f"p{i}.pem") for i, port in enumerate(ports[:-1])]
dealer = mpc.Party(f"127.0.0.1:{ports[-1]}", "dealer.pem")
here = fault if rank == 1 else ""
if here == "certificate":
    parties[1] = mpc.Party(parties[1].address, "stranger.pem")
if here == "number":
    parties.append(mpc.Party("127.0.0.1:1", "p2.pem"))
if fault == "dealers certificate":
    dealer = mpc.Party(dealer.address, "stranger.pem")
key = "stranger.key" if here == "certificate" else f"p{rank}.key"
# The patience is for slow machines; the tests of missing parties take as long as it.
patience = 5 if fault in ("missing", "certificate", "number") else 120
bits = 16 if here == "bits" else 18
with mpc.connect(parties, rank=rank, key=key, dealer=dealer, bits=bits, timeout=patience) as engine:
    secret = torch.tensor([[1.0, -2.0], [3.0, 0.5]])
    x = engine.send(secret if rank == 0 else torch.zeros(2, 2), owner=0)
    w = engine.send(secret + 1 if rank == 1 else torch.zeros(2, 2), owner=1)
    if here == "leaves":
        sys.exit(0)
    if here == "killed":
        network, rounds = engine.protocol.network, engine.traffic.rounds
        exchange = network._exchange

        def exchange_or_die(label, messages):
            if network.traffic.rounds == rounds + 5:  # in the middle of relu's comparison
                os.kill(os.getpid(), signal.SIGKILL)
            return exchange(label, messages)

        network._exchange = exchange_or_die
    if here == "program":
        x = x + x
    if here == "constant":
        x = x * 0.5
    elif fault == "constant":
        x = x * 0.25
    print((x @ w).relu().sum().publish().item(), engine.traffic.rounds, engine.traffic.bytes_sent)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("parties")
    for name in ("p0", "p1", "p2", "dealer", "stranger"):
        mpc.make_certificate(name, made)
    return made


def free_ports(n):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def run(folder, parties=2, fault="", absent=(), dealers=1):
    """Return the output of each party, and its error."""
    ports = free_ports(parties + 1)
    dealer = [sys.executable, "-m", "torchnp.mpc", "dealer", f"127.0.0.1:{ports[-1]}", "--certificate", "dealer.pem"]
    dealer += ["--key", "dealer.key", "--sessions", "1"]
    for i in range(parties):
        dealer += ["--party", f"p{i}.pem"]
    options = {"cwd": folder, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    dealing = [subprocess.Popen(dealer, **options) for _ in range(dealers)]
    try:
        commands = [[sys.executable, "-c", PROGRAM, str(r), fault, *map(str, ports)] for r in range(parties)]
        processes = [subprocess.Popen(c, **options) for r, c in enumerate(commands) if r not in absent]
        return [p.communicate(timeout=300) for p in processes]
    finally:
        for process in dealing:
            process.terminate()
            process.communicate()


@pytest.mark.parametrize("parties", [2, 3])
def test_they_compute_what_one_process_does(folder, parties):
    import torch

    secret = torch.tensor([[1.0, -2.0], [3.0, 0.5]])
    engine = mpc.local(parties)
    wanted = (engine.send(secret) @ engine.send(secret + 1, owner=1)).relu().sum().publish().item()
    printed = [out.split() for out, _ in run(folder, parties)]
    assert len(printed) == parties and {len(line) for line in printed} == {3}
    # Rounding is random: one unit for each of the four elements.
    assert all(abs(float(line[0]) - wanted) <= 4 * 2.0**-18 for line in printed)
    assert len({line[0] for line in printed}) == 1
    assert all(line[1:] == [str(engine.traffic.rounds), str(engine.traffic.bytes_sent)] for line in printed)


@pytest.mark.parametrize(
    "fault, words",
    [
        ("leaves", [r"party 1 (127.0.0.1:", "has left: the connection ended"]),
        ("killed", [r"party 1 (127.0.0.1:", "has left: "]),
        ("number", ["has other settings", "'parties': 3"]),
        ("dealers certificate", ["the dealer (127.0.0.1:", "shows another certificate than stranger.pem"]),
        ("program", ["runs another program", "Nothing further is computed"]),
        ("constant", ["runs another program"]),
        ("bits", ["has other settings", "'bits': 16"]),
        ("certificate", ["party 1 (127.0.0.1:", "did not connect in time; turned away"]),
    ],
)
def test_a_wrong_party_ends_in_an_error(folder, fault, words):
    out, err = run(folder, fault=fault)[0]
    assert not out and "PartyError" in err.splitlines()[-1]
    assert all(word in err.splitlines()[-1] for word in words), err


@pytest.mark.parametrize("absent, words", [(1, "did not connect in time"), (0, "is missing: no answer in time")])
def test_a_missing_party_ends_in_an_error(folder, absent, words):
    ((out, err),) = run(folder, fault="missing", absent=(absent,))
    assert not out and f"party {absent} (127.0.0.1:" in err and words in err.splitlines()[-1]


def test_a_missing_dealer_ends_in_an_error(folder):
    for out, err in run(folder, fault="missing", dealers=0):
        assert not out and "the dealer (127.0.0.1:" in err and "is missing: no answer in time" in err.splitlines()[-1]
