"""Amendments for the catalogue's chapter of shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

from .explain_disagreements import amends, refuse
from .natural_call import NaturalCall, parsed
from .torch_promotion import promoted


@amends("squeeze-size-not-1", stage=2)
def squeeze_only_size_1(call: NaturalCall) -> Any:
    dim = call.given["dim"]
    x = call.first
    wanted = dim if isinstance(dim, tuple) else (dim,)
    if any(not -max(x.ndim, 1) <= d < max(x.ndim, 1) for d in wanted):
        return refuse(call)
    call.given["dim"] = tuple(d for d in wanted if x.ndim and x.shape[d] == 1)
    return True


@amends("chunk-count", stage=2)
def round_chunk_size_up(call: NaturalCall) -> Any:
    full = call.full()
    n = call.first.shape[full["dim"]]
    size = max(-(-n // full["chunks"]), 1)
    call.f = lambda x, *_, axis=0: np.split(x, np.arange(size, n, size), axis=axis)
    return True


@amends("split-takes-sizes", stage=2)
def split_by_sizes(call: NaturalCall) -> Any:
    name = "split_size" if "split_size" in call.given else "split_sizes"
    sizes, extent = call.given[name], call.first.shape[call.full()["dim"]]
    if sum(sizes) != extent:
        return refuse(call)
    call.given[name] = tuple(np.cumsum(sizes)[:-1].tolist())
    return True


@amends("split-by-size", stage=2)
def split_by_size(call: NaturalCall) -> Any:
    size, extent = call.given["split_size"], call.first.shape[call.full()["dim"]]
    if size == 0 and extent:
        return refuse(call)
    call.given["split_size"] = np.arange(size, extent, size) if size else ()
    return True


@amends("repeat-is-tile", stage=2)
def repeat_whole_array(call: NaturalCall) -> Any:
    repeats = call.given["repeats"]
    if len(repeats) < call.first.ndim:
        return refuse(call)
    call.f, call.template = np.tile, parsed("f(self, repeats)")
    return True


@amends("cat-legacy-empty", stage=1)
def skip_empty_arrays(call: NaturalCall) -> Any:
    kept = [x for x in call.given["tensors"] if x.shape != (0,)]
    if len(kept) == len(call.given["tensors"]) or not kept:
        return False
    dtype = promoted(call.given["tensors"])
    call.given["tensors"] = [x.astype(dtype) for x in kept]
    return True


@amends("expand-minus-1", stage=1)
def keep_size_at_minus_1(call: NaturalCall) -> Any:
    size, x = call.given["size"], call.first
    lead = len(size) - x.ndim
    call.given["size"] = tuple(x.shape[i - lead] if n == -1 and i >= lead else n for i, n in enumerate(size))
    return True


@amends("unfold-step", stage=3)
def step_windows(call: NaturalCall) -> Any:
    dim, step = call.given["dimension"], call.given["step"]
    if step < 1:
        return refuse(call)
    axis = dim % max(call.first.ndim, 1)
    call.after.append(lambda out: out[(slice(None),) * axis + (slice(None, None, step),)])
    return True


@amends("unfold-of-number", stage=1)
def treat_number_as_vector(call: NaturalCall) -> Any:
    size, n = call.given["size"], call.first.ndim
    if n or not 0 <= size <= 1:
        return False if not n or size <= call.first.shape[call.given["dimension"]] else refuse(call)
    call.f = lambda x, *_, **__: x.reshape(1)[:size]
    return True


@amends("meshgrid-ij", stage=1)
def use_ij_indexing(call: NaturalCall) -> Any:
    if "indexing" in call.given:
        return False
    call.kwargs["indexing"] = "ij"
    return True


@amends("roll-aligned", stage=0)
def refuse_unequal_counts(call: NaturalCall) -> Any:
    shifts, dims = call.full()["shifts"], call.full()["dims"]
    counts = [len(x) if isinstance(x, (tuple, list)) else 1 for x in (shifts, dims or 0)]
    return refuse(call) if counts[0] != counts[1] else False


@amends("roll-needs-shifts", stage=0)
def refuse_missing_shifts(call: NaturalCall) -> Any:
    full = call.full()
    return refuse(call) if () in (full.get("shifts"), full.get("dim")) else False


@amends("unflatten-needs-sizes", stage=0)
def refuse_missing_sizes(call: NaturalCall) -> Any:
    n = call.first.ndim
    return False if call.given["sizes"] and -n <= call.given["dim"] < n else refuse(call)


@amends("outer-vectors", stage=0)
def refuse_non_vectors(call: NaturalCall) -> Any:
    return refuse(call) if any(x.ndim != 1 for x in call.arrays()) else False


@amends("diff-of-number", stage=0)
def refuse_other_ranks(call: NaturalCall) -> Any:
    others = [call.given[n] for n in ("prepend", "append") if n in call.given]
    return refuse(call) if any(x.ndim != call.first.ndim for x in others) or not call.first.ndim else False


@amends("triangle-of-vector", stage=0)
def refuse_vectors(call: NaturalCall) -> Any:
    return refuse(call) if call.first.ndim < 2 else False


@amends("transpose-pair", stage=0)
def swap_axes(call: NaturalCall) -> Any:
    call.template = parsed("np.swapaxes(self, dim0, dim1)")
    return True


@amends("t-of-matrices", stage=0)
def refuse_more_than_2d(call: NaturalCall) -> Any:
    return refuse(call) if call.first.ndim > 2 else False


@amends("element-is-view", stage=1)
def return_0d_view(call: NaturalCall) -> Any:
    part = "np.moveaxis(self, dim, 0)[index, ...]"
    if "index" not in call.given:
        part = f"[{part} for index in range(self.shape[dim])]"
    call.given["dim"] = call.full()["dim"]
    call.template = parsed(part)
    return True


@amends("narrow-bounds", stage=0)
def refuse_out_of_bounds(call: NaturalCall) -> Any:
    start, length = call.given["start"], call.given["length"]
    extent = call.first.shape[call.given["dim"]]
    begins = start + extent if start < 0 else start
    return False if 0 <= begins <= extent and 0 <= length <= extent - begins else refuse(call)


@amends("tensor-split-long", stage=0)
def refuse_other_than_int64(call: NaturalCall) -> Any:
    given = call.given.get("tensor_indices_or_sections")
    return refuse(call) if given is not None and given.dtype != np.int64 else False


@amends("repeats-keep-dtype", stage=5)
def cast_to_dtype_of_repeats(call: NaturalCall) -> Any:
    dtype = call.first.dtype
    call.after.append(lambda out: out.astype(dtype))
    return True


@amends("repeat-output-size", stage=0)
def refuse_wrong_output_size(call: NaturalCall) -> Any:
    size, full = call.given.get("output_size"), call.full()
    repeats, dim = full["repeats"], full.get("dim")
    many = call.first.size if dim is None else call.first.shape[dim]
    total = repeats.sum() if isinstance(repeats, np.ndarray) else repeats * many
    return False if size is None or size == total else refuse(call)


@amends("repeat-of-number", stage=0)
def refuse_dim_of_number(call: NaturalCall) -> Any:
    return refuse(call) if not call.first.ndim and "dim" in call.given else False


def pads_of(call: NaturalCall) -> tuple[str, list[tuple[int, int]]]:
    """Return the name of the argument with the pads, and the pads as pairs, the last dimension first."""
    name = "pad" if "pad" in call.given else "padding"
    pad = call.given[name]
    return name, list(zip(pad[::2], pad[1::2]))


@amends("pad-order", stage=2)
def reverse_pads(call: NaturalCall) -> Any:
    name, pairs = pads_of(call)
    whole = [(0, 0)] * (call.first.ndim - len(pairs)) + pairs[::-1]
    call.given[name] = tuple(n for pair in whole for n in pair)
    return True


@amends("pad-crops", stage=3)
def crop_by_negative_pads(call: NaturalCall) -> Any:
    f, (_, pairs) = call.f, pads_of(call)
    if not any(n < 0 for pair in pairs for n in pair):
        return False

    def padded(x: Any, widths: Any, **how: Any) -> Any:
        grown = f(x, [(max(a, 0), max(b, 0)) for a, b in widths], **how)
        return grown[tuple(slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(widths, grown.shape))].copy()

    call.f = padded
    return True


@amends("pad-mode-names", stage=1)
def rename_modes(call: NaturalCall) -> Any:
    names = {"replicate": "edge", "circular": "wrap", 0: "reflect", 1: "edge", 2: "wrap", 3: "constant"}
    if call.given.get("mode") not in names:
        return False
    call.given["mode"] = names[call.given["mode"]]
    if call.given["mode"] != "constant" and not call.given.get("value"):
        call.given.pop("value", None)
    return True


@amends("pad-needs-batch", stage=0)
def refuse_missing_batch_dims(call: NaturalCall) -> Any:
    name, pairs = pads_of(call)
    odd = len(call.given[name]) % 2 or call.first.ndim - len(pairs) not in (1, 2)
    return refuse(call) if odd and call.full().get("mode", "circular") != "constant" else False


@amends("pad-reflect-once", stage=0)
def refuse_long_reflection(call: NaturalCall) -> Any:
    pairs, shape = pads_of(call)[1], call.first.shape
    if call.full().get("mode", "reflect") != "reflect":
        return False
    return refuse(call) if any(max(pair) >= n for pair, n in zip(pairs, shape[::-1])) else False


@amends("diag-embed-batches", stage=3)
def embed_each_row(call: NaturalCall) -> Any:
    k = call.full()["offset"]

    def embedded(x: Any, k: int = k) -> Any:
        out = np.zeros((*x.shape[:-1], *[x.shape[-1] + abs(k)] * 2), x.dtype)
        i = np.arange(x.shape[-1])
        out[..., i - min(k, 0), i + max(k, 0)] = x
        return out

    call.f = embedded
    return True


@amends("vander-dtype", stage=5)
def keep_dtype(call: NaturalCall) -> Any:
    dtype = call.first.dtype
    call.after.append(lambda out: out.astype(np.int64 if dtype.kind in "bui" else dtype))
    return True


@amends("contiguous-0d", stage=5)
def keep_0d_shape(call: NaturalCall) -> Any:
    shape = call.first.shape
    call.after.append(lambda out: out.reshape(shape))
    return True


@amends("set-to-the-whole", stage=5)
def compare_shape_and_strides(call: NaturalCall) -> Any:
    place = [(x.shape, x.strides, x.ctypes.data) for x in call.arrays()]
    call.after.append(lambda out: out and place[0] == place[1])
    return True


@amends("blocks-as-columns", stage=5)
def return_blocks_as_columns(call: NaturalCall) -> Any:
    batch = call.first.shape[:-3]

    def columns(out: Any) -> Any:
        c, rows, cols, *window = out.shape[len(batch) :]
        n = len(batch)
        moved = np.moveaxis(out, (-2, -1), (n + 1, n + 2))
        return moved.reshape(*batch, c * window[0] * window[1], rows * cols).copy()

    call.after.append(columns)
    return True


@amends("segments-by-length", stage=3)
def reduce_segments(call: NaturalCall) -> Any:
    """Reduce segments given by lengths or offsets; an empty segment gives the identity, or nan for the mean."""
    full, data = call.full(), call.given["data"]
    lengths, axis = full["lengths"], full["axis"]
    if lengths is None:
        lengths = np.diff(full["offsets"], axis=-1)
    elif not full["unsafe"] and ((lengths < 0).any() or (lengths.sum(-1) != data.shape[axis]).any()):
        return refuse(call)
    if axis != lengths.ndim - 1 or full["reduce"] not in SEGMENTS:
        return refuse(call)
    of_one, nothing = SEGMENTS[full["reduce"]]

    def reduced(*_: Any, **__: Any) -> Any:
        out = np.full((*lengths.shape, *data.shape[axis + 1 :]), nothing, data.dtype)
        for batch in np.ndindex(*lengths.shape[:-1]):
            ends = np.cumsum(lengths[batch])
            for i, (start, end) in enumerate(zip((0, *ends), ends)):
                if end > start:
                    out[(*batch, i)] = of_one(data[batch][start:end], axis=0)
        return out

    call.template = parsed("f(data, lengths)")
    call.given["lengths"] = lengths
    call.f = reduced
    return True


SEGMENTS: dict[str, tuple[Any, float]] = {
    "sum": (np.sum, 0),
    "mean": (np.mean, np.nan),
    "prod": (np.prod, 1),
    "max": (np.max, -np.inf),
    "min": (np.min, np.inf),
}
