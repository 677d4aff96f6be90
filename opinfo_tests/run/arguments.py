"""The arguments of ``python -m opinfo_tests`` and ``torchnp conform``."""

import argparse
from pathlib import Path

from . import outputs
from .control_experiment import INVALID
from .outputs import whole_number
from .runner import Options

STATUS = (
    "Exit status: 0 when every call passes or is a known gap, 1 when not, when fewer cases were collected than are "
    f"recorded or an overload is hardly tried, 2 for a wrong command, "
    f"{INVALID} when the run is invalid: its control is not green, or nothing was judged."
)


def parser(prog: str = "opinfo_tests") -> argparse.ArgumentParser:
    """Return the argument parser of ``python -m opinfo_tests``, which ``torchnp conform`` also uses."""
    p = argparse.ArgumentParser(
        prog=prog, description="Judge a backend: is each operator what torch says it is?", epilog=STATUS
    )
    p.add_argument(
        "--ops",
        help="overloads by pattern, "
        "comma separated: 'aten::var*,aten::add.Tensor'; those of other libraries by their namespace, 'mylib::*'",
    )
    p.add_argument(
        "--families", help="only overloads whose kernel is in these families of torchnp.table: 'reduce,conv'"
    )
    p.add_argument("--dtypes", default="all",
                   help="dtypes of the samples and of drawn calls, comma separated, "
                     "or %(default)s; 'errors' is the samples' inputs that torch refuses")  # fmt: skip
    p.add_argument(
        "--tier",
        choices=("quick", "full", "thresholds", "large"),
        default="full",
        help="some calls of each overload and dtype, drawn once and kept in the user's cache; every call; calls "
        "on both sides of the sizes at which our kernels take another path; or up to three calls of each overload with "
        "100,000 to 8,000,000 elements, and their time and memory beside torch's (%(default)s)",
    )
    p.add_argument("--max", type=whole_number, default=0, metavar="N",
                   help="at most N cases for each overload and dtype; 0 is all (%(default)s)")  # fmt: skip
    p.add_argument("--seed", type=whole_number, default=0,
                   help="moves the samples' values and the choice of the quick tier (%(default)s)")  # fmt: skip
    p.add_argument("-x", action="store_true", help="stop at the first failure that no gap knows")
    p.add_argument("--no-backward", action="store_true", help="forward only")
    p.add_argument(
        "--order",
        type=int,
        choices=(1, 2),
        default=Options.order,
        help="of derivatives: 2 also records the gradient of the gradient (%(default)s)",
    )
    p.add_argument(
        "--backend", default="table",
        help="table (ours), numpy-mode (ours on tensors), torch-cpu or another torch-DEVICE, compile-inductor or another compile-NAME, "
        "array-api-strict or another array-api-NAME, remote-local or another remote-TRANSPORT, engine:PACKAGE.MODULE:FACTORY of a torchnp.engine.Engine, "
          "an entry point of the group torchnp.backends, or package.module:object "
        "(%(default)s)",
    )  # fmt: skip
    p.add_argument("--jobs", type=whole_number, default=2, help="worker processes; 0 runs here (%(default)s)")
    p.add_argument("--timeout", type=outputs.duration,
                   help=f"seconds for one case, which only worker processes can end ({Options.timeout:.0f})")  # fmt: skip
    p.add_argument("--messages", type=whole_number, default=4, metavar="N",
                   help="causes of failures shown for each overload and outcome (%(default)s)")  # fmt: skip
    add_files_and_other_runs(p)
    outputs.add_arguments(p)
    return p


def add_files_and_other_runs(p: argparse.ArgumentParser) -> None:
    """Add the options for files to read and write, and the options that do something else than judge a backend."""
    p.add_argument("--report", type=Path, metavar="FILE", help="write report.jsonl here")
    p.add_argument("--resume", action="store_true", help="go on with the report that a broken run left")
    p.add_argument("--summary", type=Path, metavar="FILE", help="write a Markdown summary here")
    p.add_argument("--gaps", type=Path, metavar="FILE", help="known gaps (by default the backend's own file)")
    p.add_argument(
        "--accept",
        action="store_true",
        help="rewrite the gaps of what ran, with --proof of all opinfo_tests/data/proof.tsv",
    )
    p.add_argument(
        "--count", action="store_true", help="record what there is to judge, and judge nothing (maintainers)"
    )
    p.add_argument(
        "--differences",
        action="store_true",
        help="ask only for the differences between NumPy and torch that the catalogue holds (torchnp differences), and stop",
    )
    p.add_argument(
        "--proof",
        action="store_true",
        help="hold the NumPy counterparts themselves against torch, and each disagreement against the differences that its operator lists",
    )
    p.add_argument(
        "--plant", action="store_true", help="with --proof: plant wrong answers, and count those that are excused"
    )
    p.add_argument(
        "--against", metavar="VERSION",
        help="let torchnp's table follow another version of torch (2.13): what fails is known where `torchnp changes` lists it, "
        "and in a whole run each listed change must be seen",
    )  # fmt: skip
    p.add_argument("--diff", nargs=2, type=Path, metavar=("BEFORE", "AFTER"), help="compare two reports and stop")
