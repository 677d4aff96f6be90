"""A place in the user's code, kept as a code object and a position, and formatted only when a message names it."""

from __future__ import annotations

from types import CodeType

Where = tuple[CodeType, int] | None


def location(where: Where) -> str:
    """Format a place in the client's code for messages."""
    if where is None:
        return "an unknown place"
    code, instruction = where
    for i, (line, *_) in enumerate(code.co_positions()):
        if i == instruction // 2:
            return f"{code.co_filename}:{line or code.co_firstlineno}"
    return f"{code.co_filename}:{code.co_firstlineno}"
