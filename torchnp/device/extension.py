"""The optional extension in C++: ``TORCHNP_DEVICE_EXTENSION=1`` builds it at the first ``import torchnp.device``.

It replaces the Python functions of `storages` that convert between arrays and tensors, and adds what torch takes from
C++ alone: an allocator, and the generator ``torch.Generator("np")``. Everything but that generator works without it.
torch caches the build in its extensions folder (``TORCH_EXTENSIONS_DIR``).
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
    """Build the extension, or load the cached build.

    Raises
    ------
    RuntimeError
        The build failed: no compiler, no ninja, or a folder that cannot be written.
    """
    from torch.utils import cpp_extension

    warn_of_lock()
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


def warn_of_lock() -> None:
    """Warn if torch is about to wait for another process's build: it would wait forever for one that was killed."""
    from torch.utils import cpp_extension

    folder = getattr(cpp_extension, "_get_build_directory", None)
    lock = Path(folder("torchnp_device", False), "lock") if folder is not None else None
    if lock is not None and lock.exists():
        told = (
            f"Waiting for another process that builds the extension of torchnp.device. If there is none, delete {lock}"
        )
        warnings.warn(told, RuntimeWarning, stacklevel=2)


def built() -> Any:
    """Return the extension if ``TORCHNP_DEVICE_EXTENSION`` asks for it, else None."""
    return build() if ASKED else None


def replace(dtypes: dict[Any, Any], share: Callable[..., Any], wrap: Callable[..., Any]) -> tuple[Any, Any]:
    """Return the extension's ``share`` and ``wrap``, which fall back to Python's; without the extension, Python's."""
    made = built()
    if made is None:
        return share, wrap
    # torch's own hooks for Python devices ask for a generator in a way that torch warns about.
    warnings.filterwarnings("ignore", "GetGeneratorForPrivateuse1", DeprecationWarning)
    made.ready(dtypes, share, wrap)
    return made.share, made.wrap


def guard() -> None:
    """Replace the Python guard by the extension's: torch asks it for the current device many times a call."""
    made = built()
    if made is not None:
        made.guard()
