"""Start engines of secret-shared tensors, with all parties in this process or each party in its own process."""

from __future__ import annotations

import time
from pathlib import Path

from torchnp.mpc import links
from torchnp.mpc.dealer import LocalSharing, LocalSource
from torchnp.mpc.engine import SharedEngine
from torchnp.mpc.fixed_point import DEFAULT_BITS
from torchnp.mpc.network import LocalNetwork
from torchnp.mpc.remote import PairwiseSharing, RemoteSource, TLSNetwork

VERSION = 1  # version of the protocols; parties with different versions refuse to connect


def local(
    parties: int = 2, bits: int = DEFAULT_BITS, transcript: list[tuple[str, list[bytes]]] | None = None
) -> SharedEngine:
    """Return an engine with all parties and the dealer in this process, for development, tests and measurements.

    It computes the same as the parties of `connect`, and counts their messages. It protects nothing, because one
    process sees all shares.

    Parameters
    ----------
    parties : int
        At least 2.
    bits : int
        Fractional bits of floating-point tensors, 8 to 22.
    transcript : list, optional
        A list to which each round appends a pair: its label, and the messages of the parties.
    """
    if parties < 2:
        raise ValueError(f"secrets are shared among at least 2 parties, not {parties}")
    return SharedEngine(LocalNetwork(parties, transcript), LocalSource(parties), LocalSharing(parties), bits)


def connect(
    parties: list[links.Party],
    *,
    rank: int,
    key: str | Path,
    dealer: links.Party,
    bits: int = DEFAULT_BITS,
    timeout: float = 60.0,
) -> SharedEngine:
    """Connect this process, as one party, to the others and to the dealer, over TLS.

    Every party runs the same program, with its own rank. A party passes a tensor that it owns to `send` with
    ``owner=rank``; the others pass any tensor with the same shape and dtype.

    Parameters
    ----------
    parties : list of Party
        Address and certificate of each party, in the same order in all processes.
    rank : int
        The index of this process's party in ``parties``.
    key : path
        PEM file with the private key of this party's certificate.
    dealer : Party
        The dealer, who runs ``python -m torchnp.mpc dealer``.
    bits : int
        Fractional bits of floating-point tensors, 8 to 22; the same for all.
    timeout : float
        Seconds without a message after which a party counts as missing.

    Raises
    ------
    PartyError
        A party or the dealer is missing, has another identity or settings, or later leaves or runs another program.
    """
    if len(parties) < 2 or not 0 <= rank < len(parties):
        raise ValueError(f"rank {rank} of {len(parties)} parties: there are at least 2, counted from 0")
    me, deadline = parties[rank], time.monotonic() + timeout
    names = {r: f"party {r} ({p.address})" for r, p in enumerate(parties)}
    mine = {"version": VERSION, "parties": len(parties), "bits": bits}

    def greet(
        link: links.PeerLink,
    ) -> None:  # immediately: a peer with other settings need not wait
        links.send_json(link, {**mine, "rank": rank}, timeout)

    with links.listener(me) as server:
        peers = {}
        for r in range(rank):
            peers[r] = links.dial(parties[r], names[r], links.context(False, me, key, [parties[r]]), deadline)
            greet(peers[r])
        later = {r: parties[r] for r in range(rank + 1, len(parties))}
        tls = links.context(True, me, key, list(later.values()))
        peers |= links.accept(server, tls, later, deadline - time.monotonic(), greet=greet)
    for r in sorted(peers):
        if (theirs := links.receive_json(peers[r], timeout)) != (wanted := {**mine, "rank": r}):
            raise links.PartyError(f"{names[r]} has other settings: {theirs} there, {wanted} expected")
    at = links.dial(dealer, f"the dealer ({dealer.address})", links.context(False, me, key, [dealer]), deadline)
    source = RemoteSource(at, rank, len(parties), timeout)
    sharing = PairwiseSharing(rank, peers, timeout)
    return SharedEngine(TLSNetwork(len(parties), rank, peers, timeout), source, sharing, bits)
