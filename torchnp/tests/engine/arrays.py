"""An engine for tests: torchnp's functional kernels on read-only arrays, so that every write raises an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import torchnp
from torchnp.engine import Call, Engine, TensorSpec
from torchnp.interop import to_numpy, to_torch
from torchnp.random import default_generator


def functional(name: str) -> bool:
    """Return whether an overload neither writes nor views."""
    schema = torchnp.table.schemas[name]
    return name.startswith("aten::") and not schema.mutates and not schema.is_view and "_foreach" not in name


class Arrays(Engine):
    """An engine that runs the table's kernels and gives each array its own memory.

    Parameters
    ----------
    ops : collection of str, optional
        The overloads that it has: all that neither write nor view, by default.
    """

    name = "arrays"

    def __init__(self, ops: Any = None) -> None:
        super().__init__()
        self.ops = frozenset(filter(functional, torchnp.table)) if ops is None else ops
        self.calls: list[str] = []

    def upload(self, tensor: torch.Tensor, **options: Any) -> np.ndarray:
        self.options = options
        return own(to_numpy(tensor))

    def download(self, payload: np.ndarray, spec: TensorSpec, **options: Any) -> torch.Tensor:
        assert payload.shape == tuple(spec.size), (payload.shape, spec.size)
        return to_torch(payload.copy())

    def run(self, call: Call) -> Any:
        self.calls.append(call.op)
        if call.seed is not None:
            default_generator.manual_seed(call.seed)
        out = torchnp.table[call.op](*call.args, **call.kwargs)
        return own(out) if isinstance(out, np.ndarray) else type(out)(None if x is None else own(x) for x in out)

    def sync(self) -> None:
        """Do nothing, because operators fail immediately here; a session's `sync` waits for failures."""


def own(array: np.ndarray) -> np.ndarray:
    """Return a read-only copy."""
    array = np.array(array, order="C")
    array.flags.writeable = False
    return array
