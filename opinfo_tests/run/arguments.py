"""The arguments of ``python -m opinfo_tests`` and ``torchnp conform``."""

import argparse
from pathlib import Path

from . import outputs
from .control_experiment import INVALID
from .outputs import whole_number
from .runner import Options

STATUS = (
    "Exit status: 0 if every call passes or is a known gap; 1 if not, if fewer cases were collected than are "
    f"recorded, or if an overload is hardly tried; 2 for a wrong command; "
    f"{INVALID} if the run is invalid, because the control experiment failed or nothing was judged."
)


def parser(prog: str = "opinfo_tests") -> argparse.ArgumentParser:
    """Return the argument parser of ``python -m opinfo_tests``, which ``torchnp conform`` also uses."""
    p = argparse.ArgumentParser(
        prog=prog, description="Judge a backend: is each operator what torch says it is?", epilog=STATUS
    )
    p.add_argument(
        "--ops",
        help="patterns of overloads, "
        "comma separated: 'aten::var*,aten::add.Tensor'; for other libraries with their namespace: 'mylib::*'",
    )
    p.add_argument(
        "--families", help="only overloads whose kernel is in these families of torchnp.table: 'reduce,conv'"
    )
    p.add_argument("--dtypes", default="all",
                   help="dtypes of the samples and of random calls, comma separated, "
                     "or %(default)s; 'errors' means the samples for which torch raises an error")  # fmt: skip
    p.add_argument(
        "--tier",
        choices=("quick", "full", "thresholds", "large"),
        default="full",
        help="quick: some calls of each overload and dtype, chosen once and kept in the user's cache; full: every call; "
        "thresholds: calls on both sides of the sizes at which our kernels change to another path; large: up to three "
        "calls of each overload with 100,000 to 8,000,000 elements, with time and memory relative to torch's "
        "(%(default)s)",
    )
    p.add_argument("--max", type=whole_number, default=0, metavar="N",
                   help="at most N cases for each overload and dtype in each worker process: the first that it meets; "
                        "0 means all (%(default)s)")  # fmt: skip
    p.add_argument("--seed", type=whole_number, default=0,
                   help="seed of the samples' values and of the quick tier's choice (%(default)s)")  # fmt: skip
    p.add_argument("-x", action="store_true", help="stop at the first failure that is not a known gap")
    p.add_argument("--no-backward", action="store_true", help="judge no backward passes")
    p.add_argument(
        "--order",
        type=int,
        choices=(1, 2),
        default=Options.order,
        help="order of derivatives: 2 also records the gradient of the gradient (%(default)s)",
    )
    p.add_argument(
        "--backend", default="table",
        help="table (ours), numpy-mode (ours on tensors), torch-cpu or another torch-DEVICE, compile-inductor or another compile-NAME, "
        "array-api-strict or another array-api-NAME, remote-local or another remote-TRANSPORT, engine:PACKAGE.MODULE:FACTORY of a torchnp.engine.Engine, "
          "an entry point of the group torchnp.backends, or package.module:object "
        "(%(default)s)",
    )  # fmt: skip
    p.add_argument(
        "--jobs", type=whole_number, default=2, help="worker processes; 0 judges in this process (%(default)s)"
    )
    p.add_argument("--timeout", type=outputs.duration,
                   help=f"seconds for one case; it has no effect with --jobs 0 ({Options.timeout:.0f})")  # fmt: skip
    p.add_argument("--messages", type=whole_number, default=4, metavar="N",
                   help="number of causes of failures to show for each overload and outcome (%(default)s)")  # fmt: skip
    add_files_and_other_runs(p)
    outputs.add_arguments(p)
    return p


def add_files_and_other_runs(p: argparse.ArgumentParser) -> None:
    """Add the options for files to read and write, and for the commands that do not judge a backend."""
    p.add_argument("--report", type=Path, metavar="FILE", help="write report.jsonl here")
    p.add_argument("--resume", action="store_true", help="continue with the report of an interrupted run")
    p.add_argument("--summary", type=Path, metavar="FILE", help="write a Markdown summary here")
    p.add_argument("--gaps", type=Path, metavar="FILE", help="known gaps (by default the backend's own file)")
    p.add_argument(
        "--accept",
        action="store_true",
        help="rewrite the known gaps of what ran; with --proof of all overloads, rewrite opinfo_tests/data/proof.tsv",
    )
    p.add_argument(
        "--count", action="store_true", help="record the numbers of cases, and judge nothing (for maintainers)"
    )
    p.add_argument(
        "--differences",
        action="store_true",
        help="judge only calls that show the differences between NumPy and torch (see torchnp differences), and stop",
    )
    p.add_argument(
        "--proof",
        action="store_true",
        help="compare the operators' NumPy counterparts with torch, and explain each disagreement by the listed differences",
    )
    p.add_argument(
        "--plant", action="store_true", help="with --proof: insert wrong results, and count those that are excused"
    )
    p.add_argument(
        "--against", metavar="VERSION",
        help="let torchnp's table follow another version of torch (2.13): failures that `torchnp changes` lists are known gaps, "
        "and in a complete run each listed change must cause a failure",
    )  # fmt: skip
    p.add_argument("--diff", nargs=2, type=Path, metavar=("BEFORE", "AFTER"), help="compare two reports and stop")
