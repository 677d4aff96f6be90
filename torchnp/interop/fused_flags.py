"""The flags of the process by which torch takes fused routes: oneDNN's, flash attention, the transformer fast path."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch


class Flag(NamedTuple):
    """How a flag is read and set."""

    read: Callable[[], bool]
    write: Callable[[bool], object]


def _enable_mkldnn(on: bool) -> None:
    # None leaves the other flags; `enabled = on` is refused once torch's tests have frozen them
    torch.backends.mkldnn.set_flags(on, None, None, None)


MKLDNN = Flag(lambda: bool(torch.backends.mkldnn.enabled), _enable_mkldnn)
FLASH = Flag(torch.backends.cuda.flash_sdp_enabled, torch.backends.cuda.enable_flash_sdp)
MATH = Flag(torch.backends.cuda.math_sdp_enabled, torch.backends.cuda.enable_math_sdp)
FASTPATH = Flag(torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled)
