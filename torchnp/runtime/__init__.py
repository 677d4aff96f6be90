"""Run exported programs without torch: `torchnp.load` and its parts."""

from __future__ import annotations

from torchnp.runtime.archive import ProgramError
from torchnp.runtime.loading import load
from torchnp.runtime.program import Program

__all__ = ["Program", "ProgramError", "load"]
