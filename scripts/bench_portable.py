"""Compare exported models under ``jax.jit`` with torch eager: ``python scripts/bench_portable.py [NAME:BATCH ...]``.

All run on one thread. Rounds alternate between torch, `torchnp.load` and JAX, each with an untimed call first. The
script prints ratios of the shortest times; below 1 means faster than torch. The last column compares processor times,
which are steadier on a busy machine. The models are those of the tests (``torchnp/tests/portable/models.py``), as plain
exports.
"""

from __future__ import annotations

import argparse
import io
import os
import time
import warnings
from collections.abc import Callable
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402

import torchnp  # noqa: E402
from torchnp.interop import to_numpy  # noqa: E402
from torchnp.tests.portable.exported import example  # noqa: E402
from torchnp.tests.portable.models import EXAMPLES  # noqa: E402

DEFAULT = ("resnet:256", "vit:256", "gpt:256", "diffusion:256", "mlp:64", "unet:64", "mobile:64", "lstm:64")
ROUNDS, SECONDS = 30, 6.0  # maximum for each model


def repeated(x: np.ndarray, batch: int) -> np.ndarray:
    """Return an example's argument with a larger first dimension."""
    return np.concatenate([x] * -(-batch // len(x)))[:batch]


def static(name: str, inputs: list[np.ndarray]) -> bytes:
    """Return a program for arguments of one fixed size, for models whose batch is not dynamic."""
    from torchnp.tests.portable.exported import export

    torch.manual_seed(0)
    return export(EXAMPLES[name].make().eval(), tuple(map(torch.from_numpy, inputs))).archive


def minima(calls: dict[str, Callable[[], Any]]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the shortest wall time and the shortest processor time of each call, in seconds."""
    best, least = dict.fromkeys(calls, float("inf")), dict.fromkeys(calls, float("inf"))
    end = time.perf_counter() + SECONDS
    for i in range(ROUNDS):
        for name, call in calls.items():
            call()
            start, cpu = time.perf_counter(), time.process_time()
            call()
            best[name] = min(best[name], time.perf_counter() - start)
            least[name] = min(least[name], time.process_time() - cpu)
        if i >= 4 and time.perf_counter() > end:
            break
    return best, least


def measure(name: str, batch: int) -> None:
    """Print one model's line."""
    exported = example(name)
    inputs = [repeated(x, batch) for x in exported.inputs]
    archive = static(name, inputs) if name in ("lstm", "gru") else exported.archive
    module = torch.export.load(io.BytesIO(archive)).module()
    tensors = [torch.from_numpy(x) for x in inputs]
    numpy = torchnp.load(io.BytesIO(archive))
    on_jax: Any = torchnp.load(io.BytesIO(archive), xp="jax")
    given = [on_jax.lib.from_numpy(x) for x in inputs]
    compiled = jax.jit(lambda *args: on_jax.pure(*args)[0])  # without the state, which XLA would copy
    with torch.inference_mode():
        best, least = minima({
            "torch": lambda: module(*tensors),
            "numpy": lambda: numpy(*inputs),
            "jax": lambda: jax.block_until_ready(compiled(on_jax.state, *given)),
        })  # fmt: skip
        found = compiled(on_jax.state, *given)
        wanted = to_numpy(module(*tensors))
    far = float(np.max(np.abs(np.asarray(found) - wanted)))
    ratios = (
        f"{best['numpy'] / best['torch']:10.2f} {best['jax'] / best['torch']:8.2f} {least['jax'] / least['torch']:8.2f}"
    )
    print(f"{name:12} {batch:5} {1e3 * best['torch']:9.2f} {ratios} {far:9.1e}", flush=True)


def model_and_batch(text: str) -> tuple[str, int]:
    name, _, batch = text.partition(":")
    if name not in EXAMPLES or not (batch or "1").isdecimal() or batch == "0":
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME or NAME:BATCH; the names are {', '.join(EXAMPLES)}")
    return name, int(batch or 64)


def main() -> None:
    """Print a table of the models."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "models", nargs="*", type=model_and_batch, metavar="NAME:BATCH", default=[*map(model_and_batch, DEFAULT)],
        help=f"models and the sizes of their batches, 64 if left out (default: {' '.join(DEFAULT)})",
    )  # fmt: skip
    given = parser.parse_args().models
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    jax.config.update("jax_enable_x64", True)
    print("model        batch  torch ms torchnp.load  jax jit  its CPU  far")
    for name, batch in given:
        measure(name, batch)


if __name__ == "__main__":
    main()
