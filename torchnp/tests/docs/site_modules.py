"""Loads the modules in ``docs`` that build the site. Only a clone has them."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

DOCS = Path(__file__).resolve().parents[3] / "docs"


def site_module(name: str) -> ModuleType:
    if str(DOCS) not in sys.path:
        sys.path.append(str(DOCS))
    return importlib.import_module(name)
