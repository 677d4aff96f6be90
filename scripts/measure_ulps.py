"""Measure the errors of float32 functions and write them to docs/ulps.tsv: ``python scripts/measure_ulps.py``.

The functions of NumPy or SciPy, of torch, and torchnp's kernel get the same arguments: half of them are spread evenly
over the function's domain, and half have evenly spread exponents. The reference is the function of NumPy or SciPy in
double precision, whose own error is a millionth of a float32 ulp. Results that are not normal numbers are left out. The
documentation plots the file. Other processors and versions give other figures.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import scipy.special
import torch

import torchnp
from torchnp.lookup import op_index

FILE = Path(__file__).resolve().parent.parent / "docs" / "ulps.tsv"
POINTS = 400_000
WIDE = (-3e38, 3e38)
# The domain of each argument of each operator.
DOMAINS: dict[str, tuple[tuple[float, float], ...]] = {
    "exp": ((-87, 88),), "exp2": ((-126, 127),), "expm1": ((-87, 88),), "log": ((2e-38, 3e38),), "log2": ((2e-38, 3e38),),
    "log10": ((2e-38, 3e38),), "log1p": ((-1, 3e38),), "sqrt": ((0, 3e38),), "sin": ((-1e4, 1e4),), "cos": ((-1e4, 1e4),),
    "tan": ((-1e4, 1e4),), "asin": ((-1, 1),), "acos": ((-1, 1),), "atan": (WIDE,), "sinh": ((-88, 88),),
    "cosh": ((-88, 88),), "tanh": ((-10, 10),), "asinh": (WIDE,), "acosh": ((1, 3e38),), "atanh": ((-1, 1),),
    "sigmoid": ((-80, 80),), "erf": ((-4, 4),), "erfc": ((-4, 9),), "erfinv": ((-1, 1),), "lgamma": ((1e-3, 1e5),),
    "digamma": ((1e-3, 1e5),), "i0": ((-80, 80),), "special_i0e": ((-1e3, 1e3),), "special_i1": ((-80, 80),),
    "special_i1e": ((-1e3, 1e3),), "sinc": ((-100, 100),), "logit": ((0, 1),), "special_ndtr": ((-12, 8),),
    "special_log_ndtr": ((-100, 5),), "special_ndtri": ((0, 1),), "special_entr": ((0, 100),), "special_erfcx": ((-9, 1e3),),
    "special_bessel_j0": ((0, 50),), "special_bessel_j1": ((0, 50),), "special_bessel_y0": ((1e-3, 50),),
    "special_bessel_y1": ((1e-3, 50),), "pow.Tensor_Tensor": ((1e-3, 1e3), (-10, 10)), "atan2": ((-100, 100), (-100, 100)),
    "hypot": ((-1e18, 1e18), (-1e18, 1e18)), "logaddexp": ((-80, 80), (-80, 80)),
}  # fmt: skip


def arguments(low: float, high: float, generator: np.random.Generator) -> np.ndarray:
    """Return numbers between two bounds, half evenly spread and half with evenly spread exponents, in random order."""
    even = generator.uniform(low, high, POINTS // 2) if high - low < 1e30 else np.array([])
    ends = [end for end in (low, high) if end]
    tops = generator.choice(ends, POINTS - even.size)
    least = min((abs(end) for end in ends if low * high > 0), default=1e-6)
    spread = np.sign(tops) * np.exp(generator.uniform(np.log(least), np.log(np.abs(tops))))
    return np.clip(generator.permutation(np.concatenate([even, spread])).astype(np.float32), low, high)


def errors(function: Callable[..., Any], x: list[Any], exact: np.ndarray) -> np.ndarray:
    """Return the distances from the exact values, in ulps of float32."""
    found = np.asarray(function(*x)).astype(np.float64)
    rounded = exact.astype(np.float32)
    normal = np.isfinite(rounded) & (np.abs(exact) >= np.finfo(np.float32).tiny)
    return np.abs(found - exact)[normal] / np.spacing(np.abs(rounded[normal])).astype(np.float64)


def row(name: str, domains: tuple[tuple[float, float], ...]) -> list[str]:
    """Return the cells of an operator's row: for each library the 99th percentile of the errors, and the largest."""
    generator = np.random.default_rng(0)
    x = [arguments(*domain, generator) for domain in domains]
    space, _, rest = op_index.ops()[f"aten::{name}"]["numpy"].partition(".")
    plain = operator.attrgetter(rest)({"numpy": np, "scipy": scipy}[space])
    exact = plain(*(a.astype(np.float64) for a in x))
    theirs = operator.attrgetter(name)(torch.ops.aten)
    tensors = [torch.from_numpy(a) for a in x]
    cells = []
    for function, values in ((plain, x), (theirs, tensors), (torchnp.table[f"aten::{name}"], x)):
        found = errors(function, values, exact)
        cells += [f"{np.percentile(found, 99):.3g}", f"{found.max():.3g}"]
    return [name.partition(".")[0].removeprefix("special_"), f"{space}.{rest}", *cells]


def main() -> None:
    """Measure every function, and write the file."""
    versions = f"NumPy {np.__version__}, SciPy {scipy.__version__}, torch {torch.__version__.partition('+')[0]}"
    cpu = torch.backends.cpu.get_cpu_capability()
    lines = [
        f"# by scripts/measure_ulps.py: {versions}, {cpu}",
        "function\tin NumPy or SciPy" + "".join(f"\t{of} 99%\t{of} most" for of in ("NumPy", "torch", "torchnp")),
    ]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        lines += ["\t".join(row(*item)) for item in DOMAINS.items()]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
