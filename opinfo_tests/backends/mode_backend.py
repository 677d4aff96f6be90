"""torchnp's table called through torch: each overload is called with tensors under `torchnp.interop.NumpyMode`."""

from __future__ import annotations

from typing import Any

import torchnp
from torchnp.interop import NumpyMode

from .torch_backend import TorchDevice, overload_of


class Mode(TorchDevice):
    """Calls on CPU tensors, computed by torchnp's kernels on the tensors' own memory."""

    def __init__(self) -> None:
        super().__init__("cpu")
        self.name, self.ops = "numpy-mode", torchnp.table.keys()

    def run(self, op: str, args: tuple, kwargs: dict[str, Any]) -> Any:
        with NumpyMode():
            return overload_of(op)(*args, **kwargs)
