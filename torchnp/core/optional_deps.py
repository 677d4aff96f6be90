"""Messages about missing optional packages; they name all missing packages and the extra that installs them."""

from __future__ import annotations

import importlib.util

# Packages whose name differs from their module's.
_PACKAGES = {"sklearn": "scikit-learn", "grpc": "grpcio", "prometheus_client": "prometheus-client"}


def lacking(extras: str, *modules: str) -> str:
    """Return a message with the missing modules' packages and the command that installs them; "" if none is missing."""
    missing = [_PACKAGES.get(m, m) for m in modules if importlib.util.find_spec(m) is None]
    if not missing:
        return ""
    *most, last = missing
    named = f"the packages {', '.join(most)} and {last}" if most else f"the package {last}"
    return f"needs {named}: pip install 'torchnp[{extras}]'"


def explained(error: ModuleNotFoundError, what: str, extras: str, *modules: str) -> ModuleNotFoundError:
    """Return an import error with the message of `lacking` if a module is missing, else ``error`` unchanged."""
    said = lacking(extras, *modules)
    return ModuleNotFoundError(f"{what} {said}", name=error.name) if said else error
