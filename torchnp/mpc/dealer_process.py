"""The dealer in a separate process: it sends a key to each party, then answers the last party's requests."""

from __future__ import annotations

import json
import logging
import math
from typing import Any

import numpy as np

from torchnp.mpc import links
from torchnp.mpc.dealer import Dealer, correlation
from torchnp.mpc.prg import new_key

log = logging.getLogger("torchnp.mpc")
LARGEST_REQUEST = 1 << 27  # elements of all items of one correlation, 1 GiB
_LONGEST_REQUEST = 1 << 16
_IDLE_SECONDS = 24 * 3600.0


def serve_dealer(
    me: links.Party, key: str, parties: list[links.Party], *, sessions: int = 0, timeout: float = 60.0
) -> None:
    """Deal for sessions of the parties, one after the other.

    Parameters
    ----------
    me : Party
        Address and certificate of the dealer.
    key : str
        PEM file with the dealer's private key.
    parties : list of Party
        The parties, in order of their ranks; only their certificates are used.
    sessions : int
        Number of sessions after which the function returns; with 0, it never returns.
    timeout : float
        Seconds to wait for a session's other parties after the first one has connected.
    """
    done = 0
    tls = links.context(True, me, key, parties)
    with links.listener(me) as server:
        while not sessions or done < sessions:
            try:
                _session(server, tls, parties, timeout)
            except links.PartyError as error:
                log.info("the session ended: %s", error)
            done += 1


def _session(server: Any, tls: Any, parties: list[links.Party], timeout: float) -> None:
    found = links.accept(server, tls, dict(enumerate(parties)), timeout, _IDLE_SECONDS)
    try:
        keys = [new_key() for _ in parties]
        for rank, link in found.items():
            links.send(link, keys[rank], timeout)
        dealer, last = Dealer(keys), found[len(parties) - 1]
        log.info("dealing for %d parties", len(parties))
        while True:
            links.send(last, _answer(dealer, links.receive(last, _LONGEST_REQUEST, _IDLE_SECONDS)), timeout)
    finally:
        for link in found.values():
            link.close()


def _answer(dealer: Dealer, request: bytes) -> bytes:
    """Return the last party's shares of a correlation, or the reason why the request is refused."""
    try:
        kind, *arguments = json.loads(request)
        of = correlation(kind, tuple(arguments))
        if sum(math.prod(item.shape) for item in of.items) > LARGEST_REQUEST:
            raise ValueError(f"a correlation has at most {LARGEST_REQUEST} elements")
        with np.errstate(over="ignore"):
            shares = dealer.shares(of)
    except (ValueError, TypeError, KeyError, IndexError, RuntimeError) as error:
        return b"-" + f"{type(error).__name__}: {error}".encode()
    return b"+" + b"".join(parts[-1].tobytes() for item, parts in zip(of.items, shares) if not item.width)
