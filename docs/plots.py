"""Draw the plots: the dtype to which two dtypes promote, errors of functions, coverage by family, growth.

Each plot is drawn twice, for the light and for the dark theme, and the site shows the one for its theme.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch

from torchnp.lookup import op_index

matplotlib.use("svg")
from matplotlib import pyplot

ULPS = Path(__file__).parent / "ulps.tsv"
GROWTH = Path(__file__).parent / "growth.tsv"
# For each theme the colours of text, lines and background, then colours that differ in hue and in lightness.
THEMES = {
    "light": ("#222832", "#9aa0a8", "#ffffff", ("#1565c0", "#d9480f", "#2b8a3e")),
    "dark": ("#ced6dd", "#6b737c", "#14181e", ("#74b6ff", "#ff9f5a", "#7bd88f")),
}
Draw = Callable[[Any, tuple[str, str, str, tuple[str, ...]]], None]


def write(docs: Path) -> None:
    """Draw every plot and save it in ``docs/plots``."""
    folder = docs / "plots"
    folder.mkdir(exist_ok=True)
    for name, (size, draw, _, _) in PLOTS.items():
        for theme, colours in THEMES.items():
            text, line, ground, _ = colours
            style = {
                "svg.hashsalt": name, "font.size": 9, "text.color": text, "axes.labelcolor": text, "axes.edgecolor": line,
                "xtick.color": text, "ytick.color": text, "grid.color": line, "grid.alpha": 0.35,
                "figure.facecolor": ground, "axes.facecolor": ground, "legend.frameon": False,
            }  # fmt: skip
            with pyplot.rc_context(style):
                figure = pyplot.figure(figsize=size, layout="constrained")
                draw(figure, colours)
                figure.savefig(folder / f"{name}-{theme}.svg", metadata={"Date": None})
                pyplot.close(figure)


def shown(name: str) -> list[str]:
    """Return the lines that show a plot on a page in a subfolder, with the paragraph that says how to read the plot."""
    _, _, alt, words = PLOTS[name]
    lines = []
    for theme in THEMES:
        lines += [f":::{{image}} ../plots/{name}-{theme}.svg", f":alt: {alt}", f":class: only-{theme}", ":::", ""]
    return [*lines, words, ""]


# ---------------------------------------------------------------- promotion

# The position of each dtype: unsigned integers are on the left, signed ones on the right, and wider dtypes higher.
PLACES = {
    "bool": (0, 0), "uint8": (-1, 1), "int8": (1, 1), "uint16": (-1, 2), "int16": (1, 2), "uint32": (-1, 3), "int32": (1, 3),
    "uint64": (-1, 4), "int64": (1, 4), "float16": (-0.6, 5), "bfloat16": (0.6, 5), "float32": (0.2, 6), "float64": (1, 7),
    "complex32": (-1, 6), "complex64": (-0.4, 7), "complex128": (0.3, 8),
}  # fmt: skip
NOT_NUMPYS = ("bfloat16", "complex32")


def promotes(library: str, a: str, b: str) -> bool:
    """Return whether the second dtype is the common dtype of the two."""
    try:
        if library == "NumPy":
            return np.promote_types(a, b) == np.dtype(b)
        return torch.promote_types(getattr(torch, a), getattr(torch, b)) == getattr(torch, b)
    except RuntimeError:  # torch promotes its wider unsigned integers with few other dtypes
        return False


def steps(library: str) -> set[tuple[str, str]]:
    """Return the edges (a, b) of the promotion graph, where a promotes to b, after transitive reduction."""
    names = [n for n in PLACES if library == "torch" or n not in NOT_NUMPYS]
    above = {a: {b for b in names if a != b and promotes(library, a, b)} for a in names}
    return {(a, b) for a in names for b in above[a] if not any(b in above[c] for c in above[a])}


def draw_promotion(figure: Any, colours: tuple[str, str, str, tuple[str, ...]]) -> None:
    text, line, ground, (common, own, _) = colours
    both = {library: steps(library) for library in ("NumPy", "torch")}
    for axes, library, other in zip(figure.subplots(1, 2), both, reversed(both)):
        found = both[library]
        for a, b in sorted(found):
            colour = line if (a, b) in both[other] else own
            arrow = {"arrowstyle": "-|>", "color": colour, "lw": 1.3, "shrinkA": 9, "shrinkB": 9}
            axes.annotate("", PLACES[b], PLACES[a], arrowprops=arrow)
        for name in {n for pair in found for n in pair}:
            box = {"boxstyle": "round,pad=0.3", "facecolor": ground, "edgecolor": common, "lw": 1}
            axes.text(*PLACES[name], name, ha="center", va="center", bbox=box, color=text)
        axes.set(xlim=(-1.5, 1.5), ylim=(-0.5, 8.5), title=library)
        axes.axis("off")


# ---------------------------------------------------------------- errors


def ulps() -> tuple[str, list[tuple[str, list[float]]]]:
    """Return a line about the measurement, and each function's 99th percentile and largest error for each library."""
    head, _, *lines = ULPS.read_text(encoding="utf-8").splitlines()
    cells = (line.split("\t") for line in lines)
    return head.partition(": ")[2], [(name, [float(x) for x in found]) for name, _, *found in cells]


