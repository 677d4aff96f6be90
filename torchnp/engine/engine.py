"""The base class of engines, which run the operators on handles; it also uploads tensors and moves modules."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import torch

from torchnp.engine.patches import install
from torchnp.engine.patches.composite_overrides import without_fast_path
from torchnp.engine.tensor.execution import Call
from torchnp.engine.tensor.fallbacks import copy_form
from torchnp.engine.tensor.handles import BaseHandleTensor
from torchnp.engine.tensor.local_arguments import NOT_SENT, not_sent
from torchnp.engine.tensor.overload_info import (
    MissingOperator,
    OverloadInfo,
    is_loaded,
    missing_operator,
    name_of,
    overload,
    plan_of,
)
from torchnp.engine.tensor.payloads import PayloadRef
from torchnp.engine.tensor.pytree import is_tree, mapped
from torchnp.engine.tensor.shape_inference import TensorSpec, spec_of
from torchnp.engine.tensor.tracing import refuse_recording
from torchnp.rpc import wire
from torchnp.rpc.exceptions import HandleError, RPCError


class Engine:
    """An engine holds the values of handles and runs their operators. Subclass it, and declare its operators.

    A subclass defines `upload`, `download` and `run`, which exchange payloads: any objects that stand for a tensor's
    values. torch keeps shapes, strides and dtypes, and the kit derives operators that the engine lacks from those that
    it has.

    Attributes
    ----------
    name : str
        The engine's name in messages.
    ops : collection or mapping
        The overloads that the engine has, by full name (``"aten::add.Tensor"``) or as the object
        (``torch.ops.aten.add.Tensor``). If it is a mapping to functions, `run` calls them.
    views : bool
        Whether the payloads that the engine's view operators return share the argument's memory, as in torch.
    inplace : bool
        Whether the engine has operators that write into their argument's payload. Unless both ``views`` and ``inplace``
        are set, views are made by copying operators, and a write to a view or its base updates the other one.
    decompositions : mapping
        The engine's own decompositions, by full name: functions of the operator's arguments, which call other operators
        on the handles that they get. They take precedence over those of torchnp and torch.
    dtypes : collection of str, optional
        The dtypes that the engine supports, by torch's names; None means all.
    tolerances : mapping
        For the harness: the relative and the absolute tolerance by dtype, ``{"float32": (1e-4, 1e-5)}``, if they are
        wider than torch's own.
    resolution : mapping
        For the harness: the step between neighbouring numbers of a fixed-point engine, by dtype. Arguments are rounded
        to multiples of this step before torch and the engine get them.
    largest : mapping
        For the harness: the largest number, by dtype. A call is not judged if an argument or torch's result contains a
        larger number, an infinity or a nan.
    kind : type
        The handle class.
    where, title : str
        For messages: where a handle's values are, and a name that distinguishes several engines.
    over : str
        Why the values are gone; "" if they are not.
    """

    name: str
    ops: Any = ()
    views: bool = False
    inplace: bool = False
    decompositions: Mapping[str, Callable[..., Any]] = {}
    dtypes: Any = None
    tolerances: Mapping[str, tuple[float, float]] = {}
    resolution: Mapping[str, float] = {}
    largest: Mapping[str, float] = {}
    kind: type[BaseHandleTensor] = BaseHandleTensor
    over: Any = ""

    def __init__(self) -> None:
        install.install()

    @cached_property
    def index(self) -> Mapping[str, Any]:
        """The overloads that the engine runs: maps full names to the names that `run` gets."""
        names = {name_of(op) for op in self.ops if is_loaded(op)}
        found = {name: name for name in names}
        if self.strided:
            return found
        for name in sorted(names):  # payloads have no strides, and a view operator of the engine makes a copy
            plan = plan_of(overload(name))
            if plan.base.startswith("as_strided") or not plan.gives_tensors:
                del found[name]
            elif "view" in plan.returns or plan.base in wire.UNSAFE_VIEWS:
                del found[name]
                if (copies := copy_form(plan)) is not None:
                    found.setdefault(copies.name(), name)
        return found

    @property
    def strided(self) -> bool:
        """Whether payloads are memory like torch's: with strides, shared by views, and written in place."""
        return self.views and self.inplace

    @property
    def where(self) -> str:
        return f"in {self.name}"

    @property
    def title(self) -> str:
        return self.name

    # ------------------------------------------------------------ methods that an engine defines
    def upload(self, tensor: torch.Tensor, **options: Any) -> Any:
        """Return the payload for a plain tensor.

        The tensor is dense, on the CPU, and has no gradient. Copy its values, because it may be written later. The
        options are those of `send` and `module`.
        """
        raise TypeError(f"{type(self).__name__} does not say how a tensor gets there")

    def constant(self, tensor: torch.Tensor) -> Any:
        """Return the payload for a plain tensor that an operator takes together with a handle, or for a known value.

        These values need not be secret: zeros, a mask, the numbers of a decomposition. By default this calls `upload`.
        """
        return self.upload(tensor)

    def download(self, payload: Any, spec: TensorSpec, **options: Any) -> Any:
        """Return the values of a payload, with the size and dtype of ``spec``.

        They are a tensor or anything that `torch.as_tensor` takes. The options are those of `publish`.
        """
        raise TypeError(f"{type(self).__name__} does not say how its values are published")

    def run(self, call: Call) -> Any:
        """Run one operator; return one payload per result, as a single payload, tuple or list, as in the schema.

        If ``ops`` is a mapping to functions, this calls them. Otherwise, override it.
        """
        function = self._functions.get(call.op)
        if function is None:
            raise TypeError(f"{type(self).__name__} does not say how its operators run")
        return function(*call.args, **call.kwargs)

    @cached_property
    def _functions(self) -> dict[str, Any]:
        return (
            {name_of(op): function for op, function in self.ops.items() if is_loaded(op)}
            if isinstance(self.ops, Mapping)
            else {}
        )

    # ------------------------------------------------------------ to and from the engine

    def send(self, tensor: Any, requires_grad: bool | None = None, **options: Any) -> Any:
        """Return a handle on a copy of a tensor, or a nest of dicts, lists, tuples and dataclasses with such handles.

        Parameters
        ----------
        tensor : Tensor, anything that `torch.as_tensor` takes, or a nest with tensors and arrays
            The tensors must be dense and on the CPU. In a nest, numbers stay unchanged, and so do the counters of an
            optimizer's state, which the optimizer reads on the client.
        requires_grad : bool, optional
            Whether each handle, which is a leaf, requires a gradient; by default, it does if the tensor does.
        **options
            Options for the engine's `upload`.
        """
        refuse_recording("session.send")
        if is_tree(tensor):
            return mapped(lambda x: self.send(x, requires_grad, **options), tensor)
        if isinstance(tensor, BaseHandleTensor):
            raise HandleError("this is a handle already; publish() it first to send its values elsewhere")
        if not isinstance(tensor, torch.Tensor):
            tensor = _as_tensor(tensor)
        if what := not_sent(tensor):
            raise HandleError(f"only dense CPU tensors can be sent, this one is {what}", NOT_SENT)
        if requires_grad is None:
            requires_grad = tensor.requires_grad
        with torch.no_grad():
            handle = self._upload(tensor.detach(), **options)
        handle.requires_grad_(requires_grad)
        return handle

    def publish(self, tree: Any, **options: Any) -> Any:
        """Copy a nest of dicts, lists, tuples and dataclasses, with its handles replaced by their values.

        Everything else stays as it is. The options are for the engine's `download`.
        """
        return mapped(lambda x: x.publish(**options) if isinstance(x, BaseHandleTensor) else x, tree)

    def raise_earlier_failure(self) -> None:
        """Raise the pending failure of an earlier operator; do nothing here, because operators fail immediately."""

    def _upload(self, tensor: torch.Tensor, **options: Any) -> Any:
        """Return a handle on a copy, in its own memory, of a dense tensor without gradient."""
        self.check_dtype(tensor.dtype, "a tensor")
        tensor = tensor.resolve_conj().resolve_neg()
        return self.kind._wrap(_own_spec(tensor), PayloadRef(self.upload(tensor, **options), self))

    def known(self, tensor: torch.Tensor) -> Any:
        """Return a handle on a plain tensor's values, made by `constant`."""
        self.check_dtype(tensor.dtype, "a constant")
        tensor = tensor.detach().resolve_conj().resolve_neg()
        return self.kind._wrap(_own_spec(tensor), PayloadRef(self.constant(tensor), self))

    def _publish(self, handle: Any, **options: Any) -> torch.Tensor:
        refuse_recording("publish()")
        spec = handle._spec
        tensor = torch.as_tensor(self.download(handle._object.read(), spec, **options))
        if (tensor.shape, tensor.dtype) != (spec.size, spec.dtype):
            raise TypeError(
                f"{type(self).__name__}.download gives {tuple(tensor.shape)} of {tensor.dtype} for a tensor of "
                f"{tuple(spec.size)} of {spec.dtype}"
            )
        return tensor

    def check_dtype(self, dtype: torch.dtype, what: str) -> None:
        """Raise HandleError for a dtype that the engine does not support."""
        name = str(dtype).removeprefix("torch.")
        if self.dtypes is not None and name not in self.dtypes:
            raise HandleError(
                f"{what} of {name}: {self.name} has no such dtype, only {', '.join(self.dtypes)}",
                "a dtype that is not there",
            )

    def missing_operator(
        self, plan: OverloadInfo, needed_by: tuple[str, ...], inner: MissingOperator | None = None
    ) -> MissingOperator:
        """Return the error for an operator that the engine lacks."""
        return missing_operator(plan, f"{self.name} has no such operator", self.index, needed_by, inner)

    def reference(self, payload: Any) -> PayloadRef:
        """Return a reference to a payload, for one more handle."""
        return PayloadRef(payload, self)

    @staticmethod
    def is_handle(x: Any) -> bool:
        """Return whether a value is a handle."""
        return isinstance(x, BaseHandleTensor)

    def _constant(self, tensor: torch.Tensor) -> Any:
        """Upload a plain tensor that an operator takes together with a handle; return its reference."""
        return self.known(tensor)._object

    def module(self, model: torch.nn.Module, **options: Any) -> Any:
        """Copy a module, with handles as parameters and buffers; the copy and its optimizers run on the engine.

        Handles in the module are copied on the engine. The counter of a batch norm with ``momentum=None`` stays on the
        client, where the module computes with it. The options are for the engine's `upload`.
        """
        if not isinstance(model, torch.nn.Module):
            hint = f"; write {model.__name__}(...) to make one" if isinstance(model, type) else ""
            raise TypeError(f"session.module takes a torch.nn.Module, not {kind_of(model)}{hint}")
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            if torch.nn.parameter.is_lazy(tensor):
                raise HandleError(
                    f"{name} of the module has no shape yet: call the module once, over a plain batch, before"
                )
        moved = copy.deepcopy(model)
        handles: dict[int, Any] = {}

        def move(tensor: torch.Tensor) -> Any:
            if isinstance(tensor, BaseHandleTensor):
                if tensor._session is not self:
                    raise HandleError(
                        f"the module is of {tensor._session.title}: publish its state_dict() and load that into a plain module"
                    )
                return tensor
            if id(tensor) not in handles:
                handle: Any = self.send(tensor, requires_grad=False, **options)
                if isinstance(tensor, torch.nn.Parameter):
                    handle = torch.nn.Parameter(handle, requires_grad=tensor.requires_grad)
                # Keep the tensor too, because its id() must not be reused while tied parameters are looked for.
                handles[id(tensor)] = handle, tensor
            return handles[id(tensor)][0]

        for part in moved.modules():
            if isinstance(part, (torch.nn.MultiheadAttention, torch.nn.TransformerEncoder)):
                without_fast_path(part)
            for name, parameter in list(part.named_parameters(recurse=False, remove_duplicate=False)):
                setattr(part, name, move(parameter))
            for name, buffer in list(part.named_buffers(recurse=False, remove_duplicate=False)):
                if not (name == "num_batches_tracked" and getattr(part, "momentum", 0) is None):
                    setattr(part, name, move(buffer))
        return moved


def _own_spec(tensor: torch.Tensor) -> TensorSpec:
    """Return the metadata of a copy of a tensor in its own memory."""
    return spec_of(torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta"))


def kind_of(value: object) -> str:
    """Describe a wrong argument for a message."""
    return f"the class {value.__name__}" if isinstance(value, type) else f"a value of type {type(value).__name__}"


def _as_tensor(value: Any) -> torch.Tensor:
    try:
        return torch.as_tensor(value)
    except RPCError:  # a handle among the entries
        raise
    except (TypeError, RuntimeError) as error:
        hint = ""
        if isinstance(value, torch.nn.Module):
            hint = "; a module goes with session.module(model)"
        elif isinstance(value, torch.fx.Proxy):
            hint = "; send outside of the function that torch.fx.symbolic_trace records, and pass handles as arguments"
        raise TypeError(
            f"session.send takes a tensor, an array, a number or nested lists of numbers, not {kind_of(value)} ({error}){hint}"
        ) from None
