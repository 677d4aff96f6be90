"""Where the operators of handles run: what `BaseHandleTensor` asks of it, and what goes there by any way."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch

from torchnp.rpc.client.patches import install
from torchnp.rpc.client.patches.composite_overrides import without_fast_path
from torchnp.rpc.client.tensor.handles import BaseHandleTensor
from torchnp.rpc.client.tensor.plain_values import NOT_SENT, not_sent
from torchnp.rpc.client.tensor.protocols import RemoteRef
from torchnp.rpc.client.tensor.pytree import is_tree, mapped
from torchnp.rpc.client.tensor.shape_inference import spec_of
from torchnp.rpc.client.tensor.tracing import refuse_recording
from torchnp.rpc.exceptions import HandleError, RPCError


class Engine:
    """What has the values of handles and runs their operators.

    A subclass has a class of handles of its own, ``kind``, whose `BaseHandleTensor._emit` says what becomes of an operator,
    and says here how a tensor gets there: in `_upload`.

    Attributes
    ----------
    kind : type
        The class of its handles.
    name : str
        As messages have it.
    index : mapping
        Has the full names of the overloads that it runs.
    where, title : str
        As messages say where a handle's values are, and which engine it is of several.
    over : str
        Why there are no values any more, or "".
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
        """A handle on a copy of a tensor, or a copy of a nest of dicts, lists, tuples and dataclasses with handles in it.

        Parameters
        ----------
        tensor : Tensor, anything that `torch.as_tensor` takes, or a nest with tensors and arrays
            Dense, on the CPU. In a nest, numbers stay as they are, and so do the counters of an optimizer's state, which
            it looks at here.
        requires_grad : bool, optional
            Of each handle, which is a leaf; by default as the tensor's.
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
        """Raise what an operator that was sent before has failed with, if it is not known yet; here they fail at once."""

    def _upload(self, tensor: torch.Tensor) -> Any:
        """A handle on a copy of a dense tensor, which has no gradient: see `_handle`."""
        raise TypeError(f"{type(self).__name__} does not say how a tensor gets there")

    def _handle(self, tensor: torch.Tensor, remote: RemoteRef) -> Any:
        """The handle on a copy of a tensor, which has its shape, its strides and memory of its own."""
        own = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
        return self.kind._wrap(spec_of(own), remote)

    def _constant(self, tensor: torch.Tensor) -> Any:
        """What stands for a plain tensor that met a handle, as an argument of one operator."""
        return self._upload(tensor.detach())._object

    def module(self, model: torch.nn.Module) -> Any:
        """A copy of a module whose parameters and buffers are handles: it, and optimizers over it, run on the server.

        What is on the server already is copied there. The counter of a batch norm with ``momentum=None`` stays here, as
        the module computes with it here.
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
                # The tensor is kept as well: its id must not come back while tied parameters are looked for.
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
    """What a message calls a wrong argument."""
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
