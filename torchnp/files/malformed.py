"""The error of all readers of files."""

from __future__ import annotations


class Malformed(ValueError):
    """A file is not what it should be; the text says in what."""


def shown(text: object, most: int = 80) -> str:
    """The ``repr`` of something in a file, cut where it is long."""
    found = repr(text[: most + 1] if isinstance(text, (str, bytes)) else text)
    return found if len(found) <= most else f"{found[: most - 3]}..."
