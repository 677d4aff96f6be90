"""Convert an owner's server.toml, command line and environment to the arguments of `serve`."""

from __future__ import annotations

import argparse
import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from torchnp.core.named_file_option import named_files
from torchnp.rpc.server.config import datasets
from torchnp.rpc.server.config.limits import Limits
from torchnp.rpc.server.config.settings import FILE, FLAG, SETTINGS, TEXT, TEXTS, Setting, read
from torchnp.rpc.server.config.tokens import ANYBODY, Token, everybodys
from torchnp.rpc.server.monitoring.event_log import configure
from torchnp.rpc.server.monitoring.metrics import check_installed
from torchnp.rpc.server.monitoring.rlimits import this_machines
from torchnp.rpc.server.privacy.row_labels import dataset_of

# The settings of a token: those that only tokens have, and those of the server that a token may override.
_OF_TOKEN = (
    Setting("hash", TEXT, None, ""),
    Setting("certificate", TEXT, None, ""),
    Setting("datasets", TEXTS, None, ""),
    Setting("release", FLAG, True, ""),
    *(row for row in SETTINGS if row.of_token),
)
MAX_CONFIG = 1 << 20  # largest server.toml in bytes
_LIMITS = ("max_bytes", "max_objects", "op_seconds", "idle_seconds", "lease_seconds", "cpu_seconds")


def serve_with(options: argparse.Namespace) -> None:
    """Serve according to the command-line options, until SIGINT or SIGTERM.

    Raises
    ------
    ValueError
        An option is invalid; the message is written for the user.
    OSError
        The port cannot be bound.
    """
    from torchnp.rpc.server.transports.server import serve

    told = arguments(options)
    if told["metrics"] is not None:
        check_installed()
    configure(told.pop("log_level"), told.pop("log_format"))
    serve(**told, check=options.check, reread=None if options.config is None else lambda: tokens(options))


def arguments(options: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `torchnp.rpc.server.transports.server.serve`. Options override the file.

    Raises
    ------
    ValueError
        A setting is invalid. The message says where it was written and what is allowed.
    """
    said, folder, values = _said(options)
    limits = Limits(*(values[name] for name in _LIMITS))
    found = _datasets(said.get("datasets", {}), options.config, folder, options.dataset or ())
    return {
        "host": values["host"],
        "port": values["port"],
        "token": _token(options, values["token_file"]),
        "tokens": _tokens(said.get("tokens", {}), options.config, limits),
        "datasets": found,
        "ledger": values["ledger"],
        "limits": limits,
        "allow": values["allow"],
        "libraries": values["libraries"],
        "max_clients": values["max_clients"],
        "bucket": values["bucket_ms"] / 1e3,
        "max_memory": this_machines() if values["max_memory"] is None else values["max_memory"],
        "metrics": values["metrics"],
        "tls_cert": values["tls_cert"],
        "tls_key": values["tls_key"],
        "tls_client_ca": values["tls_client_ca"],
        "grpc": values["grpc"],
        "log_level": values["log_level"],
        "log_format": values["log_format"],
    }


def tokens(options: argparse.Namespace) -> list[Token]:
    """Return the current tokens from options and file, including the shared token.

    Raises
    ------
    ValueError
        A setting is invalid. The message says where it was written and what is allowed.
    """
    said, _, values = _said(options)
    one = _token(options, values["token_file"])
    own = _tokens(said.get("tokens", {}), options.config, Limits(*(values[name] for name in _LIMITS)))
    return [*([] if one is None else [everybodys(one)]), *own]


def names_in(file: str) -> tuple[set[str], set[str]]:
    """Return the names of the datasets (as budgets name them) and of the clients in a server.toml.

    Raises
    ------
    ValueError
        The file does not exist or is invalid.
    """
    said, folder = _file(file)
    named = _datasets(said.get("datasets", {}), file, folder, ())
    clients = {t.name for t in _tokens(said.get("tokens", {}), file, Limits())}
    return {dataset_of(name) for name in named}, clients | {ANYBODY}


def _said(options: argparse.Namespace) -> tuple[dict[str, Any], Path, dict[str, Any]]:
    """Return the content of the file, its folder, and the values of all settings."""
    said, folder = ({}, Path()) if options.config is None else _file(options.config)
    values = {row.name: row.default for row in SETTINGS} | {"port": options.default_port}
    values |= _read(said, SETTINGS, options.config, folder, also=("datasets", "tokens"))
    for row in SETTINGS:
        text = getattr(options, row.name)
        if text is not None:
            shown = f"--{row.name.replace('_', '-')} {' '.join(text) if isinstance(text, list) else text}"
            values[row.name] = read(row.kind, row.kind.from_text(text), shown)
    return said, folder, values


def _file(name: str) -> tuple[dict[str, Any], Path]:
    try:
        if (size := Path(name).stat().st_size) > MAX_CONFIG:
            raise ValueError(f"it has {size:,} bytes, more than {MAX_CONFIG:,}")
        return tomllib.loads(Path(name).read_text(encoding="utf-8")), Path(name).parent
    except RecursionError:
        raise ValueError(f"{name}: it is nested too deeply") from None
    except (OSError, ValueError) as error:  # TOMLDecodeError and UnicodeDecodeError are ValueErrors
        raise ValueError(f"{name}: {getattr(error, 'strerror', None) or error}") from None


def _read(
    said: Mapping[str, Any], rows: Iterable[Setting], where: str, folder: Path, also: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the values in a table of server.toml; ``where`` is the table's name in error messages."""
    known = {row.name: row for row in rows}
    values = {}
    for key, value in said.items():
        if key in also:
            continue
        if key not in known:
            raise ValueError(f"{where}: there is no {key}{_instead(key, [*known, *also])}")
        kind = known[key].kind
        values[key] = read(kind, value, f"{where}: {key} = {_toml(value)}")
        if kind is FILE:
            values[key] = str(folder / values[key])
    return values


def _instead(key: str, known: list[str]) -> str:
    if key == "token":
        return "; tokens are kept hashed: `torchnp owner token NAME` makes one, or name a token_file"
    near = difflib.get_close_matches(key.replace("-", "_"), known, 1)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}"


