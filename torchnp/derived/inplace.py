"""In-place forms: write the source row's result into the first argument, or into each tensor of a list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from torchnp.core.checks import check
from torchnp.core.elementwise_strips import MANY, draws_in_order, takes_strips, target_strips, write_strips
from torchnp.core.errors import cannot_cast
from torchnp.core.inplace_out_spec import Bound, Precheck, WriteSpec, resize
from torchnp.core.python_scalars import number
from torchnp.core.registry import FAILURES, enter_quiet, leave_quiet, raise_mismatch, run_quiet
from torchnp.core.schema import Schema
from torchnp.derived.calls import bind, by_name, call, guarded
from torchnp.derived.casts import WriteRule, check_fits, inplace_rule, lacking
from torchnp.derived.foreach_checks import check_lists
from torchnp.derived.overlapping_writes import in_order
from torchnp.derived.targets import exceptions_of, refuse_otherwise, write_expanded
from torchnp.dtypes import (
    FLOAT8S,
    HALVES,
    as_dtype,
    can_cast,
    cast,
    complex32,
    complex128,
    float16,
    float64,
    is_half,
    is_inexact,
    result_type,
)
from torchnp.layout.overlap import check_apart, check_target, offer_target, overlaps_itself, share_memory, tensors_of
from torchnp.layout.stride_rules import WRITTEN
from torchnp.parallel_elementwise import by_parts
from torchnp.threads import LARGE
from torchnp.ufunc_workarounds import trusted

ndarray = np.ndarray
Given = tuple[tuple, dict[str, Any]]  # positional and keyword arguments


def make_inplace(
    schema: Schema, source: Callable[..., Any], source_schema: Schema, writes: WriteSpec
) -> Callable[..., Any]:
    """Return the in-place form of a source row."""
    if "inplace_view" in schema.tags:
        # The strides of an ndarray cannot change in place, so the result is a view of the same memory.
        return source if writes.inplace is None else _looked(schema, source, writes.inplace)
    if schema.args[0].type == "Tensor[]":
        return _make_inplace_list(schema, source, source_schema, writes)
    direct = getattr(source, "direct", {})
    if [a.name for a in source_schema.args] != [a.name for a in schema.args]:
        source = by_name(schema, source, source_schema)
    name = schema.args[0].name
    rule = inplace_rule(schema)
    looks_at_all, looked_at = not writes.free, _looking(schema, writes)
    ordered = in_order(schema, rule, writes)
    prepare, write = _preparation(schema, rule, writes), _writing(schema, rule, writes)
    drawn = draws_in_order(source_schema)
    by_strips = drawn or (takes_strips(source_schema) and writes.after is None and not writes.resizes)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        token, number = enter_quiet(), False
        try:
            target = args[0] if args else kwargs[name]
            if schema.takes_numbers and isinstance(target, (int, float, complex)):
                number, target = True, np.asarray(target)  # torch wraps the number in a tensor and writes into it
            if 0 in target.strides and overlaps_itself(target):
                bound = bind(schema, args, kwargs)
                if rule.into and bound["dtype"] is None:
                    bound["dtype"] = target.dtype
                write_expanded(schema, target, bound, lambda b: call(source, schema, b), rule, writes)
                return target
            try:
                shared = _shares(target, (*args, *kwargs.values()) if looks_at_all else looked_at(args, kwargs))
            except RuntimeError:  # torch first reports errors that do not depend on memory
                bound = bind(schema, args, kwargs)
                refuse_otherwise(target, bound, lambda b: call(source, schema, b), rule, writes.dtype_before_target)
                raise
            args, kwargs = (args, kwargs) if prepare is None else prepare(target, args, kwargs)
            if by_strips and not shared and _in_strips(source, rule, target, args, kwargs, drawn):
                return target
            WRITTEN.inplace = None if target.flags.c_contiguous else target
            if writes.onto and not shared:
                offer_target(target, (*args, *kwargs.values()))
            value = source(*args, **kwargs)
            # If an operand shares the target's memory, torch may read values that it has already written.
            if not (shared and ordered(target, value, bind(schema, args, kwargs), lambda b: call(source, schema, b))):
                write(target, value, (args, kwargs))
        except FAILURES as error:
            raise_mismatch(schema, args, kwargs)
            if rule.sized:
                _raise_of_product(schema, error, rule, source, writes, (args, kwargs))
            _raise_of_target(schema, error, (args, kwargs), writes)
            raise
        finally:
            WRITTEN.onto = WRITTEN.inplace = None
            leave_quiet(token)
        return target.item() if number else target

    return straight(direct, kernel, len(schema.args) == 1)


def _in_strips(
    source: Callable[..., Any], rule: WriteRule, target: ndarray, args: tuple, kwargs: dict, in_turn: bool
) -> bool:
    """Write the result strip by strip; return whether that was possible."""
    strips = target_strips(target, (*args, *kwargs.values()), in_turn) if target.size > MANY else None

    def compute(part: Callable[[Any], Any]) -> Any:
        return source(*map(part, args), **{name: part(x) for name, x in kwargs.items()})

    return strips is not None and write_strips(strips, target, compute, rule.write_inplace, in_turn)


def _looked(schema: Schema, source: Callable[..., Any], look: Precheck) -> Callable[..., Any]:
    """Return a kernel that runs torch's in-place check and then returns the view."""

    def kernel(*args: Any, **kwargs: Any) -> ndarray:
        bound = bind(schema, args, kwargs)
        look(bound, [bound["self"]])
        return source(*args, **kwargs)

    return kernel


