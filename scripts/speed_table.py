"""Measure times relative to torch eager, and write the table of docs/speed.md.

This takes some five minutes on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import time
from datetime import date
from pathlib import Path

import bench_models  # says how many threads there are, before NumPy is imported
import bench_ops

PAGE = Path(__file__).resolve().parent.parent / "docs" / "speed.md"
BEGIN, END = "<!-- speed -->\n", "<!-- /speed -->"
# groups of calls to measure at each size; an empty tuple means all groups
GROUPS = {"8x8": (), "1M": (), "16M": ("elementwise",)}
NAMES = {
    "elementwise": "elementwise", "promotion": "numbers and promotion", "reductions": "reductions, scans, softmax",
    "moves": "copies, sort, index_add, mm", "of three and half": "three operands, bfloat16",
    "norms": "norms, forward and backward", "views": "views",
    "large": "erf, gelu, scatter_add, float16",
}  # fmt: skip


def rows(rounds: int) -> list[tuple[str, tuple[float, float]]]:
    """Return for each measurement its name and the ratios of torchnp's time to torch's, of medians and of minima."""
    found = []
    for size, only in GROUPS.items():
        groups = bench_ops.bench(size, rounds, only)
        if not only:
            every = [ratio for ratios in groups.values() for ratio in ratios]
            found.append((f"{size}: all {len(every)}", bench_ops.means(every)))
        found += [(f"{size}: {NAMES[group]}", bench_ops.means(ratios)) for group, ratios in groups.items()]
    models = bench_models.bench([*bench_models.INFERENCE, "MLP step"], 20, time.perf_counter)
    return found + [
        (f"{name}, {'compiled' if name == 'MLP step' else 'loaded'}", ratios) for name, ratios in models.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, metavar="N", help="of each call, in alternation (15)")
    args = parser.parse_args()
    lines = [
        f"| `python scripts/speed_table.py`, {date.today()}, {bench_models.THREADS} threads of each | time over torch's | of minima |",
        "|---|---:|---:|",
    ]
    lines += [f"| {what} | {median:.2f} | {least:.2f} |" for what, (median, least) in rows(args.rounds)]
    head, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    PAGE.write_text(head + BEGIN + "\n".join(lines) + "\n" + END + rest.split(END)[1], encoding="utf-8")


if __name__ == "__main__":
    main()
