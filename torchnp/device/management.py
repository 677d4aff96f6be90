"""Device management: the only device's index, synchronization, and memory statistics."""

from __future__ import annotations

import functools
import gc
import os
import platform
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from torchnp.device import convert
from torchnp.device.convert import Device, check_index


def memory_allocated(device: Device = None) -> int:
    """Return the bytes that the device's tensors hold in storages, except tensors that only autograd keeps alive."""
    check_index(device)
    held: dict[int, int] = {}
    for x in gc.get_objects():
        # Proxies and lazy modules answer isinstance with their own code, so issubclass is used.
        if issubclass(type(x), torch.UntypedStorage):
            storage = x
        elif issubclass(type(x), torch.Tensor) and x.layout is torch.strided:
            storage = x.untyped_storage()
        else:
            continue
        if storage.device.type == convert.DEVICE and storage.nbytes():
            held[storage.data_ptr()] = max(storage.nbytes(), held.get(storage.data_ptr(), 0))
    return sum(held.values())


def _memory(pages: str) -> int:
    """Return the total (``SC_PHYS_PAGES``) or free (``SC_AVPHYS_PAGES``) memory in bytes; 0 if it is unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf(pages)
    except (AttributeError, OSError, ValueError):  # for example on Windows
        return 0


class Management:
    """The functions of ``torch.np`` for devices and their memory, as in `torch.cuda`."""

    _peak = 0

    def current_device(self) -> int:
        return 0

    def device_count(self) -> int:
        return 1

    def set_device(self, device: Device) -> None:
        """Make a device the current one; `check_index` refuses any index but 0."""
        check_index(device)

    def synchronize(self, device: Device = None) -> None:
        """Return immediately, because kernels have finished when they return."""
        check_index(device)

    def get_device_name(self, device: Device = None) -> str:
        """Return NumPy's name and version, and the processor's architecture."""
        check_index(device)
        return f"NumPy {np.__version__} on {platform.machine()}"

    def get_device_properties(self, device: Device = None) -> types.SimpleNamespace:
        """Return the device's name, the machine's memory in bytes, and the number of its processors."""
        check_index(device)
        return types.SimpleNamespace(
            name=self.get_device_name(),
            total_memory=_memory("SC_PHYS_PAGES"),
            multi_processor_count=os.cpu_count() or 1,
        )

    def mem_get_info(self, device: Device = None) -> tuple[int, int]:
        """Return the free and total bytes of the machine's memory; 0 if they are unknown."""
        check_index(device)
        return _memory("SC_AVPHYS_PAGES"), _memory("SC_PHYS_PAGES")

    def seed(self) -> int:
        """Call `torch.seed`, because the device draws from the CPU generator."""
        return torch.seed()

    seed_all = seed

    def initial_seed(self) -> int:
        """Return `torch.initial_seed()`."""
        return torch.initial_seed()

    def empty_cache(self) -> None:
        """Do nothing. NumPy frees memory together with its last tensor, so nothing is cached."""

    def memory_allocated(self, device: Device = None) -> int:
        """Return the bytes that the device's tensors hold; see the function `memory_allocated`."""
        now = memory_allocated(device)
        self._peak = max(self._peak, now)
        return now

    def max_memory_allocated(self, device: Device = None) -> int:
        """Return the largest number of bytes measured since `reset_peak_memory_stats`.

        It is measured only when a function asks for it.
        """
        self.memory_allocated(device)
        return self._peak

    # The reserved memory is the allocated memory.
    memory_reserved, max_memory_reserved = memory_allocated, max_memory_allocated

    def reset_peak_memory_stats(self, device: Device = None) -> None:
        self._peak = memory_allocated(device)

    def reset_accumulated_memory_stats(self, device: Device = None) -> None:
        """Do nothing, because no statistics are accumulated."""
        check_index(device)

    def memory_stats(self, device: Device = None) -> dict[str, Any]:
        """Return the current bytes and the largest measured number, under the names of `torch.cuda.memory_stats`."""
        now, peak = self.memory_allocated(device), self._peak
        kinds = ("active_bytes", "allocated_bytes", "reserved_bytes")
        return {f"{kind}.all.{when}": n for kind in kinds for when, n in (("current", now), ("peak", peak))}


# ---------------------------------------------------------------- torch.accelerator

_OF_DEVICE = (
    "synchronize", "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "memory_stats",
    "reset_peak_memory_stats", "reset_accumulated_memory_stats",
)  # fmt: skip


def serve_accelerator(module: Management) -> None:
    """Replace functions of ``torch.accelerator`` by the module's, because torch's own need a C++ allocator or guard."""

    def of_device(name: str) -> Callable[..., Any]:
        return lambda device=None, /: getattr(module, name)(device)

    functions = {name: of_device(name) for name in _OF_DEVICE}
    functions |= dict.fromkeys(("set_device_index", "set_device_idx"), lambda device, /: module.set_device(device))
    functions["get_memory_info"] = of_device("mem_get_info")
    functions |= dict.fromkeys(("empty_cache", "empty_host_cache"), lambda: module.empty_cache())
    for name, function in functions.items():
        if hasattr(torch.accelerator, name):
            functools.update_wrapper(function, getattr(torch.accelerator, name), ("__name__", "__doc__"), ())
            setattr(torch.accelerator, name, function)
