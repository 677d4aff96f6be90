"""Plain torch with the random numbers of the remote tensor, for comparison with its results."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from torchnp.engine.tensor.overload_info import plan_of
from torchnp.engine.tensor.random_keys import draw_key


class Keyed(TorchDispatchMode):
    """Each random operator draws from its own stream, seeded by a key from torch's generator or the given one."""

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        if not plan_of(func).random or not any(isinstance(a, torch.Tensor) for a in args):
            return func(*args, **kwargs)
        key = draw_key(kwargs.pop("generator", None))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(key)
            return func(*args, **kwargs)