def _preparation(schema: Schema, rule: WriteRule, writes: WriteSpec) -> Callable[[ndarray, tuple, dict], Given] | None:
    """Return a function that checks the arguments before the source runs, and returns those to compute with.

    Return None if the op needs no such step.
    """
    rounds = writes.rounds_number and schema.args[1].type == "Scalar"
    if not (rounds or rule.into or writes.inplace):
        return None

    def prepare(target: ndarray, args: tuple, kwargs: dict[str, Any]) -> Given:
        if writes.inplace is not None:
            writes.inplace(bind(schema, args, kwargs), [target])
        if rule.into and kwargs.get("dtype") is None:
            kwargs["dtype"] = target.dtype
        if rounds:
            number = args[1] if len(args) > 1 else kwargs[schema.args[1].name]
            return (target, rounded(number, target)), {}
        return args, kwargs

    return prepare


def _writing(schema: Schema, rule: WriteRule, writes: WriteSpec) -> Callable[[ndarray, ndarray, Given], None]:
    """Return the function that stores the result."""

    def write(target: ndarray, value: ndarray, given: Given) -> None:
        if writes.after is not None:
            writes.after(bind(schema, *given), [target])
        if writes.resizes and value.shape != target.shape:
            target = resize(target, value.shape)
        rule.write_inplace(target, value)

    return write


def _looking(schema: Schema, writes: WriteSpec) -> Callable[[tuple, dict[str, Any]], list[Any]]:
    """Return a function that selects the arguments whose memory torch checks."""

    def looked_at(args: tuple, kwargs: dict[str, Any]) -> list[Any]:
        named = [x for name, x in kwargs.items() if name not in writes.free]
        return [x for x, a in zip(args, schema.args, strict=False) if a.name not in writes.free] + named

    return looked_at


def _shares(target: ndarray, arguments: Iterable[Any]) -> bool:
    """Return whether a target may share memory with an argument in a way that torch's check misses.

    Raise torch's error for a partial overlap that torch's check finds.
    """
    shared = False
    for x in arguments:
        if type(x) is ndarray and x is not target:
            shared |= check_apart(target, x)
    return shared


def _raise_of_target(schema: Schema, error: Exception, given: Given, writes: WriteSpec) -> None:
    """Call `_raise_sooner` for elementwise ops."""
    if "pointwise" in schema.tags or [a.name for a in schema.args[1:2]] == ["other"]:
        bound = bind(schema, *given)
        numbers = [x for k, x in bound.items() if k in _PROMOTED and isinstance(x, (int, float, complex))]
        operands = [*(x for x in bound.values() if isinstance(x, ndarray)), *numbers]
        _raise_sooner(error, np.asarray(bound[schema.args[0].name]), operands, writes)  # the target may be a number


_PROMOTED = ("self", "other", "exponent")  # numbers that take part in promotion; alpha does not
_LATER = (
    "ZeroDivisionError", "For integral input tensors, argument", "For non-complex input tensors", "Boolean alpha",
    "Promotion for", "Unknown Complex", "value cannot be converted",
)  # fmt: skip


def _raise_sooner(error: Exception, target: ndarray, operands: list[Any], writes: WriteSpec) -> None:
    """Raise torch's errors about the target if they come before ``error``.

    They do if ``error`` is about an unsupported dtype, alpha, promotion, conversion or a division by zero.
    """
    no_code = isinstance(error, NotImplementedError) and str(error).startswith('"')
    if writes.dtype_before_target or (not no_code and not str(error).startswith(_LATER)):
        return
    check_fits(target, [x for x in operands if isinstance(x, ndarray)])
    if not no_code:
        computed = result_type(*operands)
        check(can_cast(computed, target.dtype), cannot_cast(computed, target.dtype))
    elif not writes.predicate:
        computed = lacking(error, target.dtype)  # the target must be able to hold this dtype
        check(can_cast(computed, target.dtype), cannot_cast(computed, target.dtype))


