"""The ``torchnp`` command line."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import torchnp
from torchnp.core.optional_deps import lacking
from torchnp.core.target import ENVIRONMENT, VERSIONS, known
from torchnp.rpc.server.config.options import add_options
from torchnp.rpc.server.owner_commands import add_owner_commands

# Commands import the table and other large modules themselves, inside the handling of interrupts.


class UsageError(Exception):
    """Raised for an error that the user can fix; it is printed without a traceback."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    argv = list(sys.argv[1:] if argv is None else argv)
    try:
        if os.environ.get(ENVIRONMENT):
            known(os.environ[ENVIRONMENT])
    except ValueError as error:
        print(f"torchnp: {ENVIRONMENT}: {error}", file=sys.stderr)
        return 2
    try:
        if argv[:1] == ["conform"]:
            return conform(argv[1:])
        if argv[:1] == ["explain"]:
            argv = _names_last(argv)
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
    except BrokenPipeError:  # the reader of the pipe has closed it: write nothing more, not even at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return (
            0 if argv[0] in ("ops", "explain", "differences", "changes") else 1
        )  # the other commands have not finished their work


def _names_last(argv: list[str]) -> list[str]:
    """Move the options to the front, so that ``-x`` is read as a name to explain."""
    options = [a for a in argv[1:] if a in ("-h", "--help", "--json")]
    names = [a for a in argv[1:] if a not in (*options, "--")]
    return [argv[0], *options, *(["--", *names] if names else [])]


def _versions() -> str:
    """Return the versions that a bug report needs."""
    return f"torchnp {torchnp.__version__} (NumPy {np.__version__}, Python {platform.python_version()})"


def add_demo(sub: argparse.ArgumentParser) -> None:
    """Add the options of ``torchnp demo``."""
    sub.add_argument(
        "--epochs",
        type=int,
        help="passes over the training images; the accuracy is judged from 8 on (default: 8; with --encrypted: 3)",
    )
    sub.add_argument("--batch-size", type=int, help="images per step (default: 64; with --encrypted: 32)")
    sub.add_argument("--seed", type=int, default=0, help="seed of initialisation and shuffling (default: %(default)s)")
    sub.add_argument(
        "--optimizer", choices=["sgd", "adam"], help="the optimizer (default: adam; with --encrypted: both)"
    )
    sub.add_argument(
        "--encrypted",
        action="store_true",
        help="instead, train on secret shares of digits, of which two owners each have one half, and on plain data",
    )
    sub.add_argument(
        "--private",
        action="store_true",
        help="instead, train on digits that a server protects with a privacy budget, with and without privacy",
    )
    sub.add_argument("--epsilon", type=float, default=3.0, help="privacy budget for --private (default: %(default)s)")
    sub.add_argument("--delta", type=float, default=1e-5, help="delta of this budget (default: %(default)s)")
    sub.add_argument("--steps", type=int, default=40, help="steps for which the budget lasts (default: %(default)s)")


def parser() -> argparse.ArgumentParser:
    """Return the argument parser with every subcommand."""
    top = argparse.ArgumentParser(
        prog="torchnp", description="What every PyTorch operator does, in NumPy.", allow_abbrev=False
    )
    top.add_argument("--version", action="version", version=_versions())
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], Any], text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        sub.set_defaults(run=run)
        return sub

    add_ops(command("ops", ops, "List operators and how each is provided."))
    text = "Say how torch and NumPy spell something, where they differ, and what to do."
    add_explain(command("explain", explain, text))
    add_differences(command("differences", differences, "List the differences between NumPy and torch."))
    add_changes(command("changes", changes, "Say what changed between two versions of torch, with the values of both."))
    add_run(command("run", run, "Run a program of torch.export.save on arrays from .npy files; torch is not needed."))
    text = "List the operators that an exported program calls, and how each is provided."
    add_requires(command("requires", requires, text))
    text = "Write an exported program as StableHLO, for JAX and other compilers; torch is not needed."
    add_export_stablehlo(command("export-stablehlo", export_stablehlo, text))

    sub = command("serve", serve, "Serve the op table to remote tensors; imports no torch.")
    add_options(sub, port=7077)
    sub.add_argument(
        "--target", metavar="VERSION", choices=VERSIONS,
        help="the clients' version of torch, which the table follows (default: the installed torch's, or the newest)",
    )  # fmt: skip

    sub = command("owner", owner, "Privacy budgets of a server's datasets: give, take, look at, check, stop.")
    add_owner_commands(sub)

    add_demo(command("demo", demo, "Train a digit classifier three ways: torch, torchnp in process, torchnp remote."))
    add_new(command("new", new, "Write a package to start from: an engine, or rows for a library's operators."))
    # The harness, which imports torch, parses this command's options: see `conform`.
    command("conform", lambda args: None, "Judge a backend, ours or yours: is each operator what torch says it is?")
    return top


