"""Write the files of torchnp/data that contain torch's answers, or check that they agree with the installed torch.

    python scripts/make_data.py [schemas] [outs] [overlaps] [--check] [--rows GLOB] [--keep DIRECTORY]

``outs`` and ``overlaps`` make some ten thousand calls of torch, which takes a quarter of an hour. ``--rows
'aten::mul*'`` updates the rows of an op and leaves the others unchanged. ``--keep`` saves torch's answers in a
directory, and reads them from there the next time.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import torch
from query_torch import outs, overlaps, schemas

import torchnp
from torchnp.core.target import KNOWN, spell

FILES: dict[str, ModuleType] = {"schemas": schemas, "outs": outs, "overlaps": overlaps}
DATA = Path(torchnp.__file__).parent / "data"


def text_of(name: str, found: dict) -> str:
    """Return the whole text of a file."""
    version = " ".join(map(spell, KNOWN)) if name == "schemas" else torch.__version__.partition("+")[0]
    head = f"# written by scripts/make_data.py {name}, torch {version}: {FILES[name].COLUMNS}"
    return "\n".join([head, *FILES[name].lines_of(found)]) + "\n"


def differences(name: str, found: dict, wanted: set[str]) -> list[str]:
    """Return the differences between the file and torch, for the rows that were asked for."""
    file = FILES[name]
    written = file.read(DATA / f"{name}.tsv")
    known = {row for row in written if full_name(row) in wanted} if len(wanted) == len(file.rows()) else set()
    lines = []
    for row in sorted(known | set(found)):
        says, is_so = (source.get(row, file.usual(row)) for source in (written, found))
        if says != is_so:
            lines.append(f"{name}.tsv, {row}\n  the file: {says}\n  torch:    {is_so}")
    return lines


def full_name(row: str) -> str:
    """Return the overload that a line is about: for ``sort.values:indices`` it is ``aten::sort.values``."""
    return row if "::" in row else f"aten::{row.partition(':')[0]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE", help=f"some of {' '.join(FILES)}; all by default")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where a file is not so")
    parser.add_argument("--rows", default="*", metavar="GLOB", help="ask for these rows alone: those of a new op")
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY")
    options = parser.parse_args()
    if unknown := set(options.files) - set(FILES):
        parser.error(f"no such file: {' '.join(unknown)}")
    found_any = False
    for name in options.files or FILES:
        file = FILES[name]
        rows = file.rows()
        wanted = set(fnmatch.filter(rows, options.rows))
        with tempfile.TemporaryDirectory() as directory:
            found = file.ask(wanted, (options.keep or Path(directory)) / f"{name}.jsonl")
        if len(wanted) == len(rows):
            found = file.complete(found)
        else:
            found = {row: line for row, line in found.items() if full_name(row) in wanted}
        lines = differences(name, found, wanted)
        found_any |= bool(lines)
        print("\n".join([*lines, f"{name}.tsv: {len(wanted)} rows asked for, {len(lines)} lines differ"]))
        if not options.check:
            kept = {} if len(wanted) == len(rows) else file.read(DATA / f"{name}.tsv")
            (DATA / f"{name}.tsv").write_text(text_of(name, kept | found))
    return int(found_any and options.check)


if __name__ == "__main__":
    sys.exit(main())
