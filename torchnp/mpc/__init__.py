"""Secret-shared tensors: PyTorch programs that compute on values that no party sees.

>>> import torch
>>> from torchnp import mpc
>>> engine = mpc.local(parties=2)
>>> x = engine.send(torch.tensor([1.0, -2.0, 3.0]), owner=0)
>>> y = engine.send(torch.tensor([0.5, 0.5, 2.0]), owner=1)
>>> (x * y).relu().sum().publish()
tensor(6.5000)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchnp.mpc.certificates import make_certificate
    from torchnp.mpc.dealer_process import serve_dealer
    from torchnp.mpc.engine import SharedEngine, SharedTensor
    from torchnp.mpc.links import Party, PartyError
    from torchnp.mpc.network import Traffic
    from torchnp.mpc.start import connect, local

_HOMES = {
    "Party": "torchnp.mpc.links",
    "PartyError": "torchnp.mpc.links",
    "SharedEngine": "torchnp.mpc.engine",
    "SharedTensor": "torchnp.mpc.engine",
    "Traffic": "torchnp.mpc.network",
    "connect": "torchnp.mpc.start",
    "local": "torchnp.mpc.start",
    "make_certificate": "torchnp.mpc.certificates",
    "serve_dealer": "torchnp.mpc.dealer_process",
}

__all__ = [
    "Party",
    "PartyError",
    "SharedEngine",
    "SharedTensor",
    "Traffic",
    "connect",
    "local",
    "make_certificate",
    "serve_dealer",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'torchnp.mpc' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        from torchnp.core.optional_deps import explained

        raise explained(error, f"torchnp.mpc.{name}", "mpc", "torch", "msgspec", "cryptography") from None


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