def add_new(sub: argparse.ArgumentParser) -> None:
    """Add the options of ``torchnp new``."""
    sub.add_argument(
        "kind",
        choices=["engine", "kernels"],
        help="engine: code that computes for torch tensors; kernels: a library's operators in NumPy",
    )
    sub.add_argument("name", help="the package's name: small letters, digits and underscores")
    sub.add_argument("--library", metavar="NAMESPACE", help="for kernels: the library's namespace in torch.ops")
    sub.add_argument(
        "--module", help="for kernels: the module whose import registers the operators (default: the namespace)"
    )
    sub.add_argument("--directory", default=".", help="where to write the folder NAME (default: here)")


def new(args: argparse.Namespace) -> int:
    """Run ``torchnp new``."""
    from torchnp.scaffold import write_package

    if (args.library is None) != (args.kind == "engine"):
        raise UsageError("torchnp new kernels NAME --library NAMESPACE, or torchnp new engine NAME")
    directory = Path(args.directory)
    try:
        if args.kind == "engine":
            written = write_package.new_engine(args.name, directory)
        else:
            _need("torch", "torch")
            written = write_package.new_kernels(args.name, args.library, args.module or args.library, directory)
    except FileExistsError as error:
        raise UsageError(f"{error.filename} is there already") from error
    except (ValueError, ImportError) as error:
        raise UsageError(str(error)) from error
    print(f"{written}: {', '.join(sorted(str(p.relative_to(written)) for p in written.rglob('*') if p.is_file()))}")
    return 0


# ---------------------------------------------------------------- ops, explain


def add_ops(sub: argparse.ArgumentParser) -> None:
    """Add the options of ``torchnp ops``."""
    sub.add_argument("pattern", nargs="?", default="*", help="name or glob: add, 'aten::var*', '*pool2d*'")
    sub.add_argument("--status", metavar="NAME", help="only this status: kernel, derived, composite, excluded, absent")
    sub.add_argument("--family", metavar="NAME", help="only this kernel family: reduce, conv, ...")
    sub.add_argument("--tag", metavar="NAME", help="only overloads with this torch tag: core, pointwise, ...")
    sub.add_argument("--names", action="store_true", help="print only names, one per line")

    sub.add_argument(
        "--json", action="store_true", help="print a JSON list, with schemas, counterparts and differences"
    )


def add_explain(sub: argparse.ArgumentParser) -> None:
    """Add the options of ``torchnp explain``."""
    sub.add_argument(
        "name",
        nargs="+",
        help="as written in code: np.var, torch.unique, F.cross_entropy, Tensor.T, ndarray.sum, '//', 'x[::-1]', ddof, "
        "var.correction, aten::add.Tensor, axis=0, a topic (promotion), "
        "or the id of a difference; several names are explained one after the other",
    )
    sub.add_argument("--json", action="store_true", help="print a JSON object")


def add_differences(sub: argparse.ArgumentParser) -> None:
    """Add the options of ``torchnp differences``."""
    sub.add_argument("pattern", nargs="?", default="*", help="id or glob: correction, '*-promotion' (default: all)")
    sub.add_argument(
        "--json", action="store_true", help="print a JSON list, with expressions, values, advice and operators"
    )


