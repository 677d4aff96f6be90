"""A client sees the same for any owner's data, and for any contents of freed memory."""

from __future__ import annotations

import math

import numpy as np
import pytest

from torchnp.rpc import wire
from torchnp.rpc.server.privacy import publish_rows
from torchnp.rpc.server.privacy.release import plan
from torchnp.rpc.server.privacy.timing import Pace
from torchnp.rpc.server.session.executor import Executor
from torchnp.tests.rpc.interference import BUCKET, Player, Releasing, stale


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("public", [0.3, 1.0])
def test_random_operators_tell_nothing_of_private_values(public):
    player = Player(11, public)
    player.play(1500)
    assert not player.differences
    assert player.counts["public results" if public == 1 else "private results"] > 150


@pytest.mark.filterwarnings("ignore")
def test_neither_times_nor_releases_tell_of_private_values(tmp_path):
    """Times agree too, on a clock that depends on all bits of a kernel's arguments; only the noised numbers of a
    release differ."""
    player = Releasing(13, tmp_path)
    player.play(2500)
    assert not player.differences
    assert player.counts["at their time"] > 400 > 20 * player.counts["late"]
    assert min(player.counts[f"Publish: {told}"] for told in ("Result", "private", "budget")) > 3
    assert player.counts["QuoteRequest: Quoted"] > 20


@pytest.mark.filterwarnings("ignore")
def test_the_comparison_finds_replies_that_come_when_they_are_ready(monkeypatch, tmp_path):
    def ready(self, client):
        ran, self._ran = self._ran, []
        took = sum(t for _, _, t in ran)
        return (math.ceil(took / BUCKET) * BUCKET - took if ran else 0.0), False

    monkeypatch.setattr(Pace, "wait", ready)
    player = Releasing(11, tmp_path)
    player.play(800)
    assert any("buckets" in difference for difference in player.differences)


@pytest.mark.filterwarnings("ignore")
def test_the_comparison_finds_a_release_whose_cost_goes_by_the_values(monkeypatch, tmp_path):
    """A bound that is the largest norm, if that is smaller than the requested one, would be tighter, but a leak."""

    def tight(label, array, reduce, clip, *rest):
        largest = float(np.nanmax(np.abs(array), initial=0.0)) if array.dtype.kind in "fiu" else clip
        return plan(label, array, reduce, min(clip, largest) or clip, *rest)

    monkeypatch.setattr(publish_rows, "plan", tight)
    player = Releasing(11, tmp_path)
    player.play(2000)
    assert any(difference.startswith("QuoteRequest of") for difference in player.differences)


@pytest.mark.filterwarnings("ignore")
def test_the_comparison_finds_a_server_without_a_gate(monkeypatch):
    def bare(self, call):
        self._keep(call.op, call.row, call.run(self._seeded(call.op)))

    monkeypatch.setattr(Executor, "_run_on_private", bare)
    player = Player(11)
    player.play(3000)
    assert player.differences


def test_the_comparison_finds_memory_that_nobody_wrote(monkeypatch):
    player = Player(11)
    for side in player.sides:
        row = side.state.row(player.agreed.index["aten::new_empty"])
        monkeypatch.setattr(row, "empty", False)
    raw = memoryview(np.ones(3, np.float32).tobytes())
    seq, id_ = player.seq, player.next
    player._play(wire.Data(seq, id_, "float32", [3], [0], 0, raw), "data")
    op = wire.Op(player.agreed.index["aten::new_empty"], id_ + 1, 1, [wire.Handle(id_), wire.Items([64])], {})
    player._play(wire.Ops(seq + 1, [op]), "new_empty")
    player._play(wire.Publish(1, seq + 2, id_ + 1), "publish")
    assert player.differences


# Operators with more result rows than input rows.
@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("aten::resize", (wire.Items([40]),)),
        ("aten::native_dropout", (0.5, False)),
    ],
)
def test_rows_leave_no_element_unwritten(name, args):
    player = Player(5)
    seq, id_ = player.seq, player.next
    raw = memoryview(np.ones(12, np.float32).tobytes())
    player._play(wire.Data(seq, id_, "float32", [3, 4], [0, 1], 0, raw), "data")
    count = len(player.agreed.schemas[name].returns)
    key = 0 if player.services[0].row(player.agreed.index[name]).random else None
    op = wire.Op(player.agreed.index[name], id_ + 1, count, [wire.Handle(id_), *args], {}, key=key)
    (ack,) = player._play(wire.Ops(seq + 1, [op]), name)
    assert isinstance(ack, wire.Ack)
    for i in range(count):
        player._play(wire.Publish(1, seq + 2, id_ + 1 + i), name)
    assert not player.differences
    with stale(7):
        assert np.empty(3, np.uint8).tolist() == [7, 7, 7]
