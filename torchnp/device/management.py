"""The one device of its kind: which index it has, what is waited for, and how much memory its tensors hold."""

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

from torchnp.device import storages
from torchnp.device.storages import Device, check_index


def memory_allocated(device: Device = None) -> int:
    """Bytes of the storages that tensors of the device hold, as far as Python sees tensors: autograd keeps others."""
    check_index(device)
    held: dict[int, int] = {}
    for x in gc.get_objects():
        # Proxies and lazy modules answer to isinstance with code of their own.
        if issubclass(type(x), torch.UntypedStorage):
            storage = x
        elif issubclass(type(x), torch.Tensor) and x.layout is torch.strided:
            storage = x.untyped_storage()
        else:
            continue
        if storage.device.type == storages.DEVICE and storage.nbytes():
            held[storage.data_ptr()] = max(storage.nbytes(), held.get(storage.data_ptr(), 0))
    return sum(held.values())


def _memory(pages: str) -> int:
    """Bytes of the machine's memory, ``SC_PHYS_PAGES``, or of what of it is free, ``SC_AVPHYS_PAGES``; 0 where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf(pages)
    except (AttributeError, OSError, ValueError):  # as on Windows
        return 0


class Management:
    """The part of ``torch.np`` that `torch.cuda` has for several devices and their memory."""

    _peak = 0

    def current_device(self) -> int:
        return 0

    def device_count(self) -> int:
        return 1

    def set_device(self, device: Device) -> None:
        """Make a device the current one: `check_index` refuses all but the only one."""
        check_index(device)

    def synchronize(self, device: Device = None) -> None:
        """Kernels have ended when they return."""
        check_index(device)

    def get_device_name(self, device: Device = None) -> str:
        """The library that computes, its version, and the processor's architecture."""
        check_index(device)
        return f"NumPy {np.__version__} on {platform.machine()}"

    def get_device_properties(self, device: Device = None) -> types.SimpleNamespace:
        """What is known of the device: its name, the memory of the machine in bytes, and its processors."""
        check_index(device)
        return types.SimpleNamespace(
            name=self.get_device_name(),
            total_memory=_memory("SC_PHYS_PAGES"),
            multi_processor_count=os.cpu_count() or 1,
        )

    def mem_get_info(self, device: Device = None) -> tuple[int, int]:
        """Bytes of the machine's memory that are free, and all of them; 0 where the system does not say."""
        check_index(device)
        return _memory("SC_AVPHYS_PAGES"), _memory("SC_PHYS_PAGES")

    def seed(self) -> int:
        """`torch.seed`: the device draws from the CPU's generator."""
        return torch.seed()

    seed_all = seed

    def initial_seed(self) -> int:
        """`torch.initial_seed`."""
        return torch.initial_seed()

    def empty_cache(self) -> None:
        """NumPy frees memory when its last tensor goes: nothing is cached."""

    def memory_allocated(self, device: Device = None) -> int:
        """`memory_allocated`: bytes of the storages that tensors of the device hold."""
        now = memory_allocated(device)
        self._peak = max(self._peak, now)
        return now

    def max_memory_allocated(self, device: Device = None) -> int:
        """The largest figure that was asked for since `reset_peak_memory_stats`: the device counts when it is asked."""
        self.memory_allocated(device)
        return self._peak

    # Nothing is reserved beyond what is held.
    memory_reserved, max_memory_reserved = memory_allocated, max_memory_allocated

    def reset_peak_memory_stats(self, device: Device = None) -> None:
        self._peak = memory_allocated(device)

    def reset_accumulated_memory_stats(self, device: Device = None) -> None:
        """Nothing is accumulated."""
        check_index(device)

    def memory_stats(self, device: Device = None) -> dict[str, Any]:
        """Bytes that are held now, and the largest figure that was asked for, under `torch.cuda.memory_stats`' names."""
        now, peak = self.memory_allocated(device), self._peak
        kinds = ("active_bytes", "allocated_bytes", "reserved_bytes")
        return {f"{kind}.all.{when}": n for kind in kinds for when, n in (("current", now), ("peak", peak))}


# ---------------------------------------------------------------- torch.accelerator

_OF_DEVICE = (
    "synchronize", "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "memory_stats",
    "reset_peak_memory_stats", "reset_accumulated_memory_stats",
)  # fmt: skip


def serve_accelerator(module: Management) -> None:
    """Let ``torch.accelerator`` ask the module what torch asks of an allocator or a guard in C++."""

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
