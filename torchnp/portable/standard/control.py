"""Higher-order operators on arrays with values, as Python branches and loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable

Function = Callable[..., list]  # a graph as a function of its inputs


@portable("torch.ops.higher_order.cond")
def cond(lib: ArrayLibrary, pred: Any, when_true: Function, when_false: Function, operands: Sequence[Any]) -> list:
    return when_true(*operands) if lib.item(pred) else when_false(*operands)


@portable("torch.ops.higher_order.while_loop")
def while_loop(
    lib: ArrayLibrary, go_on: Function, body: Function, carried: Sequence[Any], additional: Sequence[Any]
) -> list:
    values = list(carried)
    while lib.item(go_on(*values, *additional)[0]):
        values = body(*values, *additional)
    return values


@portable("torch.ops.higher_order.map_impl")
def map_impl(lib: ArrayLibrary, body: Function, xs: Sequence[Array], operands: Sequence[Any]) -> list:
    rows = [body(*(x[i, ...] for x in xs), *operands) for i in range(xs[0].shape[0])]
    return [lib.xp.stack(list(column), axis=0) for column in zip(*rows)]


@portable("torch.ops.higher_order.scan")
def scan(
    lib: ArrayLibrary, combine: Function, init: Sequence[Any], xs: Sequence[Array], additional: Sequence[Any]
) -> list:
    carry, rows = list(init), []
    for i in range(xs[0].shape[0]):
        found = combine(*carry, *(x[i, ...] for x in xs), *additional)
        carry, out = found[: len(init)], found[len(init) :]
        rows.append(out)
    return carry + [lib.xp.stack(list(column), axis=0) for column in zip(*rows)]


@portable("torch.ops.higher_order.wrap_with_set_grad_enabled")
def wrap_with_set_grad_enabled(lib: ArrayLibrary, enabled: bool, body: Function, *operands: Any) -> list:
    return body(*operands)
