"""Measure how time and memory of operators grow with their arguments: ``python scripts/measure_growth.py``.

Each operator is called with 1,000 to 100,000,000 elements, torch and torchnp in turn on the same arguments, each with
one thread. The script writes docs/growth.tsv: the shortest processor time of each, and the peak memory of a call beyond
its arguments. No larger size is tried if torch takes longer than two seconds, or if a call takes more than a third of
the free memory. The documentation plots the file.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch

import torchnp
from opinfo_tests.run.time_and_memory import mapped_from, peak, processor_time
from torchnp.interop import to_numpy

FILE = Path(__file__).resolve().parent.parent / "docs" / "growth.tsv"
SIZES = [10**k for k in range(3, 9)]
SECONDS = 2.0  # if torch takes longer, no larger size is tried
REPEATS, ENOUGH = 7, 0.5  # up to REPEATS runs of each, or until ENOUGH seconds have passed
HEAD = "family\toperator\telements\tms\ttorch_ms\tmib\ttorch_mib"


def flat(n: int) -> torch.Tensor:
    return torch.rand(n)


def signed(n: int) -> torch.Tensor:
    return torch.randn(n)


def whole(n: int) -> torch.Tensor:
    return torch.randint(1, 100, (n,))


def square(n: int) -> torch.Tensor:
    return torch.randn(math.isqrt(n), math.isqrt(n))


def halves(n: int) -> torch.Tensor:
    return torch.randn(n).bfloat16()


def images(n: int) -> torch.Tensor:
    return torch.randn(2, 8, math.isqrt(n // 16), math.isqrt(n // 16))


def batch(n: int, side: int = 8) -> torch.Tensor:
    return torch.randn(n // side**2, side, side) + side * torch.eye(side)


def places(n: int, most: int) -> torch.Tensor:
    return torch.randint(0, most, (n,))


def heads(n: int) -> torch.Tensor:
    return torch.randn(1, 4, max(n // 256, 1), 64)


CALLS: dict[str, dict[str, Callable[[int], tuple]]] = {
    "elementwise": {
        "add.Tensor": lambda n: (signed(n), signed(n)),
        "mul.Scalar": lambda n: (signed(n), 3.0),
        "exp": lambda n: (signed(n),),
        "gelu": lambda n: (signed(n),),
        "pow.Tensor_Tensor": lambda n: (flat(n), signed(n)),
        "fmod.Tensor": lambda n: (signed(n), flat(n)),
        "where.self": lambda n: (signed(n) > 0, signed(n), signed(n)),
        "erfc": lambda n: (signed(n),),
        "add.Tensor of bfloat16": lambda n: (halves(n), halves(n)),
    },
    "reductions": {
        "sum": lambda n: (signed(n),),
        "sum.dim_IntList": lambda n: (square(n), [0]),
        "var.correction": lambda n: (square(n), [1]),
        "amax": lambda n: (square(n), [1]),
        "argmax": lambda n: (square(n), 1),
        "logsumexp": lambda n: (square(n), [1]),
        "prod.dim_int": lambda n: (square(n), 1),
        "linalg_vector_norm": lambda n: (square(n), 2, [1]),
        "median.dim": lambda n: (square(n), 1),
    },
    "scans and sorting": {
        "cumsum": lambda n: (square(n), 1),
        "cummax": lambda n: (square(n), 1),
        "logcumsumexp": lambda n: (square(n), 1),
        "sort": lambda n: (square(n), 1),
        "topk": lambda n: (square(n), 10),
        "kthvalue": lambda n: (square(n), 10),
        "_unique2": lambda n: (places(n, n),),
        "searchsorted.Tensor": lambda n: (torch.arange(n), places(n, n)),
        "bincount": lambda n: (places(n, 1000),),
    },
    "indexing and copies": {
        "gather": lambda n: (square(n), 1, places(math.isqrt(n) ** 2, math.isqrt(n)).view(-1, math.isqrt(n))),
        "scatter_add": lambda n: (
            square(n),
            0,
            places(math.isqrt(n) ** 2, math.isqrt(n)).view(-1, math.isqrt(n)),
            square(n),
        ),
        "index_select": lambda n: (square(n), 0, places(math.isqrt(n), math.isqrt(n))),
        "index_add": lambda n: (square(n), 0, places(math.isqrt(n), math.isqrt(n)), square(n)),
        "masked_select": lambda n: (signed(n), signed(n) > 0),
        "nonzero": lambda n: (signed(n) > 0,),
        "flip": lambda n: (square(n), [0, 1]),
        "cat": lambda n: ([signed(n // 2), signed(n // 2)],),
        "clone": lambda n: (square(n).t(),),
    },
    "products and linear algebra": {
        "mm": lambda n: (square(n), square(n)),
        "bmm": lambda n: (batch(n, 16), batch(n, 16)),
        "mv": lambda n: (square(n), square(n)[0]),
        "dot": lambda n: (signed(n), signed(n)),
        "mm of int64": lambda n: (
            whole(math.isqrt(n) ** 2).view(-1, math.isqrt(n)),
            whole(math.isqrt(n) ** 2).view(-1, math.isqrt(n)),
        ),
        "linalg_inv_ex": lambda n: (batch(n),),
        "linalg_lu_factor_ex": lambda n: (batch(n),),
        "linalg_qr": lambda n: (square(n),),
        "_cdist_forward": lambda n: (torch.randn(math.isqrt(n), 16), torch.randn(math.isqrt(n), 16), 1.0, None),
    },
    "layers": {
        "_softmax": lambda n: (square(n), -1, False),
        "native_layer_norm": lambda n: (square(n), [math.isqrt(n)], None, None, 1e-5),
        "native_batch_norm": lambda n: (images(n), None, None, None, None, True, 0.1, 1e-5),
        "convolution": lambda n: (images(n), torch.randn(8, 8, 3, 3), None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
        "convolution 5x5": lambda n: (
            images(n),
            torch.randn(8, 8, 5, 5),
            None,
            [1, 1],
            [2, 2],
            [1, 1],
            False,
            [0, 0],
            1,
        ),
        "max_pool2d_with_indices": lambda n: (images(n), [2, 2]),
        "upsample_bilinear2d": lambda n: (images(n // 4), [2 * math.isqrt(n // 64)] * 2, False),
        "grid_sampler_2d": lambda n: (
            images(n),
            torch.rand(2, math.isqrt(n // 16), math.isqrt(n // 16), 2) * 2 - 1,
            0,
            0,
            False,
        ),
        "scaled_dot_product_attention": lambda n: (heads(n), heads(n), heads(n)),
    },
    "losses, embeddings, random numbers": {
        "nll_loss_forward": lambda n: (square(n), places(math.isqrt(n), math.isqrt(n)), None, 1, -100),
        "binary_cross_entropy": lambda n: (flat(n), flat(n)),
        "embedding": lambda n: (torch.randn(1000, 64), places(n // 64, 1000)),
        "embedding_dense_backward": lambda n: (torch.randn(n // 64, 64), places(n // 64, 1000), 1000, -1, False),
        "rand": lambda n: ([n],),
        "randn": lambda n: ([n],),
        "bernoulli": lambda n: (flat(n),),
        "randperm": lambda n: (n,),
        "_fft_r2c": lambda n: (square(n), [1], 0, True),
    },
}


def arrays_of(x: Any) -> Any:
    """Return an argument for the table: tensors become arrays that share their memory."""
    if isinstance(x, torch.Tensor):
        return to_numpy(x)
    return [arrays_of(item) for item in x] if isinstance(x, list) else x


def room() -> int:
    """Return the number of bytes of available memory."""
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
    return int(lines["MemAvailable"].split()[0]) << 10


def measured(op: str, args: tuple) -> dict[str, float]:
    """Return the shortest time of both (ms), and the peak memory of a call beyond its arguments (MiB)."""
    packet, _, overload = op.partition(".")
    theirs = getattr(getattr(torch.ops.aten, packet), overload or "default")
    calls = {"torch_": (theirs, args), "": (torchnp.table[f"aten::{op}"], tuple(map(arrays_of, args)))}
    least = dict.fromkeys(calls, math.inf)
    begun = time.perf_counter()
    for _ in range(REPEATS):
        for key, (function, given) in calls.items():
            least[key] = min(least[key], processor_time(function, *given)[1])
        if time.perf_counter() - begun > ENOUGH:
            break
    with mapped_from(1 << 16):
        memory = {key: peak(function, *given)[1] for key, (function, given) in calls.items()}
    return {f"{k}ms": 1e3 * least[k] for k in calls} | {f"{k}mib": memory[k] / (1 << 20) for k in calls}


def rows(families: dict[str, dict[str, Callable[[int], tuple]]], largest: int) -> Iterator[str]:
    for family, calls in families.items():
        for name, make in calls.items():
            torch.manual_seed(0)
            taken = 0.0
            for n in SIZES:
                if n > largest or taken > room() / 3 / (1 << 20):
                    break
                found = measured(name.partition(" ")[0], make(n))
                row = [family, name, str(n), *(f"{found[key]:.4g}" for key in ("ms", "torch_ms", "mib", "torch_mib"))]
                print(*row, sep="  ", flush=True)
                yield "\t".join(row)
                taken = 10 * found["mib"]
                # a call with ten times the elements takes ten times as long or more
                if found["torch_ms"] > SECONDS * 100:
                    break


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--family", choices=CALLS, help="only this family; the file keeps the others")
    p.add_argument(
        "--largest", type=int, default=SIZES[-1], metavar="N", help="elements of the largest call (%(default)s)"
    )
    a = p.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torchnp.set_num_threads(1)
    families = {a.family: CALLS[a.family]} if a.family else CALLS
    kept = FILE.read_text(encoding="utf-8").splitlines()[2:] if a.family and FILE.exists() else []
    lines = [line for line in kept if line.partition("\t")[0] not in families] + [*rows(families, a.largest)]
    lines.sort(key=lambda line: [*CALLS].index(line.partition("\t")[0]))
    used = f"torch {torch.__version__.partition('+')[0]}, NumPy {np.__version__}, {date.today()}"
    FILE.write_text("\n".join([f"# one thread of each: {used}", HEAD, *lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
