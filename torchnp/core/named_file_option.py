"""Parse ``--option NAME=FILE``, which may be repeated."""

from __future__ import annotations

from collections.abc import Iterable


def named_files(option: str, texts: Iterable[str]) -> dict[str, str]:
    """Map names to files from an option's values.

    Raises
    ------
    ValueError
        A value is malformed or repeats a name.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, _, file = text.partition("=")
        if not name or not file:
            raise ValueError(f"{option} {text}: write NAME=FILE")
        if name in found:
            raise ValueError(f"{option} {text}: there are two of the name {name!r}")
        found[name] = file
    return found
