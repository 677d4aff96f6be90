"""Ops about accelerators, for a machine without one: they return fixed answers or ordinary memory."""

from __future__ import annotations

from torchnp.core.checks import check
from torchnp.core.registry import kernel
from torchnp.dtypes import is_inexact
from torchnp.kernels._declare_rows import rows

rows("cudnn_is_acceptable", lambda self: False, "Always False: cuDNN takes no CPU tensor.")
rows("_use_cudnn_rnn_flatten_weight", lambda: False, "Always False: no weights are flattened for cuDNN.")


@kernel("pin_memory", "_pin_memory")
def pin_memory(self, device=None):
    """The tensor itself: there is no accelerator to pin memory for (torch raises an error without one)."""
    return self


@kernel("record_stream")
def record_stream(self, s) -> None:
    """Do nothing: memory is not freed while a tensor uses it (torch implements this for accelerators only)."""


@kernel("requires_grad_")
def requires_grad_(self, requires_grad=True):
    """The tensor itself: an array records no gradients."""
    words = "Only Tensors of floating point and complex dtype can require gradients"
    check(not requires_grad or is_inexact(self.dtype), words)
    return self


@kernel("_unpack_dual")
def _unpack_dual(dual, level):
    """The tensor, and None for its tangent: an array carries none."""
    return dual[...], None