def add_changes(sub: argparse.ArgumentParser) -> None:
    """Add the options of ``torchnp changes``."""
    text = "two versions (by default the two newest), and the name or glob of operators: 2.13 2.14 'sub*'"
    sub.add_argument("words", nargs="*", metavar="WORD", help=text)
    sub.add_argument("--json", action="store_true", help="print JSON")


def changes(args: argparse.Namespace) -> int:
    """Run ``torchnp changes``: print the changes between versions of torch, by category."""
    from torchnp.lookup import changes_command

    return _found(changes_command.show_changes, args)


def differences(args: argparse.Namespace) -> int:
    """Run ``torchnp differences``: print one line per difference, or JSON."""
    from torchnp.lookup import explain_command

    return _found(explain_command.differences, args)


def ops(args: argparse.Namespace) -> int:
    """Run ``torchnp ops``: print a table of overloads, bare names, or JSON."""
    from torchnp.lookup import explain_command

    return _found(explain_command.ops, args)


def explain(args: argparse.Namespace) -> int:
    """Run ``torchnp explain``: explain a name as users write it."""
    from torchnp.lookup import explain_command

    return _found(explain_command.explain, args)


def _found(run: Callable[[argparse.Namespace], int], args: argparse.Namespace) -> int:
    from torchnp.lookup.explain_command import NotFound

    try:
        return run(args)
    except NotFound as error:
        raise UsageError(str(error)) from None


# ---------------------------------------------------------------- run, requires


def add_run(sub: argparse.ArgumentParser) -> None:
    """Add the options of ``torchnp run``."""
    _add_program(sub)
    sub.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="an argument, by its name in the program: a .npy file, or an integer; repeat it for each argument",
    )
    sub.add_argument("--output", metavar="FILE", help="file for the result: .npy, or .npz for several results")
    sub.add_argument("--profile", action="store_true", help="print the time that each operator took")
    _add_xp(sub)
    sub.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="run on the workers of this Dask scheduler (tcp://HOST:8786), which read the input files block by block",
    )


def add_requires(sub: argparse.ArgumentParser) -> None:
    """Add the options of ``torchnp requires``."""
    _add_program(sub)
    sub.add_argument("--json", action="store_true", help="print JSON")
    _add_xp(sub)
    sub.add_argument(
        "--backend",
        metavar="NAME",
        help="also list which of them a backend lacks: table, torch-DEVICE, an entry point, or package.module:object",
    )


def add_export_stablehlo(sub: argparse.ArgumentParser) -> None:
    """Add the options of ``torchnp export-stablehlo``."""
    _add_program(sub)
    sub.add_argument(
        "--platforms", default="cpu,cuda,tpu", metavar="LIST", help="platforms to lower for (default: %(default)s)"
    )
    sub.add_argument("--out", required=True, metavar="FILE", help="file for the serialized jax.export")


def _add_xp(sub: argparse.ArgumentParser) -> None:
    text = "run on another array library instead of NumPy: jax, dask, cupy, torch, array_api_strict"
    sub.add_argument("--xp", metavar="NAME", help=text)


