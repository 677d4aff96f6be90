"""Servers for the tests of the remote tensor."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from torchnp import rpc
from torchnp.tests.rpc.certificates import Authority

TRANSPORTS = ("local", "tls", "grpc")


@contextlib.contextmanager
def process(*options: str) -> Iterator[tuple[str, subprocess.Popen]]:
    """Start a server process on a free port; return its address, and the process."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torchnp.rpc.server", *options]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        line = server.stdout.readline()
        assert line.startswith("listening on "), line + server.stderr.read()
        yield line.split('"')[1], server
    finally:
        server.terminate()
        server.communicate(timeout=20)


def until(test: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait until another thread or process makes a condition true."""
    end = time.monotonic() + seconds
    while not test():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, and their descendants."""
    found = []
    for child in map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
        found += [child, *descendants(child)]
    return found


def resident(pid: int) -> int:
    """Return the bytes of a process that are in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


_shared: dict[str, dict] = {}
_stack = contextlib.ExitStack()


def session(transport: str) -> rpc.Session:
    """Return a new session, in process or with the server that all tests of this process share."""
    if transport == "local":
        return rpc.local()
    if transport not in _shared:
        authority = Authority(Path(_stack.enter_context(tempfile.TemporaryDirectory())), "shared")
        cert, key = map(str, authority.issued("127.0.0.1"))
        options = ["--tls-cert", cert, "--tls-key", key] + ["--grpc"] * (transport == "grpc")
        where, _ = _stack.enter_context(process(*options))
        _shared[transport] = {"address": where, "ca": authority.ca}
    return rpc.connect(**_shared[transport])


def stop() -> None:
    """Stop the shared servers."""
    _shared.clear()
    _stack.close()
