"""The optional extension in C++: ``TORCHNP_DEVICE_EXTENSION=1`` builds it at the first ``import torchnp.device``.

It replaces the Python functions of `convert` that convert between arrays and tensors. It adds an allocator and
the generator ``torch.Generator("np")``, which torch accepts only from C++. Everything except this generator works
without the extension. torch caches the build in its extensions folder (``TORCH_EXTENSIONS_DIR``).
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
        The build failed: there is no compiler or no ninja, or a folder is not writable.
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
    """Warn if torch is about to wait for another process's build.

    If that process was killed, torch would wait forever.
    """
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
    """Return the extension's ``share`` and ``wrap``.

    They fall back to the given ones, which are returned if there is no extension.
    """
    made = built()
    if made is None:
        return share, wrap
    # torch's own hooks for Python devices request a generator in a way for which torch warns.
    warnings.filterwarnings("ignore", "GetGeneratorForPrivateuse1", DeprecationWarning)
    made.ready(dtypes, share, wrap)
    return made.share, made.wrap


def guard() -> None:
    """Replace the Python device guard by the extension's, which is faster.

    torch asks the guard for the device many times in a call.
    """
    made = built()
    if made is not None:
        made.guard()
