"""Write docs/portable_operators.md: how each operator runs on each array library (``--check`` only compares).

The script reads the rows of these libraries, so JAX and Dask must be installed: ``pip install -e ".[jax,dask]"``.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import torchnp
from torchnp.portable import draws
from torchnp.portable.host_reasons import HOST_REASONS
from torchnp.portable.libraries import library_for, prepare
from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import HOSTED

PAGE = Path(__file__).resolve().parent.parent / "docs" / "portable_operators.md"
LIBRARIES = {"the standard": "array_api_strict", "JAX": "jax", "Dask": "dask"}
HEAD = """# Operators by array library

This page says how an exported program's operators run on [JAX](jax.md), on [Dask](dask.md), and on a library that follows
the [array API standard](https://data-apis.org/array-api/latest/), such as array-api-strict, CuPy or torch:

| tier | what runs |
|---|---|
| `own` | functions of the library itself |
| `standard` | functions of the array API standard |
| `drawn` | random numbers, which the host draws before the call |
| `host` | the table's NumPy kernel, on the host. On JAX it has no gradients; on Dask its arguments are gathered into one chunk |

`torchnp.load(..., fallback=False)` refuses operators of the tier `host`. Some implementations do not cover all
arguments. For calls with other arguments, the NumPy kernel runs, and the program's `tiers()` says so after the call.

`scripts/portable_table.py` writes this page.
"""


def tier(lib: ArrayLibrary, name: str) -> str:
    """Return how an operator's calls run, if its row covers their arguments."""
    if name in draws._DRAWN:
        return "drawn"
    if name in lib.own:
        return "own"
    return "standard" if name in lib.standard and name not in HOSTED else "host"


def page() -> str:
    """Return the page's text."""
    prepare("jax")
    libraries = {title: library_for(name) for title, name in LIBRARIES.items()}
    core = sorted(name for name, schema in torchnp.table.schemas.items() if "core" in schema.tags)
    rows = sorted({name for lib in libraries.values() for name in (*lib.own, *lib.standard)} - HOSTED - set(core))
    others = [name for name in rows if name.startswith("aten::")]
    prims = [name for name in rows if name.startswith("prims::")]
    titles = list(libraries)
    lines = [HEAD, f"## The {len(core)} core operators", "", f"| | {' | '.join(titles)} |", "|---" * 4 + "|"]
    counts = {title: Counter(tier(lib, name) for name in core) for title, lib in libraries.items()}
    for kind in ("own", "standard", "drawn", "host"):
        lines.append(f"| {kind} | {' | '.join(str(counts[title][kind]) for title in titles)} |")
    lines += ["", f"| operator | {' | '.join(titles)} | why on the host |", "|---" * 5 + "|"]
    for name in core:
        tiers = [tier(lib, name) for lib in libraries.values()]
        why = HOST_REASONS.get(name, "") if "host" in tiers else ""
        lines.append(f"| `{name.removeprefix('aten::')}` | {' | '.join(tiers)} | {why} |")
    lines += [
        "",
        f"## {len(others)} more with rows",
        "",
        "Composites that programs saved without decompositions hold, and others.",
        "",
    ]
    lines += [f"| operator | {' | '.join(titles)} |", "|---" * 4 + "|"]
    for name in others:
        lines.append(
            f"| `{name.removeprefix('aten::')}` | {' | '.join(tier(lib, name) for lib in libraries.values())} |"
        )
    lines += [
        "",
        f"{len(prims)} prims have rows too, and the control flow operators `cond`, `while_loop`, `map` and `scan`.",
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    old, new = PAGE.read_text() if PAGE.exists() else "", page()
    if "--check" in sys.argv:
        print(f"{PAGE.name} is " + ("up to date" if new == old else "stale: run scripts/portable_table.py"))
        return int(new != old)
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
