"""Write what `torchnp explain` reads in place of the table: ops.tsv, callers.tsv and examples.tsv in torchnp/data.

    python scripts/make_lookup.py [--check] [--examples]

Run it after a change of ``like=``, ``differs=`` or a docstring of a kernel; a test compares. ``--examples`` asks torch
again for the example that each operator has of each of its differences, which takes a minute; without it the examples
of pairs that are no longer declared are dropped, and those of new pairs are added.
"""

from __future__ import annotations

import sys
from pathlib import Path

from asking import examples

import torchnp
from torchnp.lookup.naming import public_name
from torchnp.registry import REGISTERED

DATA = Path(torchnp.__file__).parent / "data"
OPS_HEAD = (
    "# by scripts/make_lookup.py: overload, family, counterparts, differences, first line; or overload, rule, source"
)


def ops_lines() -> list[str]:
    """A line for every row of the table."""
    lines = [OPS_HEAD]
    for name in torchnp.table:
        row = REGISTERED.get(name)
        if row is None:
            made = torchnp.table[name]
            lines.append(f"{name}\t{made.rule}\t{made.derived_from}")
        else:
            doc = (row.body.__doc__ or "").strip().partition("\n")[0]
            lines.append("\t".join([name, row.family, public_name(row.like), " ".join(row.differs), doc]))
    return lines


def callers_lines() -> list[str]:
    """How Python code calls each op that has a public name."""
    found = {}
    for op in dict.fromkeys(n.partition(".")[0] for n in torchnp.table.schemas if n.startswith("aten::")):
        called = examples.torch_names(op)[0].replace("torch.nn.functional.", "F.").replace("torch.Tensor.", "Tensor.")
        if not called.startswith("torch.ops.") and "._" not in called:
            found[op] = called
    return ["# by scripts/make_lookup.py: op, its public name", *("\t".join(pair) for pair in sorted(found.items()))]


def main() -> int:
    stale = []
    asked = {
        "ops.tsv": ops_lines,
        "callers.tsv": callers_lines,
        "examples.tsv": lambda: examples.lines("--examples" in sys.argv),
    }
    for name, made in asked.items():
        text, path = "\n".join(made()) + "\n", DATA / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if "--check" not in sys.argv:
                path.write_text(text, encoding="utf-8")
    print(f"stale: {', '.join(stale)}" if stale else "up to date")
    return int(bool(stale) and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
