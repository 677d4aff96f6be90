"""Amendments for counting and lookup: unique, searchsorted, histograms, quantiles, the trapezoidal rule."""

from __future__ import annotations

from typing import Any

import numpy as np

from .explanations import amends, expects, left_out, refuse
from .natural_call import NaturalCall
from .torch_promotion import promoted

# ---------------------------------------------------------------- distinct elements


@amends("unique-nan", stage=2)
def no_nan_is_another(call: NaturalCall) -> Any:
    call.kwargs["equal_nan"] = False
    return "dim" not in call.given


@expects("unique-nan", "value", "shape")
def slices_with_nan(call: NaturalCall) -> Any:
    """No comparison with nan holds, so sorting by comparisons leaves such slices in its own order."""
    return "dim" in call.given and np.isnan(call.first).any()


@amends("unique-results", stage=3)
def inverse_and_counts(call: NaturalCall) -> Any:
    full = call.full()
    wanted = (full["return_inverse"], full.get("return_counts", True))
    if "dim" in full:
        wanted = (True, True)
    call.kwargs |= {"return_inverse": True, "return_counts": True}

    def shown(out: Any) -> Any:
        shown = (out[0], *(x if asked else np.empty(0, np.int64) for x, asked in zip(out[1:], wanted, strict=True)))
        return shown if "return_counts" in full else shown[:2]

    call.after.append(shown)
    return True


# ---------------------------------------------------------------- places among sorted elements


def bisected(edges: np.ndarray, value: Any, after: bool) -> int:
    """Bisect by comparisons alone, none of which holds with nan."""
    low, high = 0, len(edges)
    while low < high:
        middle = (low + high) // 2
        if edges[middle] > value if after else edges[middle] >= value:
            high = middle
        else:
            low = middle + 1
    return low


def found_by_row(edges: np.ndarray, values: Any, after: bool) -> np.ndarray:
    """Return each value's place among the edges, or among its own row of edges."""
    values, out = np.asarray(values), np.zeros(np.shape(values), np.int64)
    rows = np.broadcast_to(edges, (*values.shape[:-1], edges.shape[-1])) if edges.ndim > 1 else None
    for i in np.ndindex(*values.shape):
        out[i] = bisected(edges if rows is None else rows[i[:-1]], values[i], after)
    return out


def places(call: NaturalCall) -> tuple[np.ndarray, Any, bool]:
    """Return the sorted edges, the values, and whether a value goes after equal edges."""
    full = call.full()
    edges = full["boundaries" if "boundaries" in full else "sorted_sequence"]
    if full.get("sorter") is not None:
        edges = np.take_along_axis(edges, full["sorter"], -1)
    common = promoted([edges, full["self"]])
    return edges.astype(common), np.asarray(full["self"]).astype(common), full["right"] or full.get("side") == "right"


@amends("searchsorted-nan", stage=4)
def by_comparisons(call: NaturalCall) -> Any:
    edges, values, after = places(call)
    if not (np.isnan(edges).any() or np.isnan(values).any()) or edges.ndim > 1:
        return False
    call.f = lambda *args, **kwargs: found_by_row(edges, values, after)
    return True


@amends("searchsorted-batches", stage=5)
def row_by_row(call: NaturalCall) -> Any:
    edges, values, after = places(call)
    if edges.ndim == 1:
        return False
    if not edges.ndim or edges.shape[:-1] != values.shape[:-1]:
        return refuse(call)
    call.f = lambda *args, **kwargs: found_by_row(edges, values, after)
    return True


@amends("row-indices-walked", stage=2)
def from_the_first_to_the_last(call: NaturalCall) -> Any:
    """The entries up to each new highest index hold how many indices came before it."""
    rows, size = np.ravel(call.given["self"]), call.given["size"]

    def walked(*_: Any) -> Any:
        out = np.zeros(size + 1, np.int64)
        highest = rows[0] if rows.size else size
        for i, row in enumerate(rows):
            out[highest + 1 : row + 1] = i
            highest = max(highest, row)
        out[rows[-1] + 1 if rows.size else size + 1 :] = rows.size
        return out

    call.f = walked
    return True


