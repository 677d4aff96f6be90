"""`torchnp.np` on the device ``np``: probes like those of probes.py."""

from __future__ import annotations

import torch

import torchnp.device  # noqa: F401  (it registers the device)
import torchnp.np as tnp
from torchnp.tests.device.probes import run
from torchnp.tests.np.test_places import CALLS, X, expected


def numpys_functions_stay_on_the_device():
    for name, call in CALLS.items():
        result = call(tnp, X.to("np"))
        assert result.device.type == "np", name
        torch.testing.assert_close(
            result.cpu(), expected(name), equal_nan=True, msg=lambda m, name=name: f"{name}: {m}"
        )


if __name__ == "__main__":
    run(globals())
