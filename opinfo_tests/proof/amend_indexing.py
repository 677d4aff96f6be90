"""Amendments for the catalogue's chapter of indexing: gathering, scattering, masks."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..case import schemas
from .amend_promotion import overflows
from .explain_disagreements import amends, expects, refuse
from .natural_call import NaturalCall, parsed
from .template_helpers import along, slot
from .torch_promotion import KINDS, cast, category

# ---------------------------------------------------------------- one index for each element


@amends("gather-negative", stage=0)
def refuse_negative_index(call: NaturalCall) -> Any:
    index = call.given["index" if "index" in call.given else "indices"]
    return refuse(call) if (index < 0).any() else False


@amends("gather-crops", stage=2)
def index_part_of_tensor(call: NaturalCall) -> Any:
    """Accept an index that is smaller than the tensor and the source; treat 0-d arrays as 1-d."""
    adds = call.f == np.add.at

    def gathered(x: Any, index: Any, dim: int) -> Any:
        x, i = np.atleast_1d(x, index)
        return x[along(x, i, dim)].reshape(index.shape) if index.size else np.zeros(index.shape, x.dtype)

    def scattered(x: Any, index: Any, src: Any, dim: int) -> None:
        x, i = np.atleast_1d(x, index)
        part = np.atleast_1d(src)[tuple(map(slice, i.shape))] if np.ndim(src) or adds else src
        if not i.size:
            return
        if adds:
            np.add.at(x, along(x, i, dim), part)
        else:
            x[along(x, i, dim)] = part

    if "wrote(" not in call.template.text:
        call.f = gathered
        return True
    call.f, source = scattered, "src" if "src" in call.given else "value"
    call.template = parsed(f"wrote(f(self, index, {source}, dim), self)")
    return True


@amends("take-along-flat", stage=1)
def flatten_indices(call: NaturalCall) -> Any:
    if "dim" in call.given:
        return False
    call.given["indices"] = call.given["indices"].reshape(-1)
    return True


@amends("take-along-wraps", stage=1)
def wrap_indices(call: NaturalCall) -> Any:
    if "dim" not in call.given:
        return False
    call.given["indices"] = call.given["indices"] % call.first.shape[call.given["dim"]]
    return True


@amends("index-add-shapes", stage=0)
def refuse_other_shapes(call: NaturalCall) -> Any:
    x, source, dim = call.given["self"], call.given["source"], call.given["dim"]
    around = [np.delete(y.shape, dim).tolist() if y.ndim else [] for y in (x, source)]
    return False if x.ndim == source.ndim and around[0] == around[1] else refuse(call)


@amends("index-add-alpha", stage=3)
def convert_alpha(call: NaturalCall) -> Any:
    alpha, dtype = call.given["alpha"], call.given["self"].dtype
    if category(alpha) <= KINDS[dtype.kind]:
        return False
    if overflows(alpha, dtype):
        return refuse(call)
    call.given["alpha"] = cast(alpha, dtype)
    return True


@amends("no-mixed-writes", stage=0)
def refuse_mixed_dtypes(call: NaturalCall) -> Any:
    written = next(call.given[n] for n in ("src", "source", "values") if n in call.given)
    return refuse(call) if written.dtype != call.given["self"].dtype else False


@amends("index-copy-long", stage=0)
def refuse_other_than_int64(call: NaturalCall) -> Any:
    return refuse(call) if call.given["index"].dtype != np.int64 else False


@amends("put-as-many", stage=0)
def refuse_other_sizes(call: NaturalCall) -> Any:
    return refuse(call) if call.given["index"].size != call.given["source"].size else False


# ---------------------------------------------------------------- indices of dimensions


@amends("index-uint8-mask", stage=1)
def treat_uint8_as_mask(call: NaturalCall) -> Any:
    found = [i.astype(bool) if i is not None and i.dtype == np.uint8 else i for i in call.given["indices"]]
    same = all(i is j for i, j in zip(found, call.given["indices"]))
    call.given["indices"] = found
    return not same


@amends("index-int-not-advanced", stage=1)
def apply_integers_first(call: NaturalCall) -> Any:
    call.template = parsed("f(self, index_of(indices))")
    return True


@amends("unsafe-index-integers", stage=0)
def refuse_masks(call: NaturalCall) -> Any:
    return refuse(call) if any(i is not None and i.dtype.kind not in "i" for i in call.given["indices"]) else False


@amends("index-put-accumulates", stage=3)
def accumulate_duplicates(call: NaturalCall) -> Any:
    if not call.given.get("accumulate"):
        return False
    said = "itself" if "itself(" in call.template.text else "wrote"
    call.f, call.template = np.add.at, parsed(f"{said}(f(self, index_of(indices), values), self)")
    return True


@amends("index-write-overlap", stage=0)
def refuse_overlapping_arrays(call: NaturalCall) -> Any:
    x = call.first
    others = [y for y in call.arrays() if y is not x]
    return refuse(call) if schemas()[call.op].mutates and any(np.shares_memory(x, y) for y in others) else False


# ---------------------------------------------------------------- masks


@amends("nonzero-rows", stage=1)
def return_row_per_element(call: NaturalCall) -> Any:
    call.template = parsed("np.argwhere(self)")
    return True


@amends("nonzero-static-size", stage=3)
def pad_to_static_size(call: NaturalCall) -> Any:
    full = call.full()
    if full["size"] < 0:
        return refuse(call)
    filled = lambda out: np.pad(out, [(0, full["size"] - len(out)), (0, 0)], constant_values=full["fill_value"])
    call.after.append(filled)
    return True


@amends("scatter-of-its-shape", stage=0)
def refuse_source_of_other_shape(call: NaturalCall) -> Any:
    x, src, full = call.given["self"], call.given["src"], call.full()
    if "diagonal" in call.op:
        window = np.diagonal(x, full["offset"], full["dim1"], full["dim2"]).shape
    elif "size" in full:
        window = tuple(full["size"])
    else:
        where = full["index"] if "index" in full else slice(full["start"], full["end"], full["step"])
        window = x[slot(full["dim"], where)].shape
    return refuse(call) if src.shape != window else False


@expects("csr-batches", "numpy refuses")
def is_batch_of_matrices(call: NaturalCall) -> Any:
    return call.given["crow_indices"].ndim > 1


@amends("fill-0d", stage=0)
def refuse_value_with_dims(call: NaturalCall) -> Any:
    return refuse(call) if call.given["value"].ndim else False


@amends("masks-broadcast", stage=2)
def broadcast_mask_and_array(call: NaturalCall) -> Any:
    try:
        x, mask = np.broadcast_arrays(call.given["self"], call.given["mask"])
    except ValueError:
        return refuse(call)
    if x.shape == call.given["self"].shape and mask.shape == call.given["mask"].shape:
        return False
    call.given |= {"self": x.copy(), "mask": mask}
    return True


@amends("masked-scatter-enough", stage=0)
def refuse_too_few_elements(call: NaturalCall) -> Any:
    _, mask = np.broadcast_arrays(call.given["self"], call.given["mask"])
    return refuse(call) if mask.sum() > call.given["source"].size else False
