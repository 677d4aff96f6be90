"""When replies about private data come: on a schedule that follows from what the client knows.

How long a kernel takes goes by the values too (a greatest common divisor, a sort, numbers next to zero, rows that fail), and
a client who sees when a reply comes must not learn them. So an operator on private data has a time that is foreseen: that of
the kernel on stand-ins of the same shapes, which `privacy.predict_outcome` runs anyway. A frame's reply comes after twice the times of
its operators, rounded up to the bucket, however long they really took.

Where they took longer, the schedule was wrong, and that tells something. The reply then comes after 2, 4, 8 ... times as long,
and the client has used up one of `TRUST` such cases; one is forgiven every `REGAIN` seconds. Whoever has none left waits
twice as long for everything, and twice as long again for each more, until nothing is late. A client, with all its sessions,
learns no more from time than when these few replies were late (predictive mitigation: Askarov, Zhang and Myers, 2010).
"""

from __future__ import annotations

import math
import mmap
import time
import zlib
from collections import Counter

SLACK = 2.0  # times what was foreseen: what else the machine does takes some
TRUST = 4
REGAIN = 60.0  # seconds
OFTEN = 3  # times in a session that an operator is late before it is foreseen to take longer
MOST = 20  # doublings
PLACES = 256  # of clients, by a hash of their names: two of one place share what they have used up


class Late:
    """How often replies to each client were late, in memory that all processes of a server share."""

    def __init__(self) -> None:
        self._shared = memoryview(mmap.mmap(-1, 16 * PLACES)).cast("d")

    def _used(self, client: str) -> tuple[int, float]:
        place = 2 * (zlib.crc32(client.encode()) % PLACES)
        used, since = self._shared[place], self._shared[place + 1]
        return place, max(0.0, used - (time.monotonic() - since) / REGAIN)

    def doublings(self, client: str) -> int:
        """How often the times of a client's operators are doubled."""
        return min(MOST, max(0, math.ceil(self._used(client)[1] - TRUST)))

    def add(self, client: str) -> None:
        """One more reply was late."""
        place, used = self._used(client)
        self._shared[place], self._shared[place + 1] = used + 1, time.monotonic()


class Pace:
    """The schedule of one session.

    Parameters
    ----------
    bucket : float
        Seconds, of which every wait is a multiple; 0 for no schedule.
    late : Late
        What the clients have used up.
    """

    def __init__(self, bucket: float, late: Late) -> None:
        self._bucket, self._late = bucket, late
        self._ran: list[tuple[str, float, float]] = []
        self._slow: dict[str, float] = {}
        self._times: Counter[str] = Counter()

    def ran(self, name: str, foreseen: float, took: float) -> None:
        """An operator of the frame met private data, and took some seconds where others were foreseen."""
        if self._bucket:
            self._ran.append((name, max(foreseen, 1e-6), took))

    def wait(self, client: str) -> tuple[float, bool]:
        """How many seconds the reply to the frame waits from now, and whether it is late."""
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
