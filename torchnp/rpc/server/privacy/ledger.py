"""Privacy ledger: budgets, spending and noised results of an owner's datasets, in one SQLite file.

The cost of a release is debited first, and the debit is on disk before any noise is drawn. Then the noise is drawn, the
noised result is stored under a key that the client has chosen, and only after that it is sent. So a retry with the same
key gets the same bytes, nothing is drawn or debited twice, and a crash does not undo a debit.

Entries are only appended. Each has a SHA-256 hash over itself and the previous entry's hash. An owner who writes down
the last hash elsewhere can later verify all entries before it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from torchnp.rpc.exceptions import BudgetError, LedgerError, PrivacyError
from torchnp.rpc.server.privacy import accountant
from torchnp.rpc.server.privacy.ledger_schema import EVERYBODY as EVERYBODY
from torchnp.rpc.server.privacy.ledger_schema import TOLD, check_totals, total_of, upgrade

KEPT = 64  # number of results per client that are stored and can be fetched again
MAX_PAYLOAD = 64 << 20  # bytes of one result, and of all stored results of a client
MAX_RELEASES = 1 << 20  # releases of one dataset to one client, which are limited because entries are never deleted
MAX_UNITS = 1 << 62  # units of a budget, because SQLite's integers have 64 bits
BUSY_SECONDS = 10.0
ORIGIN = "0" * 64


@dataclasses.dataclass(frozen=True)
class LedgerEntry:
    """One line of the ledger.

    Attributes
    ----------
    seq : int
        Sequence number, from 1, without gaps.
    time : float
        Seconds since 1970.
    kind : str
        One of ``"grant"``, ``"revoke"``, ``"budget"``, ``"freeze"``, ``"thaw"``, ``"debit"`` and ``"result"``.
    client, dataset, key : str
        The client, the dataset, and the client's key of a release.
    units : int
        The budget or cost, in units of rho (`accountant.UNIT`).
    body : str
        Further fields as JSON: epsilon and delta of a budget, parameters of a release, digest of a result.
    hash : str
        SHA-256 over the previous entry's hash and this entry.
    """

    seq: int
    time: float
    kind: str
    client: str
    dataset: str
    key: str
    units: int
    body: str
    hash: str

    def digest(self, before: str) -> str:
        """Compute `hash` for this entry if it follows an entry with the hash ``before``."""
        text = json.dumps(
            [before, self.seq, self.time, self.kind, self.client, self.dataset, self.key, self.units, self.body]
        )
        return hashlib.sha256(text.encode()).hexdigest()


@dataclasses.dataclass(frozen=True)
class BudgetAccount:
    """A budget and what has been spent of it, in units of rho; `limit` is None if no budget was granted."""

    client: str
    dataset: str
    limit: int | None
    spent: int
    epsilon: float
    delta: float

    @property
    def left(self) -> int:
        return max(0, (self.limit or 0) - self.spent)

    def epsilon_spent(self) -> float:
        """Return the epsilon of all releases so far, at the budget's delta."""
        return accountant.epsilon_of(self.spent * accountant.UNIT, self.delta)


