"""A device under PrivateUse1 in pure Python, with a few kernels, for tests of `opinfo_tests.device`.

Its tensors are torch's own, on memory that is an ndarray's; its kernels are torch's for the CPU on the same memory.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

_setup_privateuseone_for_python_backend("toy")
CPU = torch._C.DispatchKey.CPU
aten = torch.ops.aten
VIEWS = "view as_strided view.dtype"
KERNELS = "add.Tensor mul.Tensor sin neg sum.dim_IntList add_.Tensor"
WRONG = "cos"  # this operator computes sines


def made(shape: Any, strides: Any, dtype: torch.dtype) -> torch.Tensor:
    reach = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if 0 not in shape else 0
    memory = np.zeros(max(reach * dtype.itemsize, 1), np.uint8)
    place = memory.ctypes.data
    storage = torch._C._construct_storage_from_data_pointer(place, torch.device("toy:0"), reach * dtype.itemsize)
    storage._memory = memory
    t = torch._C._acc.create_empty_tensor([0], dtype)
    with torch._C._AutoDispatchBelowAutograd():
        aten.set_.source_Storage_storage_offset._op_dk(CPU, t, storage, 0, list(shape), list(strides))
    t._memory = memory
    KEPT.append(memory)
    return t


KEPT: list[np.ndarray] = []


def rows(shape: Any) -> list[int]:
    return [math.prod(max(n, 1) for n in shape[i + 1 :]) for i in range(len(shape))]


def on_cpu(x: Any) -> Any:
    """Return a CPU tensor on the same memory."""
    if not isinstance(x, torch.Tensor) or x.device.type != "toy":
        return torch.device("cpu") if isinstance(x, torch.device) else x
    storage = x.untyped_storage()
    size = storage.nbytes()
    shared = torch._C._construct_storage_from_data_pointer(storage.data_ptr(), torch.device("cpu"), size)
    return torch.empty(0, dtype=x.dtype).set_(shared, x.storage_offset(), x.size(), x.stride())


def on_toy(x: Any) -> Any:
    if not isinstance(x, torch.Tensor) or x.device.type != "cpu":
        return x
    t = made(x.shape, x.stride(), x.dtype)
    on_cpu(t).copy_(x)
    return t


def kernel(name: str, called: str = "") -> Any:
    base, _, overload = (called or name).partition(".")
    op = getattr(getattr(aten, base), overload or "default")

    def run(*args: Any, **kwargs: Any) -> Any:
        out = op(*tree_map(on_cpu, args), **tree_map(on_cpu, kwargs))
        if name.partition(".")[0].endswith("_"):
            return args[0]
        return kwargs["out"] if "out" in kwargs else tree_map(on_toy, out)

    return run


def view(name: str) -> Any:
    base, _, overload = name.partition(".")
    op = getattr(getattr(aten, base), overload or "default")
    return lambda *args, **kwargs: op._op_dk(CPU, *args, **kwargs)


def copy_from(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    on_cpu(target).copy_(on_cpu(source))
    return target


library = torch.library.Library("aten", "IMPL")
for name in VIEWS.split():
    library.impl(name, view(name), "PrivateUse1")
for name in KERNELS.split():
    library.impl(name, kernel(name), "PrivateUse1")
library.impl(WRONG, kernel(WRONG, "sin"), "PrivateUse1")
library.impl("_copy_from", copy_from, "PrivateUse1")
library.impl(
    "empty.memory_format", lambda size, dtype=None, **_: made(size, rows(size), dtype or torch.float32), "PrivateUse1"
)
library.impl(
    "empty_strided", lambda size, stride, dtype=None, **_: made(size, stride, dtype or torch.float32), "PrivateUse1"
)
