"""The remote tensor as a backend: calls each overload on handles; the server runs in this process or its own."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

import torchnp
from torchnp import rpc

from ..case import Array, Case, Named, Seeded, leaves, map_tree, window
from ..schema_facts import resizable_buffers
from .backend import Seen, error_of, structure_of
from .torch_backend import TorchDevice, dtype_of_number, gives_dtype, overload_of, to_array, window_of

TRANSPORTS: dict[str, tuple[str, ...]] = {"local": (), "tcp": (), "tls": (), "grpc": ("--grpc",), "grpcs": ("--grpc",)}
ENCRYPTED = ("tls", "grpcs")
# A holder process keeps the server. It ends the server when its stdin closes, which happens when this process ends,
# even if this process is killed.
_HOLDER = """import subprocess, sys
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
sys.stdin.read()
server.terminate()
server.wait()
"""
# torch's messages if its argument parser expects a number and gets a handle, or if its code reads a handle's memory.
_READ = ("but instead found type 'RPCTensor'", "has a non-zero number of elements, but its data is not allocated yet")


class ServerProcess:
    """A server process on a free loopback port. It ends when this process ends, even if this process is killed."""

    def __init__(self, *options: str) -> None:
        command = [sys.executable, "-W", "ignore", "-m", "torchnp.rpc.server", "--log-level", "ERROR", *options]
        self.holder = subprocess.Popen(
            [sys.executable, "-c", _HOLDER, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.holder.stdout is not None
        line = self.holder.stdout.readline()
        if not line.startswith("listening on "):
            raise RuntimeError(f"the server did not start: {line}")
        self.address = line.split('"')[1]

    def close(self) -> None:
        """End the server."""
        self.holder.communicate()


class Certificates:
    """A loopback certificate from a new CA, in temporary files that are deleted with this object."""

    def __init__(self) -> None:
        import trustme

        self.directory = tempfile.TemporaryDirectory()
        authority, where = trustme.CA(), Path(self.directory.name)
        self.ca, cert, key = (where / f"{name}.pem" for name in ("ca", "cert", "key"))
        issued = authority.issue_cert("127.0.0.1", "localhost")
        authority.cert_pem.write_to_path(self.ca)
        issued.cert_chain_pems[0].write_to_path(cert)
        issued.private_key_pem.write_to_path(key)
        self.options = ("--tls-cert", str(cert), "--tls-key", str(key))


class Remote(TorchDevice):
    """Calls on handles of one session: each buffer of a case is a 1-d tensor, and each array argument a view of it.

    The backend finds aliasing by experiment: it inverts the bytes of an argument's memory on the server, and then
    publishes the results again. A result that has changed lies in that memory.
    """

    in_this_process = False

    def __init__(self, transport: str) -> None:
        super().__init__("cpu")
        self.transport, self.name, self.ops = transport, f"remote-{transport}", torchnp.table.keys()
        self._session: rpc.Session | None = None

    @cached_property
    def server(self) -> ServerProcess:
        return ServerProcess(*TRANSPORTS[self.transport], *(self.certificates.options if self.certificates else ()))

    @cached_property
    def certificates(self) -> Certificates | None:
        return Certificates() if self.transport in ENCRYPTED else None

    @property
    def session(self) -> rpc.Session:
        """This process's session; a new session or server is started if the old one has ended."""
        if self._session is not None and self._session.over:
            self.close()
        if self._session is None:
            try:
                self._session = self._connected()
            except rpc.ConnectionLost:
                self.server.close()
                del self.server
                self._session = self._connected()
        return self._session

    def _connected(self) -> rpc.Session:
        if self.transport == "local":
            return rpc.local()
        return rpc.connect(self.server.address, reconnect=0, ca=self.certificates.ca if self.certificates else None)

    def close(self) -> None:
        """Close the session; the next call opens a new one."""
        session, self._session = self._session, None
        if session is not None:
            with suppress(rpc.RPCError, rpc.RemoteOpError):
                session.close()

    def exempt(self, case: Case) -> str:
        return super().exempt(case) if case.arrays() else "without a tensor nothing is sent to a server"

    def refuses(self, error: Exception) -> str:
        if isinstance(error, rpc.RPCError):
            return error.reason
        if isinstance(error, RuntimeError) and any(words in str(error) for words in _READ):
            return rpc.ValueAccessError("").reason
        return getattr(error, "reason", "")  # an operator without a torchnp kernel raises an error with this attribute

    def _execute(self, case: Case) -> Seen:
        start = time.perf_counter()
        try:
            seen = self._executed(case)
        except Exception as e:
            seen = Seen(error=told(e), refused=self.refuses(e), seconds=time.perf_counter() - start)
        self._settle()
        return seen

    def _executed(self, case: Case) -> Seen:
        session = self.session
        # Booleans are sent as bytes: a case may hold bytes other than 0 and 1, which a session would turn into 1.
        memory = [session.send(v.view(torch.uint8) if v.dtype == torch.bool else v) for v in self.moved(case)]
        mine: list[Any] = []

        def leaf(x: Any) -> Any:
            if type(x) is Array:
                mine.append(window_of(memory[x.buffer], x).data)  # ``.data``: for autograd this is not a view
                return mine[-1]
            if type(x) is Named:
                return self.named(x)
            return torch.Generator().manual_seed(x.seed) if type(x) is Seeded else x

        torch.default_generator.manual_seed(case.seed)
        with torch.no_grad():
            args, kwargs = map_tree(leaf, case.args), map_tree(leaf, case.kwargs)
            start = time.perf_counter()
            out = overload_of(case.op)(*args, **kwargs)
            session.sync()
            if gives_dtype(case.op):
                out = dtype_of_number(out)
            seen = Seen(structure=structure_of(out), seconds=time.perf_counter() - start)
            results = list(leaves(out))
            seen.results = [got(r) for r in results]
            seen.strides = [tuple(r.stride()) if isinstance(r, torch.Tensor) else None for r in results]
            seen.after = [got(x) for x in mine]
            seen.buffers = [bytes_of(m, b) for m, b in zip(memory, case.buffers, strict=True)]
            seen.alias = found_places(results, seen.results, memory, case)
            for i, r in enumerate(results):
                seen.alias[i] = seen.alias[i] or resized_place(r, mine, case)
        return seen

    def _settle(self) -> None:
        """Receive and discard pending failures, so that the next call does not raise them."""
        if self._session is not None and not self._session.over:
            try:
                self._session.sync()
            except rpc.RemoteOpError:
                pass
            except rpc.RPCError:
                self.close()


