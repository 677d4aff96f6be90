"""The base class of engines, which run the operators of handles: uploading tensors and moving modules."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch

from torchnp.rpc.client.patches import install
from torchnp.rpc.client.patches.composite_overrides import without_fast_path
from torchnp.rpc.client.tensor.handles import BaseHandleTensor
from torchnp.rpc.client.tensor.interfaces import RemoteRef
from torchnp.rpc.client.tensor.local_arguments import NOT_SENT, not_sent
from torchnp.rpc.client.tensor.pytree import is_tree, mapped
from torchnp.rpc.client.tensor.shape_inference import spec_of
from torchnp.rpc.client.tensor.tracing import refuse_recording
from torchnp.rpc.exceptions import HandleError, RPCError


class Engine:
    """An engine holds the values of handles and runs their operators.

    A subclass has its own handle class, ``kind``, whose `BaseHandleTensor._emit` runs an operator. The subclass defines
    in `_upload` how a tensor gets to the engine.

    Attributes
    ----------
    kind : type
        The handle class.
    name : str
        The engine's name in messages.
    index : mapping
        Its keys are the full names of the overloads that the engine runs.
    where, title : str
        In messages: where a handle's values are, and a name that tells several engines apart.
    over : str
        Why the values are gone, or "".
    """

    kind: type[BaseHandleTensor]
    name: str
    index: Mapping[str, Any]
    over: Any = ""

    def __init__(self) -> None:
        install.install()

    @property
    def where(self) -> str:
        return f"in {self.name}"

    @property
    def title(self) -> str:
        return self.name

    def send(self, tensor: Any, requires_grad: bool | None = None) -> Any:
        """Return a handle on a copy of a tensor, or a nest of dicts, lists, tuples and dataclasses with such handles.

        Parameters
        ----------
        tensor : Tensor, anything that `torch.as_tensor` takes, or a nest with tensors and arrays
            Dense, on the CPU. In a nest, numbers stay as they are, and so do the counters of an optimizer's state,
            which the optimizer reads on the client.
        requires_grad : bool, optional
            Whether each handle, a leaf, requires a gradient; by default as the tensor does.
        """
        refuse_recording("session.send")
        if is_tree(tensor):
            return mapped(lambda x: self.send(x, requires_grad), tensor)
        if isinstance(tensor, BaseHandleTensor):
            raise HandleError("this is a handle already; publish() it first to send its values to another server")
        if not isinstance(tensor, torch.Tensor):
            tensor = _as_tensor(tensor)
        if what := not_sent(tensor):
            raise HandleError(f"only dense CPU tensors can be sent, this one is {what}", NOT_SENT)
        if requires_grad is None:
            requires_grad = tensor.requires_grad
        with torch.no_grad():
            handle = self._upload(tensor.detach())
        handle.requires_grad_(requires_grad)
        return handle

    def raise_earlier_failure(self) -> None:
        """Raise the pending failure of an earlier operator; does nothing here, as operators fail at once."""

    def _upload(self, tensor: torch.Tensor) -> Any:
        """Return a handle on a copy of a dense tensor without gradient: see `_handle`."""
        raise TypeError(f"{type(self).__name__} does not say how a tensor gets there")

    def _handle(self, tensor: torch.Tensor, remote: RemoteRef) -> Any:
        """Wrap a copy of a tensor in a handle with the tensor's shape and strides, on memory of its own."""
        own = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
        return self.kind._wrap(spec_of(own), remote)

    def _constant(self, tensor: torch.Tensor) -> Any:
        """Upload a plain tensor that met a handle, as an argument of one operator; return its reference."""
        return self._upload(tensor.detach())._object

    def module(self, model: torch.nn.Module) -> Any:
        """Copy a module, with handles as parameters and buffers: the copy, and optimizers over it, run on the server.

        Handles in the module are copied on the server. The counter of a batch norm with ``momentum=None`` stays on the
        client, where the module computes with it.
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
                handle: Any = self.send(tensor, requires_grad=False)
                if isinstance(tensor, torch.nn.Parameter):
                    handle = torch.nn.Parameter(handle, requires_grad=tensor.requires_grad)
                # Keep the tensor too: its id() must not be reused while tied parameters are looked for.
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
