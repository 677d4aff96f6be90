"""The extent of a handle's memory, as far as the client knows it, and operators that move a handle to other memory."""

from __future__ import annotations

from typing import Any

import torch

from torchnp.core.registry import FAILURES
from torchnp.engine.tensor import shape_inference
from torchnp.engine.tensor.overload_info import OverloadInfo, view_of
from torchnp.engine.tensor.unsupported import NoValues
from torchnp.rpc.exceptions import HandleError


def extent(x: torch.Tensor) -> int:
    """Return the number of elements in a tensor's storage; for a handle, the number that its shape and strides span.

    Forward-mode AD requires that this number is equal for a tangent and its primal.
    """
    if isinstance(x, NoValues):
        return 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True)) if x.numel() else 0
    return x.untyped_storage().nbytes() // x.element_size()


def storage(plan: OverloadInfo, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Move a handle to other memory.

    This is ``x.set_(source)`` on handles, which parametrizations use, or the resize of an empty ``out=``.
    """
    x: Any = args[0]
    if plan.name == "aten::resize_" and not x.numel() and not kwargs:
        x.data = shape_inference.elsewhere(plan, x, torch.empty(args[1], dtype=x.dtype, device="meta"))
        return x
    if plan.name == "aten::set_.source_Tensor" and isinstance(args[1], NoValues):
        source: Any = args[1]
        if x.dtype != source.dtype:
            x._spec.fresh().set_(source._spec.fresh())  # raises torch's own error
        x.data = source
        return x
    raise HandleError(
        f"{plan.base}: the storage of a handle is elsewhere and cannot be replaced or resized",
        "a handle's storage is not replaced or resized",
    )


def change_metadata(plan: OverloadInfo, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Point the handle to a new view of the same memory, for ``x.t_()`` and similar operators."""
    x = args[0]
    try:
        x.data = view_of(plan.func)(*args, **kwargs)
    except FAILURES as error:
        shape_inference.on_the_cpu(plan, (x._spec.fresh(), *args[1:]), kwargs, error)  # may raise the CPU's own error
        raise
    return x
