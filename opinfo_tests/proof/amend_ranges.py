"""Amendments for arrays that are made from numbers: ranges, windows and frequencies."""

from __future__ import annotations

from typing import Any

import numpy as np

from .explain_disagreements import amends, refuse
from .natural_call import NaturalCall


def dtype_of(call: NaturalCall) -> np.dtype:
    """Return the given dtype; if there is none, int64 if all numbers are integers, else float32."""
    numbers = [call.given[n] for n in ("start", "end", "step") if n in call.given]
    whole = not any(isinstance(n, (float, complex)) for n in numbers)
    return call.given.get("dtype") or np.dtype(np.int64 if whole else np.float32)


# ---------------------------------------------------------------- ranges


@amends("arange-truncates", stage=2)
def truncate_arguments(call: NaturalCall) -> Any:
    """Truncate the arguments to integers, and compute in int64."""
    dtype = call.given.get("dtype")
    if dtype is None or dtype.kind not in "iu":
        return False
    call.given |= {n: int(call.given[n]) for n in ("start", "end", "step") if n in call.given}
    call.given["dtype"] = np.dtype(np.int64)
    call.after.append(lambda out: out.astype(dtype))
    return True


@amends("arange-bounds", stage=0)
def refuse_inconsistent_bounds(call: NaturalCall) -> Any:
    full = call.full()
    step, way = full.get("step", 1), full["end"] - full.get("start", 0)
    return refuse(call) if step == 0 or way * step < 0 else False


@amends("range-inclusive", stage=3)
def include_end(call: NaturalCall) -> Any:
    full = call.full()
    start, end, step = full["start"], full["end"], full.get("step", 1)
    real = np.float32 if full.get("dtype") == np.float16 else np.float64
    count = int((real(end) - real(start)) / real(step) + real(1))
    call.f = lambda *_, dtype=None: start + np.arange(count) * step
    call.after.insert(0, lambda out: out.astype(full.get("dtype") or np.float32))
    return True


@amends("linspace-ends", stage=0)
def convert_ends_to_numbers(call: NaturalCall) -> Any:
    ends = {n: x for n in ("start", "end") if isinstance(x := call.given[n], np.ndarray)}
    if any(x.ndim for x in ends.values()):
        return refuse(call)
    call.given |= {n: x.item() for n, x in ends.items()}
    return True


@amends("linspace-truncates", stage=2)
def truncate_ends_and_points(call: NaturalCall) -> Any:
    """Truncate the ends to integers, and later the points between them."""
    dtype = call.given.get("dtype")
    if dtype is None or dtype.kind not in "biu":
        return False
    call.given |= {n: int(call.given[n]) for n in ("start", "end")}
    del call.given["dtype"]
    call.after.append(lambda out: np.trunc(out).astype(dtype))
    return True


@amends("logspace-truncates", stage=2)
def truncate_ends_of_logspace(call: NaturalCall) -> Any:
    return truncate_ends_and_points(call)


@amends("linspace-two-ended", stage=3)
def count_from_both_ends(call: NaturalCall) -> Any:
    dtype = call.given.get("dtype") or np.dtype(np.float32)
    if dtype.kind not in "fc":
        return False

    def points(start: Any, end: Any, steps: int, **_: Any) -> Any:
        first, last = dtype.type(start), dtype.type(end)
        step = (last - first) / dtype.type(max(steps - 1, 1))
        places = np.arange(steps).astype(dtype)
        return np.where(np.arange(steps) < steps // 2, first + step * places, last - step * places[::-1])

    call.f = points
    return True


@amends("triangle-indices", stage=4)
def stack_indices(call: NaturalCall) -> Any:
    dtype = call.given.get("dtype") or np.int64
    call.after.append(lambda out: np.stack(out).astype(dtype))
    return True


# ---------------------------------------------------------------- windows and frequencies


@amends("periodic-windows", stage=2)
def make_window_periodic(call: NaturalCall) -> Any:
    n, f = call.given["window_length"], call.f
    if n == 1:
        call.f = lambda n, *more: np.ones(n)
    elif "periodic" in call.given:
        return False
    else:
        call.f = lambda n, *more: f(n + 1, *more)[:-1] if n else f(n, *more)
    return True


@amends("windows-in-dtype", stage=1)
def compute_blackman_in_dtype(call: NaturalCall) -> Any:
    dtype = call.given.get("dtype") or np.dtype(np.float32)
    real = dtype.type

    def blackman(n: int) -> Any:
        angle = np.arange(n).astype(dtype) * real(np.pi / max(n - 1, 1))
        return real(0.08) * np.cos(4 * angle) - real(0.5) * np.cos(2 * angle) + real(0.42)

    call.f = blackman
    return True


@amends("float-dtypes-alone", stage=0)
def refuse_integer_dtypes(call: NaturalCall) -> Any:
    dtype = call.given.get("dtype")
    return refuse(call) if dtype is not None and dtype.kind in "bui" else False


@amends("hamming-coefficients", stage=1)
def use_given_coefficients(call: NaturalCall) -> Any:
    full, f = call.full(), call.f
    alpha, beta = full.get("alpha", 0.54), full.get("beta", 0.46)
    call.f = lambda n: np.full(n, 1.0) if n == 1 else alpha - beta * np.cos(2 * np.pi * np.arange(n) / (n - 1))
    return (alpha, beta) != (0.54, 0.46) and f is np.hamming


@amends("fftfreq-of-nothing", stage=1)
def return_frequencies_of_no_points(call: NaturalCall) -> Any:
    n = call.given["n"]
    if n > 0:
        return False
    size = int(n / 2) + 1 if "rfft" in call.op else n
    if size < 0:
        return refuse(call)
    call.f = lambda n, d=1.0: np.arange(size) * np.divide(1, n * d)
    return True


@amends("fftfreq-no-spacing", stage=1)
def divide_by_zero_spacing(call: NaturalCall) -> Any:
    if call.full()["d"] != 0:
        return False
    call.given["d"] = np.float64(0)
    return True


@amends("irfft-minus-1", stage=2)
def use_default_length(call: NaturalCall) -> Any:
    """Treat a last size of -1 as the default length of the signal, 2 (n - 1)."""
    size, x = call.given["s"], call.arrays()[0]
    axes = call.given.get("dim", tuple(range(-len(size), 0)))
    if size[-1] != -1:
        return False
    call.given["s"] = (*size[:-1], 2 * (x.shape[axes[-1]] - 1))
    return True
