"""Time and memory of large calls relative to torch's: a summary, and the calls with the largest ratios."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

SLOW, HEAVY = 10.0, 2.0  # calls with more than this multiple of torch's time or memory are listed
FEWEST_MS, FEWEST_MIB = 0.05, 1.0  # smaller values are raised to these, because clocks and memory pages are no finer
SHOWN = 40  # number of overloads listed


def time_ratio(row: dict[str, Any]) -> float:
    return max(row["ms"], FEWEST_MS) / max(row["torch_ms"], FEWEST_MS)


def memory_ratio(row: dict[str, Any]) -> float:
    return max(row.get("mib", 0), FEWEST_MIB) / max(row.get("torch_mib", 0), FEWEST_MIB)


def summary_of_ratios(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield lines with the median, 95th percentile and maximum of both ratios, and the overloads above a limit."""
    if not rows:
        return
    kinds: list[tuple[str, Callable, float, str]] = [("time", time_ratio, SLOW, "ms")]
    if any("mib" in row for row in rows):
        kinds.append(("peak memory", memory_ratio, HEAVY, "mib"))
    for what, ratio, limit, unit in kinds:
        ratios = sorted(map(ratio, rows))
        middle, most = np.median(ratios), np.percentile(ratios, 95)
        worst: dict[str, dict[str, Any]] = {}
        for row in rows:
            if ratio(row) > limit:
                worst[row["op"]] = max(row, worst.get(row["op"], row), key=ratio)
        yield (
            f"{what} over torch's, of {len(rows):,} large calls: median {middle:.2f}, 95th percentile {most:.1f}, "
            f"worst {ratios[-1]:.1f}; above {limit:g}: {sum(r > limit for r in ratios):,} of {len(worst):,} overloads"
        )
        unit_name = {"ms": "ms", "mib": "MiB"}[unit]
        for op, row in sorted(worst.items(), key=lambda item: -ratio(item[1]))[:SHOWN]:
            name = op.removeprefix("aten::")
            figures = f"{row[unit]:,.2f} {unit_name}, torch {row[f'torch_{unit}']:,.2f}"
            yield f"  {ratio(row):7.1f}  {name:36} {figures}  {row['call']}"
        if len(worst) > SHOWN:
            yield f"  and {len(worst) - SHOWN} others: --report FILE has all"
