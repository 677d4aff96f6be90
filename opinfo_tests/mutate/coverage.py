"""Coverage: which calls run which kernel functions. A mutant is judged with the calls that run its function."""

from __future__ import annotations

import ast
import importlib
import multiprocessing as mp
import sys
import warnings
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache
from types import FrameType
from typing import Any

from ..backends.backend import Backend, Seen
from ..case import Case, schemas
from ..generate.constraints.table import family
from ..run.oracle_cache import shard
from ..schema_facts import is_out
from .rules import ROOT, kernel_modules, source_of

Held = tuple[Case, Seen]
# a module, and the name of a top-level function or class in it, or "" for the module's own statements
Place = tuple[str, str]
KERNELS = str(ROOT / "kernels")
FORK = mp.get_context("fork")
SOUGHT = 60  # number of overloads whose random calls are tried for a function that no recorded call runs


@cache
def functions(module: str) -> tuple[list[int], list[str]]:
    """Return the first lines of a module's top-level statements (including decorators), and the names they define."""
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


class traced:
    """Context manager that records which kernel functions run; afterwards ``places`` contains them."""

    def __enter__(self) -> traced:
        self.codes: dict[Any, None] = {}
        sys.setprofile(self.see)
        return self

    def see(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(KERNELS):
            self.codes[frame.f_code] = None

    def __exit__(self, *_: Any) -> None:
        sys.setprofile(None)

    @property
    def places(self) -> set[Place]:
        found = {place_of(code.co_filename, code.co_firstlineno) for code in self.codes}
        return found | {(module, "") for module, _ in found}


@cache
def kept(loaded: int) -> list[Any]:
    """Return the kernels' functions that have a cache; ``loaded``, a number of modules, is only a cache key."""
    modules = [m for name, m in sys.modules.items() if name.startswith("torchnp.kernels")]
    found = {id(x): x for m in modules for x in vars(m).values() if hasattr(x, "cache_clear")}
    return [x for x in found.values() if x.__module__.startswith("torchnp.kernels")]


def run_by(case: Case, backend: Backend) -> set[Place]:
    """Return the kernel functions that a call runs; their caches are cleared first, so that cached functions run."""
    for function in kept(len(sys.modules)):
        function.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with traced() as trace:
            backend.execute(case)
    return trace.places


def run_at_import() -> set[Place]:
    """Return the functions that run when the package is imported; a fork imports it again to find them."""
    pipe, there = FORK.Pipe(duplex=False)

    def serve() -> None:
        for name in [n for n in sys.modules if n == "torchnp" or n.startswith("torchnp.")]:
            del sys.modules[name]
        with traced() as trace:
            importlib.import_module("torchnp").table["aten::add.Tensor"]
        there.send(trace.places)

    process = FORK.Process(target=serve)
    process.start()
    found = pipe.recv()
    process.join()
    return found


@cache
def importers() -> dict[str, set[str]]:
    """Return for each kernel module the kernel modules that import it."""
    found: dict[str, set[str]] = defaultdict(set)
    for module in kernel_modules():
        for node in ast.walk(ast.parse(source_of(module))):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("torchnp.kernels"):
                for name in (node.module, *(f"{node.module}.{a.name}" for a in node.names)):
                    found[name].add(module)
    return found


class Coverage:
    """The calls that run each function: at most ``most``, chosen from overloads and dtypes in turn."""

    def __init__(self, held: Iterable[Held], backend: Backend, most: int) -> None:
        self.most = most
        self.calls: dict[Place, list[Held]] = defaultdict(list)
        self.turns: dict[tuple[Place, str, str], int] = defaultdict(int)
        self.order: dict[Place, list[int]] = defaultdict(list)
        self.backend, self.at_import = backend, run_at_import()
        for case, want in held:
            self.add(case, want, run_by(case, backend))

    def add(self, case: Case, want: Seen, places: Iterable[Place]) -> None:
        """Add a call to each function that it runs."""
        for place in places:
            key = place, case.op, case.dtype
            self.order[place].append(self.turns[key])
            self.turns[key] += 1
            self.calls[place].append((case, want))

    def search(self, place: Place, drawn: Callable[[str], Iterable[Held]]) -> None:
        """Search random calls (``drawn``) of the overloads of a function's family for calls that run it.

        Code that runs at import, and a module's own statements, get the calls that run the module. If there are none,
        they get the calls that run the modules which import it.
        """
        module, function = place
        if not function or place in self.at_import:
            found = self.calls[module, ""] or [h for m in sorted(importers()[module]) for h in self.calls[m, ""]]
            for case, want in found[:: max(1, len(found) // self.most)]:
                self.add(case, want, [place])
            return
        ops = self.near(module)
        for op in ops[:: max(1, len(ops) // SOUGHT)]:
            for case, want in drawn(op):
                if place in run_by(case, self.backend):
                    self.add(case, want, [place])
            if len(self.calls[place]) > self.most // 4:
                return

    def near(self, module: str) -> list[str]:
        """Return the overloads of a module's family, and those of the families whose modules import it."""
        families = {name.removeprefix("torchnp.kernels.") for name in (module, *importers()[module])}
        return [n for n in sorted(schemas()) if n in self.backend.ops and family(n) in families and not is_out(n)]

    def of(self, place: Place) -> list[Held]:
        """Return the calls that run a function, one of each overload and dtype first."""
        turns = self.order[place]
        ranked = sorted(range(len(turns)), key=lambda i: (turns[i], shard(self.calls[place][i][0].digest, 1)))
        return [self.calls[place][i] for i in ranked[: self.most]]

    def ops(self, place: Place, most: int) -> list[str]:
        """Return the overloads whose calls run a function, those with the most calls first."""
        counts: dict[str, int] = defaultdict(int)
        for case, _ in self.calls[place]:
            counts[case.op] += 1
        return sorted(counts, key=lambda op: (-counts[op], op))[:most]
