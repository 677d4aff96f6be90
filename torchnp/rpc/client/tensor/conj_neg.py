"""Lazy conjugates and negatives: handles with torch's conjugate and negative bits, on their base's object.

torch resolves the bits before most operators. Only views, which keep the bits, and a few operators that handle the bits
themselves arrive here with bits set.
"""

from __future__ import annotations

from typing import Any

import torch

from torchnp.engine.tensor.handles import BaseHandleTensor
from torchnp.engine.tensor.overload_info import OverloadInfo, plan_of
from torchnp.engine.tensor.shape_inference import TensorSpec
from torchnp.engine.tensor.tracing import leave_to_torch_compile, recorded
from torchnp.interop._private import OpOverload, is_recorded, set_conj, set_neg
from torchnp.rpc.client.tensor.rpctensor import RPCTensor
from torchnp.rpc.exceptions import HandleError

aten = torch.ops.aten


# If both factors are effectively conjugates, torch returns the lazy conjugate of the product.
_OF_CONJUGATES = {"dot": [True, True], "vdot": [False, True]}


class LazyTensor(RPCTensor):
    """A handle whose values are the conjugate or negative of its object's; writing through it writes to the object."""

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: OpOverload, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if is_recorded():
            return recorded(cls, func, args, kwargs or {})
        plan, kwargs = plan_of(func), kwargs or {}
        if plan.special == "bits":
            return toggled(args[0], plan)
        if plan.special in ("values", "dynamic", "known", "storage", "decompose", "metadata"):
            return RPCTensor.__torch_dispatch__(func, types, args, kwargs)
        if plan.base in ("conj_physical_", "neg_"):
            RPCTensor.__torch_dispatch__(func, types, (_raw(args[0]),), kwargs)  # both commute with the bits
            return args[0]
        if plan.written:
            return _write(plan, types, args, kwargs)
        if plan.special == "share" or "view" in plan.returns:
            return _view(plan, types, args, kwargs)
        if not kwargs and _OF_CONJUGATES.get(plan.base) == [a.is_conj() for a in args]:
            return toggled(aten.dot.default(*map(_raw, args)), plan_of(aten._conj.default))
        return RPCTensor.__torch_dispatch__(func, types, _each(_resolved, args), _each(_resolved, kwargs))

    def _again(self) -> Any:
        return _made(self._spec, self._object, _bits(self))

    def publish(self, **terms: Any) -> torch.Tensor:
        """Publish the resolved values, like `RPCTensor.publish`."""
        return _resolved(self).publish(**terms)


leave_to_torch_compile(LazyTensor)


def _bits(x: torch.Tensor) -> tuple[bool, bool]:
    return x.is_conj(), x.is_neg()


def _with_bits(x: Any, bits: tuple[bool, bool]) -> Any:
    set_conj(x, bits[0])
    set_neg(x, bits[1])
    return x


def _made(spec: TensorSpec, remote: Any, bits: tuple[bool, bool]) -> Any:
    return _with_bits(LazyTensor._wrap(spec, remote), bits) if any(bits) else RPCTensor._wrap(spec, remote)


def toggled(x: BaseHandleTensor, plan: OverloadInfo) -> Any:
    """Return the view that ``_conj`` or ``_neg_view`` makes of a handle."""
    conj, neg = _bits(x)
    return _made(x._spec, x._object, (not conj, neg) if plan.base == "_conj" else (conj, not neg))


def _raw(x: Any) -> Any:
    """Return the handle without its bits."""
    return RPCTensor._wrap(x._spec, x._object) if isinstance(x, LazyTensor) else x


def _resolved(x: Any) -> Any:
    """Return a handle on the resolved values of a lazy handle."""
    if not isinstance(x, LazyTensor):
        return x
    return _changed(_raw(x), _bits(x))


def _changed(x: torch.Tensor, bits: tuple[bool, bool]) -> torch.Tensor:
    if bits[0]:
        x = aten._conj_physical.default(x)
    return aten.neg.default(x) if bits[1] else x


def _each(change: Any, x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return type(x)(_each(change, y) for y in x)
    return {k: _each(change, y) for k, y in x.items()} if isinstance(x, dict) else change(x)


def _write(plan: OverloadInfo, types: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Run an operator that writes; only ``copy_`` may write into a lazy handle."""
    target, others = args[0], _each(_resolved, args[1:])
    lazy = isinstance(target, LazyTensor) and any(_bits(target))
    if plan.base == "copy_" and lazy:
        source = torch.as_tensor(others[0]).detach().to(target.dtype).resolve_conj().resolve_neg()
        RPCTensor.__torch_dispatch__(
            plan.func, types, (_raw(target), _changed(source, _bits(target)), *others[1:]), kwargs
        )
        return target
    written = [kwargs[p] if isinstance(p, str) else args[p] for p in plan.written]
    if any(isinstance(t, LazyTensor) and any(_bits(t)) for t in written):
        raise HandleError(
            f"{plan.name} cannot write into a lazy conjugate or negative: write into its resolve_conj()",
            "a lazy conjugate or negative is not written",
        )
    RPCTensor.__torch_dispatch__(
        plan.func,
        types,
        tuple(_raw(a) if i in plan.written else _each(_resolved, a) for i, a in enumerate(args)),
        {k: _raw(a) if k in plan.written else _each(_resolved, a) for k, a in kwargs.items()},
    )
    return written[0] if plan.single else tuple(written)


def _view(plan: OverloadInfo, types: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Return a view of a lazy handle; torch's meta device determines its bits, or refuses the view."""
    x = args[0]
    if plan.special == "share":
        return x._again()
    meta = plan.func(_with_bits(x._spec.fresh(), _bits(x)), *args[1:], **kwargs)
    views = RPCTensor.__torch_dispatch__(plan.func, types, (_raw(x), *args[1:]), kwargs)
    if isinstance(views, torch.Tensor):
        return _made(views._spec, views._object, _bits(meta))  # type: ignore[attr-defined]
    return [_made(v._spec, v._object, _bits(m)) for v, m in zip(views, meta, strict=True)]