class Ledger:
    """A ledger in a SQLite file, which several processes may use.

    Parameters
    ----------
    path : str or Path
        The file. SQLite keeps two more files in the same folder.
    create : bool
        Whether to create the file if it does not exist.

    Raises
    ------
    LedgerError
        The file does not exist, or is not a ledger.
    """

    def __init__(self, path: str | Path, create: bool = False) -> None:
        self.path, self._create = Path(path), create
        if not create and not self.path.exists():
            raise LedgerError(f"there is no ledger {self.path}: `torchnp owner budget` makes one")
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._inherited: sqlite3.Connection | None = None
        self._process = -1
        with self._reading():
            pass

    # ------------------------------------------------------------ the file

    def _connection(self) -> sqlite3.Connection:
        """Return this process's own connection, because SQLite connections must not be used across a fork."""
        if self._process != os.getpid():
            # It is not closed, because that would close the parent's connection too.
            self._inherited, self._db = self._db, None
        if self._db is None:
            if not self.path.exists():
                if not self._create:  # it has been removed; a new one would have forgotten what was spent
                    raise LedgerError(f"the ledger {self.path} is not there any more")
                # Readable for the owner only, because the results belong to the clients.
                os.close(os.open(self.path, os.O_CREAT | os.O_WRONLY, 0o600))
            db = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=FULL")
            upgrade(db)
            self._db, self._process = db, os.getpid()
        return self._db

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._connection()
            except (sqlite3.Error, OSError) as error:
                raise LedgerError(f"the ledger {self.path} cannot be used: {error}") from error

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Run the block in a transaction. It is on disk when the block ends, and rolled back if the block raises."""
        with self._reading() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            finally:
                if db.in_transaction:  # the block or the COMMIT raised
                    db.execute("ROLLBACK")

    def close(self) -> None:
        with self._lock:
            if self._db is not None and self._process == os.getpid():
                self._db.close()
            self._db = None

    # ------------------------------------------------------------ the owner

    def set_budget(self, dataset: str, epsilon: float, delta: float, client: str = EVERYBODY) -> LedgerEntry:
        """Set a dataset's budget for one client, or for all clients together.

        It replaces the old budget. Past spending still counts.
        """
        _check_name("dataset", dataset)
        _check_name("client", client)
        units = accountant.units_down(accountant.rho_of(epsilon, delta))
        if units > MAX_UNITS:
            raise ValueError(f"epsilon {epsilon:g} is more than a ledger can count")
        kind = "budget" if client == EVERYBODY else "grant"
        with self._writing() as db:
            return _append(db, kind, client, dataset, "", units, {"epsilon": epsilon, "delta": delta})

    def revoke(self, client: str, dataset: str) -> LedgerEntry:
        """Revoke a client's budget. What the client has spent stays recorded."""
        with self._writing() as db:
            if _limit(db, client, dataset) is None:
                raise LedgerError(f"{client!r} has no budget of {dataset!r}")
            return _append(db, "revoke", client, dataset, "", 0, {})

    def freeze(self, dataset: str, on: bool = True) -> LedgerEntry:
        """Stop all releases of a dataset, or allow them again."""
        _check_name("dataset", dataset)
        with self._writing() as db:
            return _append(db, "freeze" if on else "thaw", EVERYBODY, dataset, "", 0, {})

    def learn(self, datasets: Iterable[str]) -> None:
        """Record the names of datasets that are served, so that the owner's commands know them."""
        with self._reading() as db:
            new = set(datasets) - {name for (name,) in db.execute("SELECT name FROM datasets")}
        if new:
            with self._writing() as db:
                db.executemany("INSERT OR IGNORE INTO datasets VALUES (?)", [(name,) for name in sorted(new)])

    def datasets(self) -> set[str]:
        """Return the names of all datasets that were ever served or given a budget."""
        with self._reading() as db:
            found = db.execute(
                f"SELECT name FROM datasets UNION SELECT dataset FROM entries WHERE kind IN {TOLD} "
                "AND kind IN ('budget', 'grant')"
            )
            return {name for (name,) in found}

    def accounts(self) -> list[BudgetAccount]:
        """Return the accounts of all budgets that were ever given, of datasets and of clients."""
        with self._reading() as db:
            found = db.execute(
                f"SELECT DISTINCT dataset, client FROM entries WHERE kind IN {TOLD} AND kind IN ('budget', 'grant') "
                "ORDER BY 1, 2"
            ).fetchall()
            return [_account(db, client, dataset) for dataset, client in found]

    def frozen(self, dataset: str) -> bool:
        """Return whether the owner has stopped a dataset's releases."""
        with self._reading() as db:
            return _frozen(db, dataset)

    def count(self) -> int:
        """Return the number of entries."""
        with self._reading() as db:
            return int(db.execute("SELECT COUNT(*) FROM entries").fetchone()[0])

    def entries(self) -> Iterator[LedgerEntry]:
        """Yield all entries, oldest first."""
        last = 0
        while True:
            with self._reading() as db:
                page = db.execute("SELECT * FROM entries WHERE seq > ? ORDER BY seq LIMIT 1000", (last,)).fetchall()
            yield from (LedgerEntry(*row) for row in page)
            if not page:
                return
            last = page[-1][0]

    def verify(self, head: str | None = None) -> str:
        """Verify entries, totals and stored results; return the hash of the last entry.

        Parameters
        ----------
        head : str, optional
            A hash that was noted earlier. An entry with this hash must still exist.

        Raises
        ------
        LedgerError
            An entry, a total or a result was changed or is missing.
        """
        before, seen = ORIGIN, head is None or head == ORIGIN
        limits: dict[tuple[str, str], int] = {}
        spent: dict[tuple[str, str], tuple[int, int]] = {}
        digests: dict[tuple[str, str], str] = {}
        for number, entry in enumerate(self.entries(), 1):
            if entry.seq != number:
                raise LedgerError(f"entry {number} is missing: {entry.seq} follows {number - 1}")
            if entry.hash != entry.digest(before):
                raise LedgerError(f"entry {number} ({entry.kind} of {entry.dataset!r}) is not what was written")
            before = entry.hash
            seen = seen or before == head
            if entry.kind == "result":
                digests[entry.client, entry.key] = json.loads(entry.body)["sha256"]
            _replay(entry, limits, spent)
        if not seen:
            raise LedgerError(
                "no entry has the hash that was given: the ledger's end is missing, or this is another ledger"
            )
        with self._reading() as db:
            check_totals(db, before, spent)
            for client, key, payload in db.execute("SELECT client, key, payload FROM results"):
                if hashlib.sha256(payload).hexdigest() != digests.get((client, key)):
                    raise LedgerError(f"the stored result {key!r} of {client!r} is not what was written")
        return before

    # ------------------------------------------------------------ a release

    def account(self, client: str, dataset: str) -> BudgetAccount:
        """Return a client's account of a dataset."""
        with self._reading() as db:
            return _account(db, client, dataset)

    def reserve(
        self, client: str, dataset: str, key: str, units: int, terms: dict[str, Any], nbytes: int = 0
    ) -> bytes | None:
        """Debit a release before its noise is drawn. Return None if it may be drawn, or the result if it is stored.

        Parameters
        ----------
        client, dataset : str
            The client that pays, and the dataset whose budget is charged.
        key : str
            The client's key for this release. A key never pays twice.
        units : int
            The cost; at least one unit is charged.
        terms : dict
            Public parameters of the release. A key cannot be used again with other parameters.
        nbytes : int
            Size of the result that will be stored.

        Raises
        ------
        BudgetError
            There is no budget, too little of it is left, the dataset is frozen, or the client has had too many
            releases. Nothing was spent.
        PrivacyError
            The result is too large to store; nothing was spent. Or the key was used before: for another release, for a
            release that was interrupted, or for one whose result is no longer stored.
        LedgerError
            The file cannot be written; nothing was spent.
        """
        units = max(units, 1)
        if nbytes > MAX_PAYLOAD:
            raise PrivacyError(
                f"a release has at most {MAX_PAYLOAD:,} bytes, and this one would have {nbytes:,}: release parts of it. "
                "Nothing was spent"
            )
        with self._writing() as db:
            found = db.execute(
                "SELECT dataset, units, body FROM entries WHERE kind = 'debit' AND client = ? AND key = ?",
                (client, key),
            ).fetchone()
            if found is not None:
                return _stored(db, client, key, found == (dataset, units, _canonical(terms)))
            if _frozen(db, dataset):
                raise BudgetError(f"the owner has frozen {dataset!r}: nothing of it is released")
            for who in (client, EVERYBODY):
                _check_account(_account(db, who, dataset), units)
            if total_of(db, client, dataset)[1] >= MAX_RELEASES:
                raise BudgetError(
                    f"the client {client!r} has had {MAX_RELEASES:,} releases of {dataset!r}: there are no more"
                )
            _append(db, "debit", client, dataset, key, units, terms)
            return None

    def keep(self, client: str, dataset: str, key: str, payload: bytes) -> None:
        """Store the noised result of a release; delete the client's oldest results beyond `KEPT` and `MAX_PAYLOAD`."""
        with self._writing() as db:
            digest = hashlib.sha256(payload).hexdigest()
            entry = _append(db, "result", client, dataset, key, 0, {"sha256": digest})
            db.execute("INSERT INTO results VALUES (?, ?, ?, ?)", (entry.seq, client, key, payload))
            room = MAX_PAYLOAD
            held = db.execute("SELECT seq, LENGTH(payload) FROM results WHERE client = ? ORDER BY seq DESC", (client,))
            for number, (seq, nbytes) in enumerate(held.fetchall()):
                room -= nbytes
                if number >= KEPT or (room < 0 and number):
                    db.execute("DELETE FROM results WHERE seq = ?", (seq,))


