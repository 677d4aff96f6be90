"""The private names of torch that only `torchnp.compiler` uses, each looked up at import."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from torchnp.interop._private import OpOverload, absent, lookup

if TYPE_CHECKING:
    from torch._ops import HigherOrderOperator
else:
    HigherOrderOperator = lookup("_ops.HigherOrderOperator", ())

aot_autograd: Callable[..., Callable[..., Any]] = lookup(
    "_dynamo.backends.common.aot_autograd", absent("torch._dynamo.backends.common.aot_autograd")
)
"""Make a ``torch.compile`` backend from functions that compile the forward and the backward graph of overloads."""

flop_formulas: dict[Any, Callable[..., Any]] = lookup("utils.flop_counter.flop_registry", {})
"""torch's FLOP formulas for products, by operator; each takes the operator's arguments and ``out_val``."""

_UPSAMPLING = [
    overload
    for dims in (1, 2, 3)
    for name in (f"upsample_nearest{dims}d", f"_upsample_nearest_exact{dims}d")
    for overload in (getattr(torch.ops.aten, name).default, getattr(torch.ops.aten, name).vec)
]
_OF_TRACING = (torch.DispatchKey.CompositeImplicitAutograd, torch.DispatchKey.Autograd)


@contextmanager
def keeping_nearest_upsampling() -> Iterator[None]:
    """Make a trace record nearest upsampling as the operators of eager torch, not as torch's decomposition.

    If a scale factor is given, torch's Python decomposition may pick other pixels than the kernels: it uses the ratio
    of the sizes, and the output size is rounded.
    """
    kernels = [getattr(func, "py_kernels", {}) for func in _UPSAMPLING]
    before = [dict(kernel) for kernel in kernels]

    def forget() -> None:
        for func in _UPSAMPLING:
            getattr(func, "_dispatch_cache", {}).clear()

    for kernel in kernels:
        for key in _OF_TRACING:
            kernel.pop(key, None)
    forget()
    try:
        yield
    finally:
        for kernel, was in zip(kernels, before, strict=True):
            kernel.update(was)
        forget()


__all__ = ["HigherOrderOperator", "OpOverload", "aot_autograd", "flop_formulas", "keeping_nearest_upsampling"]
