"""The ``torchnp`` command."""

from __future__ import annotations

import argparse
import fnmatch
import importlib.util
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torchnp
from torchnp.op_table import STATUSES


class UsageError(Exception):
    """Something the user can mend; printed without a traceback."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    args = parser().parse_args(argv)
    try:
        return args.run(args) or 0
    except UsageError as error:
        print(f"torchnp {args.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()  # the reader of a pipe has left: nothing more to say
        return 0


def parser() -> argparse.ArgumentParser:
    """The argument parser, with every subcommand."""
    top = argparse.ArgumentParser(
        prog="torchnp", description="What every PyTorch operator does, in NumPy.", allow_abbrev=False
    )
    top.add_argument("--version", action="version", version=f"torchnp {torchnp.__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], Any], text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        sub.set_defaults(run=run)
        return sub

    sub = command("ops", ops, "List operators and how each is provided.")
    sub.add_argument("pattern", nargs="?", default="*", help="name or glob: add, 'aten::var*', '*pool2d*'")
    sub.add_argument("--status", choices=STATUSES, help="only this status")
    sub.add_argument("--family", metavar="NAME", help="only this kernel family: reduce, conv, ...")
    sub.add_argument("--tag", metavar="NAME", help="only overloads with this torch tag: core, pointwise, ...")
    sub.add_argument("--names", action="store_true", help="bare names, one a line")

    sub = command("explain", explain, "Show an operator: schema, status, NumPy counterpart, differences.")
    sub.add_argument("op", help="packet or overload: var, var.correction, aten::add.Tensor, prims::sin")

    sub = command("serve", serve, "Serve the op table to remote tensors; imports no torch.")
    sub.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    sub.add_argument("--port", type=int, default=7077, help="port; 0 picks a free one (default: %(default)s)")
    sub.add_argument("--token", help="clients must present it; needed beyond loopback")
    sub.add_argument("--log-level", default="INFO", choices=["DEBUG", "INFO", "WARNING", "ERROR"])

    sub = command("demo", demo, "Train a digit classifier three ways: torch, torchnp in process, torchnp remote.")
    sub.add_argument("--epochs", type=int, default=8, help="passes over the training images (default: %(default)s)")
    sub.add_argument("--batch-size", type=int, default=64, help="images per step (default: %(default)s)")
    sub.add_argument("--seed", type=int, default=0, help="seed of initialisation and shuffling (default: %(default)s)")
    sub.add_argument("--optimizer", choices=["sgd", "adam"], default="adam", help="(default: %(default)s)")
    return top


# ---------------------------------------------------------------- ops, explain


def ops(args: argparse.Namespace) -> int:
    """``torchnp ops``: a table of overloads, or bare names."""
    table = torchnp.table
    pattern = args.pattern if "::" in args.pattern else f"*::{args.pattern}"
    names = [
        n
        for n, schema in table.schemas.items()
        if (fnmatch.fnmatchcase(n, pattern) or fnmatch.fnmatchcase(n.partition(".")[0], pattern))
        and (args.status is None or table.status(n) == args.status)
        and (args.tag is None or args.tag in schema.tags)
        and (args.family is None or (n in table and table[n].family == args.family))
    ]
    if not names:
        families = sorted({row.family for row in map(table.__getitem__, table)}) if args.family else []
        known = f"; families: {', '.join(families)}" if families and args.family not in families else ""
        raise UsageError(f"nothing matches {args.pattern!r}{_near(args.pattern)}{known}")
    if args.names:
        print("\n".join(names))
        return 0
    rich = _rich()
    grid = rich.Table(box=None, pad_edge=False, header_style="bold")
    for column in ("overload", "status", "family", "from"):
        grid.add_column(column, overflow="fold")
    for n in names:
        row = table.get(n, None)
        grid.add_row(n, table.status(n), row.family if row else "", (row.derived_from or "") if row else "")
    console = rich.Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    console.print(grid)
    shown = {s: sum(table.status(n) == s for n in names) for s in STATUSES}
    console.print(f"\n{len(names)} overloads: " + ", ".join(f"{k} {s}" for s, k in shown.items() if k))
    return 0


def explain(args: argparse.Namespace) -> int:
    """``torchnp explain``: everything the table knows about an op."""
    table = torchnp.table
    full = args.op if "::" in args.op else f"aten::{args.op}"
    full = full.replace(".default", "")
    names = (
        [full] if full in table.schemas and "." in full else [n for n in table.schemas if n.partition(".")[0] == full]
    )
    if not names:
        raise UsageError(f"torch registers no op {args.op!r}{_near(args.op)}")
    print("\n\n".join(describe(n) for n in names if not table.schemas[n].is_out or len(names) == 1))
    return 0


def describe(name: str) -> str:
    """One overload in a few lines of text."""
    table = torchnp.table
    schema = table.schemas[name]
    lines = [name, f"  schema       {schema}", f"  status       {table.status(name)}"]
    if schema.tags:
        lines.append(f"  torch tags   {', '.join(sorted(schema.tags))}")
    if name not in table:
        near = [n for n in table.close_names(name) if n != name]
        return "\n".join([*lines, f"  nearest      {', '.join(near)}"])
    row = table[name]
    if row.derived_from:
        lines.append(f"  derived from {row.derived_from} ({row.rule})")
    lines.append(f"  family       {row.family}")
    if row.like is not None:
        lines.append(f"  NumPy        {like_name(row.like)}")
    lines.append(f"  {(row.__doc__ or '').partition(chr(10))[0]}")
    if row.differences:
        lines.append("  differences")
        lines += [f"    {line}" for d in row.differences for line in str(d).splitlines()]
    return "\n".join(lines)


def like_name(like: Any) -> str:
    """The public name of a NumPy or SciPy function: ``numpy.add``."""
    name = getattr(like, "__name__", str(like))
    if isinstance(like, str):
        return like
    module = (getattr(like, "__module__", None) or "numpy").replace("numpy._core.umath", "numpy")
    return f"{module}.{name}"


def _near(name: str) -> str:
    near = torchnp.table.close_names(name.strip("*"))
    return f"; nearest: {', '.join(near)}" if near else ""


# ---------------------------------------------------------------- serve, demo


def serve(args: argparse.Namespace) -> int:
    """``torchnp serve``: run the server until interrupted."""
    _need("msgspec", "rpc")
    logging.basicConfig(level=args.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    from torchnp.rpc.server import serve as run

    if args.token is None and args.host not in ("127.0.0.1", "localhost", "::1"):
        raise UsageError(f"listening on {args.host} needs --token: whoever reaches the port could run ops here")
    try:
        run(args.host, args.port, args.token)
    except OSError as error:
        raise UsageError(f"cannot listen on {args.host}:{args.port}: {error.strerror or error}") from error
    return 0


def demo(args: argparse.Namespace) -> int:
    """``torchnp demo``: see `torchnp.demo`."""
    for module, extra in (("torch", "torch"), ("msgspec", "rpc"), ("rich", "cli"), ("sklearn", "demo")):
        _need(module, extra)
    if args.epochs < 1 or args.batch_size < 1:
        raise UsageError("--epochs and --batch-size must be at least 1")
    from torchnp.demo import run

    return run(epochs=args.epochs, batch_size=args.batch_size, seed=args.seed, optimizer=args.optimizer)


def _need(module: str, extra: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise UsageError(f"needs the package {module}: pip install 'torchnp[{extra}]'")


def _rich() -> Any:
    _need("rich", "cli")
    from types import SimpleNamespace

    from rich.console import Console
    from rich.table import Table

    return SimpleNamespace(Console=Console, Table=Table)


if __name__ == "__main__":
    sys.exit(main())
