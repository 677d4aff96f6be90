"""Write the files that `torchnp explain`, `torchnp ops` and `torchnp differences` read instead of torchnp's table.

    python scripts/make_lookup.py [--check] [--examples]

These are ops.json, differences.json, callers.tsv, torch_names.txt, examples.tsv and numpy_rows.tsv. Run the script after a
change of ``like=``, ``differs=``, a kernel's docstring, the catalogue or the counts of the proof; a test compares the files.
``--examples`` asks torch again for an example for each operator and each of its differences, and looks for one in the
proof if the catalogue's does not fit; this takes some minutes. Without it, examples of pairs that are no longer
declared are deleted, and examples of new pairs are added.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

from query_torch import difference_examples as examples

import torchnp
from opinfo_tests.proof import proof_command
from torchnp.core.schema import of_any_version
from torchnp.difference_catalogue import CHAPTERS
from torchnp.differences import Difference
from torchnp.lookup import json_export, on_tensors, op_index, spellings

# Attributes of every class or module: the first two since Python 3.13, the others since 3.14 or until then.
OF_PYTHON = (
    "__firstlineno__", "__static_attributes__", "__annotate__", "__annotate_func__", "__conditional_annotations__",
    "__annotations__",
)  # fmt: skip
DATA = Path(torchnp.__file__).parent / "data"


def ops_lines() -> list[str]:
    """Return the lines of ops.json: every overload that a known version of torch registers."""
    tried = proof_command.read()
    own = (name for name in of_any_version() if op_index.is_own(name))
    return json_export.listed(op_index.declared(name, tried.get(name, ())) for name in own).split("\n")


def differences_lines() -> list[str]:
    """Return the lines of differences.json: each difference with its chapter, its examples and its operators."""
    having: dict[str, dict[str, None]] = {}
    for name, row in torchnp.table.items():
        for i in row.row.differs if op_index.is_own(name) else ():
            having.setdefault(i, {})[name.partition(".")[0]] = None
    rows = (_difference(chapter, d, sorted(having.get(d.id, ()))) for chapter in CHAPTERS for d in chapter.ROWS)
    return json_export.listed(rows).split("\n")


def _difference(chapter: ModuleType, d: Difference, ops: list[str]) -> dict[str, Any]:
    found = {"id": d.id, "title": d.title, "category": chapter.__name__.rpartition(".")[2]}
    found |= {key: getattr(d, key) for key in ("torch", "torch_value", "numpy", "numpy_value")}
    found |= {"advice": d.why, "in_numpy": d.in_numpy, "in_torch": d.in_torch}
    return {**found, "array_api": d.array_api, "versions": d.where, "ops": ops}


def callers_lines() -> list[str]:
    """Return the lines of callers.tsv: how Python code calls each op that has a public name."""
    found = {}
    for op in dict.fromkeys(n.partition(".")[0] for n in torchnp.table.schemas if n.startswith("aten::")):
        called = examples.torch_names(op)[0].replace("torch.nn.functional.", "F.").replace("torch.Tensor.", "Tensor.")
        if not called.startswith("torch.ops.") and "._" not in called:
            found[op] = called
    for name, ops in spellings.TORCH.items():  # torch.unique is a Python function that calls ops without a public name
        for op in ops.split() if name.startswith("torch.") else ():
            if name.rpartition(".")[2] in op:
                found.setdefault(f"aten::{op}", name)
        called = name.startswith("F.") or name in ("Tensor.T", "Tensor.H")
        if called and " " not in ops and ops not in spellings.TORCH["F.interpolate"].split():
            found.setdefault(f"aten::{ops}", name)
    return ["# by scripts/make_lookup.py: op, its public name", *("\t".join(pair) for pair in sorted(found.items()))]


def names_lines() -> list[str]:
    """Return the lines of torch_names.txt: the public names of each of torch's modules and classes."""
    import torch

    spaces = {
        "torch": torch, "Tensor": torch.Tensor, "F": torch.nn.functional, "torch.linalg": torch.linalg, "torch.fft": torch.fft,
        "torch.special": torch.special,
    }  # fmt: skip
    rows = ["# by scripts/make_lookup.py: a module or class of torch's, and its public names"]
    for name, space in spaces.items():
        public = (n for n in dir(space) if (not n.startswith("_") or n.startswith("__")) and n not in OF_PYTHON)
        rows.append(f"{name}\t{' '.join(n for n in public if not isinstance(_found(space, n), ModuleType))}")
    return rows


def numpy_rows_lines() -> list[str]:
    """Return the functions of `torchnp.np`, and the differences that each undoes; also those of other NumPy versions."""
    import torchnp.np
    from torchnp.np.table import in_numpy

    others = {name: undoes for name, undoes in on_tensors.rows().items() if in_numpy(name) is None}
    return on_tensors.text(others | {name: row.undoes for name, row in torchnp.np.table.items()}).splitlines()


def _found(space: Any, name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(space, name, None)


def main() -> int:
    stale = []
    asked = {
        "torch_names.txt": names_lines,  # first, because the others look up names in it
        "ops.json": ops_lines,
        "differences.json": differences_lines,
        "callers.tsv": callers_lines,
        "examples.tsv": lambda: examples.lines("--examples" in sys.argv),
        "numpy_rows.tsv": numpy_rows_lines,
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
