"""Start engines of secret-shared tensors: all parties in this process, or each in its own."""

from __future__ import annotations

import time
from pathlib import Path

from torchnp.mpc import links
from torchnp.mpc.dealer import LocalSharing, LocalSource
from torchnp.mpc.engine import SharedEngine
from torchnp.mpc.fixed_point import DEFAULT_BITS
from torchnp.mpc.network import LocalNetwork
from torchnp.mpc.remote import PairwiseSharing, RemoteSource, TLSNetwork

VERSION = 1  # of the protocols: parties of different versions refuse each other


def local(
    parties: int = 2, bits: int = DEFAULT_BITS, transcript: list[tuple[str, list[bytes]]] | None = None
) -> SharedEngine:
    """Return an engine with all parties and the dealer in this process: for development, tests and figures.

    It computes what the parties of `connect` would, and counts their messages; one process that sees all shares
    protects nothing.

    Parameters
    ----------
    parties : int
        At least 2.
    bits : int
        Fractional bits of floating-point tensors, 8 to 22.
    transcript : list, optional
        Gets a pair for each round: its label, and the messages of the parties.
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

    Every party runs the same program, with its own rank. What a party owns, it passes to `send` with ``owner=rank``;
    the others pass a tensor of the same shape and dtype, whose values do not count.

    Parameters
    ----------
    parties : list of Party
        Address and certificate of each party, in the same order for all.
    rank : int
        Which of them this process is.
    key : path
        PEM file with the private key of this party's certificate.
    dealer : Party
        Who runs ``python -m torchnp.mpc dealer``.
    bits : int
        Fractional bits of floating-point tensors, 8 to 22; the same for all.
    timeout : float
        Seconds without a message after which a party counts as missing.

    Raises
    ------
    PartyError
        A party or the dealer is missing, is not who it should be, or has other settings. Later, operators raise it if
        one leaves or runs another program.
    """
    if len(parties) < 2 or not 0 <= rank < len(parties):
        raise ValueError(f"rank {rank} of {len(parties)} parties: there are at least 2, counted from 0")
    me, deadline = parties[rank], time.monotonic() + timeout
    names = {r: f"party {r} ({p.address})" for r, p in enumerate(parties)}
    mine = {"version": VERSION, "parties": len(parties), "bits": bits}

    def greet(link: links.PeerLink) -> None:  # at once: a peer with other settings need not wait for the rest to come
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
