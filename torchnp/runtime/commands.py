"""The commands ``torchnp run`` and ``torchnp requires``."""

from __future__ import annotations

import argparse
import json
import re
import zipfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import torchnp
from torchnp.core.named_file_option import named_files
from torchnp.files.malformed import Malformed, shown
from torchnp.files.read_arrays import read_npy
from torchnp.runtime.graph import Node
from torchnp.runtime.loading import load, read_graph
from torchnp.runtime.program import Program, Requirement, UserInput, requirements


def run_program(args: argparse.Namespace) -> int:
    """Run a program on arrays from files; write the results to a file, or print their dtypes and shapes."""
    program = _loaded(args)
    positional, named = program.arrange(read_inputs(program, args.input))
    profile = Profile()
    result = program.run(positional, named, profile if args.profile else None)
    write_results(program, result, args.output)
    if args.profile:
        print(profile)
    return 0


def write_results(program: Program, result: Any, output: str | None) -> None:
    """Write a call's results to a file, or print their dtypes and shapes."""
    names = [re.sub(r"\['?([^]']*)'?\]", r".\1", path).lstrip(".") for path in program.signature.gives.paths()]
    results = {name or "result": x for name, x in zip(names, program.signature.gives.flatten(result)) if x is not None}
    results = {name: program.as_numpy(x) for name, x in results.items()}
    if output:
        _save(output, results)
    else:
        for name, x in results.items():
            print(f"{name}  {x.dtype}{list(x.shape)}" if isinstance(x, np.ndarray) else f"{name}  {x}")


def _loaded(args: argparse.Namespace) -> Program:
    """Load the program, on NumPy or on the library of ``--xp``."""
    if args.xp is None:
        return load(args.program, args.model)
    from torchnp.portable.libraries import prepare

    prepare(args.xp)
    return torchnp.load(args.program, args.model, xp=args.xp)


def read_inputs(program: Program, given: list[str]) -> dict[str, Any]:
    """Return the values of ``NAME=FILE`` options by name."""
    specs = {spec.name: spec for spec in program.signature.inputs if isinstance(spec, UserInput)}
    found: dict[str, Any] = {}
    for name, file in named_files("--input", given).items():
        spec = specs.get(name)
        found[name] = _number(name, file) if spec and spec.meta is None else _array(file, spec)
    return found


def _number(name: str, text: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,19}", text) or not -(2**63) <= int(text) < 2**63:
        raise ValueError(f"the input {name!r} is an integer of 64 bits, and {shown(text)} is none")
    return int(text)


def _array(file: str, spec: UserInput | None) -> Any:
    if Path(file).suffix.lower() in (".npz", ".safetensors"):
        raise ValueError(f"{file} holds several arrays: an input is one .npy file")
    try:
        loaded = np.asarray(read_npy(file, "c"))  # map copy-on-write, because a program may write to its arguments
    except Malformed as error:
        raise ValueError(f"{file}: {error}") from error
    meta = spec.meta if spec else None
    if meta and loaded.dtype.kind == "V" and loaded.dtype.itemsize == meta.dtype.itemsize:
        return loaded.view(meta.dtype)  # .npy files have no names for bfloat16 and other ml_dtypes
    return loaded


def _save(file: str, results: dict[str, Any]) -> None:
    if file.endswith(".npz"):
        _save_several(file, results)
        return
    if not file.endswith(".npy"):
        raise ValueError(f"--output {file!r} is neither a .npy nor a .npz file")
    if len(results) != 1:
        raise ValueError(f"the program gives {len(results)} results ({', '.join(results)}): write them to a .npz file")
    np.save(file, next(iter(results.values())))


def _save_several(file: str, results: dict[str, Any]) -> None:
    """Write a .npz file. The names come from the program: ``savez`` would take some as its own arguments."""
    for name in results:
        if not name.isprintable() or {"/", "\\"} & {*name} or len(name) > 1000:
            raise ValueError(f"the program gives a result of the name {shown(name)}, which no file should have")
    with zipfile.ZipFile(file, "w") as made:
        for name, x in results.items():
            with made.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(x), allow_pickle=False)


class Profile:
    """Number of calls and seconds for each operator; call the object with each node that has run."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.seconds: dict[str, float] = {}

    def __call__(self, node: Node, seconds: float) -> None:
        name = node.label or node.target
        self.calls[name] += 1
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    def __str__(self) -> str:
        total = sum(self.seconds.values()) or 1.0
        rows = [("operator", "calls", "ms", "share")]
        for name, s in sorted(self.seconds.items(), key=lambda item: -item[1]):
            rows.append((name, str(self.calls[name]), f"{1e3 * s:.3f}", f"{s / total:.0%}"))
        return aligned(rows)


def list_requirements(args: argparse.Namespace) -> int:
    """List a program's operators; return the exit status, 1 if some cannot run here or on the given backend."""
    needed = requirements(read_graph(args.program, args.model))
    absent = [r.name for r in needed if r.status in ("absent", "excluded", "unknown")]
    told = _told_by(args.backend, needed) if args.backend else {}
    lacking = [name for name, said in told.items() if said.startswith("lacks")]
    bad = lacking if args.backend else absent
    if args.json:
        operators = [asdict(r) | ({"backend": told[r.name]} if told else {}) for r in needed]
        about = {"backend": args.backend, "lacks": lacking} if args.backend else {}
        print(json.dumps({"runs": not absent, **about, "operators": operators}, indent=1))
        return 1 if bad else 0
    rows = [("operator", "calls", "dtypes", "status", *([args.backend] if told else []), "differences from NumPy")]
    for r in needed:
        said = (told[r.name],) if told else ()
        rows.append((r.name, str(r.count), " ".join(r.dtypes), r.status, *said, " ".join(r.differences)))
    print(aligned(rows))
    counts = Counter(r.status for r in needed)
    print(
        f"\n{sum(r.count for r in needed)} calls of {len(needed)}: " + ", ".join(f"{k} {s}" for s, k in counts.items())
    )
    if absent:
        print(f"torchnp does not run {', '.join(absent)}")
    if args.backend:
        print(f"{args.backend} lacks {', '.join(lacking) or 'nothing'}")
        if apart := [name for name, said in told.items() if said == _COMPOSITE]:
            print(f"it has no kernel of {', '.join(apart)}: run_decompositions() takes such operators apart")
    return 1 if bad else 0


_COMPOSITE = "composite"


def _told_by(name: str, needed: Sequence[Requirement]) -> dict[str, str]:
    """Return a backend's support for each operator: ``has``, ``lacks``, ``lacks`` with dtypes, or ``composite``.

    ``composite`` marks an operator that the backend lacks but does not need, because torch defines it through others.
    The support for functions of sizes and for higher-order operators is "": no backend provides them.
    """
    from opinfo_tests.backends.load import load_backend

    try:
        backend = load_backend(name)
    except SystemExit as error:
        raise ValueError(str(error)) from None

    def said(r: Requirement) -> str:
        if r.status in ("number", "graph"):
            return ""
        if r.name not in backend.ops:
            return _COMPOSITE if r.status == "composite" else "lacks"
        held = backend.dtypes
        strange = [d for d in r.dtypes if held is not None and d not in held]
        return f"lacks {' '.join(strange)}" if strange else "has"

    return {r.name: said(r) for r in needed}


def aligned(rows: Sequence[tuple[str, ...]]) -> str:
    """Return rows as lines of text with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(map(str.ljust, cells, widths)).rstrip() for cells in rows)
