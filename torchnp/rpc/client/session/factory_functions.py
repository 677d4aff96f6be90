"""torch's factory functions, with tensors that the server makes, so that nothing is uploaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from torchnp.interop._private import device_constructors

# The factories whose values the server can write into an ``out=`` argument. The client makes all others and sends them.
_WITH_OUT = frozenset([
    torch.zeros, torch.ones, torch.full, torch.rand, torch.randint, torch.randperm, torch.normal, torch.arange,
    torch.linspace, torch.logspace, torch.eye,
])  # fmt: skip
# Further constructors; torch has a list of them only under a private name.
_FURTHER = ("empty", "randn", "tensor", "as_tensor", "hann_window", "hamming_window", "bartlett_window", "tril_indices",
            "triu_indices", "scalar_tensor", "range")  # fmt: skip


@cache
def constructors() -> frozenset[Any]:
    """Return the functions of torch that make tensors and take ``device=``."""
    return frozenset((device_constructors() or {getattr(torch, name) for name in _FURTHER}) | _WITH_OUT)


def create(session: Any, function: Callable[..., torch.Tensor], args: tuple, kwargs: dict[str, Any]) -> Any:
    """Return a handle on the tensor that a factory function makes; the server draws random numbers."""
    kwargs = dict(kwargs)
    if kwargs.pop("device", None) is not None:
        raise TypeError(f"session.{function.__name__} takes no device=: the tensor is made on the server")
    if kwargs.get("out") is not None:
        raise TypeError(f"session.{function.__name__} takes no out=: it makes a new tensor")
    if kwargs.get("layout") not in (None, torch.strided) or kwargs.pop("pin_memory", False):
        raise TypeError(f"session.{function.__name__} makes a dense tensor in the server's memory")
    requires_grad, generator = kwargs.pop("requires_grad", False), kwargs.pop("generator", None)
    drawn = {} if generator is None else {"generator": generator}
    if drawn and function not in (torch.rand, torch.randn):
        raise TypeError(f"session.{function.__name__} takes no generator=: torch.manual_seed seeds it")
    with torch.no_grad():
        meta = function(*args, **kwargs, device="meta")
        made = session._anchor().new_empty(meta.shape, dtype=meta.dtype)
        if function is torch.randn:
            made.normal_(**drawn)
        elif drawn:
            made.uniform_(**drawn)
        elif function is not torch.empty:  # the server fills new memory with zeros
            for name in ("dtype", "layout", "memory_format", "out"):
                kwargs.pop(name, None)
            function(*args, **kwargs, out=made)
    return made.requires_grad_(requires_grad)


class FactoryMode(TorchFunctionMode):
    """Makes the tensors of factory functions without ``device=`` on a session's server."""

    def __init__(self, session: Any) -> None:
        super().__init__()
        self._session = session

    def __torch_function__(self, function: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function not in constructors() or kwargs.get("device") is not None or kwargs.get("out") is not None:
            return function(*args, **kwargs)
        if function in _WITH_OUT or function in (torch.randn, torch.empty):
            return create(self._session, function, args, kwargs)
        made = function(*args, **kwargs)
        return self._session.send(made) if isinstance(made, torch.Tensor) and not hasattr(made, "_session") else made


class Creation:
    """Mixin of a session with torch's factory functions, which take torch's arguments except ``device=``."""

    def zeros(self, *size: Any, **options: Any) -> Any:
        """`torch.zeros` on the server."""
        return create(self, torch.zeros, size, options)

    def ones(self, *size: Any, **options: Any) -> Any:
        """`torch.ones` on the server."""
        return create(self, torch.ones, size, options)

    def full(self, size: Any, fill_value: Any, **options: Any) -> Any:
        """`torch.full` on the server."""
        return create(self, torch.full, (size, fill_value), options)

    def empty(self, *size: Any, **options: Any) -> Any:
        """`torch.empty` on the server, which fills new memory with zeros."""
        return create(self, torch.empty, size, options)

    def rand(self, *size: Any, **options: Any) -> Any:
        """`torch.rand` on the server."""
        return create(self, torch.rand, size, options)

    def randn(self, *size: Any, **options: Any) -> Any:
        """`torch.randn` on the server."""
        return create(self, torch.randn, size, options)

    def randint(self, *args: Any, **options: Any) -> Any:
        """`torch.randint` on the server."""
        return create(self, torch.randint, args, options)

    def randperm(self, n: int, **options: Any) -> Any:
        """`torch.randperm` on the server."""
        return create(self, torch.randperm, (n,), options)

    def arange(self, *args: Any, **options: Any) -> Any:
        """`torch.arange` on the server."""
        return create(self, torch.arange, args, options)

    def linspace(self, start: Any, end: Any, steps: int, **options: Any) -> Any:
        """`torch.linspace` on the server."""
        return create(self, torch.linspace, (start, end, steps), options)

    def logspace(self, start: Any, end: Any, steps: int, **options: Any) -> Any:
        """`torch.logspace` on the server."""
        return create(self, torch.logspace, (start, end, steps), options)

    def eye(self, *size: Any, **options: Any) -> Any:
        """`torch.eye` on the server."""
        return create(self, torch.eye, size, options)

    @contextmanager
    def default_device(self) -> Iterator[None]:
        """Make torch's factory functions without ``device=`` return handles, as ``with torch.device("cuda")`` does.

        Modules that are built in this context have their parameters on the server. If the server lacks a function, such
        as ``torch.tensor``, the client makes the tensor and sends it.
        """
        with FactoryMode(self):
            yield
