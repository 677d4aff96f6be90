"""The index, memory figures and shared memory of the device ``np``, with and without its extension."""

import subprocess
import sys

import pytest

from torchnp.tests.test_np_device import with_extension


@pytest.mark.parametrize("asked", ["0", "1"], ids=["python", "extension"])
def test_the_device_is_managed(asked):
    command = [sys.executable, "-W", "ignore", "-m", "torchnp.tests.on_device_management"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=with_extension(asked))
    assert ran.returncode == 0, ran.stderr
