"""What handles ask of the engine that runs their operators, and of what stands for its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch


class RemoteRef(Protocol):
    """What stands for a tensor of an engine's.

    Attributes
    ----------
    session : EngineProtocol
    wire : object
        What `BaseHandleTensor._emit` gets among its arguments in the place of the handle.
    """

    session: Any
    wire: Any


class EngineProtocol(Protocol):
    """The attributes of `torchnp.rpc.client.session.engine.Engine` that handles use."""

    name: str
    index: Mapping[str, Any]
    over: Any

    @property
    def where(self) -> str: ...

    @property
    def title(self) -> str: ...

    def raise_earlier_failure(self) -> None: ...

    def send(self, tensor: Any, requires_grad: bool | None = None) -> Any: ...

    def _constant(self, tensor: torch.Tensor) -> Any: ...


class SessionProtocol(Protocol):
    """What an object on the client asks of its session when it dies."""

    channel: Any
