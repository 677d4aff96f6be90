"""When replies about private data are sent."""

from types import SimpleNamespace

import numpy as np
import pytest

from torchnp.rpc import wire
from torchnp.rpc.server.privacy import timing
from torchnp.rpc.server.privacy.timing import REGAIN, TRUST, Late, Pace
from torchnp.rpc.server.session import protocol
from torchnp.rpc.server.session.protocol import Connection
from torchnp.rpc.server.session.server_state import ServerState


@pytest.fixture
def now(monkeypatch):
    """Return the time, in a list."""
    found = [0.0]
    monkeypatch.setattr(timing, "time", SimpleNamespace(monotonic=lambda: found[0]))
    return found


def due(schedule, *ran, client="c"):
    """Return when the reply to a frame is sent, in seconds from its beginning, and whether it is late."""
    for name, foreseen, took in ran:
        schedule.ran(name, foreseen, took)
    seconds, late = schedule.wait(client)
    return round(seconds + sum(took for _, _, took in ran), 9), late


def test_what_is_on_time_comes_when_it_was_foreseen(now):
    schedule = Pace(0.005, Late())
    assert schedule.wait("c") == (0.0, False)  # no private value is involved
    for took in (0.0, 0.001, 0.0049):
        assert due(schedule, ("exp", 0.001, took)) == (0.005, False)
    for took in (0.0, 0.03, 0.044):
        assert due(schedule, ("exp", 0.001, 0.0), ("sort", 0.021, took)) == (0.045, False)
    without = Pace(0.0, Late())
    assert due(without, ("exp", 0.001, 0.5)) == (0.5, False)


def test_a_client_without_trust_waits_until_nothing_is_late(now):
    late = Late()
    for turn in range(TRUST):
        assert late.doublings("c") == 0
        assert due(Pace(0.005, late), ("gcd", 0.01, 0.3)) == (0.32, True), turn  # 0.02, doubled four times
    times = [due(Pace(0.005, late), ("gcd", 0.01, 0.3)) for _ in range(8)]
    assert times[0] == (0.32, True) and times[-1] == (0.32, False)
    assert sum(was for _, was in times) == 4
    # By then quick operators take as long.
    assert due(Pace(0.005, late), ("gcd", 0.01, 0.001)) == (0.32, False)
    assert due(Pace(0.005, late), ("gcd", 0.01, 0.001), client="other") == (0.02, False)
    now[0] += REGAIN * 4
    assert late.doublings("c") == 0
    assert due(Pace(0.005, late), ("gcd", 0.01, 0.001)) == (0.02, False)
    now[0] += REGAIN * 100
    for _ in range(TRUST):
        assert due(Pace(0.005, late), ("gcd", 0.01, 0.3))[1]
    assert late.doublings("c") == 0
    late.add("c")
    assert late.doublings("c") == 1


def test_an_operator_that_is_often_late_is_foreseen_to_take_longer(now):
    """Sorting takes longer on any values than on the zeros with which its time is predicted."""
    schedule = Pace(0.005, Late())
    found = [due(schedule, ("sort", 0.01, 0.07)) for _ in range(5)]
    assert found == [(0.08, True)] * 3 + [(0.08, False)] * 2
    assert due(schedule, ("exp", 0.01, 0.001)) == (0.02, False)


def greeted(data, bucket=0.005):
    connection = Connection(ServerState(datasets={"x": data}, bucket=bucket))
    agreed = connection.state.agreement
    connection.handle(wire.encode(wire.Hello(wire.VERSION, agreed.digest, len(agreed.names), "test", "")))
    connection.handle(wire.encode(wire.Open(0, 0, "x")))
    return connection


def played(connection, *ops):
    """Send operators in one frame; each is a name, the id of its first result, and its arguments."""
    index = connection.state.agreement.index
    frame = [wire.Op(index[name], first, 1, args, {}) for name, first, args in ops]
    return list(connection.handle(wire.encode(wire.Ops(connection.seq, frame))))


def test_a_kernel_s_time_does_not_say_what_its_values_are(monkeypatch):
    """The greatest common divisor of two Fibonacci numbers takes forty times as long as that of other numbers."""
    slots = []
    n = 1 << 15
    data = np.where(np.arange(32)[:, None] % 2, 4660046610375530309, 1) * np.ones((1, n), np.int64)
    connection = greeted(data)
    waited = connection.executor.pace.wait

    def wait(client):
        took = sum(t for _, _, t in connection.executor.pace._ran)
        seconds, late = waited(client)
        slots.append(round(seconds + took, 6))
        return seconds, late

    connection.executor.pace.wait = wait
    monkeypatch.setattr(protocol.time, "sleep", lambda seconds: None)
    raw = memoryview(np.full(n, 7540113804746346429).tobytes())
    connection.handle(wire.encode(wire.Data(connection.seq, 1, "int64", [n], [0], 0, raw)))
    for bit in range(32):
        played(connection, ("aten::select.int", 2 + 2 * bit, [wire.Handle(0), 0, bit]))
        played(connection, ("aten::gcd", 3 + 2 * bit, [wire.Handle(2 + 2 * bit), wire.Handle(1)]))
    zeros, ones = ([t for t in slots[-32:][start::4] if t] for start in (1, 3))
    assert len(zeros) == len(ones) == 8
    # By then quick operators wait as long. A pause of the machine can make one reply late, and those after it.
    assert min(zeros) == min(ones) or max(zeros) == max(ones), slots
