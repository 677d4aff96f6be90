"""Functions that build derived kernels, one for each rule of `torchnp.derived.rules`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from torchnp.core.inplace_out_spec import WriteSpec, resize
from torchnp.core.schema import Schema
from torchnp.derived.calls import call, guarded
from torchnp.derived.casts import write_inplace
from torchnp.derived.foreach_checks import check_lists
from torchnp.derived.inplace import make_inplace
from torchnp.derived.outs import make_out
from torchnp.layout.stride_rules import layout_of, place, preserved

ndarray = np.ndarray


def _make_copy(schema: Schema, source: Callable[..., Any], source_schema: Schema, _: WriteSpec) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        views = source(*args, **kwargs)
        if isinstance(views, ndarray):
            return views.copy("K")
        return [v.copy("K") for v in views]

    return kernel


def _make_foreach(
    schema: Schema, source: Callable[..., Any], source_schema: Schema, writes: WriteSpec
) -> Callable[..., Any]:
    pairs = pair_arguments(schema, source_schema)
    lists = [a.name for a in schema.args if a.type.endswith("[]")]

    def run(bound: dict[str, Any]) -> list[Any]:
        check_lists(schema, bound, writes)
        results = []
        for i in range(len(bound[lists[0]])):
            values = {a.name: a.default for a in source_schema.args}
            for name, target in pairs.items():
                values[target] = _item(bound[name], i) if name in lists or name == unzipped else bound[name]
            results.append(call(source, source_schema, values))
        return results

    # `_foreach_addcmul.Tensor` takes a 1-d tensor with one number per list item.
    unzipped = next((a.name for a in schema.args if a.type == "Tensor" and a.name == "scalars"), None)
    return guarded(schema, run)


def _item(values: Any, i: int) -> Any:
    return values[i].item() if isinstance(values, ndarray) else values[i]


def pair_arguments(schema: Schema, source: Schema) -> dict[str, str]:
    """Map the arguments of a foreach op to those of the single-tensor op, by name if possible, else in order."""
    names = {a.name for a in source.args}
    pairs = {a.name: a.name for a in schema.args if a.name in names}
    free = [a.name for a in source.args if a.name not in pairs]
    for a in schema.args:
        if a.name not in pairs and free:
            pairs[a.name] = free.pop(0)
    return pairs


def _copied(x: ndarray) -> ndarray:
    """Return a copy with the layout of ``clone``."""
    return place(x.copy("K"), preserved(*layout_of(x)))


def _make_functional(
    schema: Schema, source: Callable[..., Any], source_schema: Schema, writes: WriteSpec
) -> Callable[..., Any]:
    written = [a for a in source_schema.args if a.is_write]
    plain = plain_returns(source_schema)

    def run(bound: dict[str, Any]) -> Any:
        values = dict(bound)
        for a in written:
            x = bound[a.name]
            values[a.name] = _copied(x) if isinstance(x, ndarray) else None if x is None else [*map(_copied, x)]
        out = call(source, source_schema, values)
        results = () if not plain else (out,) if isinstance(out, (ndarray, list)) else tuple(out)[:plain]
        results = (*results, *(values[a.name] for a in written))
        return results[0] if len(results) == 1 else results

    return guarded(schema, run)


def _make_mutating(
    schema: Schema, source: Callable[..., Any], source_schema: Schema, writes: WriteSpec
) -> Callable[..., Any]:
    plain = plain_returns(schema)

    def run(bound: dict[str, Any]) -> Any:
        out = call(source, source_schema, bound)
        results = out if isinstance(out, tuple) else (out,)
        for a, value in zip(schema.written, results[plain:], strict=True):
            target = bound[a.name]
            if isinstance(target, (list, tuple)):
                for t, v in zip(target, value, strict=True):
                    write_inplace(t, v)
            elif target is not None:
                resized = writes.resizes and target.shape != value.shape
                write_inplace(resize(target, value.shape) if resized else target, value)
        if not schema.returns:
            return None
        by_alias = {a.alias: bound[a.name] for a in schema.written}
        fresh = iter(results[:plain])
        final = tuple(by_alias[r.alias] if r.is_write else next(fresh) for r in schema.returns)
        return final[0] if len(final) == 1 else final

    return guarded(schema, run)


MAKERS = {
    "out": make_out,
    "in-place": make_inplace,
    "copy": _make_copy,
    "foreach": _make_foreach,
    "functional": _make_functional,
    "mutating": _make_mutating,
}


def plain_returns(schema: Schema) -> int:
    return sum(not r.is_write for r in schema.returns)
