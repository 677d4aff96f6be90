"""Handles: torch tensors with a shape but no data, whose operators run on an engine."""

from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING, Any

import torch

from torchnp.core.errors import output_shape
from torchnp.core.registry import FAILURES
from torchnp.engine.tensor import shape_inference
from torchnp.engine.tensor.execution import execute
from torchnp.engine.tensor.fallbacks import changed_view, derived
from torchnp.engine.tensor.local_arguments import (
    asks_for_shape,
    check_length,
    device_is_cpu,
    refuse_plain,
    wrapped_number,
)
from torchnp.engine.tensor.lowering import constants, lower, lower_named, one_session
from torchnp.engine.tensor.overload_info import (
    OverloadInfo,
    alternative,
    argument,
    plan_of,
    without_generator,
    written_of,
)
from torchnp.engine.tensor.random_keys import draw_key
from torchnp.engine.tensor.shape_inference import DYNAMIC, InferredResults, TensorSpec, spec_of
from torchnp.engine.tensor.storage_ops import change_metadata, extent, storage
from torchnp.engine.tensor.tracing import leave_to_torch_compile, recorded
from torchnp.engine.tensor.unsupported import NoValues
from torchnp.interop._private import decomposed, forbid_pointer, is_recorded, make_handle, no_torch_function
from torchnp.rpc.exceptions import HandleError, ValueAccessError

if TYPE_CHECKING:
    from torchnp.engine.tensor.interfaces import EngineProtocol, RemoteRef


