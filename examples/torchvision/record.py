"""Write what torchvision itself gives for the samples: recorded.npz, which the tests hold the rows against.

    python record.py [--check | --program]

It needs torch and torchvision, and nothing of torchnp. ``--check`` compares with what is written, bit by bit.
``--program`` writes detector.pt2 and detector.npz instead: an exported program that calls two of the operators, what it
is given, and what it gives.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch
import torchvision

from opinfo_tests.generate.samples.torchvision_ops import samples

HERE = Path(__file__).parent
POOLS = ("roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d")
OPS = ("nms", *POOLS, *(f"_{name}_backward" for name in POOLS))


def recorded() -> dict[str, np.ndarray]:
    """The answers by ``op dtype turn result``, and the refusals by ``op errors turn``."""
    found: dict[str, np.ndarray] = {}
    for op in OPS:
        for dtype in ("float32", "float64", "float16", "errors"):
            for turn, (args, kwargs) in enumerate(samples(f"torchvision::{op}", dtype)):
                given = [torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in args]
                try:
                    out = getattr(torch.ops.torchvision, op)(*given, **kwargs)
                except Exception as error:
                    assert dtype == "errors", (op, dtype, turn, error)
                    said = [type(error).__name__, str(error).splitlines()[0]]
                    found[f"{op} errors {turn}"] = np.array(json.dumps(said))
                    continue
                assert dtype != "errors", (op, turn)
                for i, result in enumerate(out if isinstance(out, tuple) else (out,)):
                    found[f"{op} {dtype} {turn} {i}"] = result.numpy()
    return found


class Detector(torch.nn.Module):
    """The best boxes of an image, and what a convolution sees in them."""

    def __init__(self) -> None:
        super().__init__()
        self.features = torch.nn.Conv2d(3, 4, 3, stride=2, padding=1)

    def forward(self, image: torch.Tensor, boxes: torch.Tensor, scores: torch.Tensor) -> tuple:
        """Indices of boxes, and a square of features for each."""
        kept = torch.ops.torchvision.nms(boxes, scores, 0.5)
        rois = torch.nn.functional.pad(boxes[kept], (1, 0))  # all of image 0
        return kept, torch.ops.torchvision.roi_align(self.features(image).relu(), rois, 0.5, 2, 2, 2, True)


def write_program() -> None:
    """Export the detector, and keep one call of it."""
    torch.manual_seed(0)
    model = Detector().eval()
    corners = torch.rand(20, 2) * 16
    given = torch.randn(1, 3, 24, 24), torch.cat([corners, corners + 2 + torch.rand(20, 2) * 6], 1), torch.rand(20)
    torch.export.save(torch.export.export(model, given), HERE / "detector.pt2")
    kept, found = model(*given)
    names = ("image", "boxes", "scores", "kept", "found")
    np.savez_compressed(HERE / "detector.npz", **dict(zip(names, (t.detach().numpy() for t in (*given, kept, found)))))
    print(f"{len(kept)} boxes of {len(given[1])}")


def main() -> int:
    """Write or compare; returns the exit status."""
    if "--program" in sys.argv:
        write_program()
        return 0
    path, found = HERE / "recorded.npz", recorded()
    versions = f"torch {torch.__version__}, torchvision {torchvision.__version__}"
    if "--check" not in sys.argv:
        np.savez_compressed(path, versions=np.array(versions), **found)
        print(f"{len(found)} results of {versions}")
        return 0
    with np.load(path) as held:
        there = {name: held[name] for name in held.files if name != "versions"}
        print(f"{len(there)} results of {held['versions']}, and {len(found)} of {versions}")
    other = [n for n in {*there, *found} if n not in there or n not in found or not same(there[n], found[n])]
    print("the same, bit by bit" if not other else f"others: {', '.join(sorted(other))}")
    return int(bool(other))


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two results are of one dtype and shape, and hold the same bytes."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


if __name__ == "__main__":
    sys.exit(main())
