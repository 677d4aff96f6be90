"""Connections between parties: TLS with pinned certificates, and frames that are exchanged without deadlocks."""

from __future__ import annotations

import json
import select
import socket
import ssl
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from torchnp.rpc.exceptions import RPCError

_HEADER = struct.Struct("!16sHQ")  # digest of the program so far, length of the label, length of the message
_PIECE = 1 << 18  # bytes that are read from a socket in one call
_LONGEST_HELLO = 1 << 12


class PartyError(RPCError):
    """Raised when a party or the dealer is missing, has left, has another identity, or runs another program."""


@dataclass(frozen=True)
class Party:
    """The address and the identity of a party or the dealer.

    Attributes
    ----------
    address : str
        ``"host:port"``
    certificate : str or Path
        PEM file with its certificate. This may be self-signed, because no other certificate is accepted instead.
    """

    address: str
    certificate: str | Path

    @property
    def where(self) -> tuple[str, int]:
        host, _, port = self.address.rpartition(":")
        if not host or not port.isdigit():
            raise ValueError(f"an address is 'host:port', not {self.address!r}")
        return host, int(port)

    def der(self) -> bytes:
        """Return the certificate in the form that TLS transmits."""
        return ssl.PEM_cert_to_DER_cert(Path(self.certificate).read_text())


def context(server: bool, me: Party, key: str | Path, peers: list[Party]) -> ssl.SSLContext:
    """Return a context that presents this party's certificate, and accepts only those of the peers."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.check_hostname = False  # the certificate itself is compared, not the name in it
    made.verify_mode = ssl.CERT_REQUIRED
    made.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    made.load_cert_chain(me.certificate, key)
    for peer in peers:
        made.load_verify_locations(cafile=peer.certificate)
    return made


class PeerLink:
    """A TLS connection to one peer; ``who`` names it in messages."""

    def __init__(self, sock: ssl.SSLSocket, who: str) -> None:
        self.socket, self.who = sock, who
        self.socket.setblocking(False)
        self.received = bytearray()
        self.unsent = memoryview(b"")

    def lost(self, why: object) -> NoReturn:
        raise PartyError(f"{self.who} has left: {why}")

    def push(self) -> None:
        """Send as many bytes as the socket accepts now."""
        while self.unsent:
            try:
                self.unsent = self.unsent[self.socket.send(self.unsent[:_PIECE]) :]
            except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                return
            except OSError as error:  # ssl.SSLError among them
                self.lost(error)

    def pull(self, enough: Callable[[], bool]) -> None:
        """Receive the bytes that have arrived, until ``enough()`` is true."""
        while not enough():
            try:
                piece = self.socket.recv(_PIECE)
            except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                return
            except ssl.SSLError as error:
                if "ALERT" in str(error).upper():
                    raise PartyError(f"{self.who} refuses this party's certificate: {error}") from None
                self.lost("the connection ended")
            except OSError as error:
                self.lost(error)
            if not piece:
                self.lost("the connection ended")
            self.received += piece

    def close(self) -> None:
        self.socket.close()


def transfer(links: list[PeerLink], complete: Callable[[PeerLink], bool], timeout: float) -> None:
    """Send all unsent bytes, and receive until each link is complete.

    Raise PartyError after ``timeout`` seconds without progress.
    """
    while True:
        for link in links:
            link.push()
            link.pull(lambda: complete(link))
        waiting = [link for link in links if link.unsent or not complete(link)]
        if not waiting:
            return
        readers = [link.socket for link in waiting if not complete(link)]
        writers = [link.socket for link in waiting if link.unsent]
        if not any(select.select(readers, writers, [], timeout)):
            raise PartyError(f"{waiting[0].who} has sent and taken nothing for {timeout:g} s")


def frame(digest: bytes, label: str, message: bytes) -> bytes:
    """Return a message with its label and the digest of the program that led to it."""
    text = label.encode()
    return _HEADER.pack(digest, len(text), len(message)) + text + message


def exchange(links: list[PeerLink], digest: bytes, label: str, message: bytes, timeout: float) -> list[bytes]:
    """Send a message to all peers, and return their messages, which belong to the same step of the same program."""
    whole = frame(digest, label, message)
    for link in links:
        link.unsent = memoryview(whole)

    def complete(link: PeerLink) -> bool:
        if len(link.received) < _HEADER.size:
            return False
        theirs, n, length = _HEADER.unpack_from(link.received)
        text = bytes(link.received[_HEADER.size : _HEADER.size + n])
        if (theirs, length) != (digest, len(message)):
            if len(text) < n:
                return False
            there = text.decode(errors="replace")
            if (there, length) == (label, len(message)):
                what = f"an operator, a shape or a public constant before {label!r} is not the same"
            else:
                what = f"{label!r} with {len(message)} bytes here, {there!r} with {length} bytes there"
            raise PartyError(f"{link.who} runs another program: {what}. Nothing further is computed")
        return len(link.received) >= len(whole)

    transfer(links, complete, timeout)
    found = []
    for link in links:
        found.append(bytes(link.received[len(whole) - len(message) : len(whole)]))
        del link.received[: len(whole)]
    return found


# ---------------------------------------------------------------- plain frames: greetings and requests


def send(link: PeerLink, value: bytes, timeout: float) -> None:
    """Send a message of any length."""
    link.unsent = memoryview(struct.pack("!Q", len(value)) + value)
    transfer([link], lambda _: True, timeout)


def receive(link: PeerLink, longest: int, timeout: float) -> bytes:
    """Receive a message of at most ``longest`` bytes."""

    def complete(link: PeerLink) -> bool:
        if len(link.received) < 8:
            return False
        (n,) = struct.unpack_from("!Q", link.received)
        if n > longest:
            raise PartyError(f"{link.who} sends {n} bytes where at most {longest} belong")
        return len(link.received) >= 8 + n

    transfer([link], complete, timeout)
    (n,) = struct.unpack_from("!Q", link.received)
    message = bytes(link.received[8 : 8 + n])
    del link.received[: 8 + n]
    return message


def send_json(link: PeerLink, value: Any, timeout: float) -> None:
    send(link, json.dumps(value).encode(), timeout)


def receive_json(link: PeerLink, timeout: float, longest: int = _LONGEST_HELLO) -> Any:
    """Receive a short JSON value; raise PartyError for anything else."""
    try:
        return json.loads(receive(link, longest, timeout))
    except ValueError:
        raise PartyError(f"{link.who} sends what is not JSON") from None


# ---------------------------------------------------------------- connecting


def dial(peer: Party, who: str, tls: ssl.SSLContext, deadline: float) -> PeerLink:
    """Connect to a peer, with repeated attempts until the deadline.

    Raise PartyError if the peer does not answer, or has another identity.
    """
    while True:
        left = deadline - time.monotonic()
        try:
            raw = socket.create_connection(peer.where, timeout=max(left, 0.1))
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return _checked(tls.wrap_socket(raw), peer, who)
        except ssl.SSLCertVerificationError as error:
            raise PartyError(
                f"{who} shows another certificate than {peer.certificate}: {error.verify_message}"
            ) from None
        except (OSError, ssl.SSLError) as error:
            if time.monotonic() >= deadline:
                raise PartyError(f"{who} is missing: no answer in time ({error})") from None
        time.sleep(0.1)


def _checked(sock: ssl.SSLSocket, peer: Party, who: str) -> PeerLink:
    if sock.getpeercert(binary_form=True) != peer.der():
        sock.close()
        raise PartyError(f"{who} shows another certificate than {peer.certificate}")
    return PeerLink(sock, who)


def listener(me: Party) -> socket.socket:
    """Return a socket that listens at a party's address."""
    host, port = me.where
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host.strip("[]"), port), family=family)


