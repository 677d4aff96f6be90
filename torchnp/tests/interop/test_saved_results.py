"""Each library's backward pass accepts what the other's forward pass has saved: equal gradients, and no crash."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from torchnp.tests.interop.saved_results import CASES, ROUTES


@pytest.fixture(scope="module")
def said():
    command = [sys.executable, "-m", "torchnp.tests.interop.saved_results"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", CASES)
def test_gradients_across_the_edge_of_the_mode(said, name, route):
    assert said[f"{name}/{route}"] == ""
