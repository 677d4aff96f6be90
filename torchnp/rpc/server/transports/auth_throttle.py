"""Limits on unauthenticated clients: a number of connections, and a backoff for each host that sent wrong tokens."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections import Counter

# Number of unauthenticated connections and gRPC calls; if there are more, the oldest one is cancelled.
MAX_STRANGERS = 128
MAX_OF_HOST = 64  # the same for a single host
FIRST_DELAY, LAST_DELAY = 0.1, 3.0  # seconds before a wrong token is refused, if its host has sent wrong tokens before
FORGIVEN_SECONDS = 60.0
MAX_DELAYED = 64  # number of refusals that wait at a time; further refusals are sent immediately
MAX_DELAYED_OF_HOST = 16
MAX_HOSTS = 4096  # number of hosts whose wrong tokens are counted


def host_of(address: str) -> str:
    """Return the key under which connections from an address are counted: the IPv4 address, or the IPv6 /64 network."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:  # the client has already disconnected
        return address
    if ip.version == 4:
        return str(ip)
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ipaddress.ip_network((int(ip), 64), strict=False))


class Strangers:
    """The tasks of unauthenticated connections."""

    def __init__(self) -> None:
        self._hosts: dict[asyncio.Future, str] = {}  # oldest first

    def __len__(self) -> int:
        return len(self._hosts)

    def add(self, task: asyncio.Future, host: str) -> None:
        """Add a task. If there are too many, cancel the oldest one of this host, or of the host with the most tasks."""
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
        """Record that bytes arrived. The task moves to the end, so that silent tasks are cancelled first."""
        if task in self._hosts:
            self._hosts[task] = self._hosts.pop(task)

    def forget(self, task: asyncio.Future) -> None:
        """Remove a task that has ended or authenticated."""
        self._hosts.pop(task, None)


class Refusals:
    """Backoff per host after wrong tokens; a right token never waits."""

    def __init__(self) -> None:
        # Number of wrong tokens and time of the last one; the latest host is last.
        self._wrong: dict[str, tuple[int, float]] = {}
        self._delayed: Counter[str] = Counter()

    async def wait(self, host: str) -> None:
        """Wait until a wrong token from a host may be refused."""
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
            self._delayed += Counter()  # removes hosts with a count of 0
