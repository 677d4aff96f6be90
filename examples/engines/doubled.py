"""Another engine under torch's handles: programs in float32, computed in float64 beside the program, in this process.

    engine = Doubled()
    model, x = engine.module(model), engine.send(x)
    loss = model(x).square().mean()
    loss.backward()
    loss.exact()  # a float64 tensor: what the float32 program would give without its rounding

torch's autograd, modules and optimizers run above it as they do above a server; nothing of a server is here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import torchnp
from torchnp.random import default_generator
from torchnp.rpc import BaseHandleTensor, Engine, wire

WIDER = {np.dtype(np.float32): np.dtype(np.float64), np.dtype(np.complex64): np.dtype(np.complex128)}


class Box:
    """An array that stands for a tensor."""

    def __init__(self, array: Any, engine: Doubled) -> None:
        self.array, self.session, self.wire = np.asarray(array), engine, self


class DoubledTensor(BaseHandleTensor):
    """A handle on an array of twice the precision that torch believes in."""

    @classmethod
    def _emit(cls, engine, name, count, args, kwargs, expected, weight, key):  # type: ignore[no-untyped-def, override]
        if key is not None:
            default_generator.manual_seed(key)
        named = {k: widened(a) for k, a in kwargs.items()}
        out = torchnp.table[name](*map(widened, args), **named)
        returns = torchnp.table.schemas[name].returns
        made: list[Any] = []
        for r, value in zip(returns, [out] if len(returns) == 1 else out):
            if not r.is_write:
                made += value if isinstance(value, (list, tuple)) else [value]
        wanted = [e is not wire.HOLE for e in expected] or [True] * count
        return [Box(value, engine) for value, want in zip(made, wanted, strict=True) if want]

    def exact(self) -> torch.Tensor:
        """The values, as they were computed."""
        return torch.from_numpy(self._object.array.copy())  # type: ignore[attr-defined]


class Doubled(Engine):
    """Runs operators with torchnp's kernels on arrays of float64 where the program has float32."""

    kind, name, index = DoubledTensor, "float64", torchnp.table

    def _upload(self, tensor: torch.Tensor) -> Any:
        array = tensor.resolve_conj().resolve_neg().numpy()
        return self._handle(tensor, Box(array.astype(WIDER.get(array.dtype, array.dtype), order="K"), self))


def widened(a: Any) -> Any:
    """An argument as a kernel takes it."""
    if isinstance(a, Box):
        return a.array
    if isinstance(a, wire.Items):
        return [widened(x) for x in a.items]
    if isinstance(a, wire.Dtype):
        dtype = wire.dtype_of(a.name)
        return WIDER.get(dtype, dtype)
    return complex(a.real, a.imag) if isinstance(a, wire.Complex) else a
