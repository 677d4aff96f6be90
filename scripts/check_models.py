"""Run architectures of transformers on torchnp in several ways, and compare the results with torch's.

``python scripts/check_models.py`` builds the model classes of transformers with tiny random configurations, and runs
each

- on the device ``np``: the outputs in inference, and the losses of 20 steps of Adam in training;
- by ``torch.compile(backend="torchnp")``: the outputs;
- exported, saved and read by ``torchnp.load``: the outputs.

The figure is the largest difference in any output (or loss), divided by the largest absolute value of that output.
Models add up some thousand rounding errors of single precision, so the limit is 1e-4; losses that differ by more are
compared in double precision. What torch itself cannot run, export or compile is reported separately. The exit status is
1 if an architecture differs, or fails where torch does not.

The script needs ``pip install transformers``. Nothing is downloaded: weights and data are random.
"""

from __future__ import annotations

import torchnp.device  # isort: skip  # first of all: it makes torch's device

import argparse
import copy
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from record_models import loss_of, transformers_models
from torch.utils._pytree import tree_leaves, tree_map

import torchnp

LIMIT = 1e-4
STEPS = 20
SECONDS = 600  # seconds for one architecture
WAYS = ("device", "training", "compile", "load")


class NotTorchError(Exception):
    """Raised if torch itself fails at the task that is compared."""


def outputs(result: Any) -> list[np.ndarray]:
    """Return the floating-point arrays of a result, in order."""
    if hasattr(result, "items") and not isinstance(result, dict):
        result = dict(result.items())
    found = []
    for leaf in tree_leaves(result):
        x = leaf.detach().cpu().numpy() if isinstance(leaf, torch.Tensor) else leaf
        if isinstance(x, np.ndarray) and x.dtype.kind == "f":
            found.append(x)
    return found


def distance(want: list[np.ndarray], got: list[np.ndarray]) -> float:
    """Return the largest difference between arrays of two lists, relative to each array's largest absolute value."""
    if [x.shape for x in want] != [x.shape for x in got]:
        raise AssertionError(f"outputs of {[x.shape for x in got]}, torch gives {[x.shape for x in want]}")
    worst = 0.0
    for w, g in zip(want, got, strict=True):
        if not np.array_equal(np.isnan(w), np.isnan(g)):
            return float("inf")
        scale = np.nanmax(np.abs(w), initial=0) or 1.0
        worst = max(worst, float(np.nanmax(np.abs(w - g), initial=0) / scale))
    return worst


def on_torch(of: Callable[[], Any]) -> Any:
    """Return what ``of`` returns; if torch raises an error, raise `NotTorchError`."""
    try:
        return of()
    except Exception as e:
        raise NotTorchError(f"{type(e).__name__}: {e}".splitlines()[0]) from e


def device(model: torch.nn.Module, given: dict[str, Any]) -> float:
    """Compare inference on the device with torch's."""
    with torch.no_grad():
        want = on_torch(lambda: outputs(model.eval()(**given)))
        there = copy.deepcopy(model).to("np")
        return distance(want, outputs(there(**{k: v.to("np") for k, v in given.items()})))


def training(model: torch.nn.Module, given: dict[str, Any]) -> float:
    """Compare the losses of some steps of Adam with torch's.

    Dropout is off, because its masks are generated in another order of calls. Some tiny models are chaotic in single
    precision: a relative change of the weights by 1e-7 changes torch's own losses by 1e-3 (falcon). These are compared
    in double precision. Models that are chaotic there, too, such as resnet, whose last batch norms get two elements,
    show nothing: `NotTorchError` is raised.
    """
    model.train()
    for m in model.modules():
        if "Dropout" in type(m).__name__:
            m.eval()
    found = distance(on_torch(lambda: losses(copy.deepcopy(model), given)), losses_there(model, given))
    if found <= LIMIT:
        return found
    model, given = model.double(), {k: v.double() if v.is_floating_point() else v for k, v in given.items()}
    want = on_torch(lambda: losses(copy.deepcopy(model), given))
    found = distance(want, losses_there(model, given))
    if found > LIMIT and distance(want, losses(shaken(model), given)) > LIMIT:
        raise NotTorchError("its own losses differ as much when weights change by a rounding")
    return found


def losses(model: torch.nn.Module, given: dict[str, Any]) -> list[np.ndarray]:
    """Return the losses of some steps of Adam."""
    step, found = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], 1e-4), []
    torch.manual_seed(0)
    for _ in range(STEPS):
        loss = loss_of(model(**given))
        loss.backward()
        step.step()
        step.zero_grad()
        found.append(loss.item())
    return [np.array(found)]


def losses_there(model: torch.nn.Module, given: dict[str, Any]) -> list[np.ndarray]:
    """Return the `losses` of a copy of the model on the device."""
    return losses(copy.deepcopy(model).to("np"), {k: v.to("np") for k, v in given.items()})


