"""``torchnp run`` and ``torchnp requires``."""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from torchnp.runtime.graph import Node
from torchnp.runtime.loading import load, read_graph
from torchnp.runtime.program import Program, UserInput, requirements


def run_program(args: argparse.Namespace) -> int:
    """Run a program on arrays from files; the result goes to a file, or its shapes to the screen."""
    program = load(args.program, args.model)
    positional, named = program.arrange(_inputs(program, args.input))
    profile = Profile()
    result = program.run(positional, named, profile if args.profile else None)
    names = [re.sub(r"\['?([^]']*)'?\]", r".\1", path).lstrip(".") for path in program.signature.gives.paths()]
    results = {name or "result": x for name, x in zip(names, program.signature.gives.flatten(result)) if x is not None}
    if args.output:
        _save(args.output, results)
    else:
        for name, x in results.items():
            print(f"{name}  {x.dtype}{list(x.shape)}" if isinstance(x, np.ndarray) else f"{name}  {x}")
    if args.profile:
        print(profile)
    return 0


def _inputs(program: Program, given: list[str]) -> dict[str, Any]:
    """The values of ``NAME=FILE`` options."""
    specs = {spec.name: spec for spec in program.signature.inputs if isinstance(spec, UserInput)}
    found: dict[str, Any] = {}
    for text in given:
        name, equals, file = text.partition("=")
        if not equals or not file:
            raise ValueError(f"--input {text!r} is not of the form NAME=FILE")
        if name in found:
            raise ValueError(f"--input gives {name!r} twice")
        spec = specs.get(name)
        found[name] = _number(name, file) if spec and spec.meta is None else _array(file, spec)
    return found


def _number(name: str, text: str) -> int:
    if not re.fullmatch(r"-?\d{1,19}", text):
        raise ValueError(f"the input {name!r} is an integer, and {text!r} is none")
    return int(text)


def _array(file: str, spec: UserInput | None) -> Any:
    try:
        loaded = np.load(file, allow_pickle=False)
    except ValueError as error:
        raise ValueError(f"{file} is no .npy file of numbers: {error}") from error
    if not isinstance(loaded, np.ndarray):
        raise ValueError(f"{file} holds several arrays: an input is one .npy file")
    meta = spec.meta if spec else None
    if meta and loaded.dtype.kind == "V" and loaded.dtype.itemsize == meta.dtype.itemsize:
        return loaded.view(meta.dtype)  # NumPy's files have no names for bfloat16 and its like
    return loaded


def _save(file: str, results: dict[str, Any]) -> None:
    if file.endswith(".npz"):
        np.savez(file, **results)
        return
    if not file.endswith(".npy"):
        raise ValueError(f"--output {file!r} is neither a .npy nor a .npz file")
    if len(results) != 1:
        raise ValueError(f"the program gives {len(results)} results ({', '.join(results)}): write them to a .npz file")
    np.save(file, next(iter(results.values())))


class Profile:
    """Calls and seconds by operator; called with each node that has run."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.seconds: dict[str, float] = {}

    def __call__(self, node: Node, seconds: float) -> None:
        self.calls[node.target] += 1
        self.seconds[node.target] = self.seconds.get(node.target, 0.0) + seconds

    def __str__(self) -> str:
        total = sum(self.seconds.values()) or 1.0
        rows = [("operator", "calls", "ms", "share")]
        for name, s in sorted(self.seconds.items(), key=lambda item: -item[1]):
            rows.append((name, str(self.calls[name]), f"{1e3 * s:.3f}", f"{s / total:.0%}"))
        return _aligned(rows)


def list_requirements(args: argparse.Namespace) -> int:
    """The operators of a program; status 1 if some of them cannot run."""
    needed = requirements(read_graph(args.program, args.model))
    lacking = [r.name for r in needed if r.status in ("absent", "excluded", "unknown")]
    if args.json:
        print(json.dumps({"runs": not lacking, "operators": [asdict(r) for r in needed]}, indent=1))
        return 1 if lacking else 0
    rows = [("operator", "calls", "dtypes", "status", "differences from NumPy")]
    rows += [(r.name, str(r.count), " ".join(r.dtypes), r.status, " ".join(r.differences)) for r in needed]
    print(_aligned(rows))
    counts = Counter(r.status for r in needed)
    print(
        f"\n{sum(r.count for r in needed)} calls of {len(needed)}: " + ", ".join(f"{k} {s}" for s, k in counts.items())
    )
    if lacking:
        print(f"torchnp does not run {', '.join(lacking)}")
    return 1 if lacking else 0


def _aligned(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(map(str.ljust, cells, widths)).rstrip() for cells in rows)
