"""The kernels that the rules of `torchnp.derived.rules` make of a source row: in-place, ``out=``, ``_copy`` and so on."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from torchnp.checks import check
from torchnp.derived.dtypes import check_fits, inplace_rule, out_rule, resize, straight, write_inplace
from torchnp.derived.memory import (
    WRITE_AT,
    check_apart,
    check_resized,
    check_target,
    check_written_at,
    contiguous_outs,
    exceptions,
    looks_of,
    overlaps_itself,
    owner_of,
    tensors_of,
    write_expanded,
)
from torchnp.derived.particular import INPLACE, OUT
from torchnp.dtypes import (
    ALL,
    FLOAT8S,
    HALVES,
    can_cast,
    cast,
    category,
    complex32,
    complex128,
    float64,
    is_half,
    is_inexact,
    scalar_name,
    to_real,
)
from torchnp.registry import enter_quiet, leave_quiet, raise_mismatch
from torchnp.schema import NUMBERS_AS_TENSORS, RESERVED, Schema

ndarray = np.ndarray

_PLACED = frozenset({"dtype", "layout", "device", "pin_memory"})  # what out= decides for `zeros` and `rand`


def is_factory_of(source: Schema, schema: Schema) -> bool:
    mine = [(a.name, a.type) for a in schema.args if not a.is_out]
    return mine == [(a.name, a.type) for a in source.args if a.name not in _PLACED] and len(mine) < len(source.args)


def _call(source: Callable[..., Any], source_schema: Schema, bound: Mapping[str, Any]) -> Any:
    """Call a kernel with arguments by name, positional where its schema has them so."""
    args, kwargs = [], {}
    first = source_schema.args[0].name if source_schema.args else ""
    if first and first not in bound:  # the one name that may differ between a form and its source
        bound = {first: next(iter(bound.values())), **bound}
    for a in source_schema.args:
        if a.kwonly:
            kwargs[RESERVED.get(a.name, a.name)] = bound[a.name]
        else:
            args.append(bound[a.name])
    return source(*args, **kwargs)


def _guarded(schema: Schema, run: Callable[[dict[str, Any]], Any]) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            kwargs = {_SPELLED.get(k, k): v for k, v in kwargs.items()}
        token = enter_quiet()
        try:
            return run(schema.bind(args, kwargs))
        finally:
            leave_quiet(token)

    return kernel


_SPELLED = {v: k for k, v in RESERVED.items()}


def _make_inplace(schema: Schema, source: Callable[..., Any], source_schema: Schema) -> Callable[..., Any]:
    if "inplace_view" in schema.tags:
        # An ndarray cannot be given other strides: the result is the view, on the same memory.
        return source
    if schema.args[0].type == "Tensor[]":
        return _make_inplace_list(schema, source, source_schema)
    direct = getattr(source, "direct", {})
    if [a.name for a in source_schema.args] != [a.name for a in schema.args]:
        source = _by_name(schema, source, source_schema)
    name = schema.args[0].name
    rule = inplace_rule(schema)
    into = rule.into
    pointwise = "pointwise" in schema.tags or [a.name for a in schema.args[1:2]] == ["other"]

    numbers = schema.base in NUMBERS_AS_TENSORS
    before = INPLACE.get(schema.base)
    compares = _COMPARE.fullmatch(schema.base)
    resized = schema.base == "addbmm_"
    rounds = schema.base in _ROUNDS_NUMBER and schema.overload == "Scalar"
    writes_at, early = schema.base in WRITE_AT, schema.base.startswith("scatter")  # before the index is looked at

    def kernel(*args: Any, **kwargs: Any) -> ndarray:
        token = enter_quiet()
        try:
            target = args[0] if args else kwargs[name]
            if numbers and isinstance(target, (int, float, complex)):
                target = np.asarray(target)  # torch writes a tensor that it makes of the number
            if 0 in target.strides and overlaps_itself(target):
                bound = schema.bind(args, {_SPELLED.get(k, k): v for k, v in kwargs.items()})
                if into and bound["dtype"] is None:
                    bound["dtype"] = target.dtype
                write_expanded(schema, target, bound, lambda b: _call(source, schema, b), rule)
                return target
            for x in args:
                if type(x) is ndarray and x is not target:
                    check_apart(target, x)
            operands = (*args[1:], *(v for k, v in kwargs.items() if k != name)) if writes_at else ()
            if operands and early:
                check_written_at(target, operands)
            if before:
                before(schema.bind(args, kwargs), [target])
            if into and kwargs.get("dtype") is None:
                kwargs["dtype"] = target.dtype
            if rounds:
                args, kwargs = (target, rounded(args[1] if len(args) > 1 else kwargs["other"], target)), {}
            value = source(*args, **kwargs)
            if operands and not early:
                check_written_at(target, operands)
            if resized and value.shape != target.shape:
                resize(target, value.shape)  # torch writes it by way of out=
            rule.write_inplace(target, value)
        except Exception as error:
            raise_mismatch(schema, args, kwargs)
            # torch looks at the shapes before it looks for code for a dtype: '"lt_cpu" not implemented for ...'
            if pointwise and isinstance(error, NotImplementedError) and str(error).startswith('"'):
                check_fits(target, [x for x in (*args, *kwargs.values()) if isinstance(x, ndarray)])
                if not compares:
                    check_holds(error, target)
            raise
        finally:
            leave_quiet(token)
        return target

    return straight(direct, kernel, len(schema.args) == 1)


def check_holds(error: NotImplementedError, target: ndarray) -> None:
    """torch looks whether the target holds the result before it looks for code for the result's dtype."""
    lacking = str(error).rpartition("for '")[2].rstrip("'")
    computed = next((d for d in ALL if scalar_name(d) == lacking), target.dtype)
    words = f"result type {lacking} can't be cast to the desired output type {scalar_name(target.dtype)}"
    check(can_cast(computed, target.dtype), words)


