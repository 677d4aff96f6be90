"""A deadline for each answer: the error, the session that goes on, and no double payment."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest
import torch

from torchnp import rpc
from torchnp.core.schema import load
from torchnp.rpc.server.privacy import publish_rows
from torchnp.rpc.server.privacy.ledger import Ledger
from torchnp.tests.rpc import server_pool


@pytest.mark.parametrize("options", [(), ("--grpc",)], ids=["tcp", "grpc"])
def test_an_answer_that_is_late_is_not_waited_for(options):
    with server_pool.process(*options) as (where, process), rpc.connect(where, deadline=60) as session:
        x = session.send(torch.ones(3))
        session.sync()
        os.kill(process.pid, signal.SIGSTOP)
        try:
            session.deadline = 0.3
            for ask in ((x + 1).publish, session.sync):
                start = time.monotonic()
                with pytest.raises(
                    rpc.DeadlineExceeded, match=r"within the deadline of 0\.3 s.*session\.deadline"
                ) as caught:
                    ask()
                assert isinstance(caught.value, TimeoutError) and time.monotonic() - start < 30
        finally:
            os.kill(process.pid, signal.SIGCONT)
        session.deadline = 60
        assert (x + 2).publish().tolist() == [3, 3, 3]
        assert not session.over


def test_a_session_in_process_has_one_when_it_is_given_one():
    def bernoulli(self, *, generator=None):
        time.sleep(0.5)
        return self

    bernoulli.schema = load()["aten::bernoulli"]
    with rpc.local(table={bernoulli.schema.name: bernoulli}) as session:
        assert session.deadline is None
        session.deadline = 0.05
        x = torch.bernoulli(session.send(torch.ones(3)))
        with pytest.raises(rpc.DeadlineExceeded):
            x.publish()
        session.deadline = None
        assert x.publish().tolist() == [1, 1, 1]


def test_what_is_no_number_of_seconds():
    for wrong, error in ((0, ValueError), (-1.0, ValueError), (float("nan"), ValueError), ("1", TypeError)):
        with pytest.raises(error, match="deadline"):
            rpc.connect("tcp://127.0.0.1:1", deadline=wrong)
        with rpc.local() as session, pytest.raises(error, match="deadline"):
            session.deadline = wrong


def test_a_release_that_was_late_is_paid_for_once(tmp_path, monkeypatch):
    """The same request repeated at once gets the result that was drawn; after another operator it gets a new one."""
    ledger = Ledger(tmp_path / "l.db", create=True)
    ledger.set_budget("d", 5.0, 1e-6)
    ledger.set_budget("d", 5.0, 1e-6, "client")
    ledger.close()
    release, drawn = publish_rows.release_rows, []

    def slowly(*args):
        time.sleep(0.3 if not drawn else 0.0)
        drawn.append(release(*args))
        return drawn[-1]

    monkeypatch.setattr(publish_rows, "release_rows", slowly)
    with rpc.local(datasets={"d": np.ones((50, 3))}, ledger=tmp_path / "l.db") as session:
        x, terms = session.dataset("d"), {"reduce": "sum", "clip": 1.0, "eps": 0.5}
        session.deadline = 0.05
        with pytest.raises(rpc.DeadlineExceeded):
            x.publish(**terms)
        session.deadline = None
        again = x.publish(**terms)
        assert [again.tolist()] * 2 == [d.tolist() for d in drawn]
        # The first request has been answered, so this is a new release.
        assert x.publish(**terms).tolist() != again.tolist()
    kinds = [e.kind for e in Ledger(tmp_path / "l.db").entries()]
    assert kinds.count("debit") == kinds.count("result") == 2
