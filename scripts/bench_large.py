"""Print time and peak memory of large calls and torch's as a Markdown table: ``python scripts/bench_large.py``.

Matrices are 4096 x 4096, images are 8 x 32 x 128 x 128, and attention has 4 x 8 heads with 1,024 queries and 64
features. Both libraries use one thread. Times are the shortest of several runs; memory is the peak beyond the
arguments.
"""

from __future__ import annotations

import argparse
import warnings

import torch
from measure_growth import measured

import torchnp


def calls() -> dict[str, tuple]:
    torch.manual_seed(0)
    matrix, images, rows = torch.randn(4096, 4096), torch.randn(8, 32, 128, 128), torch.randn(1500, 64)
    heads, places = torch.randn(4, 8, 1024, 64), torch.randint(0, 4096, (4096, 4096))
    return {
        "_cdist_forward": (rows, torch.randn(1500, 64), 1.0, None),
        "topk": (matrix, 10),
        "median.dim": (matrix, 1),
        "var.correction": (matrix, [1]),
        "gather": (matrix, 1, places),
        "sort": (matrix, 1),
        "upsample_bilinear2d": (images, [512, 512], False),
        "grid_sampler_2d": (images, torch.rand(8, 128, 128, 2) * 2 - 1, 0, 0, False),
        "scaled_dot_product_attention": (heads, heads, heads),
        "conv2d": (images, torch.randn(32, 32, 5, 5), None, [1, 1], [2, 2]),
        "max_pool2d_with_indices": (images, [2, 2]),
    }


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torchnp.set_num_threads(1)
    print("| operator | time over torch's | MiB | torch's MiB |\n|---|---:|---:|---:|")
    for op, args in calls().items():
        found = measured(op, args)
        print(
            f"| {op} | {found['ms'] / found['torch_ms']:.2f} | {found['mib']:.0f} | {found['torch_mib']:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
