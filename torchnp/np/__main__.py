"""``python -m torchnp.np FILE.py``: run a script's NumPy calls on tensors, and report where results differ."""

from __future__ import annotations

import argparse
import sys

from torchnp.np.script import run_script


def main(arguments: list[str] | None = None) -> int:
    """Run a script and print the report to standard error; with ``--strict`` return 1 if a line differs from NumPy."""
    parser = argparse.ArgumentParser(prog="python -m torchnp.np", description=__doc__)
    parser.add_argument(
        "--strict", action="store_true", help="exit with status 1 if a line's results differ from NumPy's"
    )
    parser.add_argument("file", help="a script that imports numpy")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's own arguments")
    given = parser.parse_args(arguments)
    report = run_script(given.file, given.arguments)
    print("\n".join(report.lines()), file=sys.stderr)
    return int(given.strict and any(not p.by_numpy for p in report.partings.values()))


if __name__ == "__main__":
    raise SystemExit(main())
