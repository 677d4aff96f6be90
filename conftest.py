"""What makes the tests quick: one OpenMP thread, little garbage to look through, and whole files for each worker."""

import gc
import os
from collections.abc import Iterator
from typing import Any

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # small arrays gain nothing from more, and there are several processes


@pytest.fixture(scope="module", autouse=True)
def _garbage_is_the_modules_own() -> Iterator[None]:
    """Keep the garbage collector from looking at millions of older objects, torch's samples among them, in each test."""
    gc.collect()
    gc.freeze()
    yield


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give a worker of pytest-xdist a whole file at a time, whose fixtures are made once; of the suite one entry, last."""
    if config.getvalue("dist") != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return nodeid if "::test_entry[" in nodeid or "::test_drawn[" in nodeid else nodeid.split("::")[0]

    return ByFile(config, log)
