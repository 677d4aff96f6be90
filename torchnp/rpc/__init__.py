"""The remote tensor: torch programs whose tensors are handles, and a NumPy server that has the values.

>>> from torchnp import rpc
>>> session = rpc.local()  # or rpc.connect("tcp://127.0.0.1:7077", token=...)
>>> x = session.send(torch.ones(2, 3))
>>> (x * 2).sum().publish()
tensor(12.)

The server side (`serve`) imports no torch; the client (`local`, `connect`) imports it when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchnp.rpc.server import serve
    from torchnp.rpc.session import Session, Stats, connect, local
    from torchnp.rpc.store import Limits
    from torchnp.rpc.tensor import BaseHandleTensor, RPCTensor

_ERRORS = (
    "AuthenticationError",
    "ConnectionLost",
    "HandleError",
    "PrivacyError",
    "ProtocolError",
    "QuotaError",
    "RPCError",
    "RemoteOpError",
    "SessionClosed",
    "ValueAccessError",
    "VersionMismatch",
)
_LAZY = {
    "serve": "server",
    "Limits": "store",
    "Session": "session",
    "Stats": "session",
    "connect": "session",
    "local": "session",
    "BaseHandleTensor": "tensor",
    "RPCTensor": "tensor",
    **dict.fromkeys(_ERRORS, "errors"),
}
__all__ = sorted(_LAZY)


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'torchnp.rpc' has no attribute {name!r}")
    return getattr(importlib.import_module(f"torchnp.rpc.{_LAZY[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
