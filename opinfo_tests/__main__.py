"""``python -m opinfo_tests``: see `opinfo_tests.run.command`, whose imports take seconds in which Ctrl-C is quiet too."""

from __future__ import annotations

import sys


def main(argv: list[str] | None = None, prog: str = "opinfo_tests") -> int:
    """Run, print, and return the exit status."""
    try:
        from .run.command import main as judge

        return judge(argv, prog)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
