"""Amendments for products of matrices and vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from .explain_disagreements import amends, expects, refuse
from .natural_call import NaturalCall


def refuses_ranks(id: str, *ranks: tuple[int, ...]) -> None:
    """Register a refusal for a difference: torch raises an error unless the operands' ranks are one of ``ranks``."""

    def amendment(call: NaturalCall) -> Any:
        return refuse(call) if tuple(x.ndim for x in call.arrays()) not in ranks else False

    amends(id, stage=0)(amendment)


refuses_ranks("vectors-only", (1, 1))
refuses_ranks("cross-broadcast", *((n, n) for n in range(9)))


@amends("matrix-only", stage=0)
def refuse_other_ranks(call: NaturalCall) -> Any:
    """Refuse all but two matrices (bmm: two batches, mv: a matrix and a vector, trace: one matrix)."""
    name = call.op.rpartition("::")[2].partition(".")[0]
    wanted = {"bmm": (3, 3), "mv": (2, 1), "trace": (2,)}.get(name, (2, 2))
    return refuse(call) if tuple(x.ndim for x in call.arrays()) != wanted else False


@amends("cross-default-dim", stage=2)
def use_first_dim_of_size_3(call: NaturalCall) -> Any:
    if "dim" in call.given:
        return False
    shape = np.broadcast_shapes(*(x.shape for x in call.arrays()))
    call.kwargs["axis"] = shape.index(3)
    return True


@amends("chain-of-one", stage=3)
def return_copy_of_single_matrix(call: NaturalCall) -> Any:
    if len(call.arrays()) != 1:
        return False
    call.f = lambda matrices: matrices[0].copy()
    return True


@amends("product-of-nothing", stage=5)
def use_dtype_of_second(call: NaturalCall) -> Any:
    dtype = call.given["mat2"].dtype
    if all(call.given["self"].shape):
        return False
    call.after.append(lambda out: out.astype(dtype))
    return True


@amends("tensordot-broadcasts", stage=1)
def broadcast_size_1(call: NaturalCall) -> Any:
    """Broadcast contracted dimensions: if one operand's size is 1, sum the other operand over its dimension."""
    x, y = call.given["self"], call.given["other"]
    pairs = list(zip(call.given["dims_self"], call.given["dims_other"], strict=True))
    if all(x.shape[i] == y.shape[j] for i, j in pairs):
        return False
    wide = np.float32 if x.dtype == np.float16 else x.dtype
    for i, j in pairs:
        if x.shape[i] == 1:
            y = y.sum(axis=j, keepdims=True, dtype=wide)
        elif y.shape[j] == 1:
            x = x.sum(axis=i, keepdims=True, dtype=wide)
    call.given |= {"self": x.astype(call.given["self"].dtype), "other": y.astype(call.given["other"].dtype)}
    return True


@expects("kron-of-strided", "torch refuses")
def is_strided_above_2d(call: NaturalCall) -> Any:
    return any(x.ndim > 2 and not x.flags.c_contiguous for x in call.arrays())


@amends("zero-dim-axis", stage=2)
def treat_numbers_as_vectors(call: NaturalCall) -> Any:
    x, y = call.given["x"], call.given["y"]
    if x.ndim and y.ndim:
        return False
    call.given["x"], call.given["y"] = np.broadcast_arrays(*np.atleast_1d(x, y))
    return True


@amends("einsum-path", stage=0)
def refuse_invalid_path(call: NaturalCall) -> Any:
    n, pairs = len(call.given["tensors"]), list(zip(*[iter(call.given["path"])] * 2))
    bad = any(a == b or not (0 <= a < n - i and 0 <= b < n - i) for i, (a, b) in enumerate(pairs))
    return refuse(call) if bad else False


@amends("einsum-ellipsis", stage=1)
def sum_over_ellipsis(call: NaturalCall) -> Any:
    given, _, wanted = call.given["equation"].partition("->")
    if "..." not in given or "->" not in call.given["equation"] or "..." in wanted:
        return False
    ranks = [x.ndim - len(part) + 3 for part, x in zip(given.split(","), call.arrays()) if "..." in part]
    letters = "ABCDEFGH"[: max(ranks)]
    call.given["equation"] = f"{given.replace('...', letters)}->{wanted}"
    return True


@amends("int-mm-widens", stage=2)
def compute_in_int32(call: NaturalCall) -> Any:
    x, y = call.given["self"], call.given["mat2"]
    if x.dtype not in (np.int8, np.uint8) or y.dtype != np.int8:
        return refuse(call)
    call.given |= {"self": x.astype(np.int32), "mat2": y.astype(np.int32)}
    return True


# ---------------------------------------------------------------- convolution


@amends("correlation", stage=2)
def correlate_without_flip(call: NaturalCall) -> Any:
    """Correlate without flipping the kernel, which np.convolve does, or conjugating it, which np.correlate does."""
    if call.f is np.correlate and call.first.dtype.kind != "c":
        return False
    call.f = lambda x, w, mode="valid": np.correlate(x, w.conj(), mode)
    return True


@amends("conv-layout", stage=3)
def convolve_batches_and_channels(call: NaturalCall) -> Any:
    """Convolve each batch item and sum over its channels.

    "same" keeps the input's size; if the padding is uneven, the end gets the extra zero.
    """
    x, w, f = call.given["input"], call.given["weight"], call.f
    if x.ndim not in (2, 3) or w.ndim != 3 or x.shape[-2] != w.shape[1]:
        return refuse(call)
    whole = w.shape[-1] - 1 if call.given.get("padding") == "same" else 0

    def convolved(*_: Any) -> Any:
        x, w = call.given["input"], call.given["weight"]  # read again, because later amendments may have cast them
        wide = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(whole // 2, whole - whole // 2)])
        items = wide if x.ndim == 3 else wide[None]
        if wide.shape[-1] < w.shape[-1]:
            raise ValueError("the kernel is longer than the input")
        out = [[sum(f(c, k, "valid") for c, k in zip(item, bank, strict=True)) for bank in w] for item in items]
        shaped = np.reshape(out, (len(items), len(w), wide.shape[-1] - w.shape[-1] + 1)).astype(x.dtype)
        return shaped if x.ndim == 3 else shaped[0]

    call.f = convolved
    return True