# Their result is bool, whatever they compare; ldexp_ raises 2 to a power before it looks.
_COMPARE = re.compile(r"(ldexp|eq|ne|lt|le|gt|ge|less|greater|not_equal|less_equal|greater_equal|logical_\w+)_")


# torch multiplies number * self here, and reads the first of two operands in their common dtype.
_ROUNDS_NUMBER = frozenset({"mul_", "multiply_", "_foreach_mul_"})


def rounded(number: Any, target: ndarray) -> Any:
    """A number as a half precision target holds it, of a float8 as often; any other takes it as it is."""
    dtype = target.dtype
    if dtype in FLOAT8S and target.size != 1 and not isinstance(number, complex):
        return np.broadcast_to(cast(np.asarray(number), dtype), target.shape)
    if (is_half(dtype) and not isinstance(number, complex)) or dtype == complex32:
        return cast(cast(np.asarray(number), dtype), complex128 if dtype == complex32 else float64).item()
    return number


def _by_name(schema: Schema, source: Callable[..., Any], source_schema: Schema) -> Callable[..., Any]:
    """A source whose arguments stand in another order (``polygamma(n, self)``), or whose first has another name."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return _call(source, source_schema, schema.bind(args, kwargs))

    return call


def _make_inplace_list(schema: Schema, source: Callable[..., Any], source_schema: Schema) -> Callable[..., Any]:
    # torch goes tensor by tensor, so a tensor that shares memory with an earlier one sees what was written.
    rule = inplace_rule(schema)

    numbers = next((a.name for a in schema.args if a.name in ("scalar", "scalars")), "")
    rounds = schema.base in _ROUNDS_NUMBER and numbers
    check_each = check_target if schema.base not in exceptions() else lambda target: None

    def run(bound: dict[str, Any]) -> list[ndarray] | None:
        targets = bound[schema.args[0].name]
        narrow = rounds and any(t.itemsize <= 4 and t.dtype in (*HALVES, complex32) for t in targets)
        scalars = bound.get("scalars", ())
        refused = any(isinstance(x, complex) for x in scalars)  # in the order of the tensors
        if narrow or (len(targets) > 1 and (refused or _share(targets, bound))):
            alike = {k: v for k, v in bound.items() if isinstance(v, (list, tuple)) or k == "scalars"}
            lists = [k for k, v in alike.items() if len(v) == len(targets)]
            steps = [bound | {k: bound[k][i : i + 1] for k in lists} for i in range(len(targets))]
        else:
            steps = [bound]
        for step in steps:
            into = step[schema.args[0].name]
            for target in into:
                check_each(target)
            if narrow:
                given = step[numbers]
                step[numbers] = (
                    [rounded(x, into[0]) for x in given]
                    if isinstance(given, (list, tuple))
                    else rounded(given, into[0])
                )
            try:
                values = _call(source, source_schema, step)
            except NotImplementedError as error:
                check_holds(error, into[0])
                raise
            for target, value in zip(into, values, strict=True):
                rule.write_inplace(target, value)
        return targets if schema.returns else None

    return _guarded(schema, run)


def _share(targets: list[ndarray], bound: dict[str, Any]) -> bool:
    """Whether a tensor of a list may share memory with any that is read after it was written."""
    arrays = [x for value in bound.values() for x in tensors_of(value)]
    owners = {id(owner_of(x)) for x in arrays}
    return len(owners) < len(arrays)


def _make_out(schema: Schema, source: Callable[..., Any], source_schema: Schema) -> Callable[..., Any]:
    outs = [a for a in schema.args if a.is_out]
    rules = [out_rule(schema, a, len(outs) > 1) for a in outs]
    factory = is_factory_of(source_schema, schema)
    into = rules[0].into and not factory
    row = f"{schema.base}.{schema.overload}"
    before, looks = OUT.get(row), looks_of(schema)
    contiguous = [contiguous_outs().get(f"{row}:{a.name}", "") for a in outs]
    early = rules[0].exact and "generated" not in schema.tags and not rules[0].into

    def run(bound: dict[str, Any]) -> Any:
        targets = [bound[a.name] for a in outs]
        if factory:
            if schema.name == "aten::empty.out" and bound["memory_format"] is not None:
                raise RuntimeError("'memory_format' argument is incompatible with 'out' tensor argument")
            bound = dict.fromkeys(_PLACED) | bound | {"dtype": targets[0].dtype}
        inputs = [x for a in schema.args if not a.is_out for x in tensors_of(bound[a.name])]
        source_inputs = tensors_of(bound[schema.args[0].name]) if looks.source else []
        for target, words in zip(targets, contiguous, strict=True):
            for t in tensors_of(target):
                looks.check(t, source_inputs, inputs, once=not words)
        left = before(bound, targets) if before else None
        first: Any = inputs[0].dtype if inputs else None  # factories have no input, and rules that do not ask for it
        if into and (is_inexact(first) or rules[0].of_integers):
            if "out_dtype" not in bound:
                rules[0].check_early(targets[0].dtype, first if "dtype" in bound else to_real(first))
            bound = _computed_in(targets[0].dtype, bound)
        try:
            results = _call(source, source_schema, bound)
        except NotImplementedError as error:
            # torch looks at the out before it looks for code for a dtype: '"neg_cpu" not implemented for ...'
            if early and str(error).startswith('"') and isinstance(targets[0], ndarray):
                rules[0].check(first, targets[0].dtype, first)
            raise
        if len(outs) == 1 and not isinstance(results, tuple):
            results = (results,)
        for target, result, words in zip(targets, results, contiguous, strict=False):
            if words and not target.flags.c_contiguous and target.shape == result.shape:
                raise RuntimeError(words)
        if looks.source and targets[0].base is not None and targets[0].shape != results[0].shape:
            check_resized(targets[0], results[0].size, inputs)
        for i, (target, result, rule) in enumerate(zip(targets, results, rules, strict=False)):
            if left and i in left:
                continue
            if isinstance(target, (list, tuple)):
                check(
                    len(target) == len(result),
                    f"out should have one tensor per result: expected {len(result)}, got {len(target)}",
                )
                for t, r in zip(target, result, strict=True):
                    rule.write(t, r, first)
            else:
                rule.write(target, result, first)
        if not schema.returns:
            return None
        return targets[0] if len(schema.returns) == 1 else tuple(targets)

    return _guarded(schema, run)


def _computed_in(dtype: np.dtype, bound: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call that computes in the dtype of its out: told by ``dtype``, or by the input's own."""
    for name in ("dtype", "out_dtype"):
        if name in bound:
            return bound if bound[name] is not None else bound | {name: dtype}
    name = next(iter(bound))
    takes = is_inexact(dtype) and category(dtype) >= category(bound[name].dtype) >= 2
    return bound | {name: cast(bound[name], dtype)} if takes else bound


