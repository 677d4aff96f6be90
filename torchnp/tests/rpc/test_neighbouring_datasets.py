"""Programs on two servers whose datasets differ in one row: all other rows are equal, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

from torchnp.rpc.server.privacy import row_calls
from torchnp.rpc.server.privacy.row_labels import Rows
from torchnp.rpc.server.session import match_client_strides
from torchnp.rpc.server.session.executor import Executor
from torchnp.tests.rpc.neighbouring_datasets import Neighbours


@pytest.mark.filterwarnings("ignore")
def test_programs_leave_other_rows_alone():
    player = Neighbours(11)
    with np.errstate(all="ignore"):
        player.play(3000)
    assert not player.differences, player.differences[:5]
    assert player.counts["worked"] > 1000 and player.counts["rows compared"] > 3000


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("broken", ["rows in one place", "labels that stay", "labels of sums", "targets"])
def test_the_comparison_finds_a_gate_that_is_open(broken, monkeypatch):
    labels = row_calls.labels
    if broken == "labels that stay":  # the target of an in-place write keeps its label, whatever is written

        def kept(call, results):
            given = [e.label for e in call.targets]
            return given if given and isinstance(given[0], Rows) else labels(call, results)

        def write(self, call, results, rows):
            call.run(None)

        monkeypatch.setattr(Executor, "_write_rows", write)
        monkeypatch.setattr(row_calls, "labels", kept)
    elif broken == "labels of sums":  # a cumulative sum over the rows counts as rows

        def summed(call, results):
            first = next((e.label for e in call.entries if isinstance(e.label, Rows)), None)
            return [first] if call.row.name == "aten::cumsum" and first is not None else labels(call, results)

        monkeypatch.setattr(row_calls, "labels", summed)
        monkeypatch.setattr(row_calls, "values", lambda call, *rest: [np.cumsum(call.entries[0].array, 0)])
    elif broken == "rows in one place":  # a client's strides may make rows of a result share memory
        monkeypatch.setattr(match_client_strides, "are_apart", lambda shape, strides: True)
    else:  # the first object of a frame counts as its target
        bound = Executor._bound

        def first(self, op, row):
            call = bound(self, op, row)
            args = [*op.args, *op.kwargs.values()]
            called = [self.store.get(a.id) for a in args if hasattr(a, "id")]
            call.targets = called[:1] if call.targets else []
            return call

        monkeypatch.setattr(Executor, "_bound", first)
    player = Neighbours(3)
    player.strided = 0.5 if broken == "rows in one place" else 0
    if broken == "rows in one place":
        player.everything = player.writing = player.listed
    elif broken == "labels of sums":
        player.listed = player.everything = player.writing = [x for x in player.listed if x[1].name == "aten::cumsum"]
    else:
        player.listed = player.everything = player.writing
    with np.errstate(all="ignore"):
        for _ in range(60):
            player.play(50)
            if player.differences:
                return
    pytest.fail("it was not found")
