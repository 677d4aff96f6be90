"""The engine kit: wrap your own engine in torch tensors, which have a shape and no values.

>>> import numpy as np
>>> from torchnp.engine import Engine
>>> class Arrays(Engine):
...     name, ops = "arrays", {"aten::mul.Tensor": np.multiply, "aten::sum.dim_IntList": np.sum}
...     def upload(self, tensor):
...         return tensor.numpy().copy()
...     def download(self, payload, spec):
...         return payload

torch's autograd, modules and optimizers run above an engine. Operators that it lacks are derived from those that it
has.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchnp.engine.engine import Engine
    from torchnp.engine.tensor.execution import Call
    from torchnp.engine.tensor.handles import BaseHandleTensor
    from torchnp.engine.tensor.overload_info import MissingOperator
    from torchnp.engine.tensor.payloads import PayloadRef
    from torchnp.engine.tensor.shape_inference import TensorSpec
    from torchnp.rpc.exceptions import HandleError, ValueAccessError

_HOMES = {
    "BaseHandleTensor": "torchnp.engine.tensor.handles",
    "Call": "torchnp.engine.tensor.execution",
    "Engine": "torchnp.engine.engine",
    "HandleError": "torchnp.rpc.exceptions",
    "MissingOperator": "torchnp.engine.tensor.overload_info",
    "PayloadRef": "torchnp.engine.tensor.payloads",
    "TensorSpec": "torchnp.engine.tensor.shape_inference",
    "ValueAccessError": "torchnp.rpc.exceptions",
}

__all__ = [
    "BaseHandleTensor",
    "Call",
    "Engine",
    "HandleError",
    "MissingOperator",
    "PayloadRef",
    "TensorSpec",
    "ValueAccessError",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'torchnp.engine' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        from torchnp.core.optional_deps import explained

        raise explained(error, f"torchnp.engine.{name}", "torch,rpc", "torch", "msgspec") from None


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
