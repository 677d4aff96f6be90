"""Handle PUBLISH of an owner's rows and QUOTE: check the request, debit the ledger, draw the noise, build the reply."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np

from torchnp.rpc import wire
from torchnp.rpc.exceptions import BudgetError, LedgerError, PrivacyError
from torchnp.rpc.server.privacy import accountant
from torchnp.rpc.server.privacy.ledger import EVERYBODY, BudgetAccount, Ledger
from torchnp.rpc.server.privacy.release import Release, draw, plan
from torchnp.rpc.server.privacy.row_labels import Rows
from torchnp.rpc.server.session.object_store import StoredObject

_payload = msgspec.msgpack.Decoder(tuple[str, list[int], bytes]).decode

SCRATCH = 16  # float64 values, per released number, of temporary memory for drawing a release

# Kind of the ERR frame for each exception class, most specific first.
KINDS = {BudgetError: "budget", LedgerError: "ledger", PrivacyError: "private"}


def kind_of(error: Exception) -> str:
    """Return the kind of the ERR frame for an error that this module raises."""
    return next(kind for cls, kind in KINDS.items() if isinstance(error, cls))


def release_rows(ledger: Ledger | None, client: str, entry: StoredObject, request: wire.Publish) -> np.ndarray:
    """Return a noised sum or mean. It is first debited, then drawn once and stored, and only then returned.

    Raises
    ------
    PrivacyError, BudgetError, LedgerError
        The release is refused; the message says why, and does not depend on values.
    """
    assert request.terms is not None and entry.array is not None
    if not request.key:
        raise PrivacyError("a release of an owner's rows has a key, under which it is asked for again")
    ledger, _, terms = _planned(ledger, client, entry, request.terms)
    _check_room(terms)
    stored = ledger.reserve(client, terms.dataset, request.key, _units(terms), terms.terms(), _nbytes(terms))
    if stored is None:
        value = np.ascontiguousarray(draw(entry.array, terms))
        stored = wire.encode((terms.dtype, list(terms.shape), wire.as_bytes(value)))
        ledger.keep(client, terms.dataset, request.key, stored)
    dtype, shape, raw = _payload(stored)
    return np.frombuffer(raw, wire.dtype_of(dtype)).reshape(shape)


def quote(ledger: Ledger | None, client: str, entry: StoredObject, request: wire.QuoteRequest) -> wire.Quoted:
    """Return the cost of a release and the remaining budget, without spending anything."""
    ledger, account, terms = _planned(ledger, client, entry, request.terms)
    units, at = _units(terms), account.delta
    total = ledger.account(EVERYBODY, terms.dataset)
    left = 0 if ledger.frozen(terms.dataset) else min(account.left, total.left)
    return wire.Quoted(
        request=request.request,
        dataset=terms.dataset,
        sigma=terms.sigma,
        rho=float(units * accountant.UNIT),
        epsilon=accountant.epsilon_of(terms.rho, at),
        spent=account.epsilon_spent(),
        after=accountant.epsilon_of((account.spent + units) * accountant.UNIT, at),
        budget=account.epsilon if account.limit is not None else 0.0,
        delta=at,
        releases=left // units,
    )


def _units(terms: Release) -> int:
    """Return the cost of a release in ledger units, at least 1."""
    return max(1, accountant.units_up(terms.rho))


def _nbytes(terms: Release) -> int:
    """Return an upper bound on the bytes of a release as the ledger stores it."""
    return wire.nbytes_of(wire.dtype_of(terms.dtype), terms.shape) + 32 + 10 * len(terms.shape)


def _check_room(terms: Release) -> None:
    """Raise PrivacyError if there is too little memory to draw a release.

    This is checked before the release is debited.
    """
    try:
        np.empty(SCRATCH * math.prod(terms.shape), np.float64)
    except (MemoryError, ValueError):
        raise PrivacyError(
            f"the server has no memory for a release of shape {terms.shape}: release parts of it. Nothing was spent"
        ) from None


def _planned(
    ledger: Ledger | None, client: str, entry: StoredObject, asked: wire.Terms
) -> tuple[Ledger, BudgetAccount, Release]:
    label: Any = entry.label
    assert entry.array is not None
    if isinstance(label, Rows) and ledger is None:
        raise PrivacyError(
            f"the server has no ledger, so nothing of {label.dataset!r} is released: its owner starts it with "
            "`torchnp serve --ledger FILE`"
        )
    account = ledger.account(client, label.dataset) if ledger is not None and isinstance(label, Rows) else None
    delta = account.delta if account is not None else 0.5  # not used, because `plan` refuses such tensors
    terms = plan(label, entry.array, asked.reduce, asked.clip, asked.sigma, asked.eps, delta)
    assert ledger is not None and account is not None
    return ledger, account, terms
