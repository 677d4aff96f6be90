"""Timing of replies about private data, by a schedule that depends only on facts that the client knows.

The run time of a kernel also depends on values (in a greatest common divisor, in a sort, near zero, if rows fail), and
reply times must not reveal them. So an operator on private data has a predicted time: that of the kernel on stand-ins
of the same shapes, which `disclosure.predict_outcome` runs anyway. The reply to a frame is sent after twice the total
predicted time of its operators, rounded up to the bucket, however long they really took.

If they took longer, the schedule was wrong, which reveals something about values. The reply is then sent after 2, 4,
8 ... times the scheduled time. A client may cause `TRUST` such late replies, and regains one every `REGAIN` seconds.
After that, its waiting times are doubled for each further late reply, until no reply is late any more. So over all its
sessions, a client learns from reply times only which few replies were late (predictive mitigation: Askarov, Zhang and
Myers, 2010).

A session that the server ends, because an operator exceeds a limit of time or memory, also reveals something about
values. A client with access to datasets may have `TRUST` such ends, and regains one every `REGAIN` seconds. After that,
the server refuses its new sessions.
"""

from __future__ import annotations

import math
import mmap
import time
import zlib
from collections import Counter

SLACK = 2.0  # factor on predicted times, because other work on the machine takes time too
TRUST = 4
REGAIN = 60.0  # seconds
OFTEN = 3  # after this many late runs of an operator in a session, its predicted time is raised
MOST = 20  # largest number of doublings
# Slots for clients, chosen by a hash of the client's name; clients in one slot share their count of late replies.
PLACES = 1 << 16


class Late:
    """Counts of late replies by client, in memory that all processes of a server share."""

    def __init__(self) -> None:
        self._shared = memoryview(mmap.mmap(-1, 16 * PLACES)).cast("d")

    def _used(self, client: str) -> tuple[int, float]:
        place = 2 * (zlib.crc32(client.encode()) % PLACES)
        used, since = self._shared[place], self._shared[place + 1]
        return place, max(0.0, used - (time.monotonic() - since) / REGAIN)

    def doublings(self, client: str) -> int:
        """Return how many times the wait for a client's operators is doubled."""
        return min(MOST, max(0, math.ceil(self._used(client)[1] - TRUST)))

    def seconds(self, client: str) -> float:
        """Return the seconds until the client has a late reply left."""
        return max(0.0, self._used(client)[1] - TRUST) * REGAIN

    def add(self, client: str) -> None:
        """Count one more late reply."""
        place, used = self._used(client)
        self._shared[place], self._shared[place + 1] = used + 1, time.monotonic()


class Pace:
    """The schedule of replies in one session.

    Parameters
    ----------
    bucket : float
        Replies are sent at multiples of this many seconds; 0 for no schedule.
    late : Late
        Counts of late replies of all clients.
    """

    def __init__(self, bucket: float, late: Late) -> None:
        self._bucket, self._late = bucket, late
        self._ran: list[tuple[str, float, float]] = []
        self._slow: dict[str, float] = {}
        self._times: Counter[str] = Counter()

    def ran(self, name: str, foreseen: float, took: float) -> None:
        """Record an operator of this frame that used private data, with its predicted and its actual seconds."""
        if self._bucket:
            self._ran.append((name, max(foreseen, 1e-6), took))

    def wait(self, client: str) -> tuple[float, bool]:
        """Return the seconds that the reply to the frame must still wait, and whether it is late."""
        ran, self._ran = self._ran, []
        if not ran:
            return 0.0, False
        double = SLACK * 2.0 ** self._late.doublings(client)
        planned = [double * self._slow.get(name, 1.0) * foreseen for name, foreseen, _ in ran]
        took = sum(t for _, _, t in ran)
        slot = self._bucket * max(1, math.ceil(sum(planned) / self._bucket))
        late = took > slot
        if late:
            self._late.add(client)
            for (name, foreseen, t), plan in zip(ran, planned, strict=True):
                if t > plan:
                    self._times[name] += 1
                    if self._times[name] >= OFTEN:
                        self._slow[name] = 2.0 ** math.ceil(math.log2(t / (SLACK * foreseen)))
            slot *= 2.0 ** math.ceil(math.log2(took / slot))
        return slot - took, late
