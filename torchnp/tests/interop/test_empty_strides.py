"""Empty tensors have the requested strides under the mode; `probes_empty` tests the device."""

import itertools

import pytest
import torch

from torchnp.interop import NumpyMode

MAKERS = {
    "empty_strided": lambda size, stride, device: torch.empty_strided(size, stride, device=device),
    "new_empty_strided": lambda size, stride, device: torch.ones(3, device=device).new_empty_strided(size, stride),
    "as_strided": lambda size, stride, device: torch.ones(64, device=device).as_strided(size, stride),
    "as_strided_copy": lambda size, stride, device: torch.as_strided_copy(torch.ones(64, device=device), size, stride),
    "empty_like": lambda *given: torch.empty_like(MAKERS["empty_strided"](*given)),
    "clone": lambda *given: MAKERS["empty_strided"](*given).clone(),
    "detach": lambda *given: MAKERS["empty_strided"](*given).detach(),
    "transpose": lambda *given: MAKERS["empty_strided"](*given).transpose(0, -1),
    "unsqueeze": lambda *given: MAKERS["empty_strided"](*given).unsqueeze(0),
    "abs": lambda *given: MAKERS["empty_strided"](*given).abs(),
    "add": lambda *given: MAKERS["empty_strided"](*given) + 1,
    "flip": lambda *given: MAKERS["empty_strided"](*given).flip(0),
    "zeros": lambda size, stride, device: torch.zeros(size, device=device),
}


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("name", MAKERS)
def test_strides(name, dims):
    make = MAKERS[name]
    for size in itertools.product((0, 1, 2), repeat=dims):
        for stride in itertools.product((0, 1), repeat=dims):
            wanted = make(size, stride, "cpu").stride()
            with NumpyMode():
                assert make(size, stride, "cpu").stride() == wanted, (size, stride)
