"""The arguments of a program call: their handles, and the key by which recordings are found."""

from __future__ import annotations

import dataclasses
import types
import weakref
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from torchnp.engine.tensor.handles import BaseHandleTensor
from torchnp.interop._private import base_of
from torchnp.rpc.client.tensor.rpctensor import RPCTensor

_VALUES = (int, bool, str, bytes, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


def memory_of(handle: Any) -> int:
    """Return the id of the object whose memory and version counter a handle shares, as far as autograd knows."""
    base: Any = base_of(handle)
    id_: int = (handle if base is None else base)._object.id
    return id_


def mode() -> tuple:
    """Return the torch modes that affect operators: grad, inference, default dtype, autocast."""
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.get_default_dtype(),
        torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu"),
    )


class Arguments:
    """The flattened arguments of a call.

    Attributes
    ----------
    handles : list
        The handles, in order.
    memories : list of int
        `memory_of` each handle.
    kind : tuple
        The key by which recordings are found.
    held : list of callable
        Each returns an object that ``kind`` identifies by ``id()``, or None once it is gone.
    problem : str
        Why no program can take such arguments; "" if one can.
    """

    def __init__(self, given: Any, key: Hashable) -> None:
        self.handles: list[Any] = []
        self.held: list[Callable[[], Any]] = []
        self.problem = ""
        self._parts: list[Any] = [mode(), key]
        self._take(given)
        self.memories = [memory_of(t) for t in self.handles]
        same = [_numbered(id(t) for t in self.handles), _numbered(t._object.id for t in self.handles)]
        self.kind = (*self._parts, *same, _numbered(self.memories))

    def _take(self, x: Any) -> None:
        kind, parts = type(x), self._parts
        parts.append(kind)
        if isinstance(x, BaseHandleTensor):
            self._take_handle(x)
        elif kind in _VALUES:
            parts.append(x)
        elif isinstance(x, (torch.Tensor, np.ndarray)):
            self.problem = "a plain tensor or an array is among its arguments: session.send() it before"
        elif isinstance(x, (dict, Mapping)):
            parts += (len(x), *x)
            self._take_all(x.values())
        elif isinstance(x, (float, complex, np.generic)):
            parts.append(repr(x))  # distinguishes 0.0 from -0.0, and nan equals nan
        elif isinstance(x, (int, str, bytes)):
            parts.append(x)
        elif isinstance(x, slice):
            self._take_all((x.start, x.stop, x.step))
        elif isinstance(x, Collection) and not isinstance(x, torch.nn.Module):
            parts.append(len(x))
            self._take_all(x)
        elif dataclasses.is_dataclass(x) and not isinstance(x, type):
            self._take_all(getattr(x, field.name) for field in dataclasses.fields(x))
        else:
            self._hold(x)

    def _take_handle(self, x: Any) -> None:
        self.handles.append(x)
        spec = x._spec
        # The storage offset is left out, because only operators like as_strided depend on it: see Recording.
        self._parts += (spec.size, spec.stride, spec.dtype, x.is_inference())
        if type(x) is not RPCTensor:
            self._parts += (x.is_conj(), x.is_neg())
        if not x.requires_grad:
            self._parts.append(False)
        elif x.is_leaf:  # a leaf has a gradient, so its identity matters
            self._parts.append(True)
            self._hold(x)
        else:
            self.problem = "an argument has been computed from what requires a gradient: detach() it before"

    def _take_all(self, values: Iterable[Any]) -> None:
        for value in values:
            self._take(value)

    def _hold(self, x: Any) -> None:
        """Identify an object by its ``id()`` and by the handles among its attributes."""
        if isinstance(x, types.MethodType):  # a new object at each access
            self._hold(x.__self__)
            x = x.__func__
        self._parts.append(id(x))
        try:
            self.held.append(weakref.ref(x))
        except TypeError:
            self.held.append(lambda: x)
        if isinstance(x, (torch.Tensor, torch.nn.Module, torch.optim.Optimizer, type)):
            return
        for t in _handles_in(getattr(x, "__dict__", {})):
            self._parts += (id(t), t._object.id)
            self.held.append(weakref.ref(t))


def _handles_in(attributes: dict[str, Any]) -> Iterator[Any]:
    for value in list(attributes.values()):
        nest = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else (value,)
        yield from (t for t in list(nest) if isinstance(t, BaseHandleTensor))


def _numbered(ids: Iterable[int]) -> tuple[int, ...]:
    """Number ids in the order of their first occurrence, so that only the pattern of equal ids remains."""
    seen: dict[int, int] = {}
    return tuple([seen.setdefault(i, len(seen)) for i in ids])
