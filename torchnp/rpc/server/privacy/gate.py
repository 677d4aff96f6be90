"""PUBLISH of an owner's rows, and QUOTE: from a client's request to the ledger, the noise and the reply."""

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

SCRATCH = 16  # numbers for each of a release's, while it is drawn

# The kind of an ERR frame that tells of each, the most specific first.
KINDS = {BudgetError: "budget", LedgerError: "ledger", PrivacyError: "private"}


def kind_of(error: Exception) -> str:
    """How an ERR frame calls an error of this module."""
    return next(kind for cls, kind in KINDS.items() if isinstance(error, cls))


def release_rows(ledger: Ledger | None, client: str, entry: StoredObject, request: wire.Publish) -> np.ndarray:
    """The noised sum or mean that a client asked for: paid for first, drawn once, stored, and only then given.

    Raises
    ------
    PrivacyError, BudgetError, LedgerError
        It cannot be had; the message says why, and looks at no value.
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
    """What a release would cost, and what is left; spends nothing."""
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
    """What a release costs in the ledger's units: there is none for nothing."""
    return max(1, accountant.units_up(terms.rho))


def _nbytes(terms: Release) -> int:
    """Bytes of a release as the ledger stores it, or a few more."""
    return wire.nbytes_of(wire.dtype_of(terms.dtype), terms.shape) + 32 + 10 * len(terms.shape)


def _check_room(terms: Release) -> None:
    """PrivacyError where there is no memory to draw a release, which would have cost something by then."""
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
    delta = account.delta if account is not None else 0.5  # of what `plan` refuses
    terms = plan(label, entry.array, asked.reduce, asked.clip, asked.sigma, asked.eps, delta)
    assert ledger is not None and account is not None
    return ledger, account, terms
