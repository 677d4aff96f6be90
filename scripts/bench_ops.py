"""Compare the time of kernel calls with torch eager's, in one process.

Calls of a pair are timed in blocks, torch and torchnp in alternating order, with an untimed call before each block. The
script prints the ratios of medians and of minima; below 1, torchnp is faster. Absolute times on a shared machine mean
little.

    python scripts/bench_ops.py              # the small-op set: 8x8 float32, views, numbers, promotion
    python scripts/bench_ops.py --size 1M    # the same elementwise and reducing ops on one million elements
    python scripts/bench_ops.py --plain      # NumPy's simplest formulas instead of the kernels, without torch's semantics
    python scripts/bench_ops.py --import     # time of `import torchnp` over `import numpy`
"""

from __future__ import annotations

import argparse
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.special
import torch

import torchnp

SIZES = {
    "8x8": (8, 8),
    "32K": (32, 1024),
    "256K": (256, 1024),
    "1M": (1024, 1024),
    "4M": (2048, 2048),
    "16M": (4096, 4096),
}

SETTLE = 0.035  # seconds until the other library's idle threads stop spinning and sleep


def calls_of(shape: tuple[int, int]) -> dict[str, dict[str, tuple[Callable, Callable, Callable]]]:
    """Return by group and label: a torch call, a kernel call, and NumPy's simplest formula."""
    table = torchnp.table
    rng = np.random.default_rng(0)
    a, b = (rng.random(shape, np.float32) + 0.5 for _ in range(2))
    ta, tb = torch.from_numpy(a), torch.from_numpy(b)
    i, ti = np.arange(shape[0]), torch.arange(shape[0])
    zero, tzero = np.array(2.0), torch.tensor(2.0, dtype=torch.float64)
    whole, twhole = (a * 9).astype(np.int64), (ta * 9).long()
    mask, tmask = a > 1, ta > 1
    row, trow = a[0], ta[0]
    images = rng.random(
        (shape[0] // 8, 8, *((32, shape[1] // 32) if shape[1] > 32 else (2, shape[1] // 2))), np.float32
    )
    timages, channel = torch.from_numpy(images), rng.random(8, np.float32)
    tchannel = torch.from_numpy(channel)
    half, thalf = a.astype(torchnp.dtypes.bfloat16), ta.bfloat16()
    mean, rstd = a.mean(1, keepdims=True), 1 / a.std(1, keepdims=True)
    tmean, trstd = torch.from_numpy(mean), torch.from_numpy(rstd)
    both = (
        (ta, a), (tb, b), (ti, i), (tzero, zero), (twhole, whole), (tmask, mask), (trow, row), (timages, images),
        (tchannel, channel), (thalf, half), (tmean, mean), (trstd, rstd),
    )  # fmt: skip
    arrays = {id(t): x for t, x in both}
    aten = torch.ops.aten

    def two(name: str, f: Callable, *args: object) -> tuple[Callable, Callable]:
        kernel = table[name]
        mine = [np.float32 if x is torch.float32 else arrays.get(id(x), x) for x in args]
        return (lambda: f(*args)), (lambda: kernel(*mine))

    elementwise = {
        "add": two("aten::add.Tensor", torch.add, ta, tb),
        "mul": two("aten::mul.Tensor", torch.mul, ta, tb),
        "div": two("aten::div.Tensor", torch.div, ta, tb),
        "maximum": two("aten::maximum", torch.maximum, ta, tb),
        "lt": two("aten::lt.Tensor", torch.lt, ta, tb),
        "where": two("aten::where.self", torch.where, tmask, ta, tb),
        "neg": two("aten::neg", torch.neg, ta),
        "relu": two("aten::relu", torch.relu, ta),
        "exp": two("aten::exp", torch.exp, ta),
        "tanh": two("aten::tanh", torch.tanh, ta),
        "sigmoid": two("aten::sigmoid", torch.sigmoid, ta),
        "sqrt": two("aten::sqrt", torch.sqrt, ta),
    }
    threefold = {
        "clamp": two("aten::clamp", torch.clamp, ta, 0.7, 1.2),
        "addcmul": two("aten::addcmul", torch.addcmul, ta, ta, tb),
        "lerp": two("aten::lerp.Scalar", torch.lerp, ta, tb, 0.3),
        "add alpha": (
            (lambda: torch.add(ta, tb, alpha=2)),
            (lambda k=table["aten::add.Tensor"]: k(a, b, alpha=2)),
        ),
        "add bfloat16": two("aten::add.Tensor", torch.add, thalf, thalf),
        "exp bfloat16": two("aten::exp", torch.exp, thalf),
    }
    norms = {
        "var": two("aten::var.correction", torch.var, ta, [1]),
        "log_softmax": two("aten::_log_softmax", aten._log_softmax.default, ta, 1, False),
        "softmax back": two("aten::_softmax_backward_data", aten._softmax_backward_data, ta, tb, 1, torch.float32),
        "layer_norm": two("aten::native_layer_norm", aten.native_layer_norm, ta, [shape[1]], trow, trow, 1e-5),
        "layer back": two(
            "aten::native_layer_norm_backward", aten.native_layer_norm_backward,
            tb, ta, [shape[1]], tmean, trstd, trow, trow, [True] * 3,
        ),
        "batch_norm": two(
            "aten::native_batch_norm", aten.native_batch_norm,
            timages, tchannel, tchannel, None, None, True, 0.1, 1e-5,
        ),
        "batch back": two(
            "aten::native_batch_norm_backward", aten.native_batch_norm_backward,
            timages, timages, tchannel, None, None, tchannel, tchannel, True, 1e-5, [True] * 3,
        ),
    }  # fmt: skip
    promotion = {
        "add number": two("aten::add.Tensor", torch.add, ta, 2.0),
        "mul number": two("aten::mul.Tensor", torch.mul, ta, 2),
        "add 0-d": two("aten::add.Tensor", torch.add, ta, tzero),
        "add int64": two("aten::add.Tensor", torch.add, ta, twhole),
        "lt number": two("aten::lt.Scalar", torch.lt, ta, 1.0),
    }
    reductions = {
        "sum": two("aten::sum", torch.sum, ta),
        "sum dim": two("aten::sum.dim_IntList", torch.sum, ta, [1]),
        "mean": two("aten::mean", torch.mean, ta),
        "amax dim": two("aten::amax", torch.amax, ta, [1]),
        "argmax": two("aten::argmax", torch.argmax, ta, 1),
        "cumsum": two("aten::cumsum", torch.cumsum, ta, 1),
        "softmax": two("aten::_softmax", torch.ops.aten._softmax.default, ta, 1, False),
    }
    moves = {
        "clone": two("aten::clone", torch.clone, ta),
        "cat": ((lambda: torch.cat([ta, tb])), (lambda k=table["aten::cat"]: k([a, b]))),
        "index_select": two("aten::index_select", torch.index_select, ta, 0, ti),
        "mm": two("aten::mm", torch.mm, ta, tb),
        "index_add": two("aten::index_add", torch.index_add, ta, 0, ti, tb),
        "sort": two("aten::sort", torch.sort, ta),
    }
    views = {
        "view": two("aten::view", lambda x, s: x.view(s), ta, [-1]),
        "transpose": two("aten::transpose.int", torch.transpose, ta, 0, 1),
        "permute": two("aten::permute", torch.permute, ta, [1, 0]),
        "select": two("aten::select.int", torch.select, ta, 0, 1),
        "slice": two("aten::slice.Tensor", torch.ops.aten.slice.Tensor, ta, 0, 1, 3),
        "unsqueeze": two("aten::unsqueeze", torch.unsqueeze, ta, 0),
        "expand": two("aten::expand", lambda x, s: x.expand(s), ta, [2, *shape]),
    }
    groups = {"elementwise": elementwise, "promotion": promotion, "reductions": reductions, "moves": moves}
    groups |= {"of three and half": threefold, "norms": norms}
    plain = _plain(a, b, i, whole, mask, row, images, channel, half, mean, rstd)
    if shape == SIZES["8x8"]:
        groups |= {"views": views}
        return {group: {k: (*calls, plain[k]) for k, calls in found.items()} for group, found in groups.items()}
    places = rng.integers(0, shape[0], shape)
    tplaces, float16, tfloat16 = torch.from_numpy(places), a.astype(np.float16), ta.half()
    arrays.update(((id(tplaces), places), (id(tfloat16), float16)))
    large = {
        "erf": two("aten::erf", torch.erf, ta),
        "gelu": two("aten::gelu", torch.nn.functional.gelu, ta),
        "scatter_add": two("aten::scatter_add", torch.scatter_add, ta, 0, tplaces, tb),
        "add float16": two("aten::add.Tensor", torch.add, tfloat16, tfloat16),
        "exp float16": two("aten::exp", torch.exp, tfloat16),
    }
    groups |= {"large": large}
    plain |= {
        "erf": lambda: scipy.special.erf(a),
        "gelu": lambda: a * (0.5 * (1 + scipy.special.erf(a * np.float32(0.5**0.5)))),
        "scatter_add": lambda: np.add.at(a.copy(), (places, np.arange(shape[1])), b),
        "add float16": lambda: float16 + float16,
        "exp float16": lambda: np.exp(float16),
    }
    return {group: {k: (*calls, plain[k]) for k, calls in found.items()} for group, found in groups.items()}


def _plain(
    a: Any, b: Any, i: Any, whole: Any, mask: Any, row: Any, images: Any, channel: Any, half: Any, mean: Any, rstd: Any
) -> dict[str, Callable]:
    """Return NumPy formulas for the values alone, without torch's promotion, layout, checks and rounding."""

    def softmax(x: Any) -> Any:
        e = np.exp(x - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    def log_softmax(x: Any) -> Any:
        d = x - x.max(1, keepdims=True)
        return d - np.log(np.exp(d).sum(1, keepdims=True))

    def layer_norm(x: Any) -> tuple:
        m = x.mean(1, keepdims=True)
        d = x - m
        r = 1 / np.sqrt((d * d).mean(1, keepdims=True) + np.float32(1e-5))
        return d * r * row + row, m, r

    def layer_back(g: Any, x: Any) -> tuple:
        y, gw = (x - mean) * rstd, g * row
        gx = (gw - gw.mean(1, keepdims=True) - y * (gw * y).mean(1, keepdims=True)) * rstd
        return gx, (g * y).sum(0), g.sum(0)

    def wide(c: Any) -> Any:
        return c[:, None, None]

    def batch_norm(x: Any) -> tuple:
        m = x.mean((0, 2, 3))
        d = x - wide(m)
        r = 1 / np.sqrt((d * d).mean((0, 2, 3)) + np.float32(1e-5))
        return d * wide(r * channel) + wide(channel), m, r

    def batch_back(g: Any, x: Any) -> tuple:
        y, n = (x - wide(channel)) * wide(channel), np.float32(x.size / len(channel))
        gw, gb = (g * y).sum((0, 2, 3)), g.sum((0, 2, 3))
        return (g - wide(gb / n) - y * wide(gw / n)) * wide(channel * channel), gw, gb

    def index_add() -> Any:
        out = a.copy()
        np.add.at(out, i, b)
        return out

    def sort() -> tuple:
        places = a.argsort(1)
        return np.take_along_axis(a, places, 1), places

    third, alpha = np.float32(0.3), np.float32(2)
    return {
        "add": lambda: a + b, "mul": lambda: a * b, "div": lambda: a / b, "maximum": lambda: np.maximum(a, b),
        "lt": lambda: a < b, "where": lambda: np.where(mask, a, b), "neg": lambda: -a, "relu": lambda: np.maximum(a, 0),
        "exp": lambda: np.exp(a), "tanh": lambda: np.tanh(a), "sigmoid": lambda: 1 / (1 + np.exp(-a)), "sqrt": lambda: np.sqrt(a),
        "clamp": lambda: np.clip(a, 0.7, 1.2), "addcmul": lambda: a + a * b, "lerp": lambda: a + third * (b - a),
        "add alpha": lambda: a + alpha * b, "add bfloat16": lambda: half + half, "exp bfloat16": lambda: np.exp(half),
        "var": lambda: a.var(1, ddof=1), "log_softmax": lambda: log_softmax(a),
        "softmax back": lambda: b * (a - (a * b).sum(1, keepdims=True)), "layer_norm": lambda: layer_norm(a),
        "layer back": lambda: layer_back(b, a), "batch_norm": lambda: batch_norm(images), "batch back": lambda: batch_back(images, images),
        "add number": lambda: a + 2.0, "mul number": lambda: a * 2, "add 0-d": lambda: a + 2.0,
        "add int64": lambda: a + whole.astype(np.float32), "lt number": lambda: a < 1.0,
        "sum": lambda: a.sum(), "sum dim": lambda: a.sum(1), "mean": lambda: a.mean(), "amax dim": lambda: a.max(1),
        "argmax": lambda: a.argmax(1), "cumsum": lambda: a.cumsum(1), "softmax": lambda: softmax(a),
        "clone": lambda: a.copy(), "cat": lambda: np.concatenate([a, b]), "index_select": lambda: a[i], "mm": lambda: a @ b,
        "index_add": index_add, "sort": sort,
        "view": lambda: a.reshape(-1), "transpose": lambda: a.swapaxes(0, 1), "permute": lambda: a.transpose(1, 0),
        "select": lambda: a[1], "slice": lambda: a[1:3], "unsqueeze": lambda: a[None],
        "expand": lambda: np.broadcast_to(a, (2, *a.shape)),
    }  # fmt: skip


def measure(first: Callable, second: Callable, rounds: int = 15) -> tuple[list[float], list[float]]:
    """Return the seconds per call of each function, by block."""
    first(), second()
    start = time.perf_counter()
    for _ in range(5):
        first(), second()
    calls = max(1, min(2000, int(0.01 / max((time.perf_counter() - start) / 10, 1e-7))))
    times: tuple[list[float], list[float]] = ([], [])
    large = calls < 200  # calls are long enough to be worth several threads
    for r in range(rounds):
        for which in (0, 1) if r % 2 else (1, 0):
            f = (first, second)[which]
            time.sleep(SETTLE if large else 0)
            f()
            start = time.perf_counter()
            for _ in range(calls):
                f()
            times[which].append((time.perf_counter() - start) / calls)
    return times


def geometric(values: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, values)))


