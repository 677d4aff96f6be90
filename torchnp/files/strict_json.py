"""A JSON parser that refuses objects with repeated names."""

from __future__ import annotations

import json
from typing import Any

from torchnp.files.malformed import Malformed, shown


def parse_json(text: str | bytes, where: str) -> Any:
    """Parse a JSON text.

    Parameters
    ----------
    text : str or bytes
        The text; bytes are UTF-8.
    where : str
        The start of error messages.

    Raises
    ------
    Malformed
        The text is not JSON, is nested more deeply than Python's recursion limit, or has an object with a repeated
        name.
    """
    try:
        return json.loads(text.decode() if isinstance(text, bytes) else text, object_pairs_hook=_unique)
    except ValueError as error:  # includes UnicodeDecodeError
        raise Malformed(f"{where} is no JSON, or it is cut short: {error}") from error
    except RecursionError as error:
        raise Malformed(f"{where} is nested too deeply") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError(f"two values of the name {shown(twice(name for name, _ in pairs))}")
    return found


def twice(names: Any) -> Any:
    """Return the first repeated name; None if there is none."""
    seen = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
