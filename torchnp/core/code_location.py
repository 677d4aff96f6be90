"""A location in the user's code, kept as a code object and an instruction, and formatted only for a message."""

from __future__ import annotations

from types import CodeType

Where = tuple[CodeType, int] | None


def location(where: Where) -> str:
    """Format a location in the user's code for messages."""
    if where is None:
        return "an unknown place"
    code, instruction = where
    for i, (line, *_) in enumerate(code.co_positions()):
        if i == instruction // 2:
            return f"{code.co_filename}:{line or code.co_firstlineno}"
    return f"{code.co_filename}:{code.co_firstlineno}"
