"""What `torchnp.compiler` uses of torch beyond its public interface, and nobody else does: each name is asked for at import."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torchnp.interop._private import OpOverload, absent, lookup

if TYPE_CHECKING:
    from torch._ops import HigherOrderOperator
else:
    HigherOrderOperator = lookup("_ops.HigherOrderOperator", ())

aot_autograd: Callable[..., Callable[..., Any]] = lookup(
    "_dynamo.backends.common.aot_autograd", absent("torch._dynamo.backends.common.aot_autograd")
)
"""A backend of ``torch.compile`` made of compilers of graphs of overloads, one for forward and one for backward."""

flop_formulas: dict[Any, Callable[..., Any]] = lookup("utils.flop_counter.flop_registry", {})
"""By operator, from its arguments and ``out_val``: the floating-point operations of a product, as torch counts them."""

__all__ = ["HigherOrderOperator", "OpOverload", "aot_autograd", "flop_formulas"]
