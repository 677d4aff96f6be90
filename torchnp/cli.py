"""The ``torchnp`` command."""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import operator
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torchnp
from torchnp.extras import lacking
from torchnp.rpc.server.options import add_options
from torchnp.rpc.server.owner import add_owner_commands

# The table and everything large is loaded by the command that needs it, where an interrupt is met.


class UsageError(Exception):
    """Something the user can mend; printed without a traceback."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    argv = list(sys.argv[1:] if argv is None else argv)
    try:
        if argv[:1] == ["conform"]:
            return conform(argv[1:])
        args = parser().parse_args(argv)
        status = args.run(args) or 0
        sys.stdout.flush()
        return status
    except UsageError as error:
        print(f"torchnp {argv[0]}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of a pipe has left: nothing more to say, at exit neither
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0 if argv[0] in ("ops", "explain") else 1  # the others had not come to their verdict


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
    sub.add_argument("--status", metavar="NAME", help="only this status: kernel, derived, composite, excluded, absent")
    sub.add_argument("--family", metavar="NAME", help="only this kernel family: reduce, conv, ...")
    sub.add_argument("--tag", metavar="NAME", help="only overloads with this torch tag: core, pointwise, ...")
    sub.add_argument("--names", action="store_true", help="bare names, one a line")

    sub = command("explain", explain, "Show an operator: schema, status, NumPy counterpart, differences.")
    sub.add_argument(
        "op",
        help="packet, overload or NumPy function: var, var.correction, aten::add.Tensor, prims::sin, F.relu, np.var",
    )

    add_run(command("run", run, "Run a program of torch.export.save on arrays from .npy files; torch is not needed."))
    text = "List the operators that an exported program calls, and how each is provided."
    add_requires(command("requires", requires, text))

    sub = command("serve", serve, "Serve the op table to remote tensors; imports no torch.")
    add_options(sub, port=7077)

    sub = command("owner", owner, "Privacy budgets of a server's datasets: give, take, look at, check, stop.")
    add_owner_commands(sub)

    sub = command("demo", demo, "Train a digit classifier three ways: torch, torchnp in process, torchnp remote.")
    sub.add_argument(
        "--epochs",
        type=int,
        default=8,
        help="passes over the training images; the bound on the accuracy is for 8 or more (default: %(default)s)",
    )
    sub.add_argument("--batch-size", type=int, default=64, help="images per step (default: %(default)s)")
    sub.add_argument("--seed", type=int, default=0, help="seed of initialisation and shuffling (default: %(default)s)")
    sub.add_argument(
        "--optimizer", choices=["sgd", "adam"], default="adam", help="its update rule (default: %(default)s)"
    )
    sub.add_argument(
        "--private",
        action="store_true",
        help="instead, train on digits held by a server under a privacy budget, with and without privacy",
    )
    sub.add_argument("--epsilon", type=float, default=3.0, help="the budget of --private (default: %(default)s)")
    sub.add_argument("--delta", type=float, default=1e-5, help="at which it holds (default: %(default)s)")
    sub.add_argument("--steps", type=int, default=40, help="steps it is spread over (default: %(default)s)")
    # Its options are the harness's own, which imports torch: see `conform`.
    command("conform", lambda args: None, "Judge a backend, ours or yours: is each operator what torch says it is?")
    return top


# ---------------------------------------------------------------- ops, explain


def ops(args: argparse.Namespace) -> int:
    """``torchnp ops``: a table of overloads, or bare names."""
    from torchnp.op_table import STATUSES

    table = torchnp.table
    pattern = args.pattern if "::" in args.pattern else f"*::{args.pattern}"
    named = [n for n in table.schemas if _matches(n, pattern)] or table.find(args.pattern)
    if not named:
        raise UsageError(f"nothing matches {args.pattern!r}{_near(args.pattern)}")
    for option, value, known in (
        ("status", args.status, STATUSES),
        ("family", args.family, {row.family for row in table.values()} if args.family else ()),
        ("tag", args.tag, {tag for schema in table.schemas.values() for tag in schema.tags}),
    ):
        if value is not None and value not in known:
            raise UsageError(f"no {option} {value!r}; there are {', '.join(sorted(known))}")
    names = [
        n
        for n in named
        if (args.status is None or table.status(n) == args.status)
        and (args.tag is None or args.tag in table.schemas[n].tags)
        and (args.family is None or (n in table and table[n].family == args.family))
    ]
    if args.names:
        if names:
            print("\n".join(names))
        return 0
    if not names:
        asked = [f"{o} {v}" for o, v in (("status", args.status), ("family", args.family), ("tag", args.tag)) if v]
        print(f"{_overloads(len(named))} of the name {args.pattern!r}, none with {' and '.join(asked)}")
        return 0
    rows = [("overload", "status", "family", "from, or why not")]
    for n in names:
        row = table.get(n, None)
        note = (row.derived_from or "") if row else table.reason(n) or ""
        rows.append((n, table.status(n), row.family if row else "", note))
    widths = [max(map(len, column)) for column in zip(*rows)]
    for cells in rows:
        print("  ".join(map(str.ljust, cells, widths)).rstrip())
    shown = {s: sum(table.status(n) == s for n in names) for s in STATUSES}
    print(f"\n{_overloads(len(names))}: " + ", ".join(f"{k} {s}" for s, k in shown.items() if k))
    return 0


def _overloads(n: int) -> str:
    return f"{n} overload" if n == 1 else f"{n} overloads"


def _matches(name: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name.partition(".")[0], pattern)


def explain(args: argparse.Namespace) -> int:
    """``torchnp explain``: everything the table knows about an op."""
    table = torchnp.table
    if set(args.op) & set("*?["):
        raise UsageError(f"one op at a time; torchnp ops {args.op!r} lists what a pattern matches")
    if args.op.startswith(("np.", "numpy.", "scipy.")):
        return explain_numpy(args.op)
    names = table.find(args.op)
    if not names:
        raise UsageError(f"torch registers no op {args.op!r}{_near(args.op)}")
    told: set[str] = set()
    print("\n\n".join(describe(n, told) for n in names if not table.schemas[n].is_out or len(names) == 1))
    outs = [n for n in names if table.schemas[n].is_out]
    if outs and len(names) > 1:
        print(f"\nwritten into out=: {', '.join(outs)}")
    return 0


def explain_numpy(spelled: str) -> int:
    """``torchnp explain np.var``: the ops whose counterpart in NumPy or SciPy that function is."""
    name = spelled.replace("np.", "numpy.", 1) if spelled.startswith("np.") else spelled
    module, _, attribute = name.rpartition(".")
    try:
        function: Any = operator.attrgetter(attribute)(importlib.import_module(module))
    except (ImportError, AttributeError):
        raise UsageError(f"{module} has no function {attribute!r}") from None
    rows = [row for row in torchnp.table.values() if not row.derived_from and row.like in (function, name)]
    if not rows:
        raise UsageError(f"no op has {name} as its counterpart{_near(attribute)}")
    print(f"{name} is the NumPy counterpart of")
    print("\n".join(f"  {row.name}" for row in rows))
    ids = sorted({d.id for row in rows for d in row.differences})
    print(f"and differs from it in: {', '.join(ids)}" if ids else "and no difference is known")
    print(f"torchnp explain {rows[0].name} shows more")
    return 0


def describe(name: str, told: set[str]) -> str:
    """One overload in a few lines of text; differences that were told already are only named."""
    table = torchnp.table
    schema = table.schemas[name]
    lines = [name, f"  schema       {schema}", f"  status       {table.status(name)}"]
    if schema.tags:
        lines.append(f"  torch tags   {', '.join(sorted(schema.tags))}")
    if name not in table:
        if reason := table.reason(name):
            lines.append(f"  because      it {reason}")
        near = [n for n in table.close_names(name) if n != name]
        return "\n".join([*lines, f"  nearest      {', '.join(near)}"] if near else lines)
    row = table[name]
    if row.derived_from:
        lines.append(f"  derived from {row.derived_from} ({row.rule})")
    lines.append(f"  family       {row.family}")
    if row.like is not None and not like_name(row.like).startswith("torchnp."):
        lines.append(f"  NumPy        {like_name(row.like)}")
    lines.append(f"  {(row.__doc__ or '').partition(chr(10))[0]}")
    fresh = [d for d in row.differences if d.id not in told]
    if fresh:
        lines.append("  differences from NumPy")
        lines += [f"    {line}" for d in fresh for line in str(d).splitlines()]
    if again := [d.id for d in row.differences if d.id in told]:
        lines.append(f"  differences, see above: {', '.join(again)}")
    told.update(d.id for d in fresh)
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


# ---------------------------------------------------------------- run, requires


def add_run(sub: argparse.ArgumentParser) -> None:
    """The options of ``torchnp run``."""
    _add_program(sub)
    sub.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="an argument by its name in the program: a .npy file, or an integer; once for each",
    )
    sub.add_argument("--output", metavar="FILE", help="where the result goes: .npy, or .npz for several")
    sub.add_argument("--profile", action="store_true", help="print the time that each operator took")


def add_requires(sub: argparse.ArgumentParser) -> None:
    """The options of ``torchnp requires``."""
    _add_program(sub)
    sub.add_argument("--json", action="store_true", help="as JSON")
    sub.add_argument(
        "--backend",
        metavar="NAME",
        help="what a backend lacks of them: table, torch-DEVICE, an entry point, package.module:object (as in torchnp conform)",
    )


def _add_program(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("program", metavar="MODEL.pt2", help="what torch.export.save wrote")
    sub.add_argument("--model", metavar="NAME", help="which program, where the archive holds several")


def run(args: argparse.Namespace) -> int:
    """``torchnp run``: see `torchnp.runtime.commands`."""
    from torchnp.runtime.commands import run_program

    return _of_program(run_program, args)


def requires(args: argparse.Namespace) -> int:
    """``torchnp requires``: see `torchnp.runtime.commands`."""
    from torchnp.runtime.commands import list_requirements

    return _of_program(list_requirements, args)


def _of_program(act: Callable[[argparse.Namespace], int], args: argparse.Namespace) -> int:
    try:
        return act(args)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(f"{error.filename or args.program}: {error.strerror or error}") from error
    except (ValueError, RuntimeError, IndexError, TypeError) as error:  # of the file, the arrays or a kernel
        raise UsageError(str(error)) from error


# ---------------------------------------------------------------- serve, owner, demo


def serve(args: argparse.Namespace) -> int:
    """``torchnp serve``: run the server until interrupted."""
    _need("rpc", "msgspec")
    from torchnp.rpc.exceptions import LedgerError
    from torchnp.rpc.server.config import serve_with

    try:
        serve_with(args)
    except OSError as error:
        raise UsageError(f"cannot listen: {error.strerror or error}") from error
    except (ValueError, TypeError, LedgerError) as error:
        raise UsageError(str(error)) from error
    return 0


def owner(args: argparse.Namespace) -> int:
    """``torchnp owner``: see `torchnp.rpc.server.owner`."""
    from torchnp.rpc.exceptions import LedgerError
    from torchnp.rpc.server.owner import run

    try:
        return run(args)
    except (ValueError, LedgerError) as error:
        raise UsageError(str(error)) from error


def demo(args: argparse.Namespace) -> int:
    """``torchnp demo``: see `torchnp.demo`."""
    _need("demo", "torch", "msgspec", "rich", "sklearn")
    if args.epochs < 1 or args.batch_size < 1:
        raise UsageError("--epochs and --batch-size must be at least 1")
    if not 0 <= args.seed < 2**32:
        raise UsageError("--seed must be between 0 and 4294967295")
    if args.private:
        if not (0 < args.epsilon < float("inf") and 0 < args.delta < 1 and args.steps >= 1):
            raise UsageError("--epsilon is above 0, --delta between 0 and 1, and --steps at least 1")
        from torchnp.demo_private import run as run_private

        return run_private(args.epsilon, args.delta, args.steps, args.seed)
    from torchnp.demo import run

    return run(epochs=args.epochs, batch_size=args.batch_size, seed=args.seed, optimizer=args.optimizer)


def conform(argv: list[str]) -> int:
    """``torchnp conform``: the conformance harness, with all its options."""
    _need("test", "torch", "rich", "cloudpickle", "expecttest", "hypothesis", "pytest")
    from opinfo_tests.__main__ import main as judge

    return judge(argv, "torchnp conform")


def _need(extras: str, *modules: str) -> None:
    if said := lacking(extras, *modules):
        raise UsageError(said)


if __name__ == "__main__":
    sys.exit(main())
