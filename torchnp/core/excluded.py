"""Why overloads are not provided: the reasons in ``torchnp/data/excluded.toml``, each with patterns of op names."""

from __future__ import annotations

import fnmatch
import functools
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

EXCLUDED = Path(__file__).parent.parent / "data" / "excluded.toml"


def reason_of(name: str) -> str | None:
    """Return the reason of the first pattern that matches an overload or its op; None if none matches."""
    overload = name.partition("::")[2]
    base = overload.partition(".")[0]
    return next((why for is_one, why in _patterns() if is_one(base) or is_one(overload)), None)


@functools.cache
def _patterns() -> list[tuple[Callable[[str], Any], str]]:
    groups = tomllib.loads(EXCLUDED.read_text(encoding="utf-8"))["excluded"]
    return [(re.compile("|".join(map(fnmatch.translate, g["ops"]))).match, g["reason"]) for g in groups]
