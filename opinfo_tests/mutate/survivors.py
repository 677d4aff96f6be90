"""The mutants that survived a run of a thousand, each with the reason, from ``data/survivors.toml``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .rules import Mutant

DATA = Path(__file__).parents[1] / "data" / "survivors.toml"


@dataclass(frozen=True)
class Survivor:
    """A mutant that no call and no test caught.

    Attributes
    ----------
    module, function : str
        The module and function that it changes.
    before, after : str
        The original source text, and its replacement.
    why : str
        Why its behaviour does not violate anything that torch promises, or what a call would need to catch it.
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
    """Return the reason that the file gives for a mutant's survival, or an empty string."""
    same = (s for s in survivors() if (s.module, s.function) == (mutant.module, mutant.function))
    return next((s.why for s in same if (s.before, s.after) == (mutant.before, mutant.after)), "")
