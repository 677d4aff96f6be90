"""Run detector.pt2, a program that calls two operators of torchvision, where neither torch nor torchvision is installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np

import torchnp

HERE = Path(__file__).parent

assert importlib.util.find_spec("torch") is None, "this shows that no torch is needed: run it where there is none"
program = torchnp.load(HERE / "detector.pt2")
with np.load(HERE / "detector.npz") as held:
    kept, found = program(held["image"], held["boxes"], held["scores"])
    assert np.array_equal(kept, held["kept"])
    np.testing.assert_allclose(found, held["found"], 1.3e-6, 1e-5)
print(f"{len(kept)} boxes, and what is in them, as torchvision gives them")
