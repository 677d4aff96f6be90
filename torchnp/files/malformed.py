"""The exception of all file readers."""

from __future__ import annotations


class Malformed(ValueError):
    """Raised when a file is malformed; the message says how."""


def shown(text: object, most: int = 80) -> str:
    """Return the ``repr`` of a value from a file, cut to ``most`` characters."""
    found = repr(text[: most + 1] if isinstance(text, (str, bytes)) else text)
    return found if len(found) <= most else f"{found[: most - 3]}..."
