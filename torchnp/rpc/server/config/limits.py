"""Memory and time limits of one session."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Memory and time limits of one session; the time limits apply to servers over TCP only.

    Parameters
    ----------
    max_bytes : int
        Total bytes of all storages, 4 GiB by default.
    max_objects : int
        Number of tensors including views, 2**20 by default. Each takes about 600 bytes of the server that ``max_bytes``
        does not count.
    op_seconds : float
        Time limit for one operator, a minute by default; the session ends if an operator takes longer.
    idle_seconds : float
        A session that sends nothing for this time ends; four hours by default.
    lease_seconds : float
        How long a session is kept after its connection is lost, five minutes by default; with 0 it is not kept.
    cpu_seconds : float
        Total CPU time of a session, unlimited by default. A session that takes more ends.

    Raises
    ------
    TypeError, ValueError
        A limit is not a number, or is out of range.
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