def _raise_of_product(
    schema: Schema, error: Exception, rule: WriteRule, source: Callable[..., Any], writes: WriteSpec, given: Given
) -> None:
    """Raise torch's errors for a target to which a product is added; torch does not expand such a target."""
    bound = bind(schema, *given)
    target = bound[schema.args[0].name]
    if str(error).startswith('"') and bound.get("dtype") is not None:
        rule.check(as_dtype(bound["dtype"]), target.dtype, target.dtype)
    if str(error).startswith("expected scalar type"):
        rule.check(bound[schema.args[2].name].dtype, target.dtype, target.dtype)
    if writes.unexpanded and str(error).startswith(("The expanded size", "expand(")):
        rule.check_first(target, source(**bound | {"self": np.zeros((), target.dtype)}))


def rounded(number: Any, target: ndarray) -> Any:
    """Return a number rounded to the target's dtype if that is a half precision dtype or complex32.

    For float8, a number is rounded only if the target has several elements. Other numbers are returned unchanged.
    """
    dtype = target.dtype
    if dtype in FLOAT8S and target.size != 1 and not isinstance(number, complex):
        return cast(np.asarray(number), dtype)[()]
    if (is_half(dtype) and not isinstance(number, complex)) or dtype == complex32:
        return cast(cast(np.asarray(number), dtype), complex128 if dtype == complex32 else float64).item()
    return number


# ---------------------------------------------------------------- lists


def _make_inplace_list(
    schema: Schema, source: Callable[..., Any], source_schema: Schema, writes: WriteSpec
) -> Callable[..., Any]:
    # torch computes the tensors one after the other, so one that shares memory with an earlier one sees new values.
    rule = inplace_rule(schema)
    numbers = next((a.name for a in schema.args if a.name in ("scalar", "scalars")), "")
    rounds = bool(writes.rounds_number and numbers)
    writes_expanded = bool(exceptions_of(schema))
    ordered = in_order(schema, rule, writes)

    def run(bound: Bound) -> list[ndarray] | None:
        targets = bound[schema.args[0].name]
        check_lists(schema, bound, writes)
        if isinstance(bound.get("scalars"), ndarray):  # torch reads the numbers before any write
            bound = bound | {"scalars": bound["scalars"].copy()}
        narrow = rounds and any(t.itemsize <= 4 and t.dtype in (*HALVES, *FLOAT8S, complex32) for t in targets)
        large = any(t.size > MANY for t in targets)
        single = narrow or large or writes.inplace is not None or _one_by_one(targets, bound)
        for step in _steps(targets, bound) if single else [bound]:
            write(step, narrow)
        return targets if schema.returns else None

    def write(step: Bound, narrow: bool) -> None:
        into = step[schema.args[0].name]
        if len(into) == 1:  # several tensors get here only if none of them share memory
            lists = {k: v for k, v in step.items() if isinstance(v, (list, tuple))}
            if writes.inplace is not None and all(len(v) == 1 for v in lists.values()):
                writes.inplace(step | {k: v[0] for k, v in lists.items()}, into)
            if not writes_expanded and overlaps_itself(into[0]):
                compute = lambda given: call(source, source_schema, given)[0]
                refuse_otherwise(into[0], step, compute, rule, writes.dtype_before_target)
                check_target(into[0])
            shared = _shares(into[0], (x for value in step.values() for x in tensors_of(value)))
        if narrow:
            step[numbers] = _all_rounded(step[numbers], into[0])
        if len(into) == 1 and not shared and _write_lone_strips(step, into[0], source, source_schema, rule):
            return
        try:
            values = call(source, source_schema, step)
        except FAILURES as error:
            # Before torch fails, it has written the preceding tensors, unless the list lengths differ.
            if len(into) > 1 and all(len(x) == len(into) for x in step.values() if isinstance(x, (list, tuple))):
                for one in _steps(into, step):
                    write(one, narrow)
            else:
                operands = [x for k, v in step.items() if k != "scalars" for x in tensors_of(v)]
                _raise_sooner(error, into[0], operands, writes)
            raise
        if len(into) == 1 and shared and ordered(into[0], values[0], step, lambda b: call(source, source_schema, b)[0]):
            return
        for target, value in zip(into, values, strict=True):
            rule.write_inplace(target, value)

    return guarded(schema, run)


