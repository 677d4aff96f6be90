"""Run whole models of torchvision on torchnp, and hold what they give against torch's CPU.

    python check_models.py [NAME ...] [--float32]

Each model has random weights and small random images, nothing is fetched. It runs

- on the device ``np``: the outputs in inference, and in training the losses (or the outputs' weighted sums), the gradients
  of all parameters, and the buffers that a step writes;
- exported, saved and read by ``torchnp.load``: the outputs. torch cannot export the detectors that look at the boxes they
  have proposed (their number is a size that torchvision's Python asks for), and no detector's choice of the best boxes as it
  stands: `batched_nms` below is put in its place.

The figure is the largest difference of any tensor, divided by the tensor's largest magnitude; those that are nothing beside
the others (gradients of a bias before a batch norm, which are rounding alone) count in the others' measure. Models run in double precision,
where a difference is of an operator: in single precision a detector's choice among boxes goes by the last bit of their
scores. With ``--float32`` they run in single precision. Exit status: 1 if any differs by more than the limit, or fails.
"""

from __future__ import annotations

import torchnp.device  # isort: skip  # first of all: it makes torch's device

import argparse
import contextlib
import copy
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
import torchvision
from torch.utils._pytree import tree_leaves, tree_map
from torchvision.models import detection, optical_flow, segmentation, video

import torchnp

LIMITS = {torch.float64: 1e-6, torch.float32: 1e-2}  # detectors have anchors, labels and a loss of float32 in any case
WAYS = ("inference", "training", "load")
SIDE = {
    "inception_v3": 96,
    "maxvit_t": 224,
    "mvit_v1_b": 224,
    "mvit_v2_s": 224,
    "s3d": 224,
}  # image sizes, if 64 is too small
CLASSIFIERS = (
    "alexnet", "convnext_tiny", "densenet121", "efficientnet_b0", "efficientnet_v2_s", "googlenet", "inception_v3",
    "maxvit_t", "mnasnet0_5", "mobilenet_v2", "mobilenet_v3_small", "regnet_x_400mf", "regnet_y_400mf", "resnet18",
    "resnext50_32x4d", "shufflenet_v2_x0_5", "squeezenet1_0", "swin_t", "swin_v2_t", "vgg11_bn", "wide_resnet50_2",
)  # fmt: skip
DETECTORS = (
    "fasterrcnn_mobilenet_v3_large_320_fpn", "fasterrcnn_resnet50_fpn_v2", "fcos_resnet50_fpn",
    "keypointrcnn_resnet50_fpn", "maskrcnn_resnet50_fpn", "retinanet_resnet50_fpn", "ssd300_vgg16",
    "ssdlite320_mobilenet_v3_large",
)  # fmt: skip


def makers() -> dict[str, Callable[[], tuple[torch.nn.Module, tuple]]]:
    """What makes each model and its arguments."""
    found: dict[str, Callable[[], tuple[torch.nn.Module, tuple]]] = {n: partial(_detector, n) for n in DETECTORS}
    for name in CLASSIFIERS:
        side = SIDE.get(name, 64)
        more = {"aux_logits": False, "init_weights": False} if name in ("googlenet", "inception_v3") else {}
        found[name] = partial(_plain, partial(torchvision.models.get_model, name, **more), (2, 3, side, side))
    vit = partial(torchvision.models.VisionTransformer, 64, 16, 2, 2, 32, 64)
    found["vit"] = partial(_plain, vit, (2, 3, 64, 64))
    for name in ("deeplabv3_mobilenet_v3_large", "fcn_resnet50", "lraspp_mobilenet_v3_large"):
        make = partial(getattr(segmentation, name), weights=None, weights_backbone=None, num_classes=5)
        found[name] = partial(_plain, make, (2, 3, 64, 64))
    for name in ("r3d_18", "mc3_18", "r2plus1d_18", "s3d", "swin3d_t", "mvit_v1_b", "mvit_v2_s"):
        side = SIDE.get(name, 32)
        found[name] = partial(_plain, getattr(video, name), (1, 3, 16, side, side))
    for name in ("raft_small", "raft_large"):
        found[name] = partial(_flow, name)
    return found


