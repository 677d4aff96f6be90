"""Compute operators that an engine lacks with those that it has: in-place and ``out=`` forms, views and others.

A write replaces the payload of a reference. A view is a copy that follows its base: it is copied again after a write to
the base, and a write to the view is also made to the base.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch

import torchnp
from torchnp.derived.rules import derivation
from torchnp.engine.tensor import decompositions
from torchnp.engine.tensor import indexing_decompositions as indexing_decompositions  # adds its rules
from torchnp.engine.tensor.local_arguments import PLAIN_WRITTEN
from torchnp.engine.tensor.overload_info import MissingOperator, OverloadInfo, argument, overload, written_of
from torchnp.engine.tensor.payloads import PayloadRef, ViewRef
from torchnp.engine.tensor.shape_inference import InferredResults
from torchnp.engine.tensor.unsupported import NoValues
from torchnp.interop._private import OpOverload, decomposition, schema_of
from torchnp.rpc import wire
from torchnp.rpc.exceptions import HandleError

aten = torch.ops.aten
Args: TypeAlias = tuple
Kwargs: TypeAlias = dict[str, Any]


class _Decomposing(threading.local):
    """The operators that are being computed through others in this thread, outermost first."""

    def __init__(self) -> None:
        self.names: list[str] = []


_decomposing = _Decomposing()


@contextmanager
def _within(name: str) -> Iterator[None]:
    _decomposing.names.append(name)
    try:
        yield
    finally:
        _decomposing.names.pop()


@contextmanager
def _apart(name: str) -> Iterator[None]:
    """Run the update of a view's payload, which does not belong to the operator that reads the view."""
    names, _decomposing.names = _decomposing.names, [name]
    try:
        yield
    finally:
        _decomposing.names = names


def derived(engine: Any, plan: OverloadInfo, outcome: InferredResults | None, args: Args, kwargs: Kwargs) -> Any:
    """Compute an operator that an engine lacks, or raise `MissingOperator`.

    ``outcome`` has the metadata of the results. It is None for an engine with its own memory, because its results have
    their own metadata.
    """
    above = _decomposing.names
    if plan.name in above:  # its decomposition needs the operator itself
        raise engine.missing_operator(plan, tuple(above[: above.index(plan.name)]))
    with _within(plan.name):
        if plan.written:
            return _by_functional_form(engine, plan, args, kwargs)
        if outcome is None:
            return _decomposed(engine, plan, args, kwargs)
        if "view" in plan.returns or plan.base in wire.UNSAFE_VIEWS:
            return _by_copy_form(engine, plan, outcome, args, kwargs)
        if plan.base in decompositions.FACTORIES or plan.name in decompositions.FACTORIES:
            return engine.known(_on_the_client(plan, args, kwargs))
        return _as_inferred(engine, outcome, _decomposed(engine, plan, args, kwargs))


def _decomposed(engine: Any, plan: OverloadInfo, args: Args, kwargs: Kwargs) -> Any:
    """Run the engine's decomposition; if there is none, torchnp's or torch's."""
    mine = engine.decompositions.get(plan.name)
    if mine is not None:
        return mine(*args, **kwargs)
    own = decompositions.own(plan)
    if own is not None:
        try:
            result = own(engine, *args, **kwargs)
        except MissingOperator as error:
            if plan.name.startswith("prims::"):  # inside torch's reference, which the user did not call
                raise
            raise engine.missing_operator(plan, tuple(_decomposing.names[:-1]), error) from None
        if result is not NotImplemented:
            return result
    parts = None if plan.base in decompositions.PRIMITIVE else decomposition(plan.func)
    if parts is not None:
        try:
            return parts(*args, **kwargs)
        except HandleError as error:
            if error.reason != PLAIN_WRITTEN:
                raise
            # torch's decomposition writes into a tensor that it makes: there is no decomposition for handles
            raise engine.missing_operator(plan, tuple(_decomposing.names[:-1])) from None
    raise engine.missing_operator(plan, tuple(_decomposing.names[:-1]))


def _as_inferred(engine: Any, outcome: InferredResults, result: Any) -> Any:
    """Give results the metadata of torch's results; for engines without memory, strides are only metadata."""
    specs = iter(outcome.specs)

    def changed(x: Any) -> Any:
        if isinstance(x, (list, tuple)):
            return (list if isinstance(x, list) else tuple)(map(changed, x))
        spec = next(specs)
        if spec is None:
            return None
        if not isinstance(x, NoValues):
            x = engine.known(x)
        if x.dtype != spec.dtype:
            x = aten._to_copy.default(x, dtype=spec.dtype)
        if tuple(x.shape) != tuple(spec.size):
            raise AssertionError(f"a decomposition gives shape {tuple(x.shape)}, torch {tuple(spec.size)}")
        return engine.kind._wrap(spec, x._object)

    return changed(result)


# ---------------------------------------------------------------- operators that write


class _Functional:
    """The schemas that write nothing, as the rows from which forms may be derived."""

    def __contains__(self, name: str) -> bool:
        schema = torchnp.table.schemas.get(name)
        return schema is not None and not schema.mutates


@functools.cache
def _functional_form(name: str) -> Any:
    """Return the overload without writes that corresponds to one with writes, or None."""
    if name == "aten::normal_":
        return aten.normal_functional.default
    schema = torchnp.table.schemas.get(name)
    found = None if schema is None else derivation(schema, torchnp.table.schemas, _Functional())  # type: ignore[arg-type]
    return overload(found[1]) if found and found[0] in ("in-place", "out", "mutating") else None


