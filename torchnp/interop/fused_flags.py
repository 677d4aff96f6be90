"""torch's process-wide flags for fused code paths: oneDNN, scaled dot product attention, the transformer fast path."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch


class Flag(NamedTuple):
    """A flag's getter and setter."""

    read: Callable[[], bool]
    write: Callable[[bool], object]


def _enable_mkldnn(on: bool) -> None:
    # None leaves the other flags unchanged. Setting `enabled` would fail once torch's tests have frozen the flags.
    torch.backends.mkldnn.set_flags(on, None, None, None)


MKLDNN = Flag(lambda: bool(torch.backends.mkldnn.enabled), _enable_mkldnn)
FLASH = Flag(torch.backends.cuda.flash_sdp_enabled, torch.backends.cuda.enable_flash_sdp)
MATH = Flag(torch.backends.cuda.math_sdp_enabled, torch.backends.cuda.enable_math_sdp)
FASTPATH = Flag(torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled)