def _toml(value: Any) -> str:
    """Return a value roughly as the file spells it, in one short line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        value = f'"{value}"'
    text = "{...}" if isinstance(value, dict) else str(value)
    return " ".join(text.split()) if len(text) <= 60 else f"{text[:60]}..."


def _token(options: argparse.Namespace, file: str | None) -> str | None:
    """Return the shared token of all clients, from the option, the token file or $TORCHNP_TOKEN."""
    if options.token is not None and options.token_file is not None:
        raise ValueError("give --token or --token-file, not both")
    if options.token is not None:
        return options.token
    if file is None:
        return os.environ.get("TORCHNP_TOKEN")
    where = f"--token-file {file}" if options.token_file is not None else f"{options.config}: token_file {file}"
    try:
        token = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{where}: {getattr(error, 'strerror', None) or error}") from None
    if not token:
        raise ValueError(f"{where} is empty")
    return token


def _tokens(said: Any, config: str, limits: Limits) -> list[Token]:
    if not isinstance(said, dict):
        raise ValueError(f"{config}: tokens = {_toml(said)}: write a table [tokens.NAME] for each")
    made = []
    for name, terms in said.items():
        where = f"{config}: tokens.{name}"
        if not isinstance(terms, dict) or not terms.keys() & {"hash", "certificate"}:
            words = "hash = what `torchnp owner token` printed, or certificate = a name that the client's has"
            raise ValueError(f"{where}: write a table [tokens.{name}] with {words}")
        values = _read(terms, _OF_TOKEN, where, Path())
        own = Limits(*(values.pop(key, getattr(limits, key)) for key in _LIMITS))
        try:
            made.append(Token(name, **values, limits=own))
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
    return made


def _datasets(said: Any, config: str, folder: Path, texts: Iterable[str]) -> dict[str, np.ndarray]:
    """Load the datasets of the file and of the command line, which overrides the file."""
    named = [(name, file, folder, f"{config}: datasets.{name}") for name, file in _flat(said, f"{config}: datasets")]
    options = named_files("--dataset", texts)
    named = [n for n in named if n[0] not in options]
    named += [(name, file, Path(), f"--dataset {name}={file}") for name, file in options.items()]
    arrays: dict[str, np.ndarray] = {}
    for name, file, base, where in named:
        try:
            found = datasets.load(name, file, base)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        if twice := sorted(found.keys() & arrays.keys()):
            raise ValueError(f"{where}: there are two of the name {twice[0]!r}")
        arrays |= found
    return arrays


def _flat(said: Any, where: str, prefix: str = "") -> Iterable[tuple[str, str]]:
    """Yield dotted names and files of a table; TOML reads ``digits.x = ...`` as a nested table."""
    if not isinstance(said, dict):
        raise ValueError(f'{where} = {_toml(said)}: write NAME = "FILE.npy"')
    for key, value in said.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{where}.{key}", f"{prefix}{key}.")
        elif not isinstance(value, str):
            raise ValueError(
                f'{where}.{key} = {_toml(value)}: write the name of a file: "FILE.npy", .npz or .safetensors'
            )
        else:
            yield f"{prefix}{key}", value
