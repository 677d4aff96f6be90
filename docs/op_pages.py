"""Write the pages that are generated from the table: one for each op, their index, and the differences."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from pathlib import Path
from types import ModuleType

import change_pages
import op_facts
import plots
from name_pages import LIBRARIES, name_page, public_names

import torchnp
from torchnp.difference_catalogue import CATALOGUE, CHAPTERS
from torchnp.differences import Difference, run
from torchnp.lookup import op_index
from torchnp.lookup.public_name import public_name

PLOTS = {"promotion": "promotion", "special_functions": "ulps"}  # the plot on a chapter's page
SHOWN = 12  # operators named below a difference


def write(docs: Path) -> None:
    """Write ``ops``, ``differences``, ``names``, ``differences.md``, ``version_changes.md`` and ``start.md`` below the documentation folder."""
    table = torchnp.table
    packets: dict[str, list[str]] = {}
    for name in table:
        packets.setdefault(name.partition(".")[0], []).append(name)
    pages = {page_name(packet): op_page(packet, names) for packet, names in packets.items()}
    pages["index"] = index_page(packets)
    _put(docs / "ops", pages)
    _put(docs / "differences", {name_of(c): chapter_page(c, ops_of(packets)) for c in CHAPTERS} | {"ten": ten_page()})
    _put(docs / "names", {library: name_page(library, PLACES) for library in LIBRARIES})
    top = {"differences": differences_page(), "version_changes": change_pages.page(), "start": start_part()}
    _put(docs, top, alone=False)
    plots.write(docs)


def _put(folder: Path, pages: dict[str, str], alone: bool = True) -> None:
    """Write the pages that have changed; remove all other files from a folder that contains only such pages."""
    folder.mkdir(exist_ok=True)
    for stale in {p.stem for p in folder.glob("*.md")} - set(pages) if alone else ():
        (folder / f"{stale}.md").unlink()
    for name, text in pages.items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def name_of(chapter: ModuleType) -> str:
    return chapter.__name__.rpartition(".")[2]


# The address at which each difference is shown.
PLACES = {d.id: f"differences/{name_of(c)}.html#{d.id}" for c in CHAPTERS for d in c.ROWS}


def page_name(packet: str) -> str:
    return packet.replace("::", ".")


def op_page(packet: str, names: list[str]) -> str:
    table = torchnp.table
    lines = ["---", "orphan: true", "---", "", f"# `{packet}`", ""]
    rows = [table[n] for n in names]
    likes = list(dict.fromkeys(filter(None, (public_name(r.like) for r in rows))))
    lines += op_facts.head(packet, likes)
    lines += ["| overload | status | family | made from |", "|---|---|---|---|"]
    lines += [f"| `{r.name}` | {r.status} | {r.family} | {_code(r.derived_from)} |" for r in rows]
    lines.append("")
    for row in rows:
        if row.derived_from is None:
            lines += [f"## `{row.name}`", "", "```text", str(row.schema), "```", "", _doc(row.__doc__), ""]
            lines += [*op_facts.arguments(row.schema), *op_facts.source(row)]
    lines += change_pages.of_operator(names)
    lines += op_facts.judged(names)
    differences = list(dict.fromkeys(d for r in rows for d in r.differences))
    if differences:
        lines += ["## Differences from NumPy", ""]
        lines += [line for d in differences for line in difference_lines(on_own_operator(d, packet), 3)]
    return "\n".join(lines) + "\n"


def on_own_operator(d: Difference, packet: str) -> Difference:
    """Return a difference with this operator's own example, or unchanged if there is none."""
    examples = (op_index.examples().get((body.packet, d.id)) for body in op_index.bodies(packet))
    own = next(filter(None, examples), None)
    if own is None:
        return d
    return dataclasses.replace(d, **dataclasses.asdict(own), array_api=d.array_api if own.torch == d.torch else "")


def _code(text: str | None) -> str:
    return f"`{text}`" if text else ""


def _doc(text: str) -> str:
    first = text.strip().partition("\n\n")[0]
    return (
        " ".join(first.split()).replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
        if "`" not in first
        else " ".join(first.split())
    )


def index_page(packets: dict[str, list[str]]) -> str:
    table = torchnp.table
    counts = table.counts()
    lines = ["# Operators", "", "| status | overloads |", "|---|---|"]
    lines += [f"| {status} | {n} |" for status, n in counts.items()]
    lines += [f"| registered by torch | {sum(counts.values())} |", ""]
    lines += plots.shown("coverage")
    families: dict[str, list[str]] = {}
    for packet, names in packets.items():
        family = Counter(table[n].family for n in names).most_common(1)[0][0]
        families.setdefault(family, []).append(packet)
    for family in sorted(families):
        links = [f"[`{p.removeprefix('aten::')}`]({page_name(p)}.md)" for p in sorted(families[family])]
        lines += [f"## {family}", "", ", ".join(links), ""]
    lines += ["## Excluded", "", "These cannot be functions of arrays:", ""]
    excluded: dict[str, list[str]] = {}
    for name in table.schemas:
        if reason := table.reason(name):
            excluded.setdefault(reason, []).append(name.removeprefix("aten::").partition(".")[0])
    for reason, bases in excluded.items():
        lines += [f"- {reason}: {', '.join(f'`{b}`' for b in dict.fromkeys(bases))}"]
    return "\n".join(lines) + "\n"


