"""The ledger: a debit precedes each draw and occurs once, whichever process is killed; budgets; tampering; the owner's
commands."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import threading

import numpy as np
import pytest

from torchnp import cli, rpc
from torchnp.rpc import wire
from torchnp.rpc.server.config.limits import Limits
from torchnp.rpc.server.privacy import accountant, publish_rows
from torchnp.rpc.server.privacy import release as releases
from torchnp.rpc.server.privacy.ledger import EVERYBODY, Ledger
from torchnp.rpc.server.privacy.row_labels import Rows
from torchnp.rpc.server.session.object_store import ObjectStore
from torchnp.tests.rpc import server_pool


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(tmp_path / "ledger.db", create=True)
    made.set_budget("d", 3.0, 1e-6)
    made.set_budget("d", 2.0, 1e-6, "ann")
    yield made
    made.close()


def _entry(array=None):
    array = np.ones((5, 3)) if array is None else array
    return ObjectStore(Limits()).put(0, array, public=False, rows=Rows("d", 0))


def _request(key, **terms):
    return wire.Publish(1, 0, 0, key, wire.Terms(**({"reduce": "sum", "clip": 1.0, "eps": 0.1} | terms)))


def _debits(ledger):
    return [e for e in ledger.entries() if e.kind == "debit"]


def test_the_same_key_gives_the_same_bytes_and_pays_once(ledger):
    first = publish_rows.release_rows(ledger, "ann", _entry(), _request("k"))
    again = publish_rows.release_rows(Ledger(ledger.path), "ann", _entry(), _request("k"))
    other = publish_rows.release_rows(ledger, "ann", _entry(), _request("l"))
    assert first.tobytes() == again.tobytes() != other.tobytes()
    assert [e.key for e in _debits(ledger)] == ["k", "l"]
    with pytest.raises(rpc.PrivacyError, match="used for a release with other parameters"):
        publish_rows.release_rows(ledger, "ann", _entry(), _request("k", clip=2.0))
    ledger.verify()


def test_a_key_is_its_clients_own(ledger):
    ledger.set_budget("d", 2.0, 1e-6, "bob")
    mine = publish_rows.release_rows(ledger, "ann", _entry(), _request("k"))
    assert publish_rows.release_rows(ledger, "bob", _entry(), _request("k")).tobytes() != mine.tobytes()
    assert len(_debits(ledger)) == 2


def test_a_budget_ends(ledger):
    count = 0
    with pytest.raises(rpc.BudgetError, match="for the client 'ann' is not enough.*Nothing was spent"):
        for count in range(100):
            publish_rows.release_rows(ledger, "ann", _entry(), _request(f"k{count}", eps=0.7))
    account = ledger.account("ann", "d")
    rho = accountant.rho_of(0.7, 1e-6)
    assert count == int(accountant.rho_of(2.0, 1e-6) / rho) > 1
    assert account.spent <= account.limit and account.epsilon_spent() <= 2.0
    assert len(_debits(ledger)) == count


def test_clients_together_are_bounded_by_the_dataset(ledger):
    for name in ("bob", "cat"):
        ledger.set_budget("d", 3.0, 1e-6, name)
    publish_rows.release_rows(ledger, "bob", _entry(), _request("k", eps=2.5))
    with pytest.raises(rpc.BudgetError, match="for everybody together is not enough"):
        publish_rows.release_rows(ledger, "cat", _entry(), _request("k", eps=2.5))


def test_there_is_no_budget_until_the_owner_gives_one(ledger):
    with pytest.raises(
        rpc.BudgetError, match="the client 'bob' has no privacy budget of 'd'.*torchnp owner grant bob d"
    ):
        publish_rows.release_rows(ledger, "bob", _entry(), _request("k"))
    ledger.revoke("ann", "d")
    with pytest.raises(rpc.BudgetError, match="'ann' has no privacy budget"):
        publish_rows.release_rows(ledger, "ann", _entry(), _request("k"))
    ledger.set_budget("d", 2.0, 1e-6, "ann")
    ledger.freeze("d")
    with pytest.raises(rpc.BudgetError, match="frozen"):
        publish_rows.release_rows(ledger, "ann", _entry(), _request("k"))
    ledger.freeze("d", on=False)
    publish_rows.release_rows(ledger, "ann", _entry(), _request("k"))


def test_many_clients_at_once_do_not_overspend(ledger):
    budget = ledger.account("ann", "d").limit
    units = budget // 5
    paid, refused = [], []

    def spend(number):
        mine = Ledger(ledger.path)
        for i in range(3):
            try:
                mine.reserve("ann", "d", f"{number}-{i}", units, {})
                paid.append(1)
            except rpc.BudgetError:
                refused.append(1)
        mine.close()

    threads = [threading.Thread(target=spend, args=(n,)) for n in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert (len(paid), len(refused)) == (5, 13)
    ledger.verify()


# ---------------------------------------------------------------- faults

_KILLED_AT = ("reserved", "drawn", "stored")


@pytest.mark.parametrize("number", range(51))
def test_a_killed_server_keeps_the_debit_and_draws_no_second_time(ledger, number, monkeypatch, tmp_path):
    """The process is killed after its debit, after its draw, and after its result was stored."""
    at = _KILLED_AT[number % 3]
    draws = tmp_path / "draws"

    def draw(*args):
        if at == "reserved":
            os.kill(os.getpid(), signal.SIGKILL)
        with open(draws, "ab") as file:
            file.write(b"x")
            file.flush()
        value = releases.draw(*args)
        if at == "drawn":
            os.kill(os.getpid(), signal.SIGKILL)
        return value

    monkeypatch.setattr(publish_rows, "draw", draw)
    child = os.fork()
    if child == 0:  # the child ends without pytest's cleanup, like a server that is killed
        try:
            publish_rows.release_rows(ledger, "ann", _entry(), _request("k"))
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    after = Ledger(ledger.path)
    if at == "stored":
        first, second = (publish_rows.release_rows(after, "ann", _entry(), _request("k")).tobytes() for _ in range(2))
        assert first == second
    else:
        for _ in range(2):
            with pytest.raises(rpc.PrivacyError, match="paid for, and its result is not there"):
                publish_rows.release_rows(after, "ann", _entry(), _request("k"))
    assert len(_debits(after)) == 1
    assert (draws.read_bytes() if draws.exists() else b"") == (b"" if at == "reserved" else b"x")
    after.verify()


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.weekly)])
def test_whole_servers_killed_while_they_release_pay_for_all_that_was_seen(tmp_path, kills):
    """All processes of a server are killed at a random time, over one ledger, while a client requests sums."""
    np.save(tmp_path / "x.npy", np.ones((5, 4), np.float32))
    book = Ledger(tmp_path / "l.db", create=True)
    book.set_budget("x", 1000.0, 1e-6)
    book.set_budget("x", 1000.0, 1e-6, "client")
    options = ("--dataset", f"x={tmp_path / 'x.npy'}", "--ledger", str(tmp_path / "l.db"), "--lease-seconds", "0")
    seen, rng = 0, random.Random(5)
    for _ in range(kills):
        with server_pool.process(*options) as (where, process):
            session = rpc.connect(where)
            x = session.dataset("x")
            everyone = [process.pid, *server_pool.descendants(process.pid)]
            x.publish(reduce="sum", clip=1.0, eps=0.01)
            seen += 1
            death = threading.Timer(rng.uniform(0.0, 0.2), lambda: [os.kill(pid, signal.SIGKILL) for pid in everyone])
            death.start()
            with pytest.raises(rpc.RPCError):
                while True:
                    x.publish(reduce="sum", clip=1.0, eps=0.01)
                    seen += 1
            death.join()
    results = [e for e in book.entries() if e.kind == "result"]
    # At most one release at a time was in progress.
    assert kills <= seen <= len(results) <= len(_debits(book)) <= seen + kills
    book.verify()


def test_a_full_disk_at_the_debit_releases_nothing(ledger):
    db = ledger._connection()
    db.execute(f"PRAGMA max_page_count = {db.execute('PRAGMA page_count').fetchone()[0]}")
    drawn = 0
    with pytest.raises(rpc.LedgerError, match="cannot be used: database or disk is full"):
        for drawn in range(1000):
            publish_rows.release_rows(ledger, "ann", _entry(np.ones((5, 400))), _request(f"k{drawn}", eps=0.001))
    db.execute("PRAGMA max_page_count = 1000000")
    results = [e for e in ledger.entries() if e.kind == "result"]
    assert len(results) == drawn and drawn <= len(_debits(ledger)) <= drawn + 1
    ledger.verify()
    publish_rows.release_rows(ledger, "ann", _entry(), _request("afterwards", eps=0.001))


def test_a_full_disk_at_the_result_keeps_the_debit_and_sends_nothing(ledger, monkeypatch):
    db, drawn = ledger._connection(), []

    def draw(*args):
        db.execute(f"PRAGMA max_page_count = {db.execute('PRAGMA page_count').fetchone()[0]}")
        drawn.append(releases.draw(*args))
        return drawn[-1]

    monkeypatch.setattr(publish_rows, "draw", draw)
    entry = _entry(np.ones((5, 4000)))
    with pytest.raises(rpc.LedgerError, match="cannot be used: database or disk is full"):
        publish_rows.release_rows(ledger, "ann", entry, _request("k"))
    db.execute("PRAGMA max_page_count = 1000000")
    assert len(drawn) == len(_debits(ledger)) == 1
    with pytest.raises(rpc.PrivacyError, match="not drawn again"):
        publish_rows.release_rows(ledger, "ann", entry, _request("k"))
    assert len(drawn) == 1
    ledger.verify()


def test_old_results_go_and_their_debits_stay(ledger, monkeypatch):
    monkeypatch.setattr("torchnp.rpc.server.privacy.ledger.KEPT", 2)
    for i in range(4):
        publish_rows.release_rows(ledger, "ann", _entry(), _request(f"k{i}", eps=0.01))
    with pytest.raises(rpc.PrivacyError, match="no longer kept"):
        publish_rows.release_rows(ledger, "ann", _entry(), _request("k1", eps=0.01))
    publish_rows.release_rows(ledger, "ann", _entry(), _request("k2", eps=0.01))
    assert len(_debits(ledger)) == 4
    ledger.verify()


# ---------------------------------------------------------------- tampering


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("UPDATE entries SET units = 0 WHERE kind = 'debit'", "is not what was written"),
        ("UPDATE entries SET body = '{}' WHERE seq = 1", "is not what was written"),
        ("DELETE FROM entries WHERE seq = 3", "entry 3 is missing"),
        ("UPDATE results SET payload = x'00'", "stored result 'k0' of 'ann' is not what was written"),
        ("DELETE FROM entries WHERE seq > 4", "the ledger's end is missing"),
    ],
)
def test_tampering_is_found(ledger, change, words, capsys):
    for i in range(2):
        publish_rows.release_rows(ledger, "ann", _entry(), _request(f"k{i}"))
    head = ledger.verify()
    ledger.close()
    db = sqlite3.connect(ledger.path)
    for trigger in ("no_update", "no_delete"):
        with pytest.raises(sqlite3.IntegrityError, match="never"):
            db.execute("UPDATE entries SET units = 0" if trigger == "no_update" else "DELETE FROM entries")
        db.execute(f"DROP TRIGGER {trigger}")
    db.execute("DELETE FROM results WHERE key != 'k0'")
    db.execute(change)
    db.commit()
    db.close()
    with pytest.raises(rpc.LedgerError, match=words):
        Ledger(ledger.path).verify(head)
    assert cli.main(["owner", "verify", "--ledger", str(ledger.path), "--head", head]) == 1
    assert words in capsys.readouterr().out


def test_a_debit_over_the_budget_is_found_even_with_a_right_hash(ledger):
    from torchnp.rpc.server.privacy import ledger as module

    with ledger._writing() as db:
        module._append(db, "debit", "ann", "d", "k", 1 << 50, {})
    with pytest.raises(rpc.LedgerError, match="debit over the budget"):
        ledger.verify()


# ---------------------------------------------------------------- the owner's commands


def _owner(capsys, path, *words):
    status = cli.main(["owner", words[0], "--ledger", str(path), *words[1:]])
    said = capsys.readouterr()
    return status, said.out, said.err


def test_an_owner_gives_takes_looks_and_stops(tmp_path, capsys):
    path = tmp_path / "l.db"
    assert _owner(capsys, path, "grant", "ann", "d", "--epsilon", "2")[0] == 2
    assert "torchnp owner budget" in _owner(capsys, path, "ledger")[2]
    assert _owner(capsys, path, "budget", "d", "--epsilon", "3", "--delta", "1e-5")[0] == 0
    assert (
        "ann may spend epsilon 2 at delta 1e-06 of d" in _owner(capsys, path, "grant", "ann", "d", "--epsilon", "2")[1]
    )
    ledger = Ledger(path)
    publish_rows.release_rows(ledger, "ann", _entry(), _request("k"))
    _, table, _ = _owner(capsys, path, "budget")
    assert [line.split()[:5] for line in table.splitlines()] == [
        ["dataset", "client", "epsilon", "spent", "delta"],
        ["d", "(all)", "3", table.splitlines()[1].split()[3], "1e-05"],
        ["d", "ann", "2", "0.1", "1e-06"],
    ]
    _, lines, _ = _owner(capsys, path, "ledger")
    assert [line.split()[2] for line in lines.splitlines()] == ["budget", "grant", "debit", "result"]
    _, said, _ = _owner(capsys, path, "verify")
    words, head = said.splitlines()
    assert "the chain of 4 entries holds" in words and head == ledger.verify()
    assert _owner(capsys, path, "freeze", "d")[0] == 0 and ledger.frozen("d")
    assert "frozen" in _owner(capsys, path, "budget")[1]
    assert _owner(capsys, path, "freeze", "d", "--off")[0] == 0 and not ledger.frozen("d")
    assert _owner(capsys, path, "revoke", "ann", "d")[0] == 0
    assert ledger.account("ann", "d").limit is None and ledger.account(EVERYBODY, "d").limit
    assert _owner(capsys, path, "verify", "--head", head.strip())[0] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["grant", "*", "d", "--epsilon", "1"], "torchnp owner budget d"),
        (["grant", "ann", "d", "--epsilon", "-1"], "epsilon is a finite number above 0"),
        (["grant", "ann", "d", "--epsilon", "1", "--delta", "2"], "delta is between 0 and 1"),
        (["grant", "", "d", "--epsilon", "1"], "a client has a printable name"),
        (["budget", "d"], "with --epsilon E"),
        (["revoke", "bob", "d"], "'bob' has no budget of 'd'"),
        (["revoke", "ann", "e"], "there is no dataset 'e'; there are d."),
        (["freeze", "dd"], "there is no dataset 'dd'; did you mean d?"),
        (["freeze", "e", "--off"], "there is no dataset 'e'"),
        (["grant", "ann", "e", "--epsilon", "1"], "give a budget first: torchnp owner budget"),
        (["budget", "e", "--epsilon", "1"], "say so with --new"),
        (["budget", "d", "--epsilon", "1e300"], "more than a ledger can count"),
    ],
)
def test_what_an_owner_gets_wrong_is_said(ledger, words, said, capsys):
    status, _, error = _owner(capsys, ledger.path, *words)
    assert status == 2 and said in error


def test_a_file_that_is_no_ledger_is_said(tmp_path, capsys, monkeypatch):
    (tmp_path / "no").write_text("this is no database, whatever it is called" * 50)
    assert "cannot be used: file is not a database" in _owner(capsys, tmp_path / "no", "budget")[2]
    monkeypatch.delenv("TORCHNP_LEDGER", raising=False)
    assert cli.main(["owner", "budget"]) == 2
    assert "name the ledger with --ledger FILE" in capsys.readouterr().err


def test_the_file_is_its_owners_alone(ledger):
    assert ledger.path.stat().st_mode & 0o077 == 0
    assert json.loads(next(iter(ledger.entries())).body) == {"delta": 1e-06, "epsilon": 3.0}


def test_a_ledger_that_was_removed_is_not_made_again(ledger):
    """A new one would have forgotten what was spent."""
    ledger.close()
    served = Ledger(ledger.path)
    served.close()
    for file in ledger.path.parent.glob(f"{ledger.path.name}*"):
        file.unlink()
    with pytest.raises(rpc.LedgerError, match="is not there any more"):
        publish_rows.release_rows(served, "ann", _entry(), _request("k"))
    assert not ledger.path.exists()
