"""Measure what an operator costs on the device ``np``: ``python scripts/bench_device.py [--rounds N]``.

The same operators run on the CPU and in NumpyMode, for comparison.

Times are the calling thread's processor time, the shortest of several alternating rounds. Tensors are small, so that
the overhead before a kernel is measured, and not the kernel.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch

import torchnp.device
from torchnp.interop import NumpyMode


def work(device: str) -> dict[str, Callable[[], object]]:
    """Return the functions to measure, by name; their tensors are 8x8 float32."""
    x = torch.randn(8, 8, device=device)
    w = torch.randn(8, 8, device=device, requires_grad=True)
    y = torch.randn(8, 8, device=device)

    def backward() -> None:
        w.grad = None
        (w * x).sum().backward()

    return {
        "add": lambda: x + x,
        "add_": lambda: y.add_(1),
        "view": lambda: x.view(64),
        "(w*x).sum() with backward": backward,
    }


def least(run: Callable[[], object], calls: int) -> float:
    start = time.thread_time()
    for _ in range(calls):
        run()
    return (time.thread_time() - start) / calls * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--rounds", type=int, default=15, metavar="N", help="of which the least counts (15)")
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    torch.autograd.set_multithreading_enabled(False)  # run backward in this thread, because its time is measured
    ours, cpu = work(torchnp.device.NAME), work("cpu")
    print(f"{'8x8, us':28}{'CPU':>8}{'device':>8}{'mode':>8}{'device/mode':>13}")
    for name, run in ours.items():
        best = [float("inf")] * 3
        for _ in range(rounds):
            with NumpyMode():
                best[2] = min(best[2], least(cpu[name], 200))
            best[0] = min(best[0], least(cpu[name], 200))
            best[1] = min(best[1], least(run, 200))
        print(f"{name:28}{best[0]:8.1f}{best[1]:8.1f}{best[2]:8.1f}{best[1] / best[2]:13.2f}")


if __name__ == "__main__":
    main()