def _write_lone_strips(
    step: Bound, target: ndarray, source: Callable[..., Any], source_schema: Schema, rule: WriteRule
) -> bool:
    """Write the only tensor of a list strip by strip; return whether that was possible."""
    ones = {k: v[0] if isinstance(v, (list, tuple)) and len(v) == 1 else v for k, v in step.items()}
    strips = target_strips(target, ones.values())

    def compute(part: Callable[[Any], Any]) -> Any:
        parts = {k: [part(ones[k])] if ones[k] is not v else v for k, v in step.items()}
        return call(source, source_schema, parts)[0]

    return strips is not None and write_strips(strips, target, compute, rule.write_inplace)


def _one_by_one(targets: list[ndarray], bound: Bound) -> bool:
    """Return whether torch's order affects the result: a tensor may read written values, or an item is refused."""
    refused = any(isinstance(x, complex) for x in bound.get("scalars", ())) or any(map(overlaps_itself, targets))
    return refused or share_memory([x for value in bound.values() for x in tensors_of(value)])


def _steps(targets: list[ndarray], bound: Bound) -> list[Bound]:
    """Split a call with lists into calls whose lists have one item each."""
    alike = {k: v for k, v in bound.items() if isinstance(v, (list, tuple)) or k == "scalars"}
    lists = [k for k, v in alike.items() if len(v) == len(targets)]
    return [bound | {k: bound[k][i : i + 1] for k in lists} for i in range(len(targets))]


def _all_rounded(given: Any, target: ndarray) -> Any:
    return [rounded(x, target) for x in given] if isinstance(given, (list, tuple)) else rounded(given, target)


# ---------------------------------------------------------------- direct writes to the target

_SMALL = range(-(2**7), 2**7)  # integers that every signed dtype holds


def straight(direct: Mapping[np.dtype, Any], slow: Callable[..., Any], one: bool) -> Callable[..., Any]:
    """Return an in-place kernel in which NumPy's ufunc writes into the target if no check or conversion is needed.

    Parameters
    ----------
    direct : mapping
        Maps a dtype to the function that computes in it without conversion; only ufuncs are used.
    slow : callable
        The kernel for all other calls, including those in which the ufunc fails; it has then written nothing.
    one : bool
        Whether the target is the op's only argument.
    """
    # np.power of integers is left out: it may fail after it has written some elements.
    ufuncs = {
        d: trusted(f) for d, f in direct.items() if isinstance(f, np.ufunc) and (f is not np.power or is_inexact(d))
    }
    if not ufuncs:
        return slow

    def alone(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and type(args[0]) is ndarray:
            target = args[0]
            ufunc = ufuncs.get(target.dtype)
            if ufunc is not None and 0 not in target.strides:
                try:
                    return run_quiet(ufunc, target, target) if target.size < LARGE else run_quiet(_large, ufunc, target)
                except _NOT_NOW:
                    pass
        return slow(*args, **kwargs)

    def beside(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 2 and not kwargs and type(args[0]) is ndarray:
            target, other = args
            ufunc = ufuncs.get(target.dtype)
            if ufunc is not None and target.base is None and _is_plain(target, other):
                try:
                    if target.size < LARGE:
                        return run_quiet(ufunc, target, other, target)
                    return run_quiet(_large, ufunc, target, other)
                except _NOT_NOW:
                    pass
        return slow(*args, **kwargs)

    return alone if one else beside


def _large(ufunc: Callable[..., Any], target: ndarray, *others: Any) -> ndarray:
    if not isinstance(ufunc, np.ufunc):
        return ufunc(target, *others, target)
    operands = [x if isinstance(x, ndarray) else number(x, target.dtype) for x in others]
    return by_parts(ufunc, target, *operands, out=target)


# The quiet context is in use (RuntimeError), the target is read-only or has another shape than the result (ValueError),
# or the ufunc's dtype differs (TypeError). The slow kernel then handles the call or raises torch's error.
_NOT_NOW = (RuntimeError, ValueError, TypeError)


def _is_plain(target: ndarray, other: Any) -> bool:
    """Return whether the second operand needs no conversion, and is the target itself or shares no memory with it.

    The target must own its memory.
    """
    kind = type(other)
    if kind is ndarray:
        return target.dtype is other.dtype and (other.base is None or other is target)
    if target.dtype is float16:  # not every row rounds a number to float16 first
        return False
    if kind is float:
        return target.dtype.kind == "f"
    return kind is int and other in _SMALL and target.dtype.kind in "fiu" and (other >= 0 or target.dtype.kind != "u")
