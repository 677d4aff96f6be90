"""Management of the device ``np``, and sharing of its memory: probes like those of probes.py."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import torchnp.device  # noqa: F401  (it registers the device)
from torchnp import dtypes as dt
from torchnp.interop import NumpyMode, to_numpy
from torchnp.tests.device.probes import run

ORDINAL = "np error: invalid device ordinal 1"
ELSEWHERE = [
    lambda: torch.zeros(2, device="np:1"),
    lambda: torch.empty(2, device=torch.device("np", 1)),
    lambda: torch.tensor([1.0], device="np:1"),
    lambda: torch.zeros(2).to("np:1"),
    lambda: torch.zeros(2, device="np").to("np:1"),
    lambda: torch.zeros(2).np(1),
    lambda: torch.ones(2, device="np").new_zeros(2, device="np:1"),
    lambda: torch.zeros_like(torch.ones(2), device="np:1"),
    lambda: torch.randn(2, device="np:1"),
    lambda: torch.arange(3, device="np:1"),
    lambda: torch.nn.Linear(2, 2, device="np:1"),
    lambda: torch.nn.Linear(2, 2).to("np:1"),
    lambda: torch.UntypedStorage(4, device="np:1"),
    lambda: torch.np.set_device(1),
    lambda: torch.np.set_device("np:1"),
    lambda: torch.np.synchronize(1),
    lambda: torch.np.device(1),
    lambda: torch.np.memory_allocated(1),
    lambda: torch.np.get_rng_state(1),
    lambda: torch.accelerator.synchronize(1),
    lambda: torch.accelerator.set_device_index(1),
    lambda: torch.accelerator.memory_stats("np:1"),
    lambda: torch.accelerator.get_memory_info(1),
]


def refuse_an_index_that_is_not_there():
    for make in ELSEWHERE:
        with pytest.raises(RuntimeError, match=ORDINAL):
            make()
    with pytest.raises(ValueError, match="Expected a np device, but got: cpu"):
        torch.np.set_device("cpu")
    for device in ("np", "np:0", torch.device("np"), 0):
        assert torch.zeros(2, device=device).device == torch.device("np", 0)
        torch.np.set_device(device)
        torch.np.synchronize(device)
        with torch.np.device(device):
            assert torch.np.current_device() == 0


def know_the_one_device():
    torch.accelerator.synchronize()
    torch.accelerator.synchronize("np")
    torch.accelerator.set_device_index(0)
    torch.accelerator.empty_cache()
    torch.np.empty_cache()
    assert torch.accelerator.device_count() == torch.np.device_count() == 1
    found = torch.np.get_device_properties(0)
    assert found.name == torch.np.get_device_name() and np.__version__ in found.name
    torch.manual_seed(5)
    assert torch.np.initial_seed() == 5
    torch.np.seed_all()
    assert torch.np.initial_seed() == torch.initial_seed() != 5


def count_memory():
    before = torch.np.memory_allocated()
    x = torch.zeros(1000, device="np")
    views = x[1:], x.view(10, 100)  # on the same storage
    assert torch.np.memory_allocated() == torch.accelerator.memory_allocated() == before + 4000
    free, total = torch.accelerator.get_memory_info()
    assert 0 <= free <= total == torch.np.get_device_properties().total_memory == torch.np.mem_get_info()[1]
    y = torch.zeros(500, dtype=torch.float64, device="np").requires_grad_()
    assert torch.np.memory_reserved() == before + 8000
    assert torch.accelerator.memory_stats()["allocated_bytes.all.current"] == before + 8000
    del x, y
    assert torch.np.memory_allocated() == before + 4000
    del views
    assert torch.np.memory_allocated() == before
    assert torch.np.max_memory_allocated() == before + 8000
    torch.accelerator.reset_peak_memory_stats()
    assert torch.np.max_memory_allocated() == before


def share_memory_with_others():
    for dtype in (torch.float32, torch.int64, torch.bool, torch.complex64, torch.float16):
        x = torch.tensor([[1, 0, 1], [0, 1, 1]], dtype=dtype, device="np")
        for array in (to_numpy(x), np.from_dlpack(x), to_numpy(torch.from_dlpack(x))):
            assert array.tolist() == x.tolist()
            x[1, 2] = 0
            assert array[1, 2] == 0
            if array.flags.writeable:  # before NumPy 2.1, arrays from DLPack are read-only
                array[1, 2] = 1
            else:
                x[1, 2] = 1
            assert x[1, 2].item() == array[1, 2] == 1
        part = x[:, 1:].T
        assert np.from_dlpack(part).tolist() == part.tolist() == to_numpy(part).tolist()
        assert to_numpy(part).strides == tuple(s * x.element_size() for s in part.stride())
    assert x.__dlpack_device__() == (1, 0)
    assert torch.zeros(2).__dlpack_device__() == (1, 0)
    assert to_numpy(torch.zeros(2, dtype=torch.bfloat16, device="np")).dtype == dt.bfloat16
    weight = torch.zeros(2, device="np", requires_grad=True)
    to_numpy(weight)[0] = 3
    assert weight.tolist() == [3, 0]
    with pytest.raises(BufferError, match="require gradient"):
        np.from_dlpack(weight)
    z = torch.tensor([1 + 2j], device="np").conj()
    assert to_numpy(z).tolist() == [1 - 2j]
    with pytest.raises(BufferError, match="conjugate bit"):
        np.from_dlpack(z)
    copied = np.from_dlpack(x, copy=True)
    assert not np.shares_memory(copied, to_numpy(x))


def keep_the_mode_to_the_cpu():
    x = torch.ones(2, device="np")
    with NumpyMode(), pytest.raises(RuntimeError):
        x + torch.ones(2)


def overlap_as_on_the_cpu():
    for write in (
        lambda x: x[:, 1:].copy_(x[:, :-1]),
        lambda x: x[:, 1:].add_(x[:, :-1]),
        lambda x: x.sub_(x[:, :1]),
        lambda x: torch._foreach_mul_([x[1:, :2]], [x[:-1, :2]]),
        lambda x: x.__setitem__((slice(1, None), slice(2)), x[:-1, :2]),
    ):
        here, there = torch.arange(1.0, 13.0, device="np").reshape(3, 4), torch.arange(1.0, 13.0).reshape(3, 4)
        write(here)
        write(there)
        assert here.tolist() == there.tolist()
    for write in (lambda x: x[1:].copy_(x[:-1]), lambda x: x.sub_(x[0])):
        with pytest.raises(RuntimeError, match="unsupported operation: some elements of the input tensor"):
            write(torch.ones(3, 4, device="np"))


if __name__ == "__main__":
    run(globals())
