"""The settings of a server, one row for each; the command line and server.toml both use these rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torchnp.rpc.server.config.limits import Limits

MAX_CLIENTS = 64
BUCKET = 0.005  # seconds; replies about private data are sent at multiples of this time
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
FORMATS = ("text", "json")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class SettingKind(NamedTuple):
    """The type of a setting: how a value is parsed and described.

    Parameters
    ----------
    words : str
        The allowed values, as error messages list them after the word "write".
    read : callable
        Converts a value from server.toml, or an option's text after `from_text`. Raises ValueError or TypeError if the
        value is invalid.
    metavar : str
        Placeholder in the command line's help.
    numbers : bool
        Whether an option's text is parsed as a number.
    """

    words: str
    read: Callable[[Any], Any]
    metavar: str
    numbers: bool = False

    def from_text(self, text: Any) -> Any:
        """Convert an option's text (or list of texts) to the value that server.toml would have."""
        if not self.numbers or not isinstance(text, str):
            return text
        for number in (int, float):
            try:
                return number(text)
            except ValueError:
                continue
        return text


def _number(value: Any, low: float, high: float, kinds: tuple[type, ...] = (int, float)) -> Any:
    if type(value) not in kinds or not low <= value <= high:
        raise ValueError
    return value


def _bytes(value: Any) -> int:
    """Parse a byte count: 4096, ``"512M"``, ``"4G"``, ``"4GiB"``."""
    if isinstance(value, str):
        number = value.upper().removesuffix("IB").removesuffix("B")
        unit = number[-1:] if number[-1:] in _UNITS else ""
        value = int(float(number.removesuffix(unit)) * _UNITS[unit])
    return _number(value, 1, 2**62, (int,))


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise ValueError
    return tuple(map(_text, value))


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _choice(choices: tuple[str, ...]) -> SettingKind:
    def read(value: Any) -> str:
        return next(c for c in choices if c.lower() == value.lower())

    return SettingKind(" or ".join((", ".join(choices[:-1]), choices[-1])), read, "NAME")


def _address(value: Any) -> tuple[str, int]:
    host, colon, port = str(value).rpartition(":")
    number = int(port) if isinstance(value, str) and port.isdecimal() else value
    if bool(colon) != bool(host):
        raise ValueError
    return host.strip("[]") or "127.0.0.1", _number(number, 0, 65535, (int,))


BYTES = SettingKind('a number of bytes, at least 1: 4096, "512M" or "4G"', _bytes, "BYTES")
COUNT = SettingKind("a whole number of at least 1", lambda v: _number(v, 1, 2**62, (int,)), "N", True)
LEASE = SettingKind("a number of seconds from 0 on", lambda v: _number(v, 0, 1e8 - 1), "S", True)
SECONDS = SettingKind("a number of seconds above 0", lambda v: _number(v, 1e-9, 1e8), "S", True)
BUCKETS = SettingKind("a number of milliseconds from 0 to 10000", lambda v: _number(v, 0, 1e4), "MS", True)
PORT = SettingKind("a port from 1 to 65535, or 0 for a free one", lambda v: _number(v, 0, 65535, (int,)), "PORT", True)
ADDRESS = SettingKind('a port from 1 to 65535, 0 for a free one, or "HOST:PORT"', _address, "[HOST:]PORT")
TEXT = SettingKind("a text that is not empty", _text, "TEXT")
FILE = SettingKind("the name of a file", _text, "FILE")
FLAG = SettingKind("true or false", _flag, "BOOL")
TEXTS = SettingKind("a list of texts that is not empty", _texts, "NAMES")
PATTERNS = SettingKind('a list of operators or patterns of them: ["aten::mm", "aten::add*"]', _texts, "PATTERN")

NAMESPACES = SettingKind('a list of libraries: ["torchvision"]', _texts, "NAME")


class Setting(NamedTuple):
    """One setting of a server.

    Parameters
    ----------
    name : str
        The key in server.toml. The command-line option has ``-`` instead of ``_``.
    kind : SettingKind
        The type of its values.
    default : object
        The value if the setting is not given.
    help : str
        Help text.
    shown : str
        The default as the help text shows it, if it shows something else than the value.
    of_token : bool
        Whether the settings of a token may override it.
    """

    name: str
    kind: SettingKind
    default: Any
    help: str
    shown: str = ""
    of_token: bool = False


_L = Limits()
SETTINGS = (
    Setting("host", TEXT, "127.0.0.1", "address to listen on"),
    Setting("port", PORT, 7077, "port; 0 picks a free one"),
    Setting("token_file", FILE, None, "read the one token of all clients from a file", "none"),
    Setting("ledger", FILE, None, "the privacy budgets of the datasets: see torchnp owner", "none"),
    Setting("tls_cert", FILE, None, "the server's certificate (PEM): everything is encrypted", "none"),
    Setting("tls_key", FILE, None, "the certificate's key (PEM)", "none"),
    Setting("tls_client_ca", FILE, None, "let in only clients with a certificate of these authorities (PEM)", "none"),
    Setting("grpc", FLAG, False, "speak gRPC in place of plain TCP or TLS", "no"),
    Setting("max_bytes", BYTES, _L.max_bytes, "what one session may hold", "4G", of_token=True),
    Setting("max_objects", COUNT, _L.max_objects, "tensors that one session may hold", of_token=True),
    Setting(
        "max_memory", BYTES, None,
        "what all sessions may hold together, and the address space of each; an operator that needs more fails, and the "
        "server goes on", "this machine's memory",
    ),
    Setting("op_seconds", SECONDS, _L.op_seconds, "the session of an operator that takes longer ends", of_token=True),
    Setting("idle_seconds", SECONDS, _L.idle_seconds, "a session that sends nothing for so long ends", of_token=True),
    Setting(
        "lease_seconds", LEASE, _L.lease_seconds,
        "a session whose connection was lost can be resumed for so long; 0 for not at all", of_token=True,
    ),
    Setting(
        "cpu_seconds", SECONDS, _L.cpu_seconds, "a session that takes so much of a processor in all ends", "no limit",
        of_token=True,
    ),
    Setting(
        "bucket_ms", BUCKETS, BUCKET * 1e3,
        "replies to what met a dataset come at multiples of this time; 0 for at once",
    ),
    Setting("max_clients", COUNT, MAX_CLIENTS, "sessions at a time", of_token=True),
    Setting(
        "allow", PATTERNS, None, "an operator, or a pattern of operators, that clients may use; all others are refused",
        "all", of_token=True,
    ),
    Setting("libraries", NAMESPACES, None, "another library whose operators clients may use, such as torchvision", "none"),
    Setting("log_level", _choice(LEVELS), "INFO", "what is logged: DEBUG, INFO, WARNING or ERROR"),
    Setting("log_format", _choice(FORMATS), "text", "how it is logged: text, or json for an object a line"),
    Setting("metrics", ADDRESS, None, "where Prometheus finds counts, at /metrics: a port of loopback, or HOST:PORT", "nowhere"),
)  # fmt: skip


def read(kind: SettingKind, value: Any, where: str) -> Any:
    """Parse a value that the owner has written.

    Raises
    ------
    ValueError
        The value is invalid. The message says where it was written and what is allowed.
    """
    try:
        return kind.read(value)
    except (ValueError, TypeError, AttributeError, OverflowError, StopIteration):
        raise ValueError(f"{where}: write {kind.words}") from None
