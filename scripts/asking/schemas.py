"""schemas.tsv: the registry of the installed torch (ask again when the pinned torch moves).

One line per overload that torch's dispatcher registers in the ``aten`` and ``prims`` namespaces: the schema in
torch's own text, its tags, and how torch implements it (``implicit``: CompositeImplicitAutograd, the op is defined
through other ops; ``explicit``: CompositeExplicitAutograd). Overloads of one packet stand in the order in which
torch's overload resolution tries them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import torch

COLUMNS = "schema, tags, implementation"


def registered() -> list[str]:
    """A line for each overload: its schema, tags and implementation."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    names = {n for n in torch._C._dispatch_get_all_op_names() if n.startswith(("aten::", "prims::"))}
    packets = sorted({n.partition(".")[0] for n in names})
    lines = []
    for packet in packets:
        namespace, _, base = packet.partition("::")
        op = getattr(getattr(torch.ops, namespace), base)
        for overload in op.overloads():
            name = packet if overload == "default" else f"{packet}.{overload}"
            if name not in names:  # TorchScript's own overloads on Python numbers and strings
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
            lines.append(f"{found._schema}\t{' '.join(sorted(tags))}\t{how}")
    if names:
        raise SystemExit(f"not reached through torch.ops: {sorted(names)}")
    return lines


def rows() -> list[str]:
    """The names of all overloads."""
    return [line.partition("(")[0] for line in registered()]


def ask(part: Iterable[str], path: Path) -> dict[str, str]:
    """The lines of some overloads; they come from the registry, and no call is kept in ``path``."""
    wanted = set(part)
    lines = {line.partition("(")[0]: line for line in registered()}
    return {name: line for name, line in lines.items() if name in wanted}


def complete(found: dict[str, str]) -> dict[str, str]:
    return found


def usual(name: str) -> str:
    """What an overload that the file does not name is: not registered."""
    return ""


def read(path: Path) -> dict[str, str]:
    """The lines of the file."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return {line.partition("(")[0]: line for line in lines}


def lines_of(found: Mapping[str, str]) -> Iterator[str]:
    return iter(found.values())
