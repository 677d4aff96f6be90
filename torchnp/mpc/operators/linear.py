"""Operators that are linear in the shares (sums, moves of elements), which each party computes with the table's kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

import torchnp
from torchnp.engine import Call
from torchnp.mpc.fixed_point import FixedPoint
from torchnp.mpc.operators.elementwise import converted
from torchnp.mpc.operators.registry import op, public, result_bits, secret, shared
from torchnp.mpc.shares import SharedSum

# Operators whose first argument is a secret tensor, and all of whose other arguments are public.
_OF_ONE = (
    "view_copy", "permute_copy", "slice_copy.Tensor", "expand_copy", "select_copy.int", "unsqueeze_copy",
    "squeeze_copy", "squeeze_copy.dim", "squeeze_copy.dims", "t_copy", "transpose_copy.int", "alias_copy",
    "diagonal_copy", "unfold_copy", "flip", "roll", "repeat", "tril", "triu", "sum.dim_IntList", "sum", "cumsum",
    "unfold_backward", "unbind_copy.int", "split_copy.Tensor", "split_with_sizes_copy",
)  # fmt: skip
# Operators with several secret tensors, and the positions of these arguments.
_OF_MORE = {
    "slice_scatter": (0, 1), "select_scatter": (0, 1), "diagonal_scatter": (0, 1),
}  # fmt: skip


def _plain(x: Any) -> Any:
    return [public(y) for y in x] if isinstance(x, list) else public(x)


def in_dtype(p: FixedPoint, call: Call, x: Any) -> Any:
    """Convert a secret argument with fractional bits to the result's dtype if that has none, as torch does first."""
    spec = call.results[0]
    assert spec is not None
    if not secret(x) or x.bits == 0 or spec.dtype.is_floating_point:
        return x
    return converted(p, x, spec.dtype)


def linear(p: FixedPoint, call: Call, args: tuple, kwargs: dict[str, Any], places: tuple[int, ...]) -> Any:
    """Run a kernel on each party's shares of the arguments at the positions ``places``."""
    bits = result_bits(p, call)
    values = {i: shared(p, in_dtype(p, call, args[i]), bits) for i in places}
    named = {k: _plain(a) for k, a in kwargs.items() if k != "dtype"}
    kernel = torchnp.table[call.op]
    outs = []
    for rank in range(len(p.network.ranks)):
        mine = [values[i].parts[rank] if i in values else _plain(a) for i, a in enumerate(args)]
        outs.append(kernel(*mine, **named))
    if isinstance(outs[0], list):
        return [SharedSum(parts, bits) for parts in zip(*outs)]
    return SharedSum(tuple(outs), bits)


def _of_one(name: str) -> None:
    def apply(p: FixedPoint, call: Call, *args: Any, **kwargs: Any) -> Any:
        if not secret(args[0]):
            raise _secret_index(call)
        return linear(p, call, args, kwargs, (0,))

    op(name)(apply)


def _of_more(name: str, places: tuple[int, ...]) -> None:
    def apply(p: FixedPoint, call: Call, *args: Any, **kwargs: Any) -> Any:
        values = [y for i, x in enumerate(args) if i not in places for y in (x if isinstance(x, list) else (x,))]
        if any(map(secret, values)):
            raise _secret_index(call)
        return linear(p, call, args, kwargs, places)

    op(name)(apply)


def _secret_index(call: Call) -> TypeError:
    return TypeError(
        f"{call.op}: the place of what it takes is secret. Secret indices are those of indexing by integers, index_select, "
        "index_add, index_copy, gather, scatter, scatter_add, embedding and one_hot"
    )


for _name in _OF_ONE:
    _of_one(_name)
for _name, _places in _OF_MORE.items():
    _of_more(_name, _places)


@op("cat", "stack")
def cat(p: FixedPoint, call: Call, tensors: list, dim: int = 0) -> SharedSum:
    """Concatenate or stack tensors."""
    bits = result_bits(p, call)
    each = [shared(p, t, bits) for t in tensors]
    return p.each(lambda *ws: torchnp.table[call.op](list(ws), dim), *each)


@op("constant_pad_nd")
def constant_pad_nd(p: FixedPoint, call: Call, x: SharedSum, pad: Any, value: Any = 0) -> SharedSum:
    """Pad with a number."""
    kernel = torchnp.table["aten::constant_pad_nd"]
    padded = p.each(lambda w: kernel(w, pad, 0), x)
    if value == 0:
        return padded
    border = kernel(np.zeros(x.shape, np.int64), pad, 1)
    return p.plus(padded, border * p.encode(value, x.bits))
