"""The interfaces that handles use: the engine that runs their operators, and references to its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch


class RemoteRef(Protocol):
    """A reference to an engine's tensor.

    Attributes
    ----------
    session : EngineProtocol
    wire : object
        The value that `BaseHandleTensor._emit` gets in place of the handle.
    """

    session: Any

    @property
    def wire(self) -> Any: ...


class EngineProtocol(Protocol):
    """The attributes of `torchnp.engine.engine.Engine` that handles use."""

    name: str
    index: Mapping[str, Any]
    over: Any
    dtypes: Any
    inplace: bool

    @property
    def strided(self) -> bool: ...

    @property
    def where(self) -> str: ...

    @property
    def title(self) -> str: ...

    def raise_earlier_failure(self) -> None: ...

    def send(self, tensor: Any, requires_grad: bool | None = None) -> Any: ...

    def _publish(self, handle: Any, **options: Any) -> torch.Tensor: ...

    def _constant(self, tensor: torch.Tensor) -> Any: ...


class SessionProtocol(Protocol):
    """The part of a session that a client-side reference uses when it is deleted."""

    channel: Any
