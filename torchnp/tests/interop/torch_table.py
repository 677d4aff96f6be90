"""A table whose kernels are torch itself behind arrays. It tests `NumpyMode` independently of our kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from torchnp.interop.convert import NUMPY_DTYPE, TORCH_DTYPE, to_numpy, wrap
from torchnp.interop.rng_sync import is_random
from torchnp.random import Generator, default_generator

_NAMES = {name: getattr(torch, name) for name in ("strided", "contiguous_format", "preserve_format", "channels_last")}
_NAMES |= {"cpu": torch.device("cpu"), "channels_last_3d": torch.channels_last_3d}


def _enter(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        whole = x.base
        if not isinstance(whole, np.ndarray) or whole.dtype != x.dtype or whole.ndim != 1:
            return wrap(x)
        size = x.itemsize  # the tensor is a view of a whole storage
        return wrap(whole).as_strided(
            x.shape, [s // size for s in x.strides], (x.ctypes.data - whole.ctypes.data) // size
        )
    if isinstance(x, list):
        return [_enter(y) for y in x]
    if isinstance(x, np.dtype):
        return TORCH_DTYPE[x]
    if isinstance(x, str):
        return _NAMES.get(x, x)
    return x


def _leave(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return to_numpy(x)
    if isinstance(x, (tuple, list)):
        return type(x)(map(_leave, x))
    return NUMPY_DTYPE.get(x, x) if isinstance(x, torch.dtype) else x


class TorchTable(Mapping):
    """Every overload of torch, except the names in ``without``."""

    def __init__(self, without: tuple[str, ...] = ()) -> None:
        self.without = without

    def __getitem__(self, name: str) -> Callable[..., Any]:
        space, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        if name in self.without or space != "aten":
            raise KeyError(name)
        try:
            func = getattr(getattr(torch.ops.aten, packet), overload or "default")
        except AttributeError:
            raise KeyError(name) from None

        def kernel(*args: Any, **kwargs: Any) -> Any:
            entered = [_enter(x) for x in args]
            result = func(*entered, **{k: _enter(v) for k, v in kwargs.items()})
            same = next((i for i, x in enumerate(entered) if x is result), None)
            return _leave(result) if same is None or func._schema.is_mutable else args[same]

        def random_kernel(*args: Any, **kwargs: Any) -> Any:
            lent = next((x for x in (*args, *kwargs.values()) if isinstance(x, Generator)), default_generator)
            before = torch.get_rng_state()
            torch.set_rng_state(torch.from_numpy(lent.get_state()))
            args = tuple(None if x is lent else x for x in args)
            result = kernel(*args, **{k: None if v is lent else v for k, v in kwargs.items()})
            lent.set_state(torch.get_rng_state().numpy())
            torch.set_rng_state(before)
            return result

        return random_kernel if is_random(func) else kernel

    def __iter__(self) -> Iterator[str]:
        return (f"aten::{name}" for name in ("add.Tensor", "add.out", "mul.Tensor", "sum", "sin"))

    def __len__(self) -> int:
        return 5
