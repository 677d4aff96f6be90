"""A build of the device's extension that another process is running, or has left unfinished."""

import subprocess
import sys

PROGRAM = """
import warnings
import torchnp.device
from torch.utils import cpp_extension
from pathlib import Path
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    torchnp.device.extension.warn_of_lock()
    lock = Path(cpp_extension._get_build_directory("torchnp_device", False), "lock")
    lock.touch()
    torchnp.device.extension.warn_of_lock()
print([str(w.message) == f"Waiting for another process that builds the extension of torchnp.device. "
       f"If there is none, delete {lock}" for w in told])
"""


def test_a_lock_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    monkeypatch.delenv("TORCHNP_DEVICE_EXTENSION", raising=False)
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "[True]"
