"""Print pip constraints for the oldest supported dependencies: ``python scripts/oldest_constraints.py > oldest.txt``.

They are the dependencies of torchnp and of its command line.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


def oldest(requirements: list[str]) -> list[str]:
    """Return a constraint for each requirement that has a lower bound: any release of exactly this version."""
    found = (re.match(r"([\w-]+)>=([\d.]+)", r) for r in requirements)
    return [f"{m[1]}=={m[2]}.*" for m in found if m]


def main() -> int:
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    print("\n".join(oldest([*project["dependencies"], *project["optional-dependencies"]["cli"]])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
