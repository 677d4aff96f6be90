"""SQLite schema of the ledger, with triggers that keep totals of its debits."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from torchnp.rpc.exceptions import LedgerError

EVERYBODY = "*"  # client name of entries that concern all clients together
VERSION = 1  # schema version, stored as PRAGMA user_version; version 0 had no totals

# Kinds of entries that the owner makes. SQLite uses the partial index on them only if a query contains exactly this
# text.
TOLD = "('budget', 'grant', 'revoke', 'freeze', 'thaw')"

_TABLES = f"""
CREATE TABLE IF NOT EXISTS entries (
    seq INTEGER PRIMARY KEY, time REAL NOT NULL, kind TEXT NOT NULL, client TEXT NOT NULL, dataset TEXT NOT NULL,
    key TEXT NOT NULL, units INTEGER NOT NULL, body TEXT NOT NULL, hash TEXT NOT NULL) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS debits ON entries (client, key) WHERE kind = 'debit';
DROP INDEX IF EXISTS rights;
DROP INDEX IF EXISTS spent;
CREATE INDEX IF NOT EXISTS told ON entries (dataset, client, seq) WHERE kind IN {TOLD};
CREATE TRIGGER IF NOT EXISTS no_update BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'entries are never changed'); END;
CREATE TRIGGER IF NOT EXISTS no_delete BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'entries are never deleted'); END;
CREATE TABLE IF NOT EXISTS results (
    seq INTEGER PRIMARY KEY, client TEXT NOT NULL, key TEXT NOT NULL, payload BLOB NOT NULL, UNIQUE (client, key)) STRICT;
CREATE TABLE IF NOT EXISTS datasets (name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS totals (
    dataset TEXT NOT NULL, client TEXT NOT NULL, units INTEGER NOT NULL, releases INTEGER NOT NULL,
    PRIMARY KEY (dataset, client)) STRICT, WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS add_up AFTER INSERT ON entries WHEN NEW.kind = 'debit' BEGIN
    INSERT INTO totals VALUES (NEW.dataset, NEW.client, NEW.units, 1), (NEW.dataset, '*', NEW.units, 1)
    ON CONFLICT (dataset, client) DO UPDATE SET units = units + excluded.units, releases = releases + 1;
END;
"""
_TOTALS = """
DELETE FROM totals;
INSERT INTO totals SELECT dataset, client, SUM(units), COUNT(*) FROM entries WHERE kind = 'debit' GROUP BY 1, 2;
INSERT INTO totals SELECT dataset, '*', SUM(units), COUNT(*) FROM entries WHERE kind = 'debit' GROUP BY 1;
"""


def upgrade(db: sqlite3.Connection) -> None:
    """Create missing tables. For a ledger that is older than the totals, compute the totals from its entries."""
    if db.execute("PRAGMA user_version").fetchone()[0] >= VERSION:
        return
    try:
        db.executescript(f"BEGIN IMMEDIATE; {_TABLES} {_TOTALS} PRAGMA user_version = {VERSION}; COMMIT;")
    finally:
        if db.in_transaction:  # the script raised
            db.execute("ROLLBACK")


def total_of(db: sqlite3.Connection, client: str, dataset: str) -> tuple[int, int]:
    """Return the units of a dataset that a client has spent, and the number of its releases."""
    found = db.execute("SELECT units, releases FROM totals WHERE dataset = ? AND client = ?", (dataset, client))
    return found.fetchone() or (0, 0)


def check_totals(db: sqlite3.Connection, head: str, sums: Mapping[tuple[str, str], tuple[int, int]]) -> None:
    """Raise LedgerError unless the totals equal ``sums``, which are those of the entries up to the hash ``head``.

    If entries were added after ``head``, the totals may exceed the sums, but may never be below them.
    """
    db.execute("BEGIN")  # reads one consistent snapshot
    try:
        last = db.execute("SELECT hash FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
        rows = db.execute("SELECT client, dataset, units, releases FROM totals").fetchall()
    finally:
        db.execute("COMMIT")
    found = {(client, dataset): (units, releases) for client, dataset, units, releases in rows}
    same = last is None or last[0] == head
    for place in found.keys() | sums.keys():
        total, summed = found.get(place, (0, 0)), sums.get(place, (0, 0))
        if total != summed and (same or total < summed):
            client, dataset = place
            whose = "everybody" if client == EVERYBODY else f"the client {client!r}"
            raise LedgerError(
                f"the total of {whose} for {dataset!r} is {total[0]} units in {total[1]} releases, and its debits are "
                f"{summed[0]} in {summed[1]}"
            )