def _canonical(body: dict[str, Any]) -> str:
    return json.dumps(body, sort_keys=True)


def _check_name(what: str, name: str) -> None:
    if not name or len(name) > 256 or not name.isprintable():
        raise ValueError(f"a {what} has a printable name of 1 to 256 characters, not {name!r}")


def _append(
    db: sqlite3.Connection, kind: str, client: str, dataset: str, key: str, units: int, body: dict[str, Any]
) -> LedgerEntry:
    last = db.execute("SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1").fetchone() or (0, ORIGIN)
    blank = LedgerEntry(last[0] + 1, time.time(), kind, client, dataset, key, units, _canonical(body), "")
    entry = dataclasses.replace(blank, hash=blank.digest(last[1]))
    db.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", tuple(vars(entry).values()))
    return entry


def _limit(db: sqlite3.Connection, client: str, dataset: str) -> tuple[int, str] | None:
    """Return the current budget, as units and JSON terms; None if there is none."""
    found = db.execute(
        f"SELECT kind, units, body FROM entries WHERE kind IN {TOLD} AND kind NOT IN ('freeze', 'thaw') AND dataset = ? "
        "AND client = ? ORDER BY seq DESC LIMIT 1",
        (dataset, client),
    ).fetchone()
    return None if found is None or found[0] == "revoke" else found[1:]


