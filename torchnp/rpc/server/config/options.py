"""Command-line options of a server."""

from __future__ import annotations

import argparse

from torchnp.rpc.server.config.settings import FLAG, NAMESPACES, PATTERNS, SETTINGS


def add_options(parser: argparse.ArgumentParser, port: int) -> None:
    """Add a server's options, with a default port, to a parser.

    Options that are not on the command line are None.
    """
    add = parser.add_argument
    add("--config", metavar="FILE", help="a server.toml, which says what options say and more; options go before it")
    add("--check", action="store_true", help="look whether the server could start, print what it would do, and end")
    add("--token", help="clients must present it; needed beyond loopback (default: $TORCHNP_TOKEN)")
    add(
        "--dataset",
        action="append",
        metavar="NAME=FILE",
        help="arrays that clients compute with and cannot read, from .npy, .npz or .safetensors; may be repeated",
    )
    for row in SETTINGS:
        default = port if row.name == "port" else row.default
        name, told = f"--{row.name.replace('_', '-')}", f"{row.help} (default: {row.shown or default})"
        if row.kind is FLAG:
            add(name, action=argparse.BooleanOptionalAction, help=told)
        else:
            add(
                name,
                metavar=row.kind.metavar,
                action="append" if row.kind in (PATTERNS, NAMESPACES) else "store",
                help=told,
            )
    parser.set_defaults(default_port=port)
