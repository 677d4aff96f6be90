"""Higher-order operators as XLA's control flow, which also works under a trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable

Function = Callable[..., list]


@portable("torch.ops.higher_order.cond", on="jax")
def cond(lib: ArrayLibrary, pred: Any, when_true: Function, when_false: Function, operands: Sequence[Any]) -> list:
    return jax.lax.cond(jnp.reshape(pred, ()), lambda *xs: when_true(*xs), lambda *xs: when_false(*xs), *operands)


@portable("torch.ops.higher_order.while_loop", on="jax")
def while_loop(
    lib: ArrayLibrary, go_on: Function, body: Function, carried: Sequence[Any], additional: Sequence[Any]
) -> list:
    more = lambda values: jnp.reshape(go_on(*values, *additional)[0], ())
    start = [jnp.asarray(x) for x in carried]
    step = lambda values: [jnp.asarray(new, old.dtype) for new, old in zip(body(*values, *additional), values)]
    return jax.lax.while_loop(more, step, start)


@portable("torch.ops.higher_order.map_impl", on="jax")
def map_impl(lib: ArrayLibrary, body: Function, xs: Sequence[Array], operands: Sequence[Any]) -> list:
    return jax.lax.map(lambda row: body(*row, *operands), list(xs))


@portable("torch.ops.higher_order.scan", on="jax")
def scan(
    lib: ArrayLibrary, combine: Function, init: Sequence[Any], xs: Sequence[Array], additional: Sequence[Any]
) -> list:
    n = len(init)

    def step(carry: list, row: list) -> tuple[list, list]:
        found = combine(*carry, *row, *additional)
        return list(found[:n]), list(found[n:])

    carry, rows = jax.lax.scan(step, list(init), list(xs))
    return [*carry, *rows]