def _add_program(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("program", metavar="MODEL.pt2", help="a file that torch.export.save wrote")
    sub.add_argument("--model", metavar="NAME", help="the program's name, if the archive holds several")


def run(args: argparse.Namespace) -> int:
    """Run ``torchnp run``: see `torchnp.runtime.commands`, and `torchnp.portable.cluster` for ``--dask``."""
    if args.dask:
        if args.xp not in (None, "dask") or args.profile:
            raise UsageError("--dask takes neither another --xp nor --profile")
        from torchnp.portable.cluster import run_on_cluster

        return _of_program(run_on_cluster, args)
    from torchnp.runtime.commands import run_program

    return _of_program(run_program, args)


def requires(args: argparse.Namespace) -> int:
    """Run ``torchnp requires``: see `torchnp.runtime.commands`, and `torchnp.portable.commands` for other libraries."""
    if args.xp:
        if args.backend:
            raise UsageError("--xp and --backend answer two questions: ask one of them")
        from torchnp.portable.commands import list_tiers

        return _of_program(list_tiers, args)
    from torchnp.runtime.commands import list_requirements

    return _of_program(list_requirements, args)


def export_stablehlo(args: argparse.Namespace) -> int:
    """Run ``torchnp export-stablehlo``: see `torchnp.portable.commands`."""
    from torchnp.portable.commands import export_stablehlo as write

    return _of_program(write, args)


def _of_program(act: Callable[[argparse.Namespace], int], args: argparse.Namespace) -> int:
    try:
        return act(args)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(f"{error.filename or args.program}: {error.strerror or error}") from error
    except (ValueError, RuntimeError, IndexError, TypeError, ModuleNotFoundError) as error:
        # An error in the file or the arrays, or of a kernel.
        raise UsageError(str(error)) from error


# ---------------------------------------------------------------- serve, owner, demo


def serve(args: argparse.Namespace) -> int:
    """Run ``torchnp serve``: serve until interrupted."""
    _need("rpc", "msgspec")
    from torchnp.rpc.exceptions import LedgerError
    from torchnp.rpc.server.serve_arguments import serve_with

    if args.target:
        os.environ[ENVIRONMENT] = torchnp.target(args.target)  # the processes of sessions read it
    try:
        serve_with(args)
    except OSError as error:
        raise UsageError(f"cannot listen: {error.strerror or error}") from error
    except (ValueError, TypeError, LedgerError) as error:
        raise UsageError(str(error)) from error
    return 0


def owner(args: argparse.Namespace) -> int:
    """Run ``torchnp owner``: see `torchnp.rpc.server.owner_commands`."""
    from torchnp.rpc.exceptions import LedgerError
    from torchnp.rpc.server.owner_commands import run

    try:
        return run(args)
    except (ValueError, LedgerError) as error:
        raise UsageError(str(error)) from error


def demo(args: argparse.Namespace) -> int:
    """Run ``torchnp demo``: see `torchnp.demo`, `torchnp.demo_private` and `torchnp.demo_encrypted`."""
    _need("demo", "torch", "msgspec", "rich", "sklearn", *(["cryptography"] if args.encrypted else []))
    epochs, batch_size = args.epochs or (3 if args.encrypted else 8), args.batch_size or (32 if args.encrypted else 64)
    if min(1 if n is None else n for n in (args.epochs, args.batch_size)) < 1:
        raise UsageError("--epochs and --batch-size must be at least 1")
    if not 0 <= args.seed < 2**32:
        raise UsageError("--seed must be between 0 and 4294967295")
    if args.private and args.encrypted:
        raise UsageError("--private and --encrypted are different demos")
    if args.private:
        if not (0 < args.epsilon < float("inf") and 0 < args.delta < 1 and args.steps >= 1):
            raise UsageError("--epsilon is above 0, --delta between 0 and 1, and --steps at least 1")
        from torchnp.demo_private import run as run_private

        return run_private(args.epsilon, args.delta, args.steps, args.seed)
    if args.encrypted:
        from torchnp.demo_encrypted import run as run_encrypted

        return run_encrypted(epochs, batch_size, args.seed, (args.optimizer,) if args.optimizer else ("sgd", "adam"))
    from torchnp.demo import run

    return run(epochs=epochs, batch_size=batch_size, seed=args.seed, optimizer=args.optimizer or "adam")


def conform(argv: list[str]) -> int:
    """Run ``torchnp conform``: the conformance harness, with all its options."""
    _need("test", "torch", "rich", "cloudpickle", "expecttest", "pytest")
    from opinfo_tests.__main__ import main as judge

    return judge(argv, "torchnp conform")


def _need(extras: str, *modules: str) -> None:
    if said := lacking(extras, *modules):
        raise UsageError(said)


if __name__ == "__main__":
    sys.exit(main())