def _plain(make: Callable[[], torch.nn.Module], shape: tuple[int, ...]) -> tuple[torch.nn.Module, tuple]:
    return make(), (torch.randn(shape),)


def _flow(name: str) -> tuple[torch.nn.Module, tuple]:
    model = getattr(optical_flow, name)(weights=None)
    return model, (torch.randn(1, 3, 128, 128), torch.randn(1, 3, 128, 128), 2)


def _detector(name: str) -> tuple[torch.nn.Module, tuple]:
    """A detector that finds some boxes with random weights: all scores count."""
    sizes: dict[str, Any] = {} if name.startswith("ssd") else {"min_size": 64, "max_size": 96}
    if "rcnn" in name:
        sizes |= {"rpn_post_nms_top_n_train": 40, "rpn_post_nms_top_n_test": 40, "box_batch_size_per_image": 16}
        sizes |= {"box_detections_per_img": 8}
    threshold = "box_score_thresh" if "rcnn" in name else "score_thresh"
    classes = 2 if "keypoint" in name else 5
    model = getattr(detection, name)(
        weights=None, weights_backbone=None, num_classes=classes, **{threshold: 0.0}, **sizes
    )
    # Otherwise ssdlite's scores do not depend on the image: all are equal, and their order is undefined.
    for part in model.modules():
        if name.startswith("ssdlite") and isinstance(part, torch.nn.Conv2d):
            torch.nn.init.kaiming_normal_(part.weight)
    return model, ([torch.rand(3, 64, 96), torch.rand(3, 60, 80)],)


def targets(model: torch.nn.Module, images: list[torch.Tensor]) -> list[dict[str, torch.Tensor]]:
    """What a detector is trained towards: three boxes in each image, with masks and points for those that take them."""
    found = []
    for image in images:
        corner, size = torch.rand(3, 2, dtype=image.dtype) * 30, torch.rand(3, 2, dtype=image.dtype) * 20 + 10
        boxes = torch.cat([corner, corner + size], 1)
        one = {"boxes": boxes, "labels": torch.ones(3, dtype=torch.int64)}
        heads = getattr(model, "roi_heads", None)
        if getattr(heads, "mask_head", None) is not None:
            one["masks"] = (torch.rand(3, *image.shape[1:]) > 0.5).to(torch.uint8)
        if getattr(heads, "keypoint_head", None) is not None:
            points = boxes[:, None, :2] + torch.rand(3, 17, 2, dtype=image.dtype) * size[:, None]
            one["keypoints"] = torch.cat([points, torch.ones(3, 17, 1)], 2).float()  # torchvision takes no others
        found.append(one)
    return found


def inference(model: torch.nn.Module, given: tuple) -> float:
    """The outputs on the device."""
    with torch.no_grad():
        there = there_of(model).eval()
        return distance(tree_leaves(model.eval()(*given)), tree_leaves(there(*moved(given))))


def training(model: torch.nn.Module, given: tuple) -> float:
    """Losses, gradients and buffers of one step on the device."""
    if isinstance(given[0], list):
        given = *given, targets(model, given[0])
    there = there_of(model)
    return max(map(distance, step(model, given), step(there, moved(given))))


def step(model: torch.nn.Module, given: tuple) -> tuple[list[torch.Tensor], ...]:
    """The losses of a model in training, their sum's gradients, and the buffers after."""
    torch.manual_seed(0)
    losses = [x for x in tree_leaves(model.train()(*given)) if x.is_floating_point()]
    # Outputs have no loss of their own: each element counts in its own measure.
    weights = [torch.randn(x.shape, dtype=x.dtype).to(x.device) if x.ndim else 1 for x in losses]
    sum((x * w).sum() for x, w in zip(losses, weights)).backward()
    return losses, [p.grad for p in model.parameters() if p.grad is not None], list(model.buffers())


def load(model: torch.nn.Module, given: tuple) -> float:
    """The outputs of the exported program, without torch."""
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        want, path = tree_leaves(model.eval()(*given)), Path(folder) / "model.pt2"
        with mock.patch("torchvision.ops.boxes.batched_nms", batched_nms):
            torch.export.save(torch.export.export(model, given, strict=False), path)
        return distance(want, tree_leaves(torchnp.load(path)(*tree_map(as_array, given))))


