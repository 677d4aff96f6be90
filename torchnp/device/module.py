"""``torch.np``: the device's module, with the functions that torch expects of a device."""

from __future__ import annotations

import types
from collections import Counter
from typing import Any

import numpy as np
import torch

from torchnp.device import convert, kernels
from torchnp.device.convert import check_index
from torchnp.device.device_streams import StreamFunctions
from torchnp.device.management import Management


class Module(Management, StreamFunctions, types.ModuleType):
    """The module ``torch.np``. It has one device, whose random numbers come from the CPU generator."""

    def __init__(self) -> None:
        super().__init__("torch.np", __doc__)
        self.device = device

    def is_initialized(self) -> bool:
        return True

    def is_available(self) -> bool:
        return True

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        """Do nothing: the device draws from the CPU generator, which ``torch.manual_seed`` has seeded."""

    manual_seed = manual_seed_all

    def get_rng_state(self, device: Any = None) -> torch.Tensor:
        check_index(device)
        return torch.get_rng_state()

    def set_rng_state(self, state: torch.Tensor, device: Any = None) -> None:
        check_index(device)
        torch.set_rng_state(state)

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]

    @property
    def fallbacks(self) -> Counter[str]:
        """Number of calls, by overload, that torch's CPU computed after ``torch.np.fallback(True)``."""
        return kernels.fallbacks

    def fallback(self, allowed: bool) -> None:
        """Allow torch's CPU to compute operators without a kernel; `fallbacks` counts them."""
        kernels.allow_fallback = allowed


class device:  # torch uses this name for the context manager
    """Context manager that makes the only device the current one: ``with torch.np.device(0):``."""

    def __init__(self, device: Any = None) -> None:
        self.idx = check_index(device)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: Any) -> None:
        pass


def storages_here() -> None:
    """Make the constructor of storages work for the device; torch's own crashes because there is no C++ allocator."""
    make = torch.UntypedStorage.__new__

    def new(cls: type, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        if device is None or torch.device(device).type != convert.DEVICE:
            return make(cls, *args, **kwargs if device is None else kwargs | {"device": device})
        check_index(device)
        size = args[0] if args else 0
        given = None if isinstance(size, int) else list(size)
        array = np.zeros(size, np.uint8) if given is None else np.array(given, np.uint8)
        return convert.wrap(array).untyped_storage()

    def np_(self: torch.UntypedStorage, device: Any = None, non_blocking: bool = False) -> torch.UntypedStorage:
        if self.device.type == convert.DEVICE:
            return self
        made: Any = new(torch.UntypedStorage, self.nbytes(), device=convert.DEVICE)
        return made.copy_(self, non_blocking)

    torch.UntypedStorage.__new__ = new  # type: ignore[method-assign]
    torch.UntypedStorage.np = np_  # type: ignore[attr-defined]
