"""What sample functions are written with: tensors of the dtype that is asked for, and the decorator that declares them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch

from ....backends.torch_backend import TORCH_DTYPES
from ...task import reseed

# The dtypes of samples: floats, wide ones, integers, booleans, complex, single precision; "-" makes no tensor of the dtype and
# is called in float32's turn.
KINDS = {"f": ("float32", "float64", "bfloat16", "float16"), "w": ("float32", "float64"), "i": ("int64", "uint8"), "b": ("bool",),
         "c": ("complex64",), "s": ("float32",), "-": ("float32",)}  # fmt: skip

INF, NAN = float("inf"), float("nan")

Call = tuple[tuple[Any, ...], dict[str, Any]]

_dtype: ContextVar[torch.dtype] = ContextVar("dtype")


# ---------------------------------------------------------------- tensors


def dtype() -> torch.dtype:
    """The dtype that is asked for."""
    return _dtype.get()


def x(*shape: int, low: float = -3.0, high: float = 3.0) -> torch.Tensor:
    """Uniform values of the dtype."""
    if dtype().is_complex:
        parts = (torch.empty(shape, dtype=torch.float64).uniform_(low, high) for _ in range(2))
        return torch.complex(*parts).to(dtype())
    if dtype().is_floating_point:
        return torch.empty(shape, dtype=torch.float64).uniform_(low, high).to(dtype())
    least = max(int(low), 0) if dtype() in (torch.uint8, torch.bool) else int(low)
    return torch.randint(least, int(high) + 1, shape).to(dtype())


def p(*shape: int) -> torch.Tensor:
    """Values from 1 to 3."""
    return x(*shape, low=1.0)


def ends(*more: float) -> torch.Tensor:
    """Zeros, infinities and NaN of both signs, and more numbers."""
    return torch.tensor([0.0, -0.0, INF, -INF, NAN, -NAN, *more], dtype=torch.float64).to(dtype())


def of(values: Any) -> torch.Tensor:
    """A tensor of numbers."""
    return torch.tensor(values, dtype=torch.complex128 if dtype().is_complex else torch.float64).to(dtype())


def ints(*shape: int) -> torch.Tensor:
    """Indices from 0 to 3."""
    return torch.randint(0, 4, shape)


def mask(*shape: int) -> torch.Tensor:
    """Booleans."""
    return torch.rand(shape) < 0.5


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(7)


def call(*args: Any, **kwargs: Any) -> Call:
    """The arguments of one call."""
    return args, kwargs


# ---------------------------------------------------------------- declaring


@dataclass(frozen=True)
class SampleFunction:
    """Calls of one overload, in some dtypes."""

    op: str
    dtypes: frozenset[str]
    make: Callable[..., Iterator[Call]]

    def calls(self, name: str) -> Iterator[Call]:
        """Yield the calls in a dtype; the values of each follow from the overload, the function and the call's number."""
        short = self.op.removeprefix("aten::")
        made = self.make(short) if inspect.signature(self.make).parameters else self.make()
        number = 0
        while True:
            token = _dtype.set(TORCH_DTYPES[name])
            reseed(f"{self.op} {self.make.__name__} {number}")
            try:
                yield next(made)
            except StopIteration:
                return
            finally:
                _dtype.reset(token)
            number += 1


DECLARED: list[SampleFunction] = []


def samples(kinds: str, *ops: str) -> Callable[[Callable[..., Iterator[Call]]], Callable[..., Iterator[Call]]]:
    """Declare a generator of calls of overloads (of aten where none names another namespace).

    Parameters
    ----------
    kinds : str
        Letters of `KINDS`: the dtypes that the function is run in.
    *ops : str
        The overloads. The function is run for each, and told which if it has a parameter.
    """

    def declare(make: Callable[..., Iterator[Call]]) -> Callable[..., Iterator[Call]]:
        dtypes = frozenset(name for kind in kinds for name in KINDS[kind])
        DECLARED.extend(SampleFunction(op if "::" in op else f"aten::{op}", dtypes, make) for op in ops)
        return make

    return declare
