"""What `torchnp.interop` uses of torch beyond its public interface: the only module that names it.

Each entry has a fallback for a torch that lacks the name, except the few without which there is no mode.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

C = torch._C


def lookup(path: str, default: Any = None) -> Any:
    """The object at a dotted path below ``torch``, or the default where some part is missing."""
    found: Any = torch
    for name in path.split("."):
        found = getattr(found, name, None)
        if found is None:
            return default
    return found


# ---------------------------------------------------------------- modes below the one that computes

_mode_at = lookup("_C._get_dispatch_mode")
_depth = lookup("_C._len_torch_dispatch_stack", lambda: 0)
_keys = lookup("_C._TorchDispatchModeKey")
_TRACERS = [] if _keys is None else [_keys.FUNCTIONAL, _keys.PROXY, _keys.FAKE]


def is_traced() -> bool:
    """Whether ops are recorded or faked (make_fx, export, fake tensors): such modes stand below all others."""
    return _depth() > 0 and _mode_at is not None and any(_mode_at(key) is not None for key in _TRACERS)


# ---------------------------------------------------------------- constructors of subclasses

_constructing = threading.Lock()
_users = 0


@contextmanager
def constructors(kind: type[TorchDispatchMode]) -> Iterator[None]:
    """Let ``Subclass(data)`` work under a mode: torch refuses a subclass made of a tensor that Python has seen."""
    global _users
    import torch._dynamo

    with _constructing:
        _users += 1
        if _users == 1:
            torch.Tensor.__new__ = _new_below(kind)  # type: ignore[method-assign]
    try:
        yield
    finally:
        with _constructing:
            _users -= 1
            if not _users:
                del torch.Tensor.__new__


def _new_below(kind: type[TorchDispatchMode]) -> Callable[..., Any]:
    from torch.utils._python_dispatch import _get_current_dispatch_mode, _pop_mode_temporarily

    make = C.TensorBase.__new__

    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        if cls is not torch.Tensor and isinstance(_get_current_dispatch_mode(), kind):
            with _pop_mode_temporarily():
                return make(cls, *args, **kwargs)
        return make(cls, *args, **kwargs)

    return new
