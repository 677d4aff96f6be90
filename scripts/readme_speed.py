"""Write the table of speed into README.md: ``python scripts/readme_speed.py``, on a machine that does nothing else.

Every figure is time over torch eager's, of both in turn in this process (see bench_ops.py and bench_models.py, which print one
by one what is here by groups). It takes some ten minutes; ``--print`` leaves README.md as it is, ``--check`` says with its exit
status whether README.md has a table at all.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
import time
from datetime import date
from pathlib import Path

import bench_models  # before NumPy: it says how many threads BLAS has
import bench_ops
import numpy as np
import torch

import torchnp

README = Path(__file__).resolve().parent.parent / "README.md"
BEGIN, END = "<!-- speed -->\n", "<!-- /speed -->"
SIZES = ("8x8", "256K", "1M", "16M")
# Of the largest only what is told by the size: the others take a second a call.
LARGEST = ("elementwise",)


def operators(rounds: int) -> list[str]:
    """A line for each group of operators: the geometric means of the ratios of medians, by size."""
    found: dict[str, dict[str, float]] = {}
    for size in SIZES:
        for group, rows in bench_ops.pairs(bench_ops.SIZES[size]).items():
            if size == SIZES[-1] and group not in LARGEST:
                continue
            ratios = []
            for label, (theirs, ours) in rows.items():
                print(f"\r{size} {label:20}", end="", file=sys.stderr, flush=True)
                a, b = bench_ops.measure(theirs, ours, rounds)
                ratios.append(statistics.median(b) / statistics.median(a))
            found.setdefault(f"{group} ({len(rows)})", {})[size] = bench_ops.geometric(ratios)
    lines = ["| operators | " + " | ".join(SIZES) + " |", "|---|" + "---:|" * len(SIZES)]
    return lines + [
        f"| {group} | " + " | ".join(f"{by[s]:.2f}" if s in by else "" for s in SIZES) + " |"
        for group, by in found.items()
    ]


def models(rounds: int) -> list[str]:
    """A line with each model's ratio."""
    found = {}
    for name in (*bench_models.INFERENCE, "MLP step"):
        print(f"\r{name:24}", end="", file=sys.stderr, flush=True)
        pair = bench_models.training(False) if name == "MLP step" else bench_models.inference(name, False)
        a, b = bench_models.measured(*pair, rounds, time.perf_counter)
        found[name] = statistics.median(b) / statistics.median(a)
    return [
        "| models | " + " | ".join(found) + " |",
        "|---|" + "---:|" * len(found),
        "| | " + " | ".join(f"{x:.2f}" for x in found.values()) + " |",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--rounds", type=int, default=15, metavar="N", help="of both, in alternation (15)")
    parser.add_argument("--print", action="store_true", dest="only", help="print the table and leave README.md alone")
    parser.add_argument("--check", action="store_true", help="whether README.md has a table; measures nothing")
    args = parser.parse_args()
    text = README.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    inside, _, after = rest.partition(END)
    if args.check:
        return 0 if "| models |" in inside else 1
    torch.set_num_threads(bench_models.THREADS)
    torchnp.set_num_threads(bench_models.THREADS)
    versions = (
        f"torch {torch.__version__.partition('+')[0]}, NumPy {np.__version__}, Python {platform.python_version()}"
    )
    head = f"{versions}, {bench_models.THREADS} threads each, {date.today():%d %B %Y}."
    table = "\n".join([head, "", *models(args.rounds), "", *operators(args.rounds), ""])
    print("\r" + table)
    if not args.only:
        README.write_text(before + BEGIN + table + END + after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