@amends("sorter-in-range", stage=0)
def all_of_the_sorter(call: NaturalCall) -> Any:
    sorter, n = call.given["sorter"], call.given["sorted_sequence"].shape[-1]
    return refuse(call) if ((sorter < 0) | (sorter >= n)).any() else False


left_out("bucketize-side", "right", right=True, stage=2)


@amends("bucketize-unsorted", stage=4)
def whichever_way_they_go(call: NaturalCall) -> Any:
    edges, values, after = places(call)
    if not (np.diff(edges) < 0).any():
        return False
    call.f = lambda *args, **kwargs: found_by_row(edges, values, after)
    return True


# ---------------------------------------------------------------- histograms


@amends("histc-dtype", stage=5)
def counts_in_the_dtype(call: NaturalCall) -> Any:
    dtype = call.first.dtype

    def cast(out: Any) -> Any:
        return (
            type(out)(map(cast, out)) if isinstance(out, (list, tuple)) else np.asarray(out).astype(dtype, copy=False)
        )

    call.after.append(cast)
    return True


@expects("histc-dtype", "rounding")
def density_by_rounded_edges(call: NaturalCall) -> Any:
    return bool(call.given.get("density"))


@amends("histc-range", stage=2)
def range_of_the_data(call: NaturalCall) -> Any:
    full = call.full()
    if full["min"] != full["max"]:
        return False
    x = call.first
    alike = x.size and x.min() == x.max() and np.isfinite(x).all() and x.max() + x.dtype.type(0.5) == x.max()
    half = abs(x.max()) if alike else 0  # NumPy finds no edges between equal numbers
    call.kwargs["range"] = (x.min() - half, x.max() + half) if alike else None
    return True


left_out("histogram-bins", "bins", bins=100, stage=2)


@amends("histogram-of-one-edge", stage=0)
def no_bin(call: NaturalCall) -> Any:
    return refuse(call) if call.given["bins"].size == 1 else False


@expects("histogram-edges-unsorted", "numpy refuses")
def edges_fall(call: NaturalCall) -> Any:
    bins = call.given["bins"]
    return any((np.diff(edges) < 0).any() for edges in (bins if isinstance(bins, list) else [bins]))


@amends("histogramdd-batches", stage=2)
def rows_of_points(call: NaturalCall) -> Any:
    x = call.first
    if x.ndim == 2:
        return False
    if x.ndim < 2:
        return refuse(call)
    call.given["self"] = x.reshape(-1, x.shape[-1])
    if "weight" in call.given:
        call.given["weight"] = call.given["weight"].reshape(-1)
    return True


# ---------------------------------------------------------------- quantiles


@expects("quantile-of-negative-zero", "zero sign")
def between_negative_zeros(call: NaturalCall) -> Any:
    return (np.signbit(call.first) & (call.first == 0)).any()


@amends("zero-dim-axis", stage=1)
def quantiles_of_a_number(call: NaturalCall) -> Any:
    """Treat a number as a vector of one element; the result has the shape of ``q``."""
    x, shape = call.first, np.shape(call.given["q"])
    if x.ndim:
        return False
    call.given["self"] = x[None]
    call.after.append(lambda out: np.reshape(out, shape))
    return True


# ---------------------------------------------------------------- the trapezoidal rule


@amends("int-to-default-float", stage=5)
def areas_of_integers(call: NaturalCall) -> Any:
    """The sum is of integers; its half is float32."""
    if call.f is not np.trapezoid or any(x.dtype.kind == "f" for x in call.arrays()):
        return False
    call.after.append(lambda out: np.asarray(out).astype(np.float32))
    return True


@amends("trapezoid-ends", stage=4)
def half_of_both_ends(call: NaturalCall) -> Any:
    half = lambda y: np.float32(0.5) if y.dtype.kind in "ui" else y.dtype.type(0.5)
    call.f = lambda y, dx=1.0, axis=-1: (y.sum(axis=axis) - (y.take(0, axis) + y.take(-1, axis)) * half(y)) * dx
    return True


@amends("trapezoid-of-nothing", stage=5)
def zero_of_the_dtype(call: NaturalCall) -> Any:
    y = call.given["y"]
    if y.shape[call.full()["dim"]]:
        return False
    call.after.append(lambda out: np.zeros(np.shape(out), y.dtype))
    return True
