"""``out=`` forms, which write the source row's result into ``out=`` and resize an ``out=`` of another shape."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from torchnp.core.elementwise_strips import MANY, takes_strips, target_strips, write_strips
from torchnp.core.errors import shape_text
from torchnp.core.inplace_out_spec import Bound, Precheck, WriteSpec, resize
from torchnp.core.schema import Argument, Schema
from torchnp.derived.calls import call, guarded
from torchnp.derived.casts import NOT_THE_SAME, WriteRule, lacking, out_rule
from torchnp.derived.targets import OutMemoryChecks, contiguous_outs, memory_checks_of, unless_late
from torchnp.dtypes import as_dtype, c_name, cast, category, is_inexact, to_real
from torchnp.layout.overlap import check_resized, tensors_of
from torchnp.layout.stride_rules import WRITTEN

ndarray = np.ndarray

# Options of factories such as `zeros` and `rand` that out= determines.
_PLACED = frozenset({"dtype", "layout", "device", "pin_memory"})


def is_factory_of(source: Schema, schema: Schema) -> bool:
    """Return whether a schema takes from its ``out=`` the options that its source takes as arguments."""
    mine = [(a.name, a.type) for a in schema.args if not a.is_out]
    return mine == [(a.name, a.type) for a in source.args if a.name not in _PLACED] and len(mine) < len(source.args)


class _Plan(NamedTuple):
    """Facts about one ``out=`` form that do not depend on a call."""

    outs: list[Argument]
    rules: list[WriteRule]
    looks: OutMemoryChecks
    contiguous: list[str]  # torch's message for each out= that must be contiguous, else ""
    factory: bool
    into: bool  # computes in the dtype of its out=
    skips_memory_check: bool  # the row's precheck itself checks the memory of out=
    late: bool  # copies a separate result into out=, and checks the memory of out= only then
    early: bool  # requires the exact dtype of out= before it reports an unsupported dtype
    holds: bool  # checks that out= can hold the result's dtype before it reports an unsupported dtype
    dtype_before_target: bool
    memory_first: bool
    precheck: Precheck | None
    resizing: str
    counted: str


def _plan(schema: Schema, source_schema: Schema, writes: WriteSpec) -> _Plan:
    outs = [a for a in schema.args if a.is_out]
    rules = [out_rule(schema, a, len(outs) > 1) for a in outs]
    factory = is_factory_of(source_schema, schema)
    row = f"{schema.base}.{schema.overload}"
    return _Plan(
        outs=outs,
        rules=rules,
        looks=memory_checks_of(schema),
        contiguous=[contiguous_outs().get(f"{row}:{a.name}", "") for a in outs],
        factory=factory,
        into=rules[0].into and not factory,
        skips_memory_check=writes.skips_memory_check,
        late="generated" in schema.tags,
        early=rules[0].exact
        and "generated" not in schema.tags
        and not rules[0].into
        and not writes.dtype_before_target,
        holds=rules[0].casts
        and "generated" not in schema.tags
        and not writes.dtype_before_target
        and not writes.predicate,
        dtype_before_target=writes.dtype_before_target,
        memory_first=writes.memory_first,
        precheck=writes.out,
        resizing=writes.resizing,
        counted=writes.counted,
    )


def make_out(
    schema: Schema, source: Callable[..., Any], source_schema: Schema, writes: WriteSpec
) -> Callable[..., Any]:
    """Return the ``out=`` form of a source row."""
    plan = _plan(schema, source_schema, writes)
    names = {a.name for a in plan.outs}
    copied = plan.looks.copied or plan.looks.biased or plan.looks.source
    by_strips = takes_strips(source_schema) and not (plan.late or plan.factory or copied)

    def in_strips(bound: Bound, target: ndarray, inputs: list[ndarray]) -> bool:
        given = {k: x for k, x in bound.items() if k not in names}
        strips = target_strips(target, given.values())

        def compute(part: Callable[[Any], Any]) -> Any:
            parts = {k: part(x) for k, x in bound.items()}
            return _compute(plan, source, source_schema, parts, parts[plan.outs[0].name], _first(inputs))

        write = lambda into, results: _write(plan, [into], results, inputs, ())
        return strips is not None and write_strips(strips, target, compute, write)

    def run(bound: Bound) -> Any:
        targets = [bound[a.name] for a in plan.outs]
        inputs = [x for a in schema.args if not a.is_out for x in tensors_of(bound[a.name])]
        source_inputs = tensors_of(bound[schema.args[0].name]) if plan.looks.source else []
        for target, words in zip(targets, plan.contiguous, strict=True):
            for t in () if plan.late or plan.skips_memory_check else tensors_of(target):
                try:
                    plan.looks.check(t, source_inputs, inputs, once=not words)
                except RuntimeError:
                    if not (plan.memory_first or plan.factory) and all(isinstance(t, ndarray) for t in targets):
                        again = functools.partial(_try, plan, source, source_schema, bound, targets, inputs)
                        unless_late(again, plan.dtype_before_target, _OF_DTYPES)
                    raise
        left = plan.precheck(bound, targets) if plan.precheck else None
        if plan.factory:
            bound = (
                dict.fromkeys(_PLACED) | {"layout": "strided", "device": "cpu"} | bound | {"dtype": targets[0].dtype}
            )
        if left and len(left) == len(targets):
            return targets[0] if len(schema.returns) == 1 else tuple(targets)
        large = by_strips and not left and isinstance(targets[0], ndarray) and targets[0].size > MANY
        if large and in_strips(bound, targets[0], inputs):
            return targets[0]
        results = _compute(plan, source, source_schema, bound, targets[0], _first(inputs))
        if plan.looks.copied or plan.looks.biased:
            plan.looks.check_copied(targets[0], results[0].shape, bound)
        _check_results(plan, targets, results, inputs)
        _write(plan, targets, results, inputs, left or ())
        if not schema.returns:
            return None
        return targets[0] if len(schema.returns) == 1 else tuple(targets)

    return guarded(schema, run)


def _try(
    plan: _Plan, source: Callable[..., Any], source_schema: Schema, bound: Bound, targets: list[Any], inputs: Any
) -> None:
    """Make a call's checks and compute its results without writing into the targets."""
    if plan.precheck:
        plan.precheck(dict(bound), [np.empty_like(t) for t in targets])
    results = _compute(plan, source, source_schema, bound, np.empty_like(targets[0]), _first(inputs))
    for target, result, rule in zip(targets, results, plan.rules, strict=False):
        if isinstance(target, ndarray) and isinstance(result, ndarray):
            rule.check(result.dtype, target.dtype, _first(inputs))


