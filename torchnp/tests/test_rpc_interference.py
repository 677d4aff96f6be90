"""What a client sees is the same whatever an owner's data are, and whatever lies in freed memory."""

from __future__ import annotations

import numpy as np
import pytest

from torchnp.rpc import wire
from torchnp.rpc.server.executor import Executor
from torchnp.tests.rpc_interference import Player, stale


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("public", [0.3, 1.0])
def test_random_operators_tell_nothing_of_private_values(public):
    player = Player(11, public)
    player.play(1500)
    assert not player.differences
    assert player.counts["public results" if public == 1 else "private results"] > 150


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
        row = side.service.row(player.agreed.index["aten::new_empty"])
        monkeypatch.setattr(row, "empty", False)
    raw = memoryview(np.ones(3, np.float32).tobytes())
    seq, id_ = player.seq, player.next
    player._play(wire.Data(seq, id_, "float32", [3], [0], 0, raw), "data")
    op = wire.Op(player.agreed.index["aten::new_empty"], id_ + 1, 1, [wire.Handle(id_), wire.Items([64])], {})
    player._play(wire.Ops(seq + 1, [op]), "new_empty")
    player._play(wire.Publish(1, seq + 2, id_ + 1), "publish")
    assert player.differences


# Rows whose results are longer than what they are made of.
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