def _by_functional_form(engine: Any, plan: OverloadInfo, args: Args, kwargs: Kwargs) -> Any:
    """Compute an operator with its functional form, then write the results."""
    func = _functional_form(plan.name)
    if func is None:
        return _decomposed(engine, plan, args, kwargs)
    targets = list(written_of(plan, args, kwargs))
    outs = {k for k in plan.written if plan.is_out}
    args = (*args, *_defaults(plan, func, len(args), kwargs))
    result = func(
        *(a for i, a in enumerate(args) if i not in outs), **{k: a for k, a in kwargs.items() if k not in outs}
    )
    fresh = sum(r in ("new", "view") for r in plan.returns)
    results = [result] if isinstance(result, (torch.Tensor, list)) else list(result)
    flat = [x for r in results[fresh:] for x in (r if isinstance(r, (list, tuple)) else (r,))]
    for target, value in zip(targets, flat, strict=True):
        if target is not None:
            write(engine, target, value)
    made = iter(results[:fresh])
    final = [next(made) if r in ("new", "view") else argument(r, args, kwargs) for r in plan.returns]
    return final[0] if plan.single else tuple(final) if final else None


def _defaults(plan: OverloadInfo, func: OpOverload, given: int, kwargs: Kwargs) -> Iterator[Any]:
    """Yield the defaults of omitted positional arguments that ``func`` requires, such as ``p`` of ``bernoulli_``."""
    needed = {a.name for a in schema_of(func).arguments if not a.has_default_value()}
    for a in schema_of(plan.func).arguments[given:]:
        if a.kwarg_only or a.name in kwargs or a.name not in needed:
            return
        yield a.default_value


def write(engine: Any, target: Any, value: Any) -> None:
    """Write a value of the target's shape into a handle, cast to the target's dtype."""
    if engine.strided:
        aten.copy_.default(target, value)
        return
    if not isinstance(value, NoValues):
        value = engine.known(value)
    if value.dtype != target.dtype:
        value = aten._to_copy.default(value, dtype=target.dtype)
    if value.shape != target.shape:
        value = aten.expand_copy.default(value, target.shape)
    target._object.write(value._object.read())


# ---------------------------------------------------------------- views


def _by_copy_form(engine: Any, plan: OverloadInfo, outcome: InferredResults, args: Args, kwargs: Kwargs) -> Any:
    """Compute a view operator with its copying form; the copies follow their base."""
    func, base = copy_form(plan), args[0]
    if func is None:
        raise engine.missing_operator(plan, tuple(_decomposing.names[:-1]))
    if plan.base == "as_strided" and isinstance(base._object, ViewRef):  # its offsets count in the whole memory
        offset = args[3] if len(args) > 3 and args[3] is not None else base.storage_offset()
        memory = base._object.memory()
        args, base = (*args[:3], offset), base if memory is None else memory

    def copies(base: Any) -> list[Any]:
        made = func(base, *args[1:], **kwargs)
        return list(made) if isinstance(made, (list, tuple)) else [made]

    def scatter(i: int, base: Any, payload: Any) -> Any:
        value = engine.kind._wrap(outcome.specs[i], PayloadRef(payload, engine))
        with _apart(plan.name):
            return decompositions.scatter(plan, i, base, value, args[1:], kwargs)._object.read()

    def replay(i: int, base: Any) -> Any:
        with _apart(plan.name):
            return copies(base)[i]._object.read()

    views = []
    for i, (copy, spec) in enumerate(zip(copies(base), outcome.specs, strict=True)):
        again, back = functools.partial(replay, i), functools.partial(scatter, i)
        views.append(engine.kind._wrap(spec, ViewRef(copy._object.read(), base._again(), again, back)))
    return views if outcome.groups[0] >= 0 else views[0]


def changed_view(x: Any, plan: OverloadInfo) -> Any:
    """Return the result of ``_conj`` or ``_neg_view``: the conjugate or the negative, which follows its base."""
    change = aten._conj_physical.default if plan.base == "_conj" else aten.neg.default

    def replay(base: Any) -> Any:
        with _apart(plan.name):
            return change(base)._object.read()

    def back(base: Any, payload: Any) -> Any:
        return replay(x._session.kind._wrap(base._spec, PayloadRef(payload, x._session)))

    return x._wrap(x._spec, ViewRef(replay(x), x._again(), replay, back, same_values=False))


def copy_form(plan: OverloadInfo) -> OpOverload | None:
    """Return the copying form of a view overload; None if torch has none."""
    packet, _, name = plan.name.removeprefix("aten::").partition(".")
    spelled = {"_unsafe_view": "view", "unsafe_split": "split", "unsafe_split_with_sizes": "split_with_sizes"}
    packet = spelled.get(packet, packet)
    name = name or ("Tensor" if packet == "split" else "")
    return overload(f"aten::{packet}_copy{name and '.'}{name}")


def _on_the_client(plan: OverloadInfo, args: Args, kwargs: Kwargs) -> torch.Tensor:
    """Compute an operator that depends only on metadata, such as ``zeros_like``, with torch's own CPU operator."""

    def stand_in(a: Any) -> Any:
        return torch.empty_like(a._spec.fresh(), device="cpu").zero_() if isinstance(a, NoValues) else a

    def on_cpu(a: Any) -> Any:
        return torch.device("cpu") if isinstance(a, torch.device) else stand_in(a)

    made: torch.Tensor = plan.func(*map(on_cpu, args), **{k: on_cpu(a) for k, a in kwargs.items()})
    return torch.zeros_like(made) if "empty" in plan.base else made
