"""Which calls run which functions of the kernels: what a mutant is judged with."""

from __future__ import annotations

import ast
import sys
import warnings
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from types import FrameType
from typing import Any

from ..backends.backend import Backend, Seen
from ..case import Case
from ..run.answers import shard
from .changes import ROOT, source_of

Held = tuple[Case, Seen]
Place = tuple[str, str]  # a module, and its outermost function or nothing
KERNELS = str(ROOT / "kernels")


@cache
def functions(module: str) -> tuple[list[int], list[str]]:
    """Return where top-level statements begin, decorators included, and the names of those that are functions or classes."""
    starts, names = [0], [""]
    for node in ast.parse(source_of(module)).body:
        starts.append(min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))]))
        names.append(node.name if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else "")
    return starts, names


@cache
def module_of(filename: str) -> str:
    return ".".join(filename.removeprefix(str(ROOT.parent)).removesuffix(".py").strip("/").split("/"))


def place_of(filename: str, line: int) -> Place:
    module = module_of(filename)
    starts, names = functions(module)
    return module, names[bisect_right(starts, line) - 1]


def run_by(case: Case, backend: Backend) -> set[Place]:
    """Return the functions of the kernels that a call runs."""
    codes: dict[Any, None] = {}

    def seen(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(KERNELS):
            codes[frame.f_code] = None

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sys.setprofile(seen)
        try:
            backend.execute(case)
        finally:
            sys.setprofile(None)
    found = {place_of(code.co_filename, code.co_firstlineno) for code in codes}
    return found | {(module, "") for module, _ in found}


class Coverage:
    """The calls that run each function, at most ``most`` of them, an overload and a dtype beside another."""

    def __init__(self, held: Iterable[Held], backend: Backend, most: int) -> None:
        self.most = most
        self.calls: dict[Place, list[Held]] = defaultdict(list)
        self.turns: dict[tuple[Place, str, str], int] = defaultdict(int)
        self.order: dict[Place, list[int]] = defaultdict(list)
        for case, want in held:
            for place in run_by(case, backend):
                key = place, case.op, case.dtype
                self.order[place].append(self.turns[key])
                self.turns[key] += 1
                self.calls[place].append((case, want))

    def of(self, place: Place) -> list[Held]:
        """Return the calls that run a function, first one of each overload and dtype."""
        turns = self.order[place]
        ranked = sorted(range(len(turns)), key=lambda i: (turns[i], shard(self.calls[place][i][0].digest, 1)))
        return [self.calls[place][i] for i in ranked[: self.most]]

    def ops(self, place: Place, most: int) -> list[str]:
        """Return overloads whose calls run a function, those first that run it most."""
        counts: dict[str, int] = defaultdict(int)
        for case, _ in self.calls[place]:
            counts[case.op] += 1
        return sorted(counts, key=lambda op: (-counts[op], op))[:most]
