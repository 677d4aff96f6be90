"""What an installation may lack: packages of the extras in pyproject.toml, all named at once with the way to get them."""

from __future__ import annotations

import importlib.util

# Modules whose package has another name.
_PACKAGES = {"sklearn": "scikit-learn", "grpc": "grpcio", "prometheus_client": "prometheus-client"}


def lacking(extras: str, *modules: str) -> str:
    """Which of the modules are not installed and what installs them, or "" where all are there."""
    missing = [_PACKAGES.get(m, m) for m in modules if importlib.util.find_spec(m) is None]
    if not missing:
        return ""
    *most, last = missing
    named = f"the packages {', '.join(most)} and {last}" if most else f"the package {last}"
    return f"needs {named}: pip install 'torchnp[{extras}]'"


def explained(error: ModuleNotFoundError, what: str, extras: str, *modules: str) -> ModuleNotFoundError:
    """The error of an import, in the words of `lacking` if it comes from a package that is not installed."""
    said = lacking(extras, *modules)
    return ModuleNotFoundError(f"{what} {said}", name=error.name) if said else error
