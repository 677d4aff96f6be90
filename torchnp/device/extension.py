"""The optional extension in C++: ``TORCHNP_DEVICE_EXTENSION=1`` builds it at the first ``import torchnp.device``.

It makes a tensor of an array, and an array of a tensor, in place of the Python functions of `storages`, and gives torch
what it asks of a device in C++ alone: an allocator, and the generator of ``torch.Generator("np")``. Without it
everything but that generator works. torch keeps what it has built in its folder of extensions (``TORCH_EXTENSIONS_DIR``).
"""

from __future__ import annotations

import os
import subprocess
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

ASKED = os.environ.get("TORCHNP_DEVICE_EXTENSION", "0") not in ("", "0")
SOURCE = Path(__file__).with_name("extension.cpp")


@cache
def build() -> Any:
    """Build the extension, or load it as it was built.

    Raises
    ------
    RuntimeError
        Where it cannot be built: no compiler, no ninja, a folder that cannot be written.
    """
    from torch.utils import cpp_extension

    try:
        return cpp_extension.load(
            "torchnp_device", [str(SOURCE)], extra_include_paths=[np.get_include()], extra_cflags=["-O2"]
        )
    except (RuntimeError, OSError, ImportError, subprocess.SubprocessError) as error:
        why = next((line for line in reversed(str(error).splitlines()) if "error" in line.lower()), str(error))
        raise RuntimeError(
            f"the extension of torchnp.device could not be built ({why.strip()}). It needs a C++ compiler and ninja "
            "(pip install ninja); unset TORCHNP_DEVICE_EXTENSION to do without it: only torch.Generator('np') needs it"
        ) from error


def built() -> Any:
    """The extension where it was asked for, None elsewhere."""
    return build() if ASKED else None


def replace(dtypes: dict[Any, Any], share: Callable[..., Any], wrap: Callable[..., Any]) -> tuple[Any, Any]:
    """The extension's functions in place of two of Python, to which it leaves what it does not know; else those."""
    made = built()
    if made is None:
        return share, wrap
    # torch's own hooks for devices of Python ask for a generator by the way of which it warns.
    warnings.filterwarnings("ignore", "GetGeneratorForPrivateuse1", DeprecationWarning)
    made.ready(dtypes, share, wrap)
    return made.share, made.wrap


def guard() -> None:
    """Put the extension's guard, whom torch asks for the current device many times a call, in the place of Python's."""
    made = built()
    if made is not None:
        made.guard()