def shaken(model: torch.nn.Module) -> torch.nn.Module:
    """Return a copy whose weights are changed by about one rounding error."""
    model = copy.deepcopy(model)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(1 + torch.finfo(p.dtype).eps * torch.randn_like(p))
    return model


def compile(model: torch.nn.Module, given: dict[str, Any]) -> float:
    """Compare inference of the compiled model with torch's."""
    torch._dynamo.reset()
    with torch.no_grad():
        want = on_torch(lambda: outputs(model.eval()(**given)))
        on_torch(lambda: torch.compile(copy.deepcopy(model), backend="eager")(**given))
        torch._dynamo.reset()
        return distance(want, outputs(torch.compile(model, backend="torchnp")(**given)))


def load(model: torch.nn.Module, given: dict[str, Any]) -> float:
    """Compare the exported model, which runs without torch, with torch."""
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        want = on_torch(lambda: outputs(model.eval()(**given)))
        path = Path(folder) / "model.pt2"
        on_torch(lambda: torch.export.save(torch.export.export(model, (), given, strict=False), path))
        arrays = tree_map(lambda t: t.numpy() if isinstance(t, torch.Tensor) else t, given)
        return distance(want, outputs(torchnp.load(path)(**arrays)))


def run(name: str, way: str) -> dict[str, Any]:
    """Run one architecture in one way; return the row for the report."""
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    start, found = time.monotonic(), {"model": name, "way": way}
    try:
        model, given = on_torch(MAKERS[name])
        for part in model.modules():  # without caches, whose classes torch.export does not support
            if hasattr(part, "config"):
                part.config.use_cache = False
        found["distance"] = globals()[way](model, given)
        found["outcome"] = "same" if found["distance"] <= LIMIT else "differs"
    except NotTorchError as e:
        found |= {"outcome": "not torch", "why": str(e)[:200]}
    except Exception as e:
        found |= {"outcome": "fails", "why": f"{type(e).__name__}: {e}".splitlines()[0][:200]}
    return found | {"seconds": round(time.monotonic() - start, 1)}


def apart(name: str, ways: list[str]) -> Iterator[dict[str, Any]]:
    """Run an architecture with `run` in another process and yield the rows; kill the process if it takes too long."""
    command = [sys.executable, __file__, "--ways", ",".join(ways), "--one", name]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    clock = threading.Timer(SECONDS, process.kill)
    clock.start()
    rows = [json.loads(line) for line in process.stdout or () if line.startswith("{")]
    clock.cancel()
    why = f"the process died with {process.wait()}, or took more than {SECONDS} s"
    yield from rows
    yield from ({"model": name, "way": w, "outcome": "fails", "why": why} for w in ways[len(rows) :])


MAKERS: dict[str, Callable[[], Any]] = {}


def shown(rows: list[dict[str, Any]], ways: list[str]) -> Iterator[str]:
    """Yield a line for each architecture, and lines with the number of each outcome."""
    by = {(r["model"], r["way"]): r for r in rows}
    for name in dict.fromkeys(r["model"] for r in rows):
        cells = [by[name, way] for way in ways if (name, way) in by]
        yield f"{name:40}" + "".join(
            f"{c['distance']:>12.1e}" if "distance" in c else f"{c['outcome']:>12}" for c in cells
        )
    yield ""
    for way in ways:
        counts = Counter(r["outcome"] for r in rows if r["way"] == way)
        yield f"{way:10}" + ", ".join(f"{n} {outcome}" for outcome, n in counts.most_common())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="architectures whose names contain one of these, comma separated")
    parser.add_argument("-n", "--n", type=int, default=60, help="how many, evenly spread over the alphabet (60)")
    parser.add_argument("--ways", default=",".join(WAYS), help="which ways (%(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (the cores)")
    parser.add_argument("--report", type=Path, help="write a row for each way here")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    import transformers

    transformers.logging.set_verbosity_error()
    MAKERS.update(transformers_models())
    names = [n for n in MAKERS if any(word in n for word in args.only.split(","))]
    names = names if args.only else [names[i * len(names) // args.n] for i in range(min(args.n, len(names)))]
    ways = args.ways.split(",")
    if args.one:
        for way in ways:
            print(json.dumps(run(args.one, way)), flush=True)
        return 0
    rows = []
    with ThreadPoolExecutor(args.jobs) as pool:
        for of_one in pool.map(lambda name: list(apart(name, ways)), names):
            rows += of_one
            print(*map(json.dumps, of_one), sep="\n", file=sys.stderr, flush=True)
    if args.report:
        args.report.write_text("".join(json.dumps(r) + "\n" for r in rows))
    print(*shown(rows, ways), sep="\n")
    return int(any(r["outcome"] in ("fails", "differs") for r in rows))


if __name__ == "__main__":
    sys.exit(main())