def batched_nms(boxes: torch.Tensor, scores: torch.Tensor, idxs: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    """torchvision's, without the branches on how many boxes there are, which torch cannot export."""
    torch._check(boxes.shape[0] > 0)
    return torchvision.ops.nms(boxes + (idxs.to(boxes) * (boxes.max() + 1))[:, None], scores, iou_threshold)


def as_array(x: Any) -> Any:
    """A tensor's array, and what is none as it is."""
    return x.numpy() if isinstance(x, torch.Tensor) else x


def there_of(model: torch.nn.Module) -> torch.nn.Module:
    """A copy on the device."""
    return copy.deepcopy(model).to("np")


def moved(given: Any) -> Any:
    """Arguments on the device."""
    return tree_map(lambda x: x.to("np") if isinstance(x, torch.Tensor) else x, given)


def distance(want: list[Any], got: list[Any]) -> float:
    """The largest difference of two lists of tensors or arrays, each over its largest magnitude."""
    pairs = [[np.asarray(x.detach().cpu() if isinstance(x, torch.Tensor) else x) for x in xs] for xs in (want, got)]
    shapes = [[x.shape for x in xs] for xs in pairs]
    if shapes[0] != shapes[1]:
        raise AssertionError(f"{next(f'shape {b}, torch gives {a}' for a, b in zip(*shapes) if a != b)}")
    worst, top = 0.0, max((float(np.nanmax(np.abs(w), initial=0)) for w in pairs[0]), default=0)
    least = top * max((np.finfo(w.dtype).eps for w in pairs[0] if w.dtype.kind == "f"), default=0) ** (1 / 3) or 1
    for w, g in zip(*pairs):
        if not np.array_equal(np.isnan(w), np.isnan(g)):
            return float("inf")
        w, g = np.nan_to_num(w.astype(np.float64)), np.nan_to_num(g.astype(np.float64))
        worst = max(worst, float(np.abs(w - g).max(initial=0) / max(np.abs(w).max(initial=0), least)))
    return worst


def figures(name: str, dtype: torch.dtype, ways: list[str]) -> Iterator[tuple[str, float | str | None, float]]:
    """For each way: what came of it (None where torch exports no such model), and the seconds that it took."""
    for way in ways:
        start = time.monotonic()
        if way == "load" and "rcnn" in name:
            yield way, None, 0.0
            continue
        torch.manual_seed(0)
        model, given = makers()[name]()
        model, given = model.to(dtype), tree_map(lambda x: x.to(dtype) if isinstance(x, torch.Tensor) else x, given)
        wide = mock.patch.object(torch.Tensor, "float", torch.Tensor.double)  # raft calls it on its coordinates
        try:
            with wide if name.startswith("raft") and dtype == torch.float64 else contextlib.nullcontext():
                found: float | str = globals()[way](model, given)
        except Exception as error:
            found = f"{type(error).__name__}: {error}".splitlines()[0][:160]
        yield way, found, time.monotonic() - start


def main() -> int:
    """Print a line for each model; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="models (all)")
    parser.add_argument("--float32", action="store_true", help="in single precision")
    parser.add_argument("--ways", default=",".join(WAYS), help=f"of {', '.join(WAYS)} (all)")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    dtype, bad = torch.float32 if args.float32 else torch.float64, 0
    ways = args.ways.split(",")
    print(f"{'':40}" + "".join(f"{way:>12}" for way in ways))
    for name in args.names or makers():
        found = list(figures(name, dtype, ways))
        cells = [f"{x:12.1e}" if isinstance(x, float) else f"{'-':>12}" for _, x, _ in found]
        print(f"{name:40}{''.join(cells)}{sum(s for *_, s in found):8.1f} s", flush=True)
        for way, x, _ in found:
            if isinstance(x, str):
                print(f"    {way}: {x}", flush=True)
            bad += isinstance(x, str) or (x is not None and not x <= LIMITS[dtype])
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
