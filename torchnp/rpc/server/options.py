"""The command line of a server: its options, read without starting anything."""

from __future__ import annotations

import argparse
import logging
import os
from pathlib import Path
from typing import Any

import numpy as np

from torchnp.rpc.server.books import Limits

MAX_CLIENTS = 64
BUCKET = 0.005  # seconds
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def byte_count(text: str) -> int:
    """A number of bytes as people write it: ``4096``, ``512M``, ``4G``, ``4GiB``."""
    number = text.upper().removesuffix("IB").removesuffix("B")
    unit = number[-1:] if number[-1:] in _UNITS else ""
    try:
        count = int(float(number.removesuffix(unit)) * _UNITS[unit])
    except (ValueError, OverflowError):
        count = -1
    if count < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of bytes: write 4096, 512M or 4G")
    return count


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no count")
    return int(text)


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number < 1e8:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return number


def _seconds_or_none(text: str) -> float:
    return 0.0 if text == "0" else _seconds(text)


def add_options(parser: argparse.ArgumentParser, port: int) -> None:
    """Give a parser the options of a server, with a default port."""
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    add("--port", type=int, default=port, help="port; 0 picks a free one (default: %(default)s)")
    add("--token", help="clients must present it; needed beyond loopback (default: $TORCHNP_TOKEN)")
    add("--token-file", metavar="FILE", help="read the token from a file, which other users of the machine cannot see")
    add(
        "--dataset",
        action="append",
        default=[],
        metavar="NAME=FILE.npy",
        help="an array that clients compute with and cannot read; may be repeated",
    )
    add("--ledger", metavar="FILE", help="the privacy budgets of the datasets: see torchnp owner (default: none)")
    add("--tls-cert", metavar="FILE", help="the server's certificate (PEM): everything is encrypted")
    add("--tls-key", metavar="FILE", help="the certificate's key (PEM)")
    add("--tls-client-ca", metavar="FILE", help="let in only clients with a certificate of these authorities (PEM)")
    add("--grpc", action="store_true", help="speak gRPC in place of plain TCP or TLS")
    _add_limits(parser)


def _add_limits(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--max-bytes",
        type=byte_count,
        default=Limits().max_bytes,
        metavar="BYTES",
        help="what one session may hold: 4096, 512M, 4G (default: 4G)",
    )
    add(
        "--max-objects",
        type=_count,
        default=Limits().max_objects,
        metavar="N",
        help="tensors that one session may hold (default: %(default)s)",
    )
    add(
        "--max-memory",
        type=byte_count,
        metavar="BYTES",
        help="what all sessions may hold together, and the address space of each; an operator that needs more fails, and "
        "the server goes on (default: this machine's memory)",
    )
    add(
        "--op-seconds",
        type=_seconds,
        default=Limits().op_seconds,
        metavar="S",
        help="the session of an operator that takes longer ends (default: %(default)g)",
    )
    add(
        "--idle-seconds",
        type=_seconds,
        default=Limits().idle_seconds,
        metavar="S",
        help="a session that sends nothing for so long ends (default: %(default)g)",
    )
    add(
        "--lease-seconds",
        type=_seconds_or_none,
        default=Limits().lease_seconds,
        metavar="S",
        help="a session whose connection was lost can be resumed for so long (default: %(default)g)",
    )
    add(
        "--bucket-ms",
        type=_seconds_or_none,
        default=BUCKET * 1e3,
        metavar="MS",
        help="replies to what met a dataset come at multiples of this time; 0 for at once (default: %(default)g)",
    )
    add(
        "--max-clients",
        type=_count,
        default=MAX_CLIENTS,
        metavar="N",
        help="sessions at a time (default: %(default)s)",
    )
    add(
        "--log-level",
        type=str.upper,
        default="INFO",
        choices=["DEBUG", "INFO", "WARNING", "ERROR"],
        help="what the server logs (default: %(default)s)",
    )


def read_options(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of `torchnp.rpc.server.tcp.serve` that the options stand for.

    Raises
    ------
    ValueError
        An option says what cannot be; the message is for its user.
    """
    return {
        "host": options.host,
        "port": options.port,
        "token": _token(options),
        "datasets": _datasets(options.dataset),
        "ledger": options.ledger,
        "limits": Limits(
            options.max_bytes, options.max_objects, options.op_seconds, options.idle_seconds, options.lease_seconds
        ),
        "max_clients": options.max_clients,
        "bucket": options.bucket_ms / 1e3,
        "tls_cert": options.tls_cert,
        "tls_key": options.tls_key,
        "tls_client_ca": options.tls_client_ca,
        "grpc": options.grpc,
        "max_memory": _this_machines() if options.max_memory is None else options.max_memory,
    }


def _token(options: argparse.Namespace) -> str | None:
    if options.token is not None and options.token_file is not None:
        raise ValueError("give --token or --token-file, not both")
    if options.token_file is None:
        return options.token if options.token is not None else os.environ.get("TORCHNP_TOKEN")
    try:
        token = Path(options.token_file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"--token-file {options.token_file}: {getattr(error, 'strerror', None) or error}") from None
    if not token:
        raise ValueError(f"--token-file {options.token_file} is empty")
    return token


def _datasets(texts: list[str]) -> dict[str, Any]:
    datasets: dict[str, Any] = {}
    for text in texts:
        name, _, path = text.partition("=")
        if not name or not path:
            raise ValueError(f"--dataset {text}: write NAME=FILE.npy")
        if name in datasets:
            raise ValueError(f"--dataset {text}: there are two of the name {name!r}")
        try:
            array = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            why = getattr(error, "strerror", None) or "this is no .npy file of numbers"
            raise ValueError(f"--dataset {text}: {why}") from None
        if not isinstance(array, np.ndarray):
            raise ValueError(f"--dataset {text}: write one .npy file for each array")
        # A file may be of a machine with the other byte order.
        datasets[name] = array.astype(array.dtype.newbyteorder("="), copy=False)
    return datasets


def _this_machines() -> int | None:
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    return max(memory, taken() + 2 * HEADROOM)  # a process may have more address space than a small machine has memory


# Address space that a server needs to serve anybody: its threads, and the libraries that kernels load when they need them.
HEADROOM = 512 << 20


def taken() -> int:
    """Bytes of address space that this process has; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0


def limit_memory(limit: int) -> None:
    """Bound the address space of this process, where the system can.

    Without a bound a huge allocation succeeds on paper, and the system kills the process when it is used.

    Raises
    ------
    ValueError
        So little would be left that no client could be served.
    """
    least = taken() + HEADROOM
    if limit < least:
        raise ValueError(
            f"max_memory of {limit >> 20:,} MiB is too little: the server takes {taken() >> 20:,} MiB of address space "
            f"before anybody uses it, so give it at least {-(-least >> 20):,} MiB"
        )
    try:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        least = min(n for n in (limit, soft, hard) if n >= 0)  # no limit is a number below 0
        resource.setrlimit(resource.RLIMIT_AS, (least, hard))
    except (ImportError, AttributeError, ValueError, OSError) as error:
        logging.getLogger("torchnp.rpc").warning("the server's memory is not bounded: %s", error)