def _account(db: sqlite3.Connection, client: str, dataset: str) -> BudgetAccount:
    found = _limit(db, client, dataset)
    spent = total_of(db, client, dataset)[0]
    terms = json.loads(found[1]) if found else {"epsilon": 0.0, "delta": 1e-6}
    return BudgetAccount(client, dataset, found[0] if found else None, spent, terms["epsilon"], terms["delta"])


def _check_account(account: BudgetAccount, units: int) -> None:
    whose = "everybody together" if account.client == EVERYBODY else f"the client {account.client!r}"
    if account.limit is None:
        way = "budget" if account.client == EVERYBODY else f"grant {account.client}"
        raise BudgetError(
            f"{whose} has no privacy budget of {account.dataset!r}: the owner gives one with "
            f"`torchnp owner {way} {account.dataset} --epsilon E`"
        )
    if units > account.left:
        raise BudgetError(
            f"the budget of {account.dataset!r} for {whose} is not enough: the release costs rho "
            f"{float(units * accountant.UNIT):.4g}, and {float(account.left * accountant.UNIT):.4g} of "
            f"{float(account.limit * accountant.UNIT):.4g} are left (epsilon {account.epsilon:g} at delta "
            f"{account.delta:g}). Nothing was spent"
        )


def _frozen(db: sqlite3.Connection, dataset: str) -> bool:
    found = db.execute(
        f"SELECT kind FROM entries WHERE kind IN {TOLD} AND kind IN ('freeze', 'thaw') AND dataset = ? AND client = ? "
        "ORDER BY seq DESC LIMIT 1",
        (dataset, EVERYBODY),
    ).fetchone()
    return found is not None and found[0] == "freeze"


def _stored(db: sqlite3.Connection, client: str, key: str, same: bool) -> bytes:
    if not same:
        raise PrivacyError("this key was used for a release with other parameters: take a new one for each release")
    found = db.execute("SELECT payload FROM results WHERE client = ? AND key = ?", (client, key)).fetchone()
    if found is None:
        raise PrivacyError(
            "this release was paid for, and its result is not there: it was interrupted, or is no longer kept. It is not "
            "drawn again, and its cost stays spent"
        )
    return found[0]


def _replay(
    entry: LedgerEntry, limits: dict[tuple[str, str], int], spent: dict[tuple[str, str], tuple[int, int]]
) -> None:
    """Apply an entry to the budgets computed so far; raise LedgerError for a debit that exceeds one."""
    place = (entry.client, entry.dataset)
    if entry.kind in ("grant", "budget"):
        limits[place] = entry.units
    elif entry.kind == "revoke":
        limits.pop(place, None)
    elif entry.kind == "debit":
        for who in (entry.client, EVERYBODY):
            place = (who, entry.dataset)
            units, releases = spent.get(place, (0, 0))
            spent[place] = units + entry.units, releases + 1
            if spent[place][0] > limits.get(place, -1):
                raise LedgerError(f"entry {entry.seq} is a debit over the budget of {entry.dataset!r}")
