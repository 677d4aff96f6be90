"""The location in the user's code that issued an operator, which is cheap to record and resolved only for an error."""

from __future__ import annotations

import os
import sys

import torch

import torchnp
from torchnp.core.code_location import Where

_TORCH = os.path.dirname(torch.__file__) + os.sep
_OURS = os.path.dirname(torchnp.__file__) + os.sep
_TESTS = os.path.join(_OURS, "tests") + os.sep


class _Outside(dict):
    def __missing__(self, filename: str) -> bool:
        inside = filename.startswith((_TORCH, _OURS, "<")) and not filename.startswith(
            (_TESTS, "<stdin>", "<string>", "<ipython")
        )
        self[filename] = not inside
        return not inside


_outside = _Outside()


def caller(depth: int = 1) -> Where:
    """Return the innermost frame outside torch and torchnp, as a code object and a position.

    These keep no variables alive.

    The innermost ``depth`` frames are known to be inside torch or torchnp and are skipped, because inspecting a frame
    costs as much as creating it.
    """
    frame = sys._getframe(depth)
    while frame is not None:
        code = frame.f_code
        if _outside[code.co_filename]:
            return code, frame.f_lasti
        frame = frame.f_back  # type: ignore[assignment]
    return None


def file_of_torch() -> str:
    """Return the torch file of the innermost frame outside torchnp, as a path below torch/; "" for other files."""
    frame = sys._getframe(1)
    while frame is not None and (name := frame.f_code.co_filename).startswith(_OURS) and not name.startswith(_TESTS):
        frame = frame.f_back  # type: ignore[assignment]
    name = frame.f_code.co_filename if frame is not None else ""
    return name.removeprefix(_TORCH).replace(os.sep, "/") if name.startswith(_TORCH) else ""
