"""The error of all readers of files."""

from __future__ import annotations


class Malformed(ValueError):
    """A file is malformed; the message says how."""


def shown(text: object, most: int = 80) -> str:
    """The ``repr`` of something in a file, cut to ``most`` characters."""
    found = repr(text[: most + 1] if isinstance(text, (str, bytes)) else text)
    return found if len(found) <= most else f"{found[: most - 3]}..."