def _make_copy(schema: Schema, source: Callable[..., Any], source_schema: Schema) -> Callable[..., Any]:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        views = source(*args, **kwargs)
        if isinstance(views, ndarray):
            return views.copy("K")
        return [v.copy("K") for v in views]

    return kernel


def _make_foreach(schema: Schema, source: Callable[..., Any], source_schema: Schema) -> Callable[..., Any]:
    pairs = pair_arguments(schema, source_schema)
    lists = [a.name for a in schema.args if a.type.endswith("[]") and a.name in pairs]

    def run(bound: dict[str, Any]) -> list[Any]:
        if lone is not None and (bound[lone].ndim or bound[lone].size != 1):
            raise RuntimeError(
                f"scalar tensor expected to be 0 dim but it has {bound[lone].ndim} dimensions and {bound[lone].size} "
                "elements."
            )
        if unzipped is not None:
            _check_scalars(bound[unzipped], len(bound[schema.args[0].name]))
        length = _check_lists(schema, bound, lists)
        results = []
        for i in range(length):
            values = {a.name: a.default for a in source_schema.args}
            for name, target in pairs.items():
                values[target] = _item(bound[name], i) if name in lists or name == unzipped else bound[name]
            results.append(_call(source, source_schema, values))
        return results

    # `_foreach_addcmul.Tensor` takes a 1-d tensor with one number per list entry.
    lone = next((a.name for a in schema.args if a.type == "Tensor" and a.name == "other"), None)
    unzipped = next((a.name for a in schema.args if a.type == "Tensor" and a.name == "scalars"), None)
    return _guarded(schema, run)