# How errors begin that torch reports after the memory check: TensorIterator's about the dtype of out=, and a
# factorization's about its input.
_OF_DTYPES = ("result type", "Found dtype", "linalg.")


def _first(inputs: list[ndarray]) -> Any:
    """Return the dtype of the first input; None for factories, whose rules do not use it."""
    return inputs[0].dtype if inputs else None


def _compute(
    plan: _Plan, source: Callable[..., Any], source_schema: Schema, bound: Bound, target: Any, first: Any
) -> tuple:
    rule = plan.rules[0]
    if plan.into and (is_inexact(first) or rule.of_integers):
        if "out_dtype" not in bound and bound.get("dtype") is None:
            rule.check_early(target.dtype, first if "dtype" in bound else to_real(first))
        bound = _computed_in(target.dtype, bound)
    before, WRITTEN.target = WRITTEN.target, None if plan.late else target
    try:
        results = call(source, source_schema, bound)
    except NotImplementedError as error:
        # torch checks out= before it reports an unsupported dtype: '"neg_cpu" not implemented for ...'
        told = bound.get("dtype") if rule.exact else None
        if (
            (plan.early or (plan.into and told is not None))
            and str(error).startswith('"')
            and isinstance(target, ndarray)
        ):
            rule.check(first if told is None else as_dtype(told), target.dtype, first)
        if plan.holds and str(error).startswith('"'):
            rule.check(lacking(error, target.dtype), target.dtype, first)
        raise
    finally:
        WRITTEN.target = before
    return (results,) if len(plan.outs) == 1 and not isinstance(results, tuple) else results


def _computed_in(dtype: np.dtype, bound: Bound) -> Bound:
    """Return arguments that make a call compute in the dtype of its ``out=``.

    They pass that dtype as ``dtype=``, or the input cast to it.
    """
    for name in ("dtype", "out_dtype"):
        if name in bound:
            if bound[name] is not None:
                return bound
            beside = dict.fromkeys(bound.keys() & {"scale_result"})  # torch reads it only if a dtype is given
            return bound | {name: dtype} | beside
    name = next(iter(bound))
    takes = is_inexact(dtype) and category(dtype) >= category(bound[name].dtype) >= 2
    return bound | {name: cast(bound[name], dtype)} if takes else bound


def _check_results(plan: _Plan, targets: list[Any], results: tuple, inputs: list[ndarray]) -> None:
    """Refuse ``out=`` arrays that are not contiguous as required, or that would overlap an input after a resize."""
    for target, result, words in zip(targets, results, plan.contiguous, strict=False):
        if words and not target.flags.c_contiguous and target.shape == result.shape:
            raise RuntimeError(words)
    if plan.looks.source and targets[0].base is not None and targets[0].shape != results[0].shape:
        check_resized(targets[0], results[0].size, inputs)


def _write(plan: _Plan, targets: list[Any], results: tuple, inputs: list[ndarray], left: Any) -> None:
    first = _first(inputs)
    for i, (target, result, rule) in enumerate(zip(targets, results, plan.rules, strict=False)):
        if i in left:
            continue
        if result is None:  # a gradient that was not requested
            raise RuntimeError(NOT_THE_SAME.format(rc="nullptr (uninitialized)", dc=c_name(target.dtype)))
        if not isinstance(target, (list, tuple)):
            resized = plan.factory and target.shape != result.shape and not (rule.flat and target.size == result.size)
            if plan.late:
                _precheck_late(plan, rule, target, result, inputs)
            rule.write(_resized(plan, target, result) if resized else target, result, first)
            continue
        if len(target) != len(result):
            raise RuntimeError(plan.counted.format(len(result), len(target)))
        for t, r in zip(target, result, strict=True):
            if plan.late:
                _precheck_late(plan, rule, t, r, [r])
            rule.write(t, r, first)


def _precheck_late(plan: _Plan, rule: WriteRule, target: ndarray, result: ndarray, inputs: list[ndarray]) -> None:
    rule.check(result.dtype, target.dtype, _first(inputs))
    if target.shape == result.shape:  # otherwise out= is resized
        plan.looks.check(target, [], inputs)


def _resized(plan: _Plan, target: ndarray, result: ndarray) -> ndarray:
    if plan.resizing and target.size:
        words = plan.resizing.format(shape_text(target.shape), target.size, result.size, result.size)
        warnings.warn(words, UserWarning, stacklevel=2)
    return resize(target, result.shape)
