"""What one session may hold, and how long it may take."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What one session may hold, and how long it may take.

    Parameters
    ----------
    max_bytes : int
        Of all storages together, 4 GiB by default.
    max_objects : int
        Tensors, views included, 2**20 by default. Each takes some 600 bytes of the server that ``max_bytes`` does not count.
    op_seconds : float
        That one operator may take on a server over TCP, a minute by default: the session of one that takes longer ends.
    idle_seconds : float
        After which a session that sends nothing ends there, four hours by default.
    lease_seconds : float
        For which a session is kept there after its connection was lost, five minutes by default; 0 for not at all.
    cpu_seconds : float
        Of the processor that a session may take there in all, without end by default: one that takes more ends.

    Raises
    ------
    TypeError, ValueError
        One of them is no number, or too small.
    """

    max_bytes: int = 4 << 30
    max_objects: int = 1 << 20
    op_seconds: float = 60.0
    idle_seconds: float = 4 * 3600.0
    lease_seconds: float = 300.0
    cpu_seconds: float = math.inf

    def __post_init__(self) -> None:
        for name in ("op_seconds", "idle_seconds", "lease_seconds", "cpu_seconds"):
            value = getattr(self, name)
            if type(value) not in (int, float):
                raise TypeError(f"{name} is a number, not a value of type {type(value).__name__}")
            if not 0 < value < 1e8 and (name, value) not in (("lease_seconds", 0), ("cpu_seconds", math.inf)):
                raise ValueError(f"{name} cannot be {value}: it is a number of seconds above 0")
        for name in ("max_bytes", "max_objects"):
            value = getattr(self, name)
            if type(value) is not int:
                raise TypeError(f"{name} is an integer, not a value of type {type(value).__name__}")
            if value < 1:
                raise ValueError(f"{name} cannot be {value}: it is the most that a session may hold, at least 1")
