"""The contents and costs of a ledger are bounded: results, releases, the time of a debit; and the names that its
commands accept."""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
import sqlite3

import numpy as np
import pytest
import torch

from torchnp import rpc
from torchnp.rpc import wire
from torchnp.rpc.server.privacy import ledger as module
from torchnp.rpc.server.privacy import publish_rows
from torchnp.rpc.server.privacy.ledger import EVERYBODY, Ledger
from torchnp.rpc.server.session.error_text import error_text
from torchnp.rpc.server.session.server_state import ServerState
from torchnp.rpc.server.transports.server import Server
from torchnp.tests.rpc.test_ledger import _debits, _entry, _owner, _request, ledger  # noqa: F401


def _release(book, key, array=None, **terms):
    return publish_rows.release_rows(book, "ann", _entry(array), _request(key, **terms))


def test_a_result_that_cannot_be_kept_costs_nothing(ledger, monkeypatch):  # noqa: F811
    monkeypatch.setattr(module, "MAX_PAYLOAD", 1 << 12)
    with pytest.raises(rpc.PrivacyError, match=r"at most 4,096 bytes.*Nothing was spent"):
        _release(ledger, "k", np.ones((5, 1000)))
    assert not _debits(ledger) and not ledger.account("ann", "d").spent
    assert _release(ledger, "k", np.ones((5, 400))).shape == (400,)


def test_a_release_that_there_is_no_memory_for_costs_nothing(ledger, monkeypatch):  # noqa: F811
    monkeypatch.setattr(publish_rows, "SCRATCH", 1 << 50)
    with pytest.raises(rpc.PrivacyError, match=r"no memory for a release.*Nothing was spent"):
        _release(ledger, "k")
    assert not _debits(ledger)


def test_results_of_a_client_have_bounded_bytes(ledger, monkeypatch):  # noqa: F811
    monkeypatch.setattr(module, "MAX_PAYLOAD", 1 << 14)
    for i in range(12):
        _release(ledger, f"k{i}", np.ones((5, 1000)), eps=0.01)
    with ledger._reading() as db:
        (kept,) = db.execute("SELECT SUM(LENGTH(payload)) FROM results").fetchone()
    assert 8000 < kept <= 1 << 14
    _release(ledger, "k11", np.ones((5, 1000)), eps=0.01)  # the last result is still stored
    assert len(_debits(ledger)) == 12
    ledger.verify()


def test_each_release_costs_at_least_one_unit(ledger):  # noqa: F811
    assert ledger.reserve("ann", "d", "k", 0, {}) is None
    assert [e.units for e in _debits(ledger)] == [1]
    ledger.verify()


def test_releases_are_counted_and_end(ledger, monkeypatch):  # noqa: F811
    monkeypatch.setattr(module, "MAX_RELEASES", 3)
    for i in range(3):
        _release(ledger, f"k{i}", eps=1e-3)
    with pytest.raises(rpc.BudgetError, match="has had 3 releases of 'd'"):
        _release(ledger, "k3", eps=1e-3)
    _release(ledger, "k2", eps=1e-3)  # the same request again


# ---------------------------------------------------------------- terms


def test_terms_of_any_size_have_an_answer(ledger):  # noqa: F811
    clips = (5e-324, 1e-139, 1.0, 1e139, 1e308, math.inf, math.nan, 0.0, -1.0)
    values = (5e-324, 1e-300, 1e-12, 1.0, 1e5, 1e200, 1e308, math.inf, math.nan, 0.0, -1.0)
    answered = 0
    for clip, value, name, reduce in itertools.product(clips, values, ("sigma", "eps"), ("sum", "mean")):
        terms = wire.Terms(reduce, clip, **{name: value})
        try:
            quoted = publish_rows.quote(ledger, "ann", _entry(), wire.QuoteRequest(1, 0, 0, terms))
        except rpc.PrivacyError as error:
            assert len(str(error)) > 20
        else:
            answered += 1
            assert wire.decode_reply(wire.encode(quoted)).rho > 0
    assert answered > 10


def test_terms_out_of_range_leave_the_session_alive(tmp_path):
    Ledger(tmp_path / "l.db", create=True).set_budget("d", 3.0, 1e-6, "client")
    with rpc.local(datasets={"d": np.ones((5, 3))}, ledger=tmp_path / "l.db") as session:
        x = session.dataset("d")
        for terms in ({"sigma": 1e308}, {"eps": 1e308}, {"sigma": 1.0, "clip": 1e308}):
            for ask in (x.publish, x.quote):
                with pytest.raises(rpc.PrivacyError):
                    ask(**{"reduce": "mean", "clip": 1.0} | terms)
        assert (session.send(torch.ones(2)) + 1).publish().tolist() == [2, 2]


# ---------------------------------------------------------------- totals


def _old(path, count):
    """Return a ledger in its format without totals."""
    book = Ledger(path, create=True)
    book.set_budget("d", 1e6, 1e-6)
    book.set_budget("d", 1e6, 1e-6, "ann")
    for i in range(count):
        book.reserve("ann", "d", f"k{i}", 5, {})
    with book._writing() as db:
        for what in ("TABLE totals", "TABLE datasets", "TRIGGER add_up"):
            db.execute(f"DROP {what}")
        db.execute("PRAGMA user_version = 0")
    book.close()


