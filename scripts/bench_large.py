"""Print time and peak memory of large calls and torch's as a Markdown table: ``python scripts/bench_large.py``.

Matrices are 4096 x 4096, images are 8 x 32 x 128 x 128, and attention has 4 x 8 heads with 1,024 queries and 64
features. Reads and writes at three indices go to a transposed 2,000 x 3,000 matrix, so all but the few elements should
cost nothing. Both libraries use one thread. Times are the shortest processor times of several runs; memory is the peak
beyond the arguments.
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
    columns, three = torch.randn(3000, 2000).t(), torch.tensor([1, 5, 7])
    rows_of_three, values = torch.randn(3, 3000), torch.linspace(0, 1, 6_000_000)
    few = {
        "index_select": (columns, 0, three),
        "index.Tensor": (columns, [three]),
        "gather": (columns, 0, three[:, None]),
        "take": (columns, three),
        "embedding": (columns, three),
        "embedding_bag": (columns, three, torch.tensor([0])),
        "index_put_": (columns, [three], rows_of_three, True),
        "index_add_": (columns, 0, three, rows_of_three),
        "index_fill_.int_Scalar": (columns, 0, three, 1.0),
        "index_copy_": (columns, 0, three, rows_of_three),
        "scatter_add_": (columns, 0, three[:, None], rows_of_three),
        "put_": (columns, three, rows_of_three[0, :3]),
        "searchsorted.Tensor": (values, torch.rand(3)),
        "equal": (columns, torch.randn(3000, 2000).t()),
        "upsample_bilinear2d": (columns[None, None], [3, 3], False),
        "upsample_nearest2d": (columns[None, None], [3, 3]),
    }
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
    } | {f"{op} of few": args for op, args in few.items()}


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torchnp.set_num_threads(1)
    print("| operator | time over torch's | MiB | torch's MiB |\n|---|---:|---:|---:|")
    for op, args in calls().items():
        found = measured(op.partition(" ")[0], args)
        print(
            f"| {op} | {found['ms'] / found['torch_ms']:.2f} | {found['mib']:.0f} | {found['torch_mib']:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
