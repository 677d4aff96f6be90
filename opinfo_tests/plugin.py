"""The pytest plugin: registers the suite's options if ``--pyargs opinfo_tests`` is given, in any working directory.

Otherwise it does nothing, so that the suite's ``--backend`` does not clash with another project's option.
"""

from __future__ import annotations

import importlib
from typing import Any

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: Any, parser: Any, args: list[str]) -> None:
    """Register the suite's conftest before options are parsed, as pytest does for a path in the working directory."""
    if "--pyargs" in args and any(a.partition("::")[0].split(".")[0] == "opinfo_tests" for a in args):
        suite = importlib.import_module("opinfo_tests.conftest")
        manager = early_config.pluginmanager
        if not manager.is_registered(suite):
            manager.consider_conftest(suite, registration_name=suite.__file__)