def _check_scalars(scalars: ndarray, length: int) -> None:
    check(scalars.flags.c_contiguous, "Expected scalars to be contiguous.")
    check(scalars.ndim == 1, f"Expected packed scalar Tensor to be of dimension 1. Got {scalars.ndim} instead.")
    if scalars.size != length:
        raise RuntimeError(
            f"Expected length of scalars to match input of length {length} but got {scalars.size} instead."
        )


def _item(values: Any, i: int) -> Any:
    return values[i].item() if isinstance(values, ndarray) else values[i]


def pair_arguments(schema: Schema, source: Schema) -> dict[str, str]:
    """Foreach argument -> single-tensor argument: by name where they agree, else in order."""
    names = {a.name for a in source.args}
    pairs = {a.name: a.name for a in schema.args if a.name in names}
    free = [a.name for a in source.args if a.name not in pairs]
    for a in schema.args:
        if a.name not in pairs and free:
            pairs[a.name] = free.pop(0)
    return pairs


def _check_lists(schema: Schema, bound: dict[str, Any], lists: list[str]) -> int:
    tensors = [a.name for a in schema.args if a.type == "Tensor[]"]
    length = len(bound[tensors[0]])
    check(length > 0, "Tensor list must have at least one tensor.")
    for name in lists:
        if len(bound[name]) != length:
            if name in tensors:
                raise RuntimeError(
                    f"Tensor lists must have the same number of tensors, got {length} and {len(bound[name])}"
                )
            raise RuntimeError(
                f"Tensor list must have same number of elements as scalar list, got {length} and {len(bound[name])}"
            )
    return length


def _make_functional(schema: Schema, source: Callable[..., Any], source_schema: Schema) -> Callable[..., Any]:
    written = [a for a in source_schema.args if a.is_write]
    plain = plain_returns(source_schema)

    def run(bound: dict[str, Any]) -> Any:
        values = dict(bound)
        for a in written:
            x = bound[a.name]
            values[a.name] = x.copy("K") if isinstance(x, ndarray) else None if x is None else [y.copy("K") for y in x]
        out = _call(source, source_schema, values)
        results = () if not plain else (out,) if isinstance(out, (ndarray, list)) else tuple(out)[:plain]
        # A row whose only result is the written tensor may have replaced it (resize_).
        if len(written) == 1 and not plain and isinstance(out, ndarray):
            return out
        results = (*results, *(values[a.name] for a in written))
        return results[0] if len(results) == 1 else results

    return _guarded(schema, run)


def _make_mutating(schema: Schema, source: Callable[..., Any], source_schema: Schema) -> Callable[..., Any]:
    plain = plain_returns(schema)

    def run(bound: dict[str, Any]) -> Any:
        out = _call(source, source_schema, bound)
        results = out if isinstance(out, tuple) else (out,)
        for a, value in zip(schema.written, results[plain:], strict=True):
            target = bound[a.name]
            if isinstance(target, (list, tuple)):
                for t, v in zip(target, value, strict=True):
                    write_inplace(t, v)
            elif target is not None:
                write_inplace(target, value)
        if not schema.returns:
            return None
        by_alias = {a.alias: bound[a.name] for a in schema.written}
        fresh = iter(results[:plain])
        final = tuple(by_alias[r.alias] if r.is_write else next(fresh) for r in schema.returns)
        return final[0] if len(final) == 1 else final

    return _guarded(schema, run)


MAKERS = {
    "out": _make_out,
    "in-place": _make_inplace,
    "copy": _make_copy,
    "foreach": _make_foreach,
    "functional": _make_functional,
    "mutating": _make_mutating,
}


def plain_returns(schema: Schema) -> int:
    return sum(not r.is_write for r in schema.returns)
