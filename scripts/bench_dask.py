"""Measure time and memory of programs on Dask's workers: ``python scripts/bench_dask.py [--gib 3]``.

Two workers with 1 GiB and one thread each process ``--gib`` GiB of input, in chunks of ``--mb`` MB of random numbers
that the workers draw. They run the tests' MLP with `torchnp.map_batches` and with portable operators
(``torchnp.load(..., xp="dask")``), and a program whose rows depend on each other: it standardizes columns and
correlates them. Each line has the seconds, the microseconds per row divided by those of `torchnp.load` in one process
with one thread, and each worker's peak memory. CPU seconds are those of both workers. On a busy machine, they are more
reliable than wall time.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"

import dask.array as da  # noqa: E402
import numpy as np  # noqa: E402

import torchnp  # noqa: E402

COLUMNS, ROUNDS = 64, 8


def write_programs(folder: Path) -> None:
    """Export the models. Only this function imports torch, because the workers import this file and need no torch."""
    import torch
    from torch import nn

    from torchnp.tests.portable.models import EXAMPLES

    class Correlates(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            z = (x - x.mean(0)) / x.std(0)
            return z.T @ z / (x.shape[0] - 1)

    torch.manual_seed(0)
    for name, module in (("mlp", EXAMPLES["mlp"].make().eval()), ("correlates", Correlates())):
        sizes = ({0: torch.export.Dim("batch")},)
        program = torch.export.export(module, (torch.randn(4, COLUMNS),), dynamic_shapes=sizes)
        torch.export.save(program, folder / f"{name}.pt2")


def drawn(block_info: Any, rows: int) -> np.ndarray:
    """Return a chunk of random numbers."""
    seed = block_info[None]["chunk-location"][0]
    return np.random.default_rng(seed).random((rows, COLUMNS), np.float32)


def draw(rows: int, chunks: int) -> Any:
    """Return the input as a Dask array, of which nothing is in memory."""
    return da.map_blocks(
        drawn, rows=rows, chunks=((rows,) * chunks, (COLUMNS,)), dtype=np.float32, meta=np.empty((0, 0), np.float32)
    )


def peak() -> float:
    """Return this process's peak memory so far, in MiB."""
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def one_process(path: Path, rows: int) -> tuple[float, float]:
    """Return the shortest seconds and CPU seconds per row in `torchnp.load`, including the drawing of the row's
    numbers.
    """
    program = torchnp.load(path)
    found = []
    for i in range(ROUNDS):
        start, cpu = time.perf_counter(), time.process_time()
        program(np.random.default_rng(i).random((rows, COLUMNS), np.float32)).mean(0)
        found.append((time.perf_counter() - start, time.process_time() - cpu))
    return min(a for a, _ in found) / rows, min(b for _, b in found) / rows


def measure(name: str, rows: int, chunks: int, alone: tuple[float, float], result: Callable[[Any], Any]) -> None:
    """Let two new workers compute one result from the whole input, and print a line about it."""
    from distributed import Client, LocalCluster

    options: dict[str, Any] = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": "1GiB"}
    with LocalCluster(dashboard_address=None, **options) as cluster, Client(cluster) as client:
        before = sum(client.run(time.process_time).values())
        start = time.perf_counter()
        result(draw(rows, chunks)).compute()
        seconds = time.perf_counter() - start
        cpu = sum(client.run(time.process_time).values()) - before
        most = max(client.run(peak).values())
    total = rows * chunks
    ratios = f"{seconds / total / alone[0]:8.2f} {cpu / total / alone[1]:10.2f}"
    print(f"{name:24} {seconds:8.1f} {cpu:8.1f} {ratios} {most:10.0f}", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, default=3.0, help="size of the input (default: %(default)s)")
    parser.add_argument("--mb", type=float, default=10.0, help="size of a chunk (default: %(default)s)")
    args = parser.parse_args()
    rows = int(args.mb * 1e6 / 4 / COLUMNS)
    chunks = int(args.gib * 2**30 / (rows * COLUMNS * 4))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_programs(folder)
        mlp, correlates = folder / "mlp.pt2", folder / "correlates.pt2"
        print(f"{chunks} chunks of {rows} rows")
        print("program                   seconds  CPU s    per row  CPU of one  peak MiB")
        alone = one_process(mlp, rows)
        measure("mlp, map_batches", rows, chunks, alone, lambda x: torchnp.map_batches(mlp, x).mean(0))
        measure("mlp, portable rows", rows, chunks, alone, lambda x: torchnp.load(mlp, xp="dask")(x).mean(0))
        alone = one_process(correlates, rows)
        measure("correlates", rows, chunks, alone, torchnp.load(correlates, xp="dask"))


if __name__ == "__main__":
    main()
