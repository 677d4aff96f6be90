"""The device follows torch's default dtype."""

from __future__ import annotations

import pytest
import torch

import torchnp
import torchnp.device


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_the_default_dtype_is_torchs(dtype):
    calls = [
        lambda device: torch.ones(2, device=device),
        lambda device: torch.arange(3, device=device).sin(),
        lambda device: torch.arange(3, device=device) / 2,
        lambda device: torch.arange(3, device=device) * 1.5,
        lambda device: torch.full((2,), 1.5, device=device),
        lambda device: torch.linspace(0, 1, 3, device=device),
        lambda device: torch.arange(3, device=device).float() * 1.5,
    ]
    torch.set_default_dtype(dtype)
    try:
        for call in calls:
            here, there = call("cpu"), call("np")
            assert there.dtype == here.dtype
            torch.testing.assert_close(there.cpu(), here)
    finally:
        torch.set_default_dtype(torch.float32)
    assert torchnp.get_default_dtype() == "float32"


def test_integers_are_counted_as_on_other_devices():
    x = torch.tensor([0, 3, 3, 1, 7], dtype=torch.int32, device="np")
    found = torch.histc(x, bins=4, min=0, max=3)
    assert found.dtype == torch.int32 and found.cpu().tolist() == [1, 1, 0, 2]
    y = torch.randn(20)
    torch.testing.assert_close(torch.histc(y.to("np"), 5).cpu(), torch.histc(y, 5))
    with pytest.raises(RuntimeError, match="not implemented for 'Bool'"):
        torch.histc(x > 1, bins=4, min=0, max=3)