def test_a_ledger_without_totals_gets_them(tmp_path):
    _old(tmp_path / "l.db", 7)
    book = Ledger(tmp_path / "l.db")
    assert book.account("ann", "d").spent == book.account(EVERYBODY, "d").spent == 35
    book.reserve("ann", "d", "more", 4, {})
    assert Ledger(tmp_path / "l.db").account("ann", "d").spent == 39
    book.verify()


def test_totals_that_were_changed_are_found(ledger, capsys):  # noqa: F811
    _release(ledger, "k")
    ledger.close()
    db = sqlite3.connect(ledger.path)
    db.execute("UPDATE totals SET units = 0 WHERE client = 'ann'")
    db.commit()
    db.close()
    with pytest.raises(rpc.LedgerError, match=r"the total of the client 'ann' for 'd' is 0 units"):
        Ledger(ledger.path).verify()
    status, said, _ = _owner(capsys, ledger.path, "verify")
    assert status == 1 and "tampered" in said


def test_an_end_that_was_cut_off_is_found_by_the_totals(ledger):  # noqa: F811
    _release(ledger, "k")
    ledger.close()
    db = sqlite3.connect(ledger.path)
    db.execute("DROP TRIGGER no_delete")
    db.execute("DELETE FROM results")
    db.execute("DELETE FROM entries WHERE seq >= 3")
    db.commit()
    db.close()
    with pytest.raises(rpc.LedgerError, match="the total of"):
        Ledger(ledger.path).verify()


def test_a_debit_reads_no_other_debit(ledger):  # noqa: F811
    """For any number of releases, SQLite takes about as many steps for one more."""

    def steps(key):
        count = [0]

        def step():
            count[0] += 1

        db = ledger._connection()
        db.set_progress_handler(step, 1)
        ledger.reserve("ann", "d", key, 1, {})
        db.set_progress_handler(None, 0)
        return count[0]

    few = steps("first")
    for i in range(150):
        ledger.reserve("ann", "d", f"k{i}", 1, {})
    assert steps("last") < few + 100


# ---------------------------------------------------------------- names


def test_names_that_are_served_are_known(tmp_path, capsys):
    book = Ledger(tmp_path / "l.db", create=True)
    book.set_budget("d", 3.0, 1e-6)
    with Server(ServerState(datasets={"digits.x": np.ones((5, 3))}, ledger=tmp_path / "l.db")):
        pass
    for words in (["freeze", "digits"], ["freeze", "digits", "--off"], ["budget", "digits", "--epsilon", "1"]):
        assert _owner(capsys, tmp_path / "l.db", *words)[0] == 0
    assert _owner(capsys, tmp_path / "l.db", "freeze", "digits.x")[0] == 2
    assert not book.frozen("digits.x")
    assert _owner(capsys, tmp_path / "l.db", "budget", "iris", "--new", "--epsilon", "1")[0] == 0


def test_names_of_server_toml_are_known(tmp_path, capsys):
    np.save(tmp_path / "x.npy", np.ones((5, 3)))
    hash_ = "sha256:" + "0" * 64
    (tmp_path / "server.toml").write_text(f'[datasets]\niris.x = "x.npy"\n[tokens.bob]\nhash = "{hash_}"\n')
    config = ["--config", str(tmp_path / "server.toml")]
    path = tmp_path / "l.db"
    assert _owner(capsys, path, "budget", "irys", "--epsilon", "1", *config)[0] == 2
    assert _owner(capsys, path, "budget", "iris", "--epsilon", "1", *config)[0] == 0
    assert (
        "has no client 'bop'; did you mean bob?"
        in _owner(capsys, path, "grant", "bop", "iris", "--epsilon", "1", *config)[2]
    )
    assert _owner(capsys, path, "grant", "bob", "iris", "--epsilon", "1", *config)[0] == 0


# ---------------------------------------------------------------- what a client hears


def test_a_client_hears_no_name_of_a_file(tmp_path, caplog):
    path = tmp_path / "secret place" / "l.db"
    path.parent.mkdir()
    Ledger(path, create=True).set_budget("d", 3.0, 1e-6, "client")
    with rpc.local(datasets={"d": np.ones((5, 3))}, ledger=path) as session:
        x = session.dataset("d")
        session.sync()
        # The file's bytes are not overwritten, because the server may have its pages in a cache.
        with contextlib.closing(sqlite3.connect(path)) as db:
            for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                db.execute(f"DROP TABLE {table}")
            db.commit()
        for ask in (x.publish, x.quote):
            with caplog.at_level(logging.ERROR), pytest.raises(rpc.LedgerError) as caught:
                ask(reduce="sum", clip=1.0, eps=0.1)
            assert "secret" not in str(caught.value) and str(tmp_path) not in str(caught.value)
    assert "l.db" in caplog.text  # the owner's log names the file


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("cannot import name 'x' from 'y' (/usr/lib/python3/y.py)", "cannot import name 'x' from 'y' (<file>)"),
        ("[Errno 2] No such file or directory: '/home/me/my data/l.db'", "[Errno 2] No such file or directory: <file>"),
        ("connect to tcp://HOST:PORT, and/or a/b", "connect to tcp://HOST:PORT, and/or a/b"),
        ("1 / 2", "1 / 2"),
    ],
)
def test_paths_are_blanked(text, told):
    assert error_text(text) == told
