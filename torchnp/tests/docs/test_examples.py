"""The shipped rows of other libraries' operators, compared with recorded results of torchvision, and with transformers'
loops."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import torchnp

ROOT = Path(torchnp.__file__).parent.parent
HERE = ROOT / "examples" / "torchvision"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}

pytestmark = pytest.mark.skipif(not HERE.exists(), reason="the examples are beside the package in its sources alone")


def run(code):
    command = [sys.executable, "-c", textwrap.dedent(code), str(HERE)]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_rows_give_torchvision_s_bits():
    """deform_conv2d and its gradients are compared within rounding, because their sums of products depend on the BLAS;
    all others bit by bit."""
    said = run(
        """
        import collections, json, sys
        import numpy as np, torchnp
        from opinfo_tests.generate.samples.torchvision_ops import samples
        near = {"float16": (1e-3, 4e-3), "float32": (1.3e-6, 1e-5), "float64": (1e-12, 1e-12)}
        count = collections.Counter()
        with np.load(sys.argv[1] + "/recorded.npz") as held:
            for name in held.files:
                if name == "versions":
                    continue
                op, dtype, turn, *which = name.split()
                args = [a for a, _ in samples("torchvision::" + op, dtype)][int(turn)]
                before = [a.tobytes() for a in args if isinstance(a, np.ndarray)]
                kernel, wanted = getattr(torchnp.torchvision, op), held[name]
                if dtype == "errors":
                    kind, words = json.loads(str(wanted))
                    try:
                        raise AssertionError(kernel(*args))
                    except (RuntimeError, NotImplementedError, IndexError) as error:
                        assert type(error).__name__ == kind and words == str(error), (words, error)
                    count["refused"] += 1
                    continue
                found = kernel(*args)
                found = found[int(which[0])] if isinstance(found, tuple) else found
                assert found.dtype == wanted.dtype and found.shape == wanted.shape, name
                if "deform_conv2d" in op:
                    np.testing.assert_allclose(found, wanted, *near[dtype], err_msg=name)
                else:
                    assert np.array_equal(found, wanted, equal_nan=wanted.dtype.kind == "f"), name
                    assert (np.signbit(found) == np.signbit(wanted))[found == found].all(), name
                assert [a.tobytes() for a in args if isinstance(a, np.ndarray)] == before
                count[op] += 1
        print(json.dumps(count))
        """,
    )
    assert json.loads(said) == {
        "deform_conv2d": 36, "nms": 24, "ps_roi_align": 72, "ps_roi_pool": 72, "refused": 63, "roi_align": 36,
        "roi_pool": 72, "_deform_conv2d_backward": 90, "_ps_roi_align_backward": 18, "_ps_roi_pool_backward": 18,
        "_roi_align_backward": 18, "_roi_pool_backward": 18,
    }  # fmt: skip


def test_an_exported_program_runs_without_torch():
    """A program with two torchvision operators, in which values decide the number of boxes, runs with torchnp alone."""
    said = run(
        """
        import sys
        sys.modules["torch"] = None  # it cannot be imported
        import numpy as np, torchnp
        program = torchnp.load(sys.argv[1] + "/detector.pt2")
        held = np.load(sys.argv[1] + "/detector.npz")
        kept, found = program(held["image"], held["boxes"], held["scores"])
        assert np.array_equal(kept, held["kept"]) and 0 < len(kept) < len(held["boxes"])
        np.testing.assert_allclose(found, held["found"], 1.3e-6, 1e-5)
        print([r.name for r in program.requires() if r.name.startswith("torchvision")])
        """,
    )
    assert said == "['torchvision::nms', 'torchvision::roi_align']\n"
    command = [sys.executable, "-m", "torchnp", "requires", str(HERE / "detector.pt2")]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 0 and "torchvision::nms" in done.stdout and "unknown" not in done.stdout, done
    for space in ("torchvision", "transformers"):
        done = subprocess.run(
            [sys.executable, "-m", "torchnp", "ops", f"{space}::*"], capture_output=True, text=True, env=ENVIRONMENT
        )
        assert (
            done.returncode == 0 and {"torchvision": "nms", "transformers": "grouped_mm_fallback"}[space] in done.stdout
        ), done


def test_the_device_and_the_mode_run_them():
    """The test itself declares torch's operators, because not every machine has torchvision."""
    run(
        """
        import sys
        import numpy as np, torch, torchnp.device
        from torchnp.interop import NumpyMode
        library = torch.library.Library("torchvision", "DEF")
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        nms = torch.ops.torchvision.nms
        held = np.load(sys.argv[1] + "/detector.npz")
        boxes, scores = torch.from_numpy(held["boxes"]), torch.from_numpy(held["scores"])
        assert np.array_equal(nms(boxes.to("np"), scores.to("np"), 0.5).cpu(), held["kept"])
        with NumpyMode():
            assert np.array_equal(nms(boxes, scores, 0.5), held["kept"])
        """,
    )


def test_a_whole_detector_runs_on_the_device():
    """Inference and a training step of a torchvision model give the losses and gradients of the CPU."""
    tried = subprocess.run([sys.executable, "-c", "import torchvision"], capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(reason=f"no torchvision that works with this torch: {tried.stderr.strip().splitlines()[-1]}")
    command = [sys.executable, str(HERE / "check_models.py"), "--ways", "inference,training"]
    command.append("fasterrcnn_mobilenet_v3_large_320_fpn")
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_products_of_experts_are_those_of_torch():
    """Forward and backward for empty groups, rows without a group, and no rows; the errors are those of torch.mm."""
    said = run(
        """
        import numpy as np, torch, torchnp
        from opinfo_tests.generate.samples.transformers_ops import DTYPES, samples
        count = 0
        for dtype in DTYPES:
            near = {"float16": (1e-3, 4e-3), "float32": (1.3e-6, 1e-5), "float64": (1e-12, 1e-12)}[dtype]
            for (x, w, ends, grad), _ in samples("transformers::grouped_mm_fallback_backward", dtype):
                a, b = (torch.from_numpy(v.copy()).requires_grad_() for v in (x, w))
                starts = [0, *ends[:-1]]
                parts = [a[i:j] @ b[k] for k, (i, j) in enumerate(zip(starts, ends))]
                out = torch.cat([*parts, a[ends[-1]:] @ b[0] * 0])
                wanted = out, *torch.autograd.grad(out, (a, b), torch.from_numpy(grad))
                found = (
                    torchnp.transformers.grouped_mm_fallback(x, w, ends),
                    *torchnp.transformers.grouped_mm_fallback_backward(x, w, ends, grad),
                )
                for got, want in zip(found, wanted):
                    want = want.detach().numpy()
                    assert got.dtype == want.dtype and got.shape == want.shape
                    np.testing.assert_allclose(got, want, *near)
                    count += 1
        try:
            torchnp.transformers.grouped_mm_fallback(x, w.astype(np.float32), np.array([1, 2, 3, 4, 5]))
        except RuntimeError as error:
            print(count, error)
        """,
    )
    assert said == "45 expected m1 and m2 to have the same dtype, but got: c10::Half != float\n"
