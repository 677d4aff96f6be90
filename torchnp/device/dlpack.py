"""DLPack and NumPy exchange: the device's tensors are CPU memory, shared with other libraries without a copy."""

from __future__ import annotations

from typing import Any

import torch

from torchnp.device import convert
from torchnp.interop import convert as cpu_convert
from torchnp.interop import tensor_memory

_CPU = (1, 0)  # DLPack's kDLCPU, and its only index


def share_with_others() -> None:
    """Make ``np.from_dlpack``, ``torch.from_dlpack`` and `torchnp.interop.to_numpy` accept the device's tensors."""
    tensor_memory.READERS[convert.DEVICE] = convert.to_numpy
    Tensor: Any = torch.Tensor
    whose, export = Tensor.__dlpack_device__, Tensor.__dlpack__

    def __dlpack_device__(self: torch.Tensor) -> Any:
        if type(self) in cpu_convert.PLAIN_TENSORS and self.device.type == convert.DEVICE:
            return (type(whose(_NOTHING)[0])(_CPU[0]), _CPU[1])
        return whose(self)

    def __dlpack__(self: torch.Tensor, **given: Any) -> Any:
        if type(self) in cpu_convert.PLAIN_TENSORS and self.device.type == convert.DEVICE:
            return export(_on_cpu(self), **given)
        return export(self, **given)

    for name, function, theirs in (
        ("__dlpack_device__", __dlpack_device__, whose),
        ("__dlpack__", __dlpack__, export),
    ):
        function.__doc__ = theirs.__doc__
        setattr(Tensor, name, function)


_NOTHING = torch.empty(0)


def _on_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """Return a CPU tensor on the same memory.

    Like torch, refuse tensors that require grad or have the conjugate bit.
    """
    if tensor.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if tensor.is_conj():
        raise BufferError("Can't export tensors with the conjugate bit set")
    return cpu_convert.to_torch(convert.physical(tensor))
