"""Remote tensors: a torch program on the client works with handles, and a NumPy server holds their values.

>>> from torchnp import rpc
>>> session = rpc.local()  # or rpc.connect("tcp://127.0.0.1:7077", token=...)
>>> x = session.send(torch.ones(2, 3))
>>> (x * 2).sum().publish()
tensor(12.)

The server side (`serve`) imports no torch; the client (`local`, `connect`) imports torch on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchnp.engine.engine import Engine
    from torchnp.engine.tensor.handles import BaseHandleTensor
    from torchnp.rpc.client.program.remote_program import RemoteProgram
    from torchnp.rpc.client.session.connect import connect
    from torchnp.rpc.client.session.session import Session, Stats, local
    from torchnp.rpc.client.tensor.publish import Quote
    from torchnp.rpc.client.tensor.rpctensor import RPCTensor
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
    from torchnp.rpc.server.config.limits import Limits
    from torchnp.rpc.server.config.tokens import Token
    from torchnp.rpc.server.transports.server import serve

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
    "serve": "server.transports.server",
    "Limits": "server.session.object_store",
    "Token": "server.config.tokens",
    "Session": "client.session.session",
    "RemoteProgram": "client.program.remote_program",
    "Quote": "client.tensor.publish",
    "Stats": "client.session.session",
    "connect": "client.session.connect",
    "local": "client.session.session",
    "BaseHandleTensor": "engine.tensor.handles",
    "Engine": "engine.engine",
    "RPCTensor": "client.tensor.rpctensor",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'torchnp.rpc' has no attribute {name!r}")
    home = _HOMES.get(name, "exceptions")
    module = f"torchnp.{home}" if home.startswith("engine.") else f"torchnp.rpc.{home}"
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        from torchnp.core.optional_deps import explained

        needs = ("rpc", "msgspec") if home == "server.transports.server" else ("torch,rpc", "torch", "msgspec")
        raise explained(error, f"torchnp.rpc.{name}", *needs) from None


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
