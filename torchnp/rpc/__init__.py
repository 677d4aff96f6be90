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
    from torchnp.rpc.client.calling import RemoteProgram
    from torchnp.rpc.client.connecting import connect
    from torchnp.rpc.client.engine import Engine
    from torchnp.rpc.client.handles import BaseHandleTensor
    from torchnp.rpc.client.quotes import Quote
    from torchnp.rpc.client.rpctensor import RPCTensor
    from torchnp.rpc.client.session import Session, Stats, local
    from torchnp.rpc.exceptions import (
        AuthenticationError,
        BudgetError,
        ConnectionLost,
        DeadlineExceeded,
        HandleError,
        LedgerError,
        PrivacyError,
        ProtocolError,
        QuotaError,
        RemoteOpError,
        RPCError,
        SessionClosed,
        ValueAccessError,
        VersionMismatch,
    )
    from torchnp.rpc.server.session_limits import Limits
    from torchnp.rpc.server.tcp import serve
    from torchnp.rpc.server.tokens import Token

__all__ = [
    "AuthenticationError",
    "BaseHandleTensor",
    "BudgetError",
    "ConnectionLost",
    "DeadlineExceeded",
    "Engine",
    "HandleError",
    "LedgerError",
    "Limits",
    "PrivacyError",
    "ProtocolError",
    "QuotaError",
    "Quote",
    "RPCError",
    "RPCTensor",
    "RemoteOpError",
    "RemoteProgram",
    "Session",
    "SessionClosed",
    "Stats",
    "Token",
    "ValueAccessError",
    "VersionMismatch",
    "connect",
    "local",
    "serve",
]

_HOMES = {
    "serve": "server.tcp",
    "Limits": "server.books",
    "Token": "server.tokens",
    "Session": "client.session",
    "RemoteProgram": "client.calling",
    "Quote": "client.quotes",
    "Stats": "client.session",
    "connect": "client.connecting",
    "local": "client.session",
    "BaseHandleTensor": "client.handles",
    "Engine": "client.engine",
    "RPCTensor": "client.rpctensor",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'torchnp.rpc' has no attribute {name!r}")
    home = _HOMES.get(name, "exceptions")
    try:
        return getattr(importlib.import_module(f"torchnp.rpc.{home}"), name)
    except ModuleNotFoundError as error:
        from torchnp.extras import explained

        needs = ("rpc", "msgspec") if home == "server.tcp" else ("torch,rpc", "torch", "msgspec")
        raise explained(error, f"torchnp.rpc.{name}", *needs) from None


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