class BaseHandleTensor(NoValues, torch.Tensor):
    """A tensor whose values are elsewhere; it has metadata for torch, and dispatches its operators to an engine.

    Its device is the CPU, because only then can local parameters have published gradients. Autograd runs above the
    dispatch, as for plain tensors. A subclass defines in `_emit` how an operator runs.
    """

    __slots__ = ("_object", "_session", "_spec")

    _object: RemoteRef
    _spec: TensorSpec
    _session: EngineProtocol

    __torch_function__ = no_torch_function

    @classmethod
    def _wrap(cls, spec: TensorSpec, remote: RemoteRef) -> Any:
        handle = make_handle(cls, spec.size, spec.stride, spec.offset, dtype=spec.dtype)
        forbid_pointer(handle)
        handle._spec = spec
        handle._object = remote
        handle._session = remote.session
        return handle

    @classmethod
    def _emit(
        cls,
        engine: Any,
        plan: OverloadInfo,
        args: list,
        kwargs: dict[str, Any],
        outcome: InferredResults,
        weight: int,
        key: int | None,
    ) -> list[Any]:
        """Run an operator where the values are; return references to the results that are new tensors or views.

        By default this calls the engine's `run` with plain Python values. A subclass that overrides this method gets
        the lowered arguments, which saves the conversion.

        Parameters
        ----------
        engine : Engine
        plan : OverloadInfo
            The overload; ``plan.name`` is its full name.
        args, kwargs : list, dict
            Numbers, strings, `wire.Complex`, `wire.Dtype`, lists as `wire.Items`, and handles as the ``wire`` value of
            their reference.
        outcome : InferredResults
            ``specs`` has a `TensorSpec` for each result that is not a written argument, or None if there is no tensor;
            results in lists are listed individually. ``count`` is the number of tensors. ``expected`` has the layout
            of each result: None for C order, its strides, or `wire.HOLE` for no tensor; it is empty if all results are
            in C order.
        weight : int
            Bytes of the arguments beyond the usual size.
        key : int, optional
            Seed of a random operator.
        """
        return execute(engine, plan, args, kwargs, outcome, key)

    @staticmethod
    def _toggled(x: Any, plan: OverloadInfo) -> Any:
        """Return the view that ``_conj`` or ``_neg_view`` makes of a handle."""
        if not x._session.strided:
            return changed_view(x, plan)
        raise HandleError(
            f"{plan.base}: there are no lazy conjugates and negatives of what is {x._session.where}: use conj_physical() or neg()",
            "no lazy conjugates",
        )

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if is_recorded():
            return recorded(cls, func, args, kwargs or {})
        plan = plan_of(func)
        if plan.special:
            return _special(cls, plan, args, kwargs or {})
        return _send(cls, plan, args, kwargs)

    # ------------------------------------------------------------ methods that stay on the client
    def __repr__(self, *, tensor_contents: object = None) -> str:  # type: ignore[override]
        grad = (
            f", grad_fn=<{type(self.grad_fn).__name__}>"
            if self.grad_fn
            else ", requires_grad=True"
            if self.requires_grad
            else ""
        )
        dtype = str(self.dtype).removeprefix("torch.")
        over = self._session.over
        return (
            f"{type(self).__name__}(shape={tuple(self.shape)}, dtype={dtype}, on={self._session.name!r}{grad}"
            f"{f', {over}: no values any more' if over else ''})"
        )

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self) if not spec else self._no_values(f"format(handle, {spec!r})")

    def publish(self, **options: Any) -> torch.Tensor:
        """Fetch the values as a plain tensor; the engine's `download` gets the options."""
        return self._session._publish(self, **options)

    def _again(self) -> Any:
        """Return another handle on the same object, which autograd does not track."""
        return self._wrap(self._spec, self._object)

    @property
    def data(self) -> Any:
        return self._again()

    @data.setter
    def data(self, value: Any) -> None:
        """Point the handle to another object of its session; module conversions (``module.double()``) do this."""
        if not isinstance(value, BaseHandleTensor) or value._session is not self._session:
            raise HandleError(
                "the .data of a handle can only be another handle of its session: to change its values, use "
                "handle.copy_(tensor) under torch.no_grad()"
            )
        if not self.is_conj() and not self.is_neg():
            value = value.detach().resolve_conj().resolve_neg()
        torch.Tensor.data.__set__(self, value)  # type: ignore[attr-defined]
        self._spec, self._object = value._spec, value._object

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Cast or copy like `torch.Tensor.to`; return the handle itself if there is nothing to do.

        A device other than the CPU is refused, because a handle's values stay where they are.
        """
        device = args[0] if args else kwargs.get("device", kwargs.get("tensor"))
        if isinstance(device, torch.Tensor):
            device = device.device
        if isinstance(device, (str, int, torch.device)) and not device_is_cpu(device):
            self._no_values(f".to({str(device)!r})")
        return super().to(*args, **kwargs)


leave_to_torch_compile(BaseHandleTensor)


# ---------------------------------------------------------------- from a torch call to a wire call


_PLAIN_NUMBERS = frozenset((int, bool, float))


def _send(cls: type[BaseHandleTensor], plan: OverloadInfo, args: tuple, kwargs: dict[str, Any] | None) -> Any:
    """Lower the arguments, infer the shapes, emit the operator, and wrap the results."""
    session, given = None, (args, kwargs)
    if plan.random:
        generator, args, kwargs = without_generator(plan, args, kwargs)
    key: list[Any] = [plan, torch.get_default_dtype()]
    sent: list[Any] = []
    plain: list[tuple[Any, int | str, torch.Tensor]] = []  # container, key and plain tensor to upload
    weight = 0
    loose = plan.loose
    for i, a in enumerate(args):
        kind = type(a)
        if kind is cls:
            remote = a._object
            if session is None:
                session = remote.session
            elif remote.session is not session:
                session = one_session(session, a)
            key.append(a._spec)
            sent.append(remote.wire)
        elif kind in _PLAIN_NUMBERS:
            key.append(kind if i in loose else a)
            sent.append(a)
        elif a is None:
            key.append(None)
            sent.append(None)
        else:
            session, part, value, more = lower(plan, session, a, i in loose, (plain, sent, i))
            key.append(part)
            sent.append(value)
            weight += more
    sent_kwargs: dict[str, Any] = {}
    if kwargs:
        if asks_for_shape(plan, kwargs):
            return plan.func(args[0]._spec.fresh(), **kwargs)
        session, more = lower_named(plan, session, kwargs, key, sent_kwargs, plain)
        weight += more
    assert session is not None
    if plan.written:
        _check_written(plan, args, kwargs or {}, session)
    missing = plan.name not in session.index
    if missing and (session.strided or not plan.gives_tensors):
        return derived(session, plan, None, given[0], given[1] or {})
    full_key = tuple(key)
    outcome = shape_inference.OUTCOMES.get(full_key) or _inferred(session, plan, full_key, args, kwargs or {})
    if outcome is None or outcome.floats:
        return _send(cls, plan, *(_floated(plan, outcome, *given) if outcome else given))
    if missing:
        return derived(session, plan, outcome, given[0], given[1] or {})
    held = constants(session, plain) if plain else ()
    random = draw_key(generator) if plan.random else None
    objects = cls._emit(session, plan, sent, sent_kwargs, outcome, weight, random)
    del held  # constants must live until the operator that uses them has been emitted
    if outcome.one is not None:
        return cls._wrap(outcome.one, objects[0])
    return _results(cls, plan, outcome, objects, args, kwargs)


def _floated(
    plan: OverloadInfo, outcome: InferredResults, args: tuple, kwargs: dict[str, Any] | None
) -> tuple[tuple, dict[str, Any] | None]:
    """Cast integer handles that torch would convert to the client's default dtype, because the engine's is float32.

    A range operator gets the ``dtype`` option instead.
    """
    to, default = torch.ops.aten._to_copy.default, torch.get_default_dtype()
    if plan.base in shape_inference.RANGES and outcome.one is not None:
        return args, {**(kwargs or {}), "dtype": outcome.one.dtype}

    def floated(a: Any) -> Any:
        if isinstance(a, (list, tuple)):
            of_handles = [isinstance(x, BaseHandleTensor) and outcome.is_floated(i, x) for i, x in enumerate(a)]
            return [to(x, dtype=default) if floats else x for x, floats in zip(a, of_handles, strict=True)]
        return to(a, dtype=default) if isinstance(a, BaseHandleTensor) else a

    return tuple(floated(a) for a in args), kwargs


def _check_written(plan: OverloadInfo, args: tuple, kwargs: dict[str, Any], session: EngineProtocol) -> None:
    """Refuse to write into a plain tensor, because torch would silently do nothing."""
    for t in written_of(plan, args, kwargs):
        if isinstance(t, torch.Tensor) and not isinstance(t, BaseHandleTensor):
            refuse_plain(plan.name, t, session)


def _inferred(
    session: EngineProtocol, plan: OverloadInfo, key: tuple, args: tuple, kwargs: dict[str, Any]
) -> InferredResults | None:
    """Do the same as `_infer`; if torch refuses the call, first raise the failure of an earlier operator, if any."""
    try:
        return _infer(plan, key, args, kwargs)
    except (*FAILURES, AssertionError):
        session.raise_earlier_failure()
        raise


def _infer(plan: OverloadInfo, key: tuple, args: tuple, kwargs: dict[str, Any]) -> InferredResults | None:
    """Infer the results.

    Return None if an empty ``out=`` was moved to memory with the result's shape; the caller then retries.
    """
    written: list[tuple[BaseHandleTensor, torch.Tensor]] = []

    def stand_in(a: Any, fresh: bool) -> Any:
        if isinstance(a, BaseHandleTensor):
            meta = a._spec.fresh()  # a meta function may change its arguments
            if fresh:  # the meta device reshapes a written argument; the CPU refuses this
                written.append((a, meta))
            return meta
        if isinstance(a, torch.Tensor):
            number = wrapped_number(a)
            return spec_of(a).fresh() if number is None else number
        if isinstance(a, (list, tuple)):
            return type(a)(stand_in(x, fresh) for x in a)
        return torch.device("meta") if isinstance(a, torch.device) else a

    def stand_ins() -> tuple[tuple, dict[str, Any]]:
        written.clear()
        metas = tuple(stand_in(a, i in plan.written) for i, a in enumerate(args))
        named = {k: stand_in(a, k in plan.written) for k, a in kwargs.items()}
        return metas, {**named, plan.generator: None} if isinstance(plan.generator, str) else named

    with warnings.catch_warnings() if plan.written else contextlib.nullcontext():
        if plan.written:  # resizing is an error below, not a warning
            warnings.filterwarnings("ignore", "An output with one or more elements was resized")
        outcome = shape_inference.infer(plan, stand_ins)
        check_length(plan.name, outcome.count)
    anew = []
    for place, (handle, meta) in enumerate(written):
        if meta.shape != handle.shape:
            if plan.is_out and not handle.numel():
                metas = [stand_in(a, False) for a in args], {k: stand_in(a, False) for k, a in kwargs.items()}
                kept = [meta for handle, meta in written if meta.shape == handle.shape]
                anew.append((handle, shape_inference.laid_out(plan, place, meta, kept, *metas)))
                continue
            if not plan.is_out:  # raise the CPU's own error, if it refuses
                shape_inference.on_the_cpu(plan, *stand_ins(), output_shape(handle.shape, meta.shape))
            what = "out=" if plan.is_out else "what is written"
            raise HandleError(
                f"{plan.name}: {what} has shape {tuple(handle.shape)} and the result {tuple(meta.shape)}; a handle is not "
                "resized",
                "a handle is not resized",
            )
    for handle, meta in anew:
        handle.data = shape_inference.elsewhere(plan, handle, meta)
    if anew:
        return None
    if not plan.is_out:
        shape_inference.remember(key, outcome)
    return outcome


def _results(
    cls: type[BaseHandleTensor],
    plan: OverloadInfo,
    outcome: InferredResults,
    objects: list[Any],
    args: tuple,
    kwargs: Any,
) -> Any:
    """Return the results: new handles, views that autograd links to their base, or the written arguments."""
    made = iter(objects)
    flat = iter([None if s is None else cls._wrap(s, next(made)) for s in outcome.specs])
    groups = iter(outcome.groups)
    results: list[Any] = []
    for kind in plan.returns:
        if kind == "view" or kind == "new":
            n = next(groups)
            results.append(next(flat) if n < 0 else [next(flat) for _ in range(n)])
        else:
            results.append(argument(kind, args, kwargs or {}))
    if plan.single:
        return results[0]
    return tuple(results) if results else None


# ---------------------------------------------------------------- special overloads


def _first_handle(args: tuple, kwargs: dict[str, Any]) -> BaseHandleTensor:
    for a in (*args, *kwargs.values()):
        for x in a if isinstance(a, (list, tuple)) else (a,):
            if isinstance(x, BaseHandleTensor):
                return x
    raise AssertionError("no handle among the arguments")


def _special(cls: type[BaseHandleTensor], plan: OverloadInfo, args: tuple, kwargs: dict[str, Any]) -> Any:
    x = _first_handle(args, kwargs)
    match plan.special:
        case "decompose":
            return decomposed(plan.func)(*args, **kwargs)
        case "values":
            x._no_values(".item()" if plan.base == "_local_scalar_dense" else f"torch.{plan.base}")
        case "dynamic":
            raise _dynamic(plan, x)
        case "storage":
            return storage(plan, args, kwargs)
        case "share":
            if plan.base.endswith("_"):
                return x
            return cls._wrap(x._spec, x._object)
        case "bits":
            return cls._toggled(x, plan)
        case "strided":
            return torch.ops.aten.as_strided.default(*args, **kwargs)
        case "known":
            return plan.base == "_has_same_storage_numel" and extent(args[0]) == extent(args[1])
        case "metadata":
            return change_metadata(plan, args, kwargs)
        case "batch_norm":
            return _batch_norm(cls, plan, args, kwargs)
        case "lengths":
            if isinstance(args[2], BaseHandleTensor) or isinstance(args[3], BaseHandleTensor):
                raise _dynamic(plan, x)
            lists = (args[2].tolist(), args[3].tolist())
            return _send(cls, plan_of(torch.ops.aten._ctc_loss.default), (*args[:2], *lists, *args[4:]), kwargs)
        case "index":
            return _send(cls, plan, (args[0], [_index(plan, i, x) for i in args[1]]), kwargs)
    raise AssertionError(plan.special)


def _dynamic(plan: OverloadInfo, x: BaseHandleTensor) -> ValueAccessError:
    return ValueAccessError(
        f"torch.{plan.base} gives a shape that depends on values, and this tensor of shape {tuple(x.shape)} is "
        f"{x._session.where}. Use {alternative(plan.base)}; or .publish() it first",
        DYNAMIC,
    )


def _index(plan: OverloadInfo, index: Any, x: BaseHandleTensor) -> Any:
    """Convert a plain 1-D mask to an index; refuse other masks, because the shape would depend on values."""
    if index is None or index.dtype not in (torch.bool, torch.uint8):
        return index
    if isinstance(index, BaseHandleTensor) or index.dim() != 1:
        raise _dynamic(plan, x)
    return index.nonzero().squeeze(1)


def _batch_norm(cls: type[BaseHandleTensor], plan: OverloadInfo, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Send `native_batch_norm` as overloads that declare the write of running statistics, which its schema hides."""
    aten = torch.ops.aten
    if plan.name.endswith(".no_stats"):
        return _send(cls, plan, args, kwargs)
    x, weight, bias, mean, var, training, momentum, eps = args
    if mean is None or var is None:  # nothing is written, or torch refuses one without the other
        return _send(cls, plan, args, kwargs)
    if not training:
        func = aten._native_batch_norm_legit_no_training.default
        return _send(cls, plan_of(func), (x, weight, bias, mean, var, momentum, eps), None)
    return _send(cls, plan_of(aten._native_batch_norm_legit.default), args, None)
