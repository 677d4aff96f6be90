"""The life cycle of a server's sessions. Each has its own worker process and survives reconnects."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import math
import secrets
import signal
import socket
from collections import Counter
from dataclasses import dataclass

from torchnp.rpc import wire
from torchnp.rpc.exceptions import ProtocolError
from torchnp.rpc.server.config.tokens import Rights
from torchnp.rpc.server.monitoring.counters import Counters
from torchnp.rpc.server.monitoring.event_log import note
from torchnp.rpc.server.process.fork_server import Budget, Nursery
from torchnp.rpc.server.process.link import ClientStream, Link
from torchnp.rpc.server.session.protocol import last_word
from torchnp.rpc.server.session.server_state import ServerState
from torchnp.rpc.wire.framing import ByteStream

LINGER_SECONDS = 2.0
# Why a session ended, by the signal that ended its process. At the hard CPU limit the system sends SIGKILL, which is
# not listed.
_REASONS: dict[int, str] = {signal.SIGALRM: "time", signal.SIGXCPU: "cpu"}


@dataclass
class LiveSession:
    """A session that has not ended, connected or not."""

    link: Link
    slot: int
    peer: str
    resume: str
    rights: Rights
    ending: bool = False
    revoked: bool = False
    life: asyncio.Task | None = None
    timer: asyncio.TimerHandle | None = None
    lost_at: float = 0.0  # time at which the connection was lost, valid while there is a timer


class Sessions:
    """Opens sessions, keeps those whose connection was lost, and ends them.

    Parameters
    ----------
    state : ServerState
        What sessions share: operators, datasets and rights.
    max_clients : int
        Number of sessions at a time; further clients are refused with a reason.
    max_memory : int, optional
        Number of bytes that all sessions together may hold.
    """

    def __init__(self, state: ServerState, max_clients: int, max_memory: int | None) -> None:
        if type(max_clients) is not int or max_clients < 1:
            raise ValueError(f"max_clients is at least 1, not {max_clients!r}")
        self.state, self.max_clients = state, max_clients
        self.budget = Budget(max_memory, max_clients)
        self.counters = Counters(max_clients + 1)  # a row for each worker and one for this process
        self.count = self.counters.row(max_clients)
        self.sessions: dict[int, asyncio.Future[int]] = {}  # the future exit code of the worker, by slot
        self._names: dict[int, str] = {}  # the client's name, by slot
        self._revocations: Counter[str] = Counter()  # how often a client's credentials were taken away
        self._nursery: Nursery | None = None
        self._stopping = False
        # Distinguishes a session that was lost in a restart of the server from one that ended.
        self._instance = secrets.token_hex(4)
        self._held: dict[bytes, LiveSession] = {}  # by the digest of the resume token, oldest session first
        self._living: dict[int, LiveSession] = {}  # by slot: sessions whose worker has not been cleaned up yet

    def fork(self) -> None:
        """Start the fork server unless it is running; call this while there are no threads if possible."""
        if self._nursery is None:
            self._nursery = Nursery(self.state, self.budget, self.counters)

    def _reap(self, stop: asyncio.Event) -> None:
        """Record the exit codes of workers that have ended; set ``stop`` if the fork server has ended."""
        assert self._nursery is not None
        try:
            for slot, status in self._nursery.ended():
                if slot in self.sessions and not self.sessions[slot].done():
                    self.sessions[slot].set_result(status)
        except (EOFError, OSError) as error:
            note(logging.CRITICAL, "no more sessions", error=type(error).__name__)
            stop.set()

    # ------------------------------------------------------------ for a client

    async def _session(self, hello: wire.Hello, peer: str, rights: Rights) -> tuple[LiveSession | None, bytes]:
        """Open a session, or find the one to resume.

        If that fails, the first result is None, and the second one is the frame that tells the client why.
        """
        if hello.resume:
            return self._resumed(hello.resume, peer, rights)
        if seconds := self.state.ended.seconds(rights.client):
            self.count("ended")
            note(logging.WARNING, "too many ended sessions", peer, client=rights.client)
            words = "the server has ended several sessions of this client that exceeded a limit of time or memory"
            return None, last_word("quota", f"{words}: connect again in {math.ceil(seconds)} s")
        before = self._revocations[rights.client]
        slot = await self._slot(rights)
        if slot is None:
            self.count("clients")
            note(logging.WARNING, "too many sessions", peer, client=rights.client)
            has = f"{self.max_clients} clients"
            if len(self.sessions) < self.max_clients:
                has = f"{rights.max_clients} sessions of the client {rights.client!r}"
            return None, last_word("quota", f"the server has {has}, as many as it takes")
        held = await self._open(slot, peer, rights)
        if self._revocations[rights.client] != before:  # while the client waited
            self._revoke(held)
        self.count("sessions")
        note(logging.INFO, "session opened", peer, client=rights.client)
        return held, b""

    def _revoke(self, held: LiveSession) -> None:
        """End a session whose client is not admitted any more."""
        assert self._nursery is not None
        held.revoked = True
        self._nursery.kill(held.slot)

    def _resumed(self, resume: str, peer: str, rights: Rights) -> tuple[LiveSession | None, bytes]:
        held = self._held.get(_digest(resume))
        if held is None:
            note(logging.INFO, "no session to resume", peer, client=rights.client)
            return None, last_word("lost", self._why_lost(resume, rights))
        if held.rights.client != rights.client:
            self.count("token")
            note(logging.WARNING, "session of another token", peer, client=rights.client)
            return None, last_word("auth", "the session was opened with another token, and is resumed with that alone")
        note(logging.INFO, "session resumed", peer, client=rights.client, was=held.peer)
        return held, b""

    async def _carry(self, stream: ClientStream, held: LiveSession, due: int, welcome: bytes) -> bytes:
        """Carry a session's frames over a connection; return the last message for it."""
        if held.timer is not None:
            held.timer.cancel()
            held.timer = None
        link, lease = held.link, float(held.rights.limits.lease_seconds)
        ticket = wire.Ticket(held.resume if lease else "", link.taken)
        over = False
        try:
            over = await link.talk(stream, due, [welcome, wire.numbered(0, wire.encode(ticket))])
        except ProtocolError:
            link.gone.set()
            raise
        finally:
            if not lease and not over:
                link.gone.set()
            elif not over and not link.attached and not link.gone.is_set() and not self._stopping:
                note(logging.INFO, "connection lost", held.peer, client=held.rights.client, lease=lease)
                loop = asyncio.get_running_loop()
                held.timer, held.lost_at = loop.call_later(lease, link.gone.set), loop.time()
        return wire.numbered(0, wire.encode(wire.Bye()))

    def _why_lost(self, resume: str, rights: Rights) -> str:
        if not resume.startswith(self._instance):
            return "the server has been started again, and knows nothing of the session: its handles have no values any more"
        return (
            "the session has ended: its connection was lost for longer than the "
            f"{rights.limits.lease_seconds:g} s that the server keeps it, or it needed the place; its handles have "
            "no values any more"
        )

    # ------------------------------------------------------------ slots

    def _place(self, rights: Rights) -> int | None:
        """Return a free slot that the client may use, or None."""
        if self._has_all(rights):
            return None
        return next((i for i in range(self.max_clients) if i not in self.sessions), None)

    def _has_all(self, rights: Rights) -> bool:
        """Return whether a client has as many sessions as its token allows."""
        return list(self._names.values()).count(rights.client) == rights.max_clients

    async def _slot(self, rights: Rights) -> int | None:
        """Return a free slot, or None.

        If no slot is free, first wait for a session that is already ending, or end the session that has been
        disconnected for the longest time.
        """
        slot = self._place(rights)
        if slot is None and (leaving := [h for h in self._in_the_way(rights) if h.ending or h.link.gone.is_set()]):
            await self._left(leaving)
            slot = self._place(rights)
        if slot is None and (lost := [h for h in self._in_the_way(rights) if h.timer is not None]):
            first = min(lost, key=lambda h: h.lost_at)
            note(logging.INFO, "session closed", first.peer, client=first.rights.client, reason="place")
            self._forget(first)
            assert self._nursery is not None
            self._nursery.kill(first.slot)
            first.link.gone.set()
            await self._left([first])
            slot = self._place(rights)
        return slot

    def _in_the_way(self, rights: Rights) -> list[LiveSession]:
        """Return the sessions whose end would free a slot for a client.

        If the client already has all sessions that its token allows, only its own sessions are returned.
        """
        own = self._has_all(rights)
        return [h for h in self._living.values() if not own or h.rights.client == rights.client]

    async def _left(self, some: list[LiveSession]) -> None:
        """Wait until one of the sessions has ended, for at most `LINGER_SECONDS`."""
        lives = [h.life for h in some if h.life is not None]
        await asyncio.wait(lives, timeout=LINGER_SECONDS, return_when=asyncio.FIRST_COMPLETED)

    async def _free(self, slot: int, ended: asyncio.Future[int]) -> None:
        """Kill a worker if it is still running, and free its slot."""
        if not ended.done() and self._nursery is not None and not self._stopping:
            self._nursery.kill(slot)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended, 5)
        self.budget.free(slot)
        del self.sessions[slot], self._names[slot], self._living[slot]

    # ------------------------------------------------------------ the life of a session

    async def _open(self, slot: int, peer: str, rights: Rights) -> LiveSession:
        """Start a session's worker."""
        assert self._nursery is not None
        self.sessions[slot] = asyncio.get_running_loop().create_future()
        self._names[slot] = rights.client
        try:
            ours, theirs = socket.socketpair()
            with theirs:
                ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, wire.CHUNK)  # so that a chunk needs few writes
                _, worker = await asyncio.get_running_loop().connect_accepted_socket(ByteStream, ours)
                link = Link(worker)
                self._nursery.open(slot, theirs, peer, rights.client)
        except OSError as error:  # this process is out of file descriptors
            del self.sessions[slot], self._names[slot]
            note(logging.ERROR, "no session", peer, client=rights.client, error=error.strerror)
            raise
        held = LiveSession(link, slot, peer, f"{self._instance}.{secrets.token_urlsafe(24)}", rights)
        self._held[_digest(held.resume)] = self._living[slot] = held
        held.life = asyncio.ensure_future(self._live(held))
        return held

    def _forget(self, held: LiveSession) -> None:
        self._held.pop(_digest(held.resume), None)

    async def _live(self, held: LiveSession) -> None:
        """Run a session from its start to the end of its worker."""
        link, ended = held.link, self.sessions[held.slot]
        fetching, feeding, gone = (asyncio.ensure_future(c) for c in (link.fetch(), link.feed(), link.gone.wait()))
        try:
            await asyncio.wait([fetching, gone], return_when=asyncio.FIRST_COMPLETED)
            held.ending = True
            if gone.done():  # the worker may still be processing the client's last frames
                self._forget(held)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LINGER_SECONDS):
                        await link.finish()
                        await fetching
                if not fetching.done() or fetching.cancelled():
                    note(logging.INFO, "session closed", held.peer, client=held.rights.client, reason="left")
            else:
                feeding.cancel()
                link.hang_up()  # the worker reads the remaining frames and exits
                with contextlib.suppress(TimeoutError):
                    status = await asyncio.wait_for(asyncio.shield(ended), LINGER_SECONDS)
                    if last := self._why(status, held):
                        link.keep(last)
                # A client that is disconnected now learns the reason when it reconnects.
                asyncio.get_running_loop().call_later(held.rights.limits.lease_seconds, self._forget, held)
        finally:
            for task in (fetching, feeding, gone):
                task.cancel()
            link.end()
            await self._free(held.slot, ended)

    def _why(self, status: int, held: LiveSession) -> bytes:
        """Return the frame that tells a client why its worker was ended; empty if the worker ended by itself."""
        if not status:
            return b""
        if held.revoked:
            note(logging.INFO, "session closed", held.peer, client=held.rights.client, reason="revoked")
            return last_word(
                "auth", "the server's owner lets the session's token in no more: it has ended with all its handles"
            )
        number = self.budget.where(held.slot)
        name = self.state.agreement.names[number - 1] if number else "a request"
        limits = held.rights.limits
        reason = _REASONS.get(-status, "died")
        if reason == "cpu":
            text = f"the session has taken the {limits.cpu_seconds:g} s of a processor that the server gives it, with {name} at last"
        elif reason == "time":
            text = f"{name} took longer than the {limits.op_seconds:g} s that the server gives an operator"
        else:
            text = f"{name} ended the session's process ({status}), which is most often a lack of memory"
        self.count(reason)
        if held.rights.datasets:  # it may depend on private values
            self.state.ended.add(held.rights.client)
        note(logging.WARNING, "session closed", held.peer, client=held.rights.client, reason=reason, op=name)
        return last_word("quota", f"{text}: the session has ended with all its handles")


def _digest(resume: str) -> bytes:
    """Return the key of a session for its resume token.

    It is a hash, so the lookup time reveals nothing about the secret.
    """
    return hashlib.sha256(resume.encode(errors="replace")).digest()
