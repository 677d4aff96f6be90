"""Amendments for the chapters of memory, of shapes and of indexing."""

from __future__ import annotations

from typing import Any

import numpy as np

from .explaining import amends, expects, refuse
from .natural import Call
from .promoting import promoted


def first(call: Call) -> np.ndarray:
    return call.arrays()[0]


# ---------------------------------------------------------------- memory


def overlaps_itself(x: np.ndarray) -> bool:
    return any(s == 0 and n > 1 for s, n in zip(x.strides, x.shape)) or bool(
        x.size > 1 and np.lib.array_utils.byte_bounds(x)[1] - np.lib.array_utils.byte_bounds(x)[0] < x.nbytes
    )


@amends("inplace-within-category", stage=2)
def narrows(call: Call) -> Any:
    out = call.kwargs.get("out")
    if out is None:
        return False
    call.kwargs["casting"] = "unsafe"
    call.kwargs["dtype"] = promoted([v for k, v in call.given.items() if k in ("self", "other")])
    return True


@amends("overlap-inplace", stage=0)
def written_twice(call: Call) -> Any:
    out = call.kwargs.get("out")
    return refuse(call) if out is not None and overlaps_itself(out) else False


@amends("out-resized", stage=2)
def resized(call: Call) -> Any:
    if "out" not in call.given:
        return False
    out = call.kwargs.pop("out")
    call.after.append(lambda r: np.asarray(r).astype(out.dtype))
    return True


@amends("out-overlap", stage=0)
def partly_shared(call: Call) -> Any:
    out = call.kwargs.get("out")
    if out is None:
        return False
    place = lambda x: (x.__array_interface__["data"], x.strides)
    others = [x for k, x in call.given.items() if isinstance(x, np.ndarray) and k != "out"]
    return refuse(call) if any(np.shares_memory(x, out) and place(x) != place(out) for x in others) else False


@amends("negative-strided", "predicate-strided", stage=1)
def one_by_one(call: Call) -> Any:
    out = call.kwargs.pop("out", None)
    name, x = next((k, v) for k, v in call.given.items() if isinstance(v, np.ndarray))
    call.given[name] = np.ascontiguousarray(x).reshape(x.shape)
    if out is not None:
        call.after.append(lambda r: written(out, r))
    return True


def written(out: np.ndarray, values: np.ndarray) -> np.ndarray:
    out[...] = values
    return out


@amends("conj-of-real", "positive-is-self", stage=3)
def itself(call: Call) -> Any:
    """The array itself, of any dtype: of complex numbers torch marks the view."""
    x = first(call)
    if x.dtype.kind == "c" and call.f is np.conjugate:
        return False
    call.f = lambda *args, **kwargs: x
    return True


@expects("conj-of-real", "alias")
def marked_view(call: Call) -> Any:
    return first(call).dtype.kind == "c"


@amends("nonzero-0d", stage=1)
def places_of_a_number(call: Call) -> Any:
    name, x = next((k, v) for k, v in call.given.items() if isinstance(v, np.ndarray))
    if x.ndim:
        return False
    call.given[name] = x[None]
    return True


@amends("flip-copies", stage=6)
def copied(call: Call) -> Any:
    call.after.append(np.copy)
    return True


@amends("view-not-copy", stage=3)
def viewed(call: Call) -> Any:
    if isinstance(call.given.get("tensors"), list) and len(call.given["tensors"]) != 1:
        return False
    call.f = lambda x: (x[0] if isinstance(x, list) else x).reshape(-1)
    return True


@amends("expand-writable", stage=3)
def shares_memory(call: Call) -> Any:
    if call.f is not np.meshgrid:
        return False
    call.kwargs["copy"] = False
    return True


@expects("expand-writable", "read-only")
def expanded(call: Call) -> Any:
    return True


@expects("diagonal-writable", "read-only")
def diagonal(call: Call) -> Any:
    return True
