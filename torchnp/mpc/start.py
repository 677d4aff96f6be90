"""Start engines of secret-shared tensors: all parties in this process, or each in its own."""

from __future__ import annotations

from torchnp.mpc.dealer import LocalSharing, LocalSource
from torchnp.mpc.engine import SharedEngine
from torchnp.mpc.fixed_point import DEFAULT_BITS
from torchnp.mpc.network import LocalNetwork


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