def draw_ulps(figure: Any, colours: tuple[str, str, str, tuple[str, ...]]) -> None:
    _, line, _, palette = colours
    axes = figure.subplots()
    _, rows = ulps()
    rows.sort(key=lambda row: row[1][3], reverse=True)  # the largest error of torch
    heights = np.arange(len(rows))
    found = np.array([figures for _, figures in rows])
    for i, (library, marker) in enumerate((("NumPy or SciPy", "o"), ("torch", "s"), ("torchnp", "x"))):
        usual, most = found[:, 2 * i], found[:, 2 * i + 1]
        shift = heights + (i - 1) * 0.25
        axes.hlines(shift, usual, most, color=palette[i], lw=1.2)
        axes.plot(most, shift, marker, color=palette[i], ms=4, label=library)
    axes.axvline(0.5, color=line, lw=1, ls=":")
    axes.set(xscale="log", xlabel="error in units in the last place of float32", ylim=(-0.8, len(rows) - 0.2))
    axes.set_yticks(heights, [name for name, _ in rows])
    axes.grid(axis="x")
    axes.legend(loc="upper right")


# ---------------------------------------------------------------- coverage


def coverage() -> list[tuple[str, Counter[str]]]:
    """Return by family the numbers of overloads by status; all gradients are one family, and all prims another."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for row in op_index.ops().values():
        if op_index.is_own(row["name"]):
            found[row["family"].partition(".")[0] or "no kernel"][row["status"]] += 1
    return sorted(found.items(), key=lambda item: (item[0] == "no kernel", item[1].total()))


def draw_coverage(figure: Any, colours: tuple[str, str, str, tuple[str, ...]]) -> None:
    _, line, _, palette = colours
    axes = figure.subplots()
    rows = coverage()
    start = np.zeros(len(rows))
    for status, colour in (*zip(("kernel", "derived", "composite"), palette), ("excluded", line)):
        wide = np.array([counts[status] for _, counts in rows])
        axes.barh(np.arange(len(rows)), wide, left=start, color=colour, label=status, height=0.75)
        start += wide
    axes.set_yticks(np.arange(len(rows)), [family for family, _ in rows])
    axes.bar_label(axes.containers[-1], [f"{counts.total()}" for _, counts in rows], padding=3, fontsize=7)
    axes.set(xlabel="overloads", ylim=(-0.6, len(rows) - 0.4))
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    axes.legend(loc="lower right")


# ---------------------------------------------------------------- growth

Points = list[tuple[int, float, float]]  # number of elements, and the table's time and memory divided by torch's


def growth() -> tuple[str, dict[str, dict[str, Points]]]:
    """Return a line about the measurement, and the points of each operator by family; memory is at least 1 MiB."""
    head, _, *lines = GROWTH.read_text(encoding="utf-8").splitlines()
    found: dict[str, dict[str, Points]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        family, op, elements, *cells = line.split("\t")
        ms, torch_ms, mib, torch_mib = map(float, cells)
        found[family][op].append((int(elements), ms / torch_ms, max(mib, 1) / max(torch_mib, 1)))
    return head.lstrip("# "), found


def draw_growth(figure: Any, colours: tuple[str, str, str, tuple[str, ...]]) -> None:
    _, line, _, palette = colours
    _, families = growth()
    for row, (family, ops) in zip(figure.subplots(len(families), 2), families.items(), strict=True):
        for axes, kind, column in zip(row, ("time", "memory"), (1, 2), strict=True):
            for i, (op, points) in enumerate(ops.items()):
                style = {"color": palette[i % 3], "ls": ("-", "--", ":")[i // 3 % 3], "marker": ".", "lw": 1.2}
                axes.plot([p[0] for p in points], [p[column] for p in points], label=op, **style)
            axes.axhline(1, color=line, lw=0.8)
            axes.set(xscale="log", yscale="log", xlim=(700, 1.5e8), title=f"{family}: {kind} over torch's")
            axes.grid(axis="y")
        row[0].set(ylim=(0.1, 100))
        row[1].set(ylim=(0.1, 100))
        row[1].legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=8)
    for axes in figure.axes[-2:]:
        axes.set_xlabel("elements")


def _measured() -> str:
    return (
        "Errors of float32 functions, compared with double precision, for 400,000 arguments. The mark is the largest error, "
        "and the other end of its line is the 99th percentile. The dotted line is 0.5, the error of the nearest float32. "
        "Functions are in the order of torch's largest error. If a line is long, errors are large only near a zero of the "
        "function or in its tail. If torchnp's mark is near NumPy's, the kernel calls NumPy's function, which agrees with torch's "
        f"within torch's own tolerance. If it is near torch's, the kernel computes as torch does. Measured with {ulps()[0]}."
    )


# For each plot: its size in inches, the function that draws it, a description for readers who cannot see it, and how to
# read it.
PLOTS: dict[str, tuple[tuple[float, float], Draw, str, str]] = {
    "promotion": (
        (9, 6.5),
        draw_promotion,
        "Two lattices of dtypes side by side. In NumPy integers lead to ever wider floats: int16 to float32, int32 to float64. "
        "In torch every integer leads to float16 and bfloat16, and wider unsigned integers to no other integer.",
        "For tensors with dimensions, arrows lead from a dtype to the next dtypes to which it promotes. The common dtype of two "
        "dtypes is the lowest one that arrows reach from both. Orange arrows exist in only one of the libraries. NumPy widens "
        "the float until it can hold the integer (int32 with float16 gives float64). torch keeps any float as it is (float16), "
        "and its wider unsigned integers have no common dtype with other integers.",
    ),
    "ulps": (
        (8, 11),
        draw_ulps,
        "Errors of functions in NumPy or SciPy, torch and torchnp, in units in the last place, on a logarithmic scale. Most "
        "are below four; Bessel functions, sinc, ndtr, logit and digamma of torch reach thousands and more.",
        _measured(),
    ),
    "growth": (
        (10, 20),
        draw_growth,
        "For seven families of operators, torchnp's time and memory divided by torch's, plotted against the number of elements, "
        "from 1,000 to 100,000,000, on logarithmic scales. Lines are horizontal or fall towards larger sizes.",
        "",
    ),
    "coverage": (
        (8, 14),
        draw_coverage,
        "Bars of overloads by family of kernels, each split into kernels, derived, composite and excluded ones.",
        "Each bar is a file of kernels (gradients and prims are one bar each) with the overloads that it provides: kernels "
        "written there, rows derived from these by rules, and composites, which torch defines through other operators. The bar "
        "at the top has the excluded overloads, which no kernel can provide. The reasons are at the end of this page.",
    ),
}  # fmt: skip
