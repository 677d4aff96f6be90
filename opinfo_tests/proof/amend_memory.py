"""Amendments for the catalogue's chapters of memory, shapes and indexing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..case import schemas
from .explain_disagreements import amends, expects, refuse
from .natural_call import NaturalCall, parsed
from .torch_promotion import promoted

# ---------------------------------------------------------------- memory


def overlaps_itself(x: np.ndarray) -> bool:
    return any(s == 0 and n > 1 for s, n in zip(x.strides, x.shape)) or bool(
        x.size > 1 and np.lib.array_utils.byte_bounds(x)[1] - np.lib.array_utils.byte_bounds(x)[0] < x.nbytes
    )


@amends("inplace-within-category", stage=2)
def cast_to_target(call: NaturalCall) -> Any:
    out = call.kwargs.get("out")
    if out is None:
        return False
    call.kwargs["casting"] = "unsafe"
    call.kwargs["dtype"] = promoted([v for k, v in call.given.items() if k in ("self", "other")])
    return True


@amends("overlap-inplace", stage=0)
def refuse_overlapping_target(call: NaturalCall) -> Any:
    out = call.first if call.target is None and schemas()[call.op].mutates else call.target
    return refuse(call) if out is not None and overlaps_itself(out) else False


def overlapping_arrays(call: NaturalCall) -> list[np.ndarray]:
    """Return the arrays that share memory with the written array without being the same view."""
    out = call.first if schemas()[call.op].mutates and "out" not in call.given else None
    place = lambda x: (x.__array_interface__["data"], x.shape, x.strides)
    others = [x for x in call.given.values() if isinstance(x, np.ndarray) and x is not out]
    return [] if out is None else [x for x in others if np.shares_memory(x, out) and place(x) != place(out)]


@amends("overlap-operand", stage=0)
def refuse_dense_overlap(call: NaturalCall) -> Any:
    dense = lambda x: x.size == 1 or x.flags.forc
    return refuse(call) if any(dense(x) and dense(call.first) for x in overlapping_arrays(call)) else False


@expects("overlap-order", "value")
def overlaps_another_array(call: NaturalCall) -> Any:
    return overlapping_arrays(call)


@amends("out-resized", stage=2)
def return_new_array_in_out_dtype(call: NaturalCall) -> Any:
    out = call.given.get("out")
    if out is None:
        return False
    call.without_target()
    call.after.append(lambda r: np.asarray(r).astype(out.dtype))
    return True


@amends("out-overlap", stage=0)
def refuse_partial_overlap(call: NaturalCall) -> Any:
    out = call.target
    if out is None:
        return False
    place = lambda x: (x.__array_interface__["data"], x.strides)
    others = [x for k, x in call.given.items() if isinstance(x, np.ndarray) and k != "out"]
    return refuse(call) if any(np.shares_memory(x, out) and place(x) != place(out) for x in others) else False


@amends("negative-strided", "predicate-strided", stage=1)
def use_contiguous_input(call: NaturalCall) -> Any:
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
def return_input(call: NaturalCall) -> Any:
    """Return the input itself; for conj of complex numbers, torch returns a view with the conjugate bit."""
    x = call.first
    if x.dtype.kind == "c" and call.f is np.conjugate:
        return False
    call.f = lambda *args, **kwargs: x
    return True


@expects("conj-of-real", "alias")
def is_complex(call: NaturalCall) -> Any:
    return call.first.dtype.kind == "c"


@amends("nonzero-0d", stage=1)
def treat_number_as_vector(call: NaturalCall) -> Any:
    name, x = next((k, v) for k, v in call.given.items() if isinstance(v, np.ndarray))
    if x.ndim:
        return False
    call.given[name] = x[None]
    return True


@amends("flip-copies", "copy-forms", stage=6)
def copy_results(call: NaturalCall) -> Any:
    call.after.append(lambda out: tuple(map(np.copy, out)) if isinstance(out, tuple) else np.copy(out))
    return True


@amends("view-not-copy", stage=3)
def return_view(call: NaturalCall) -> Any:
    if isinstance(call.given.get("tensors"), list) and len(call.given["tensors"]) != 1:
        return False
    call.f = lambda x: (x[0] if isinstance(x, list) else x).reshape(-1)
    return True


@amends("expand-writable", stage=3)
def shares_memory(call: NaturalCall) -> Any:
    if call.f is not np.meshgrid:
        return False
    call.kwargs["copy"] = False
    return True


@amends("expand-writable", "diagonal-writable", stage=6)
def make_results_writable(call: NaturalCall) -> Any:
    call.after.append(made_writable)
    return True


@amends("windows-writable", stage=1)
def request_writable_windows(call: NaturalCall) -> Any:
    call.kwargs["writeable"] = True
    return True


def made_writable(out: Any) -> Any:
    for x in out if isinstance(out, (list, tuple)) else [out]:
        x.setflags(write=True)
    return out


# ---------------------------------------------------------------- windows on memory


@amends("cast-is-itself", stage=3)
def skip_copy_of_same_dtype(call: NaturalCall) -> Any:
    call.kwargs["copy"] = False
    return True


@amends("copy-casts-down", stage=2)
def allow_unsafe_casts(call: NaturalCall) -> Any:
    call.kwargs["casting"] = "unsafe"
    return True


@amends("view-dtype-alignment", stage=0)
def refuse_unaligned_views(call: NaturalCall) -> Any:
    """Refuse a view in another dtype whose memory is not aligned.

    The last stride must be 1, and the other strides and the offset must be multiples of the larger element size.
    """
    x = call.first
    size = 2 * x.itemsize if "complex" in call.op else np.dtype(call.given["dtype"]).itemsize
    places = [*x.strides[:-1], x.ctypes.data - memory_of(call).ctypes.data]
    apart = size != x.itemsize and x.strides[-1] != x.itemsize
    return refuse(call) if apart or (size > x.itemsize and any(n % size for n in places)) else False


@amends("memory-format", stage=2)
def keep_memory_order(call: NaturalCall) -> Any:
    call.template = parsed("np.copy(self)")
    return True


@amends("cast-float8-saturates", stage=2)
def saturate_float8(call: NaturalCall) -> Any:
    if np.dtype(call.given["dtype"]).name != "float8_e4m3fn":
        return False
    call.given["self"] = np.clip(call.given["self"], -448, 448)
    return True


@amends("memory-format-fits", stage=0)
def refuse_misfitting_format(call: NaturalCall) -> Any:
    """Refuse channels_last formats for wrong ranks, and preserve_format if no tensor has a format to preserve."""
    named = call.given.get("memory_format", "")
    sized = "size" in call.given or not call.arrays()
    ndim = len(call.given.get("size", ())) if sized else call.given.get("the_template", call.first).ndim
    wants = {"channels_last": 4, "channels_last_3d": 5}.get(named, ndim)
    kept = named == "preserve_format" and (sized or call.op == "aten::contiguous")
    return refuse(call) if kept or wants != ndim else False


@amends("resize-references", stage=3)
def resize_despite_references(call: NaturalCall) -> Any:
    """Reuse the memory from the first element on; extend it if it is too small."""
    x, memory = call.first, memory_of(call)
    start = x.ctypes.data - memory.ctypes.data if x.size else 0

    def resized_in_place(_: Any, size: Any) -> Any:
        missing = start + x.itemsize * int(np.prod(size)) - memory.nbytes
        enough = memory if missing <= 0 else np.concatenate([memory, np.zeros(missing, np.uint8)])
        return np.ndarray(size, x.dtype, enough, start)

    call.f, call.template = resized_in_place, replace(call.template, then=None)
    return True


@amends("empty-with-gaps", stage=1)
def allocate_with_gaps(call: NaturalCall) -> Any:
    def made(size: Any, dtype: Any = np.float64, strides: Any = ()) -> Any:
        steps = [s * np.dtype(dtype).itemsize for s in strides]
        needed = sum((n - 1) * s for n, s in zip(size, steps)) + np.dtype(dtype).itemsize
        return np.ndarray(size, dtype, np.zeros(max(needed, 0), np.uint8), strides=steps)

    call.f = made
    return True


@amends("as-strided-elements", stage=1)
def convert_strides_to_bytes(call: NaturalCall) -> Any:
    call.given["stride"] = tuple(s * call.first.itemsize for s in call.given["stride"])
    return True


def memory_of(call: NaturalCall) -> np.ndarray:
    """Return the memory that contains the first array of a call, as flat bytes."""
    x = call.first
    memory = next(b for b in call.buffers if np.shares_memory(b, x)) if x.size else x
    return memory.reshape(-1).view(np.uint8)


@amends("as-strided-storage", stage=2)
def view_from_start_of_memory(call: NaturalCall) -> Any:
    memory, dtype, offset = memory_of(call), call.first.dtype, call.given.get("storage_offset")
    if offset is None:
        if "scatter" not in call.op:
            return False
        # torch copies the memory between elements, too
        offset = (call.first.ctypes.data - memory.ctypes.data) // dtype.itemsize

    def on_memory(_: Any, size: Any, stride: Any) -> Any:
        return np.ndarray(size, dtype, memory, offset * dtype.itemsize, stride)

    call.f = on_memory
    return True


@amends("resize-in-memory", stage=2)
def resize_in_memory_order(call: NaturalCall) -> Any:
    x, memory = call.first, memory_of(call)
    start = x.ctypes.data - memory.ctypes.data
    call.f = lambda _, size: np.ndarray(size, x.dtype, memory, start).copy()
    return True


@amends("as-strided-bounds", stage=0)
def refuse_out_of_bounds(call: NaturalCall) -> Any:
    x, memory = call.first, memory_of(call)
    offset, size, stride = call.given.get("storage_offset"), call.given["size"], call.given["stride"]
    if len(size) != len(stride) or min((*stride, offset or 0), default=0) < 0:
        return refuse(call)
    start = x.ctypes.data - memory.ctypes.data if offset is None else offset * x.itemsize
    end = start + x.itemsize * (1 + sum((n - 1) * s for n, s in zip(size, stride)))
    return refuse(call) if 0 not in size and end > memory.nbytes else False
