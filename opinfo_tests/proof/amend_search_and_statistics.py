"""Amendments for counting and searching: unique, searchsorted, histograms, quantiles, the trapezoidal rule."""

from __future__ import annotations

from typing import Any

import numpy as np

from .explain_disagreements import adds_if_omitted, amends, expects, refuse
from .natural_call import NaturalCall
from .torch_promotion import promoted

# ---------------------------------------------------------------- distinct elements


@amends("unique-nan", stage=2)
def treat_nans_as_distinct(call: NaturalCall) -> Any:
    call.kwargs["equal_nan"] = False
    return "dim" not in call.given


@expects("unique-nan", "value", "shape")
def has_nan_slices(call: NaturalCall) -> Any:
    """Return whether a slice contains nan: torch sorts slices by comparisons, which are all false with nan."""
    return "dim" in call.given and np.isnan(call.first).any()


@amends("unique-results", stage=3)
def return_inverse_and_counts(call: NaturalCall) -> Any:
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


# ---------------------------------------------------------------- positions among sorted elements


def bisect_by_comparison(edges: np.ndarray, value: Any, after: bool) -> int:
    """Return the position of a value by bisection; comparisons with nan are all false."""
    low, high = 0, len(edges)
    while low < high:
        middle = (low + high) // 2
        if edges[middle] > value if after else edges[middle] >= value:
            high = middle
        else:
            low = middle + 1
    return low


def search_rows(edges: np.ndarray, values: Any, after: bool) -> np.ndarray:
    """Return each value's position among the edges, or, if edges are a batch, among the edges of its row."""
    values, out = np.asarray(values), np.zeros(np.shape(values), np.int64)
    rows = np.broadcast_to(edges, (*values.shape[:-1], edges.shape[-1])) if edges.ndim > 1 else None
    for i in np.ndindex(*values.shape):
        out[i] = bisect_by_comparison(edges if rows is None else rows[i[:-1]], values[i], after)
    return out


def edges_and_values(call: NaturalCall) -> tuple[np.ndarray, Any, bool]:
    """Return the sorted edges, the values, and whether a value equal to an edge belongs after it."""
    full = call.full()
    edges = full["boundaries" if "boundaries" in full else "sorted_sequence"]
    if full.get("sorter") is not None:
        edges = np.take_along_axis(edges, full["sorter"], -1)
    common = promoted([edges, full["self"]])
    return edges.astype(common), np.asarray(full["self"]).astype(common), full["right"] or full.get("side") == "right"


@amends("searchsorted-nan", stage=4)
def search_by_comparison(call: NaturalCall) -> Any:
    edges, values, after = edges_and_values(call)
    if not (np.isnan(edges).any() or np.isnan(values).any()) or edges.ndim > 1:
        return False
    call.f = lambda *args, **kwargs: search_rows(edges, values, after)
    return True


@amends("searchsorted-batches", stage=5)
def search_each_row(call: NaturalCall) -> Any:
    edges, values, after = edges_and_values(call)
    if edges.ndim == 1:
        return False
    if not edges.ndim or edges.shape[:-1] != values.shape[:-1]:
        return refuse(call)
    call.f = lambda *args, **kwargs: search_rows(edges, values, after)
    return True


@amends("row-indices-walked", stage=2)
def compress_row_indices(call: NaturalCall) -> Any:
    """Walk through the row indices in order, as torch does.

    The entries up to each new highest index get the number of indices before it.
    """
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
def refuse_sorter_out_of_range(call: NaturalCall) -> Any:
    sorter, n = call.given["sorter"], call.given["sorted_sequence"].shape[-1]
    return refuse(call) if ((sorter < 0) | (sorter >= n)).any() else False


adds_if_omitted("bucketize-side", "right", right=True, stage=2)


@amends("bucketize-unsorted", stage=4)
def bisect_unsorted_edges(call: NaturalCall) -> Any:
    edges, values, after = edges_and_values(call)
    if not (np.diff(edges) < 0).any():
        return False
    call.f = lambda *args, **kwargs: search_rows(edges, values, after)
    return True


# ---------------------------------------------------------------- histograms


@amends("histc-dtype", stage=5)
def cast_counts_to_input_dtype(call: NaturalCall) -> Any:
    dtype = call.first.dtype

    def cast(out: Any) -> Any:
        return (
            type(out)(map(cast, out)) if isinstance(out, (list, tuple)) else np.asarray(out).astype(dtype, copy=False)
        )

    call.after.append(cast)
    return True


@expects("histc-dtype", "rounding")
def is_density(call: NaturalCall) -> Any:
    return bool(call.given.get("density"))


@amends("histc-range", stage=2)
def use_range_of_data(call: NaturalCall) -> Any:
    full = call.full()
    if full["min"] != full["max"]:
        return False
    x = call.first
    alike = x.size and x.min() == x.max() and np.isfinite(x).all() and x.max() + x.dtype.type(0.5) == x.max()
    half = abs(x.max()) if alike else 0  # NumPy finds no edges between equal numbers
    call.kwargs["range"] = (x.min() - half, x.max() + half) if alike else None
    return True


adds_if_omitted("histogram-bins", "bins", bins=100, stage=2)


@amends("histogram-of-one-edge", stage=0)
def refuse_single_edge(call: NaturalCall) -> Any:
    return refuse(call) if call.given["bins"].size == 1 else False


@expects("histogram-edges-unsorted", "numpy refuses")
def has_decreasing_edges(call: NaturalCall) -> Any:
    bins = call.given["bins"]
    return any((np.diff(edges) < 0).any() for edges in (bins if isinstance(bins, list) else [bins]))


@amends("histogramdd-batches", stage=2)
def flatten_batches_of_points(call: NaturalCall) -> Any:
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
def has_negative_zero(call: NaturalCall) -> Any:
    return (np.signbit(call.first) & (call.first == 0)).any()


@amends("zero-dim-axis", stage=1)
def treat_number_as_vector(call: NaturalCall) -> Any:
    """Treat a number as a vector of one element; give the result the shape of ``q``."""
    x, shape = call.first, np.shape(call.given["q"])
    if x.ndim:
        return False
    call.given["self"] = x[None]
    call.after.append(lambda out: np.reshape(out, shape))
    return True


# ---------------------------------------------------------------- the trapezoidal rule


@amends("int-to-default-float", stage=5)
def cast_integer_area_to_float32(call: NaturalCall) -> Any:
    """Convert the result to float32, because NumPy computes the area of integers in float64."""
    if call.f is not np.trapezoid or any(x.dtype.kind == "f" for x in call.arrays()):
        return False
    call.after.append(lambda out: np.asarray(out).astype(np.float32))
    return True


@amends("trapezoid-ends", stage=4)
def halve_both_ends(call: NaturalCall) -> Any:
    half = lambda y: np.float32(0.5) if y.dtype.kind in "ui" else y.dtype.type(0.5)
    call.f = lambda y, dx=1.0, axis=-1: (y.sum(axis=axis) - (y.take(0, axis) + y.take(-1, axis)) * half(y)) * dx
    return True


@amends("trapezoid-of-nothing", stage=5)
def return_zero_of_input_dtype(call: NaturalCall) -> Any:
    y = call.given["y"]
    if y.shape[call.full()["dim"]]:
        return False
    call.after.append(lambda out: np.zeros(np.shape(out), y.dtype))
    return True
