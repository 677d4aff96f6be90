"""What strangers may do before they have said who they are: how many connections wait, and how soon wrong tokens are told."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections import Counter

MAX_STRANGERS = 128  # connections, and calls of gRPC, that have not said who they are; of more, the oldest goes
MAX_OF_HOST = 64  # of them from one host
FIRST_DELAY, LAST_DELAY = 0.1, 3.0  # seconds before a wrong token is told to a host that has had others
FORGIVEN_SECONDS = 60.0
MAX_DELAYED = 64  # refusals that wait at a time; of more, each is told at once
MAX_DELAYED_OF_HOST = 16
MAX_HOSTS = 4096  # whose wrong tokens are counted


def host_of(address: str) -> str:
    """What connections from an address are counted under: IPv4 as it is, IPv6 by its network of 64 bits."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:  # of a client that has left
        return address
    if ip.version == 4:
        return str(ip)
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ipaddress.ip_network((int(ip), 64), strict=False))


class Strangers:
    """The tasks of connections that have not said who they are."""

    def __init__(self) -> None:
        self._hosts: dict[asyncio.Future, str] = {}  # the oldest first

    def __len__(self) -> int:
        return len(self._hosts)

    def add(self, task: asyncio.Future, host: str) -> None:
        """Count one more. Where there are too many, the oldest of that host, or of the host that has most, is cancelled."""
        self._hosts[task] = host
        task.add_done_callback(self.forget)
        counts = Counter(self._hosts.values())
        if counts[host] <= MAX_OF_HOST:
            if len(self._hosts) <= MAX_STRANGERS:
                return
            host = counts.most_common(1)[0][0]
        oldest = next(t for t, h in self._hosts.items() if h == host)
        del self._hosts[oldest]
        oldest.cancel()

    def spoke(self, task: asyncio.Future) -> None:
        """Something has come from it: those that have been silent since go first."""
        if task in self._hosts:
            self._hosts[task] = self._hosts.pop(task)

    def forget(self, task: asyncio.Future) -> None:
        """It has ended, or said who it is."""
        self._hosts.pop(task, None)


class Refusals:
    """How soon a wrong token is told: later after others from the same host. A right one never waits."""

    def __init__(self) -> None:
        self._wrong: dict[str, tuple[int, float]] = {}  # how many, and when the last was; the latest last
        self._delayed: Counter[str] = Counter()

    async def wait(self, host: str) -> None:
        """Wait until a wrong token from a host may be told."""
        now = time.monotonic()
        before, last = self._wrong.pop(host, (0, now))
        if now - last > FORGIVEN_SECONDS:
            before = 0
        self._wrong[host] = before + 1, now
        if len(self._wrong) > MAX_HOSTS:
            del self._wrong[next(iter(self._wrong))]
        if not before or self._delayed[host] >= MAX_DELAYED_OF_HOST or self._delayed.total() >= MAX_DELAYED:
            return
        self._delayed[host] += 1
        try:
            await asyncio.sleep(min(FIRST_DELAY * 2 ** min(before - 1, 10), LAST_DELAY))
        finally:
            self._delayed[host] -= 1
            self._delayed += Counter()  # drops those of none
