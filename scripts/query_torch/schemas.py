"""Makes schemas.tsv: the registries of all known versions of torch (run it again for each new version).

There is a line for each overload that torch's dispatcher registers in the ``aten`` and ``prims`` namespaces. It has the
schema as torch writes it, its tags, and how torch implements the op: ``implicit`` (CompositeImplicitAutograd) means by
other ops, ``explicit`` is CompositeExplicitAutograd. The overloads of one op are in the order in which torch's overload
resolution tries them. The line of an overload that only some versions have ends with the first and the last of these
versions; either may be empty, which means no limit.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import torch

from torchnp.core.schema import DATA
from torchnp.core.target import KNOWN, Version, parse, spell

COLUMNS = "schema, tags, implementation; since, until"
# these tags repeat what the schema shows, so older versions get them, too
TAGS_SINCE = {"inplace": (2, 13), "out": (2, 13)}
HERE = parse(torch.__version__)  # for a new version, first add it to `torchnp.core.target.KNOWN`


def registered() -> list[str]:
    """Return a line for each overload: its schema, tags and implementation."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    names = {n for n in torch._C._dispatch_get_all_op_names() if n.startswith(("aten::", "prims::"))}
    packets = sorted({n.partition(".")[0] for n in names})
    later = _later_tags()
    lines = []
    for packet in packets:
        namespace, _, base = packet.partition("::")
        op = getattr(getattr(torch.ops, namespace), base)
        for overload in op.overloads():
            name = packet if overload == "default" else f"{packet}.{overload}"
            if name not in names:  # these are TorchScript's overloads for Python numbers and strings
                continue
            names.discard(name)
            found = getattr(op, overload)
            tags = {str(t).removeprefix("Tag.") for t in found.tags} - {"pt2_compliant_tag"}
            if torch._C._should_allow_numbers_as_tensors(base):
                tags.add("numbers_as_tensors")
            how = (
                "implicit" if has(name, "CompositeImplicitAutograd")
                else "explicit" if has(name, "CompositeExplicitAutograd") else "direct"
            )  # fmt: skip
            tags |= later.get(str(found._schema), set())
            lines.append(f"{found._schema}\t{' '.join(sorted(tags))}\t{how}")
    if names:
        raise SystemExit(f"not reached through torch.ops: {sorted(names)}")
    return lines


def _later_tags() -> dict[str, set[str]]:
    """Return by schema the tags of `TAGS_SINCE` that a later version gives it."""
    found = {}
    for tag, since in TAGS_SINCE.items():
        for line in _of_versions(DATA)[since].values() if since > HERE else ():
            schema, tags, _ = line.split("\t")
            if tag in tags.split():
                found.setdefault(schema, set()).add(tag)
    return found


def rows() -> list[str]:
    """Return the names of all overloads."""
    return [line.partition("(")[0] for line in registered()]


def ask(part: Iterable[str], path: Path) -> dict[str, str]:
    """Return the lines of some overloads; they come from the registry, so nothing is stored in ``path``."""
    wanted = set(part)
    lines = {line.partition("(")[0]: line for line in registered()}
    return {name: line for name, line in lines.items() if name in wanted}


def complete(found: dict[str, str]) -> dict[str, str]:
    return found


def usual(name: str) -> str:
    """Return the line of an overload that the file does not contain: empty, because torch does not register it."""
    return ""


def read(path: Path) -> dict[str, str]:
    """Return the lines of the file for the installed version."""
    return _of_versions(path)[HERE]


def _of_versions(path: Path) -> dict[Version, dict[str, str]]:
    """Return the lines of each known version, by name and in its order."""
    found: dict[Version, dict[str, str]] = {version: {} for version in KNOWN}
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            schema, tags, how, since, until = (*line.split("\t"), "", "")[:5]
            for version in KNOWN:
                if (not since or parse(since) <= version) and (not until or version <= parse(until)):
                    found[version][schema.partition("(")[0]] = f"{schema}\t{tags}\t{how}"
    return found


def lines_of(found: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of the file, with those of the installed version replaced."""
    versions = {**_of_versions(DATA), HERE: dict(found)}
    packets: dict[str, list[list[str]]] = {}
    for i, version in enumerate(KNOWN):
        for name, line in versions[version].items():
            packets.setdefault(name.partition(".")[0], [[] for _ in KNOWN])[i].append(line)
    for _, lists in sorted(packets.items()):
        yield from _merged(lists)


def _merged(lists: list[list[str]]) -> Iterator[str]:
    """Yield the lines of an op from the lines of each version; a line that only some have ends with their range."""
    order = [*lists[-1]]
    for lines in reversed(lists[:-1]):
        at = 0
        for line in lines:
            if line not in order:
                order.insert(at, line)
            at = order.index(line) + 1
    # the order of the overloads has changed
    if any([line for line in order if line in lines] != lines for lines in lists):
        runs = [list(run) for _, run in itertools.groupby(range(len(lists)), lambda n: lists[n])]
        order, holds = [], []
        for run in runs:
            order += lists[run[0]]
            holds += [[n in run for n in range(len(lists))]] * len(lists[run[0]])
    else:
        holds = [[line in lines for lines in lists] for line in order]
    for line, held in zip(order, holds, strict=True):
        since, until = held.index(True), len(KNOWN) - held[::-1].index(True)
        if not all(held[since:until]):
            raise SystemExit(f"not in adjacent versions: {line}")
        first, last = spell(KNOWN[since]) if since else "", spell(KNOWN[until - 1]) if until < len(KNOWN) else ""
        yield f"{line}\t{first}\t{last}" if first or last else line