def told(e: Exception) -> tuple[str, str]:
    """Return the class and message of an error; if the server failed, those of the error that the kernel raised."""
    name, text = error_of(e)
    if isinstance(e, rpc.RemoteOpError):
        return type(e).__bases__[-1].__name__.lstrip("_"), e.remote_text
    return name, text


def got(x: Any) -> Any:
    """Return the values of a handle."""
    if not isinstance(x, torch.Tensor):
        return x
    # A composite operator may return a plain tensor if its result does not depend on values.
    return to_array(x.publish() if isinstance(x, rpc.RPCTensor) else x)


def bytes_of(memory: Any, before: np.ndarray) -> np.ndarray:
    """Return a buffer's current bytes.

    If the last element is incomplete, it was never sent, and its bytes come from ``before``.
    """
    held = np.ascontiguousarray(got(memory)).reshape(-1).view(np.uint8)
    return np.concatenate([held, before[held.size :]])


def found_places(results: list[Any], values: list[Any], memory: list[Any], case: Case) -> list[Any]:
    """Return the window of each result on the case's memory; this overwrites that memory."""
    places: list[Any] = [None] * len(results)
    left = [i for i, r in enumerate(results) if isinstance(r, torch.Tensor) and r.numel()]
    for b, m in enumerate(memory):
        if not m.numel() or not left:
            continue
        m.view(torch.uint8).bitwise_not_()
        held = bytes_of(m, case.buffers[b])
        for i in left:
            now = got(results[i])
            if now.tobytes() != values[i].tobytes():
                places[i] = place_of(results[i], now, b, held)
        left = [i for i in left if places[i] is None]
    return places


def resized_place(result: Any, mine: list[Any], case: Case) -> Any:
    """Return the window of a result that is itself a resizable argument, or None if it is not."""
    for x, a in zip(mine, case.arrays(), strict=True):
        if result is x and x.numel() and a.buffer in resizable_buffers(case):
            return (a.buffer, 0, tuple(s * x.element_size() for s in x.stride()))
    return None


def place_of(result: Any, now: np.ndarray, buffer: int, held: np.ndarray) -> Any:
    """Return the window that a handle reports, with offset -1 if the bytes there are not the handle's values."""
    if result.is_conj() or result.is_neg():
        return ...
    size = now.dtype.itemsize
    strides = tuple(s * size for s in result.stride())
    offset = result.storage_offset() * size
    end = offset + sum((n - 1) * s for n, s in zip(now.shape, strides, strict=True)) + size
    there = end <= held.size and window(held, now.dtype, now.shape, strides, offset).tobytes() == now.tobytes()
    return (buffer, offset if there else -1, strides)


def remote(transport: str) -> Remote:
    """Return the backend of remote tensors over a transport: ``local``, ``tcp``, ``tls``, ``grpc`` or ``grpcs``.

    Raises
    ------
    ValueError
        There is no such transport.
    """
    if transport not in TRANSPORTS:
        raise ValueError(f"no transport {transport!r}: {', '.join(TRANSPORTS)}")
    return Remote(transport)
