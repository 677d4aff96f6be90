"""Mutants that the judge let live when a thousand were judged, each with why: ``data/survivors.toml``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .rules import Mutant

DATA = Path(__file__).parents[1] / "data" / "survivors.toml"


@dataclass(frozen=True)
class Survivor:
    """One of them.

    Attributes
    ----------
    module, function : str
        Where it is.
    before, after : str
        The piece that is changed, and what to.
    why : str
        What makes it equal to the original in all that torch promises, or what it would take to see it.
    """

    module: str
    function: str
    before: str
    after: str
    why: str


@cache
def survivors() -> tuple[Survivor, ...]:
    """Return those of the file."""
    with DATA.open("rb") as file:
        return tuple(Survivor(**row) for row in tomllib.load(file)["survivor"])


def why(mutant: Mutant) -> str:
    """Return why a mutant lives, as far as the file has it."""
    same = (s for s in survivors() if (s.module, s.function) == (mutant.module, mutant.function))
    return next((s.why for s in same if (s.before, s.after) == (mutant.before, mutant.after)), "")
