"""Mutants that survived when a thousand were judged, each with the reason: ``data/survivors.toml``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .rules import Mutant

DATA = Path(__file__).parents[1] / "data" / "survivors.toml"


@dataclass(frozen=True)
class Survivor:
    """One surviving mutant.

    Attributes
    ----------
    module, function : str
        Where it is.
    before, after : str
        The original source text, and its replacement.
    why : str
        Why it equals the original in all that torch promises, or what it would take to catch it.
    """

    module: str
    function: str
    before: str
    after: str
    why: str


@cache
def survivors() -> tuple[Survivor, ...]:
    """Return the survivors in the file."""
    with DATA.open("rb") as file:
        return tuple(Survivor(**row) for row in tomllib.load(file)["survivor"])


def why(mutant: Mutant) -> str:
    """Return the file's reason that a mutant survives, or nothing."""
    same = (s for s in survivors() if (s.module, s.function) == (mutant.module, mutant.function))
    return next((s.why for s in same if (s.before, s.after) == (mutant.before, mutant.after)), "")
