"""Another engine under torch's handles: programs in float32, computed in float64 beside the program, in this process.

    engine = Doubled()
    model, x = engine.module(model), engine.send(x)
    loss = model(x).square().mean()
    loss.backward()
    loss.exact()  # a float64 tensor: what the float32 program would give without its rounding

Its payloads are arrays whose dtype is not the tensor's. They have views and are written in place, as torch's memory is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import torchnp
from torchnp.engine import BaseHandleTensor, Call, Engine, TensorSpec
from torchnp.random import default_generator

WIDER = {np.dtype(np.float32): np.dtype(np.float64), np.dtype(np.complex64): np.dtype(np.complex128)}


class DoubledTensor(BaseHandleTensor):
    """A handle on an array of twice the precision that torch believes in."""

    def exact(self) -> torch.Tensor:
        """The values, as they were computed."""
        return torch.from_numpy(self._object.read().copy())  # type: ignore[attr-defined]


class Doubled(Engine):
    """Runs operators with torchnp's kernels on arrays of float64 where the program has float32."""

    kind, name, ops, views, inplace = DoubledTensor, "float64", torchnp.table, True, True

    def upload(self, tensor: torch.Tensor, **options: Any) -> np.ndarray:
        array = tensor.numpy()
        return array.astype(WIDER.get(array.dtype, array.dtype), order="K")

    def download(self, payload: np.ndarray, spec: TensorSpec, **options: Any) -> torch.Tensor:
        return torch.from_numpy(payload).to(spec.dtype, copy=True)

    def run(self, call: Call) -> Any:
        if call.seed is not None:
            default_generator.manual_seed(call.seed)
        widened = {name: WIDER.get(a, a) if isinstance(a, np.dtype) else a for name, a in call.kwargs.items()}
        return torchnp.table[call.op](*call.args, **widened)
