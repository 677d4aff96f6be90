"""Amendments for products of matrices and vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from .explaining import amends, expects, refuse
from .natural import Call


def refuses_ranks(id: str, *ranks: tuple[int, ...]) -> None:
    """Register a difference that is torch's refusal of other ranks of operands, in their order."""

    def amendment(call: Call) -> Any:
        return refuse(call) if tuple(x.ndim for x in call.arrays()) not in ranks else False

    amends(id, stage=0)(amendment)


refuses_ranks("vectors-only", (1, 1))
refuses_ranks("cross-broadcast", *((n, n) for n in range(9)))


@amends("matrix-only", stage=0)
def of_matrices(call: Call) -> Any:
    """Two matrices, batches of them for bmm, a matrix and a vector for mv, one matrix for trace."""
    name = call.op.rpartition("::")[2].partition(".")[0]
    wanted = {"bmm": (3, 3), "mv": (2, 1), "trace": (2,)}.get(name, (2, 2))
    return refuse(call) if tuple(x.ndim for x in call.arrays()) != wanted else False


@amends("cross-default-dim", stage=2)
def along_the_first_of_three(call: Call) -> Any:
    if "dim" in call.given:
        return False
    shape = np.broadcast_shapes(*(x.shape for x in call.arrays()))
    call.kwargs["axis"] = shape.index(3)
    return True


@amends("chain-of-one", stage=3)
def one_is_itself(call: Call) -> Any:
    if len(call.arrays()) != 1:
        return False
    call.f = lambda matrices: matrices[0].copy()
    return True


@amends("product-of-nothing", stage=5)
def dtype_of_the_second(call: Call) -> Any:
    dtype = call.given["mat2"].dtype
    if all(call.given["self"].shape):
        return False
    call.after.append(lambda out: out.astype(dtype))
    return True


@amends("tensordot-broadcasts", stage=1)
def ones_are_stretched(call: Call) -> Any:
    """Where one operand has size 1 along a dimension, the other is summed over its own."""
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
def no_view_of_the_product(call: Call) -> Any:
    return any(x.ndim > 2 and not x.flags.c_contiguous for x in call.arrays())


@amends("zero-dim-axis", stage=2)
def numbers_as_vectors(call: Call) -> Any:
    x, y = call.given["x"], call.given["y"]
    if x.ndim and y.ndim:
        return False
    call.given["x"], call.given["y"] = np.broadcast_arrays(*np.atleast_1d(x, y))
    return True


@amends("einsum-ellipsis", stage=1)
def sums_over_what_is_left_out(call: Call) -> Any:
    given, _, wanted = call.given["equation"].partition("->")
    if "..." not in given or "->" not in call.given["equation"] or "..." in wanted:
        return False
    ranks = [x.ndim - len(part) + 3 for part, x in zip(given.split(","), call.arrays()) if "..." in part]
    letters = "ABCDEFGH"[: max(ranks)]
    call.given["equation"] = f"{given.replace('...', letters)}->{wanted}"
    return True