def difference_lines(d: Difference, level: int) -> list[str]:
    lines = [f"({d.id})=", ""] if level == 2 else []
    lines += [f"{'#' * level} {d.title}", "", f"`{d.id}`", ""]
    if d.why:
        lines += [d.why, ""]
    for word, call in (("torch's value in NumPy", d.in_numpy), ("NumPy's value in torch", d.in_torch)):
        if call:
            lines += [f"To get {word}: `{call}`", ""]
    if d.where:
        lines += [f"In `{d.where}`; the others give {'NumPy' if d.of_torch else 'torch'}'s value.", ""]
    if d.array_api:
        lines += [f"Array API standard: `{d.array_api}`", ""]
    return [*lines, "```pycon", *printed(d), "```", ""]


@functools.cache
def printed(d: Difference) -> list[str]:
    """Return the lines of a difference's calls, each with what it prints in this build."""
    values = run(d)
    calls = ((d.torch, "torch", ""), (d.numpy, "numpy", ""), (d.kernel, "kernel", "  # torchnp"))
    return [line for call, side, note in calls for line in (f">>> {call}{note}", values[side])]


def start_part() -> str:
    """Return the examples of the start page: calls of both libraries and what they print."""
    shown = [line for i in START for line in ("", *printed(CATALOGUE[i]))]
    names = sum(1 for library in LIBRARIES for _ in public_names(library))
    return "\n".join([
        "```pycon", *shown[1:], "```", "",
        f"[The ten most dangerous differences](differences/ten.md), [all {len(CATALOGUE)}](differences.md), and {names:,} names: "
        "[NumPy's in torch](names/numpy.md), [torch's in NumPy](names/torch.md), [Python's operators](names/python.md).",
        "",
    ])  # fmt: skip


def ops_of(packets: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the operators that have each difference."""
    table = torchnp.table
    ops: dict[str, list[str]] = {}
    for packet, names in packets.items():
        # Derived forms (in-place, foreach) have the same differences as the operators they derive from, so only the
        # latter are read.
        bodies = [table[n] for n in names if table[n].derived_from is None]
        for i in dict.fromkeys(d.id for row in bodies for d in row.differences):
            ops.setdefault(i, []).append(packet)
    return ops


def title_of(chapter: ModuleType) -> str:
    return chapter.__doc__.strip().removesuffix(".")


def chapter_page(chapter: ModuleType, ops: dict[str, list[str]]) -> str:
    lines = ["---", "orphan: true", "---", "", f"# {title_of(chapter)}", ""]
    lines += plots.shown(PLOTS[name_of(chapter)]) if name_of(chapter) in PLOTS else []
    for d in chapter.ROWS:
        lines += difference_lines(d, 2)
        if d.id in ops:
            links = [f"[`{p.removeprefix('aten::')}`](../ops/{page_name(p)}.md)" for p in sorted(ops[d.id])]
            more = f", and {len(links) - SHOWN} more" if len(links) > SHOWN else ""
            lines += [f"Operators: {', '.join(links[:SHOWN])}{more}", ""]
    return "\n".join(lines)


def differences_page() -> str:
    lines = [
        "# Differences between NumPy and torch",
        "",
        f"{len(CATALOGUE)} differences. The tests run every example, and check torch's value, NumPy's value, that the two "
        "differ, and that torchnp's kernel gives torch's value. Start with [the ten most dangerous ones](differences/ten.md), "
        "or look a function up: [NumPy's in torch](names/numpy.md), [torch's in NumPy](names/torch.md), "
        "[Python's operators](names/python.md).",
        "",
    ]
    for chapter in CHAPTERS:
        lines += [f"## [{title_of(chapter)}](differences/{name_of(chapter)}.md)", ""]
        lines += [f"- [{d.title}](differences/{name_of(chapter)}.md#{d.id})" for d in chapter.ROWS]
        lines.append("")
    return "\n".join(lines)


# The differences that cost people the most time when they move code: they raise no error, and occur on the first day.
TEN = (
    "correction", "lower-median", "int-to-default-float", "number-wraps", "three-tier-promotion", "half-opmath",
    "repeat-is-tile", "split-takes-sizes", "transpose-pair", "beta-zero",
)  # fmt: skip
START = ("correction", "number-wraps")


def ten_page() -> str:
    lines = ["---", "orphan: true", "---", "", "# The ten most dangerous differences", ""]
    lines += ["Both libraries run these calls with hardly any warning, and give different results.", ""]
    for i in TEN:
        lines += difference_lines(CATALOGUE[i], 3)
    return "\n".join(lines).replace("\n### ", "\n## ")
