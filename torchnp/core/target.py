"""The target version: the version of torch whose operators the table and its kernels reproduce."""

from __future__ import annotations

import contextvars
import os
import re
import sys
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

Version = tuple[int, int]

KNOWN: tuple[Version, ...] = ((2, 12), (2, 13), (2, 14), (2, 15))
"""The minor versions of torch whose registry `torchnp/data/schemas.tsv` holds, oldest first."""

VERSIONS = tuple(f"{major}.{minor}" for major, minor in KNOWN)
"""`KNOWN` as strings."""

RANGE = f"{KNOWN[0][0]}.{KNOWN[0][1]} to {KNOWN[-1][0]}.{KNOWN[-1][1]}"
"""The first and the last known version: ``"2.12 to 2.15"``."""

ENVIRONMENT = "TORCHNP_TARGET"


def parse(text: str) -> Version:
    """Return the minor version of torch in a text: ``"2.13"``, ``"2.13.1+cpu"``.

    Raises
    ------
    ValueError
        The text does not begin with a version.
    """
    found = re.match(r"(\d+)\.(\d+)", text)
    if found is None:
        raise ValueError(f"{text!r} is not a version of torch, such as '{spell(KNOWN[-1])}'")
    return int(found[1]), int(found[2])


def spell(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


def known(text: str) -> Version:
    """Parse a version and check that the table supports it.

    Raises
    ------
    ValueError
        The version is not in `KNOWN`.
    """
    version = parse(text)
    if version not in KNOWN:
        raise ValueError(f"torchnp knows torch {', '.join(map(spell, KNOWN))}, not {text}")
    return version


def installed() -> str | None:
    """Return the version of the installed torch without importing it; None if torch is not installed."""
    loaded = sys.modules.get("torch")
    if loaded is not None:
        return getattr(loaded, "__version__", None)
    import importlib.util  # imported here, at the first use, because it loads further modules

    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError):  # the process blocks the import of torch
        return None
    if spec is None or spec.origin is None:
        return None
    try:
        with open(os.path.join(os.path.dirname(spec.origin), "version.py"), encoding="utf-8") as file:
            text = file.read()
    except OSError:
        return None
    found = re.search(r"__version__ = ['\"]([^'\"]+)", text)
    return found[1] if found else None


def default() -> Version:
    """Return the version that ``TORCHNP_TARGET`` names, else the installed torch's, else the newest known version.

    If the installed torch's version is not known, return the newest known version before it, or the oldest known one.

    Warns
    -----
    UserWarning
        The installed torch is older or newer than all known versions.
    """
    asked = os.environ.get(ENVIRONMENT)
    if asked:
        try:
            return known(asked)
        except ValueError as error:
            raise ValueError(f"{ENVIRONMENT}: {error}") from None
    here = installed()
    if here is None:
        return KNOWN[-1]
    version = parse(here)
    if version in KNOWN:
        return version
    nearest = max((v for v in KNOWN if v < version), default=KNOWN[0])
    warnings.warn(
        f"torch {here} is installed, and torchnp knows {', '.join(map(spell, KNOWN))}: its kernels do what torch "
        f"{spell(nearest)} does. `python -m opinfo_tests --tier quick` shows where torch {here} differs",
        stacklevel=2,
    )
    return nearest


_chosen: Version | None = None
_within: contextvars.ContextVar[Version | None] = contextvars.ContextVar("target", default=None)


def current() -> Version:
    """Return the target version in effect: that of the `table_for` table whose kernel runs, else the process's."""
    global _chosen
    inner = _within.get()
    if inner is not None:
        return inner
    if _chosen is None:
        _chosen = default()
    return _chosen


def since(version: str) -> bool:
    """Return whether the target version in effect is ``version`` or later: ``if since("2.14"): ...``."""
    return current() >= _parsed(version)


_versions: dict[str, Version] = {}


def _parsed(text: str) -> Version:
    version = _versions.get(text)
    if version is None:
        version = _versions[text] = parse(text)
    return version


def target(version: str | None = None) -> str:
    """Return the target version, the minor version of torch that `torchnp.table` reproduces; set it if one is given.

    By default, the target is the version of the installed torch; without torch, it is the newest version that torchnp
    knows. The environment variable ``TORCHNP_TARGET`` sets it for a process.

    Parameters
    ----------
    version : str, optional
        The new target version, such as ``"2.13"``. Set it before you take kernels from the table, because kernels taken
        earlier keep the schema of the previous version.

    Returns
    -------
    str
        The target version that is now in effect.

    Raises
    ------
    ValueError
        torchnp does not know that version.
    """
    global _chosen
    if version is not None:
        _chosen = known(version)
        table = sys.modules.get("torchnp.core.table")
        if table is not None and table.table.version != _chosen:
            table.table.retarget(_chosen)
    return spell(current())


def fixed(function: Callable[..., Any], version: Version) -> Callable[..., Any]:
    """Wrap a kernel so that it always behaves as in ``version`` of torch, whatever the process's target version is."""

    @wraps(function)
    def kernel(*args: Any, **kwargs: Any) -> Any:
        token = _within.set(version)
        try:
            return function(*args, **kwargs)
        finally:
            _within.reset(token)

    return kernel