def bench_import(rounds: int = 9) -> float:
    """Return the median time of ``import torchnp`` divided by that of ``import numpy``, each in a new process."""
    code = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"

    def once(module: str) -> float:
        out = subprocess.run([sys.executable, "-c", code.format(module)], capture_output=True, text=True, check=True)
        return float(out.stdout)

    once("torchnp"), once("numpy")
    found = [(once("torchnp"), once("numpy")) for _ in range(rounds)]
    ratio = statistics.median(a for a, _ in found) / statistics.median(b for _, b in found)
    print(f"import torchnp over import numpy: {ratio:.2f}")
    return ratio


def bench(
    size: str, rounds: int, only: Sequence[str] = (), plain: bool = False
) -> dict[str, list[tuple[float, float]]]:
    """Print the ratios for a size; return the ratios of medians and of minima by group, for all groups or only some."""
    torch.set_num_threads(2)
    found = {}
    for group, rows in calls_of(SIZES[size]).items():
        if only and group not in only:
            continue
        found[group] = []
        for label, (theirs, kernel, formula) in rows.items():
            t, m = measure(theirs, formula if plain else kernel, rounds)
            median, least = statistics.median(m) / statistics.median(t), min(m) / min(t)
            found[group].append((median, least))
            print(
                f"{size}  {label:14} median {median:6.2f}   minimum {least:6.2f}"
                f"   ({1e9 * min(m):9.0f} ns, torch {1e9 * min(t):9.0f} ns)"
            )
        print(f"{size}  {group}: {shown(found[group])}\n", flush=True)
    return found


def means(ratios: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the geometric means of the ratios of medians and of the ratios of minima."""
    medians, minima = zip(*ratios)
    return geometric(medians), geometric(minima)


def shown(ratios: Sequence[tuple[float, float]]) -> str:
    return "geometric mean {:.2f}, of minima {:.2f}".format(*means(ratios))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="8x8")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument(
        "--plain",
        action="store_true",
        help="time NumPy's simplest formulas, without torch's semantics, in the kernels' place",
    )
    parser.add_argument("--import", action="store_true", dest="imports")
    args = parser.parse_args()
    if args.imports:
        bench_import()
        return
    every = [ratio for ratios in bench(args.size, args.rounds, (), args.plain).values() for ratio in ratios]
    print(f"{args.size}  all {len(every)}: {shown(every)}")


if __name__ == "__main__":
    main()