def accept(
    server: socket.socket,
    tls: ssl.SSLContext,
    expected: dict[int, Party],
    timeout: float,
    first: float | None = None,
    greet: Callable[[PeerLink], None] = lambda link: None,
) -> dict[int, PeerLink]:
    """Wait for a connection from each expected party; connections with other certificates are refused.

    ``greet`` is called with each link as soon as it is connected. The parties have ``timeout`` seconds. With ``first``,
    the first party has that many seconds, and the others have ``timeout`` seconds after it.
    """
    deadline = time.monotonic() + (timeout if first is None else first)
    found: dict[int, PeerLink] = {}
    refused = ""
    certificates = {party.der(): rank for rank, party in expected.items()}
    while len(found) < len(expected):
        server.settimeout(max(deadline - time.monotonic(), 0.01))
        try:
            raw, address = server.accept()
        except TimeoutError:
            names = ", ".join(
                f"party {r} ({p.address or p.certificate})" for r, p in expected.items() if r not in found
            )
            also = f"; turned away: {refused}" if refused else ""
            raise PartyError(f"{names} did not connect in time{also}") from None
        try:
            raw.settimeout(max(deadline - time.monotonic(), 0.01))
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock = tls.wrap_socket(raw, server_side=True)
            rank = certificates[sock.getpeercert(binary_form=True) or b""]
        except (OSError, ssl.SSLError, KeyError) as error:
            refused = f"{address[0]}, {error}"
            raw.close()
            continue
        if rank in found:
            found[rank].close()  # the party has connected again
        if first is not None and not found:
            deadline = time.monotonic() + timeout
        name = f"party {rank}" + (f" ({expected[rank].address})" if expected[rank].address else "")
        found[rank] = PeerLink(sock, name)
        greet(found[rank])
    return found
