"""A connection over gRPC: one bidirectional streaming call."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc

from torchnp.rpc import wire
from torchnp.rpc.exceptions import AuthenticationError, ConnectionLost, ProtocolError, RPCError

LINGER_SECONDS = 1.0  # time that the server has to end the call
_OPTIONS = [
    ("grpc.max_receive_message_length", wire.MAX_MESSAGE),
    # Frames are not compressed, and old releases of gRPC unpack a message before they look at its length.
    ("grpc.per_message_decompression", 0),
    ("grpc.compression_enabled_algorithms_bitset", 1),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),  # a server that does not answer a ping in this time counts as lost
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.use_local_subchannel_pool", 1),  # no shared connections, so that a new one is made after a loss
]


def credentials(ca: str | Path | None, cert: str | Path | None, key: str | Path | None) -> grpc.ChannelCredentials:
    """Return the credentials in checked PEM files: trusted authorities, and the client's certificate with its key."""
    read = [None if path is None else Path(path).read_bytes() for path in (ca, key, cert)]
    return grpc.ssl_channel_credentials(*read)


class Grpc:
    """A message stream over one gRPC call.

    Parameters
    ----------
    host, port : str, int
    trust : ChannelCredentials, optional
        Credentials; without them nothing is encrypted.
    token : str, optional
        Sent in the call's metadata.
    """

    def __init__(
        self, host: str, port: int, trust: grpc.ChannelCredentials | None = None, token: str | None = None
    ) -> None:
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.name = f"{'grpc' if trust is None else 'grpcs'}://{where}"
        self.bytes_sent = self.bytes_received = 0
        self._pid = os.getpid()
        self._left = False
        self._waiting, self._room = 0, threading.Condition()  # bytes not yet asked for
        self._out: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._replies: queue.SimpleQueue[bytes | RPCError] = queue.SimpleQueue()
        self._lost: RPCError | None = None
        self._ended = threading.Event()
        if trust is None:
            self._channel = grpc.insecure_channel(where, _OPTIONS)
        else:
            self._channel = grpc.secure_channel(where, trust, _OPTIONS)
        metadata = () if token is None else (("authorization", f"Bearer {token}"),)
        method = self._channel.stream_stream(f"/{wire.GRPC_SERVICE}/Session")
        self._call: Any = method(self._messages(), metadata=metadata)
        threading.Thread(target=self._read, name="torchnp-rpc-grpc", daemon=True).start()

    def _messages(self) -> Iterator[bytes]:
        while (message := self._out.get()) is not None:
            yield message
            self.bytes_sent += len(message)

    def _read(self) -> None:
        """Read messages, at most about a window ahead of `receive`; the rest waits on the server."""
        try:
            for message in self._call:
                if self._left:
                    continue
                self._replies.put(message)
                with self._room:
                    self._waiting += len(message)
                    self._room.wait_for(lambda: self._waiting <= wire.WINDOW or self._left)
            self._replies.put(ConnectionLost(self._words("the server closed it")))
        except grpc.RpcError:
            self._replies.put(self._why(self._call.code(), self._call.details() or ""))
        finally:
            self._out.put(None)
            self._ended.set()

    def _words(self, why: str) -> str:
        return f"the connection to {self.name} is lost ({why}); its handles have no values any more"

    def _why(self, code: grpc.StatusCode, details: str) -> RPCError:
        """Return the exception for the way in which a call ended."""
        if "CERTIFICATE_VERIFY_FAILED" in details or "peer certificate" in details:
            return AuthenticationError(
                f"the certificate of {self.name} is not trusted: {details}. Name the authority that signed it with "
                "rpc.connect(..., ca=FILE), and the host that it is for in the address"
            )
        if "WRONG_VERSION_NUMBER" in details:
            return ProtocolError(f"{self.name} does not speak TLS: connect to {self.name.replace('grpcs', 'grpc')}")
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return ProtocolError(f"{self.name} is a server of gRPC, and none of torchnp's")
        if code is grpc.StatusCode.UNAVAILABLE and not self.bytes_received:
            return ConnectionLost(f"no server of gRPC answers at {self.name}: {details}")
        return ConnectionLost(self._words(details or code.name))

    def send(self, messages: list[bytes]) -> None:
        if self._lost is not None or self._left:
            raise self._lost or ConnectionLost(self._words("the session is closed"))
        for message in messages:
            self._out.put(message)

    def receive(self, timeout: float | None) -> bytes | None:
        if self._lost is not None:
            raise self._lost
        try:
            reply = self._replies.get(timeout is None or timeout > 0, timeout or None)
        except queue.Empty:
            return None
        if isinstance(reply, RPCError):
            self._lost = reply
            raise reply
        self.bytes_received += len(reply)
        with self._room:
            self._waiting -= len(reply)
            self._room.notify()
        return reply

    def leave(self, last: bytes) -> None:
        with self._room:
            self._left = True
            self._room.notify()
        self._out.put(last)
        self._out.put(None)
        self._replies.put(ConnectionLost(self._words("the session is closed")))

    def close(self) -> None:
        if self._pid != os.getpid():  # after a fork, gRPC's threads exist only in the parent
            return
        if self._left:
            self._ended.wait(LINGER_SECONDS)
        with self._room:
            self._left = True  # nobody waits for more messages
            self._room.notify()
        with contextlib.suppress(ValueError):
            self._call.cancel()
            self._channel.close()
