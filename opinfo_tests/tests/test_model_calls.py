"""Model calls saved as lines.

A line that is written and read again gives the same call with other values of the same kind.
"""

from __future__ import annotations

import json

import pytest
import torch

from opinfo_tests.generate.samples.model_calls import DATA, SHORT, NotKeptError, lines, made, spelled
from opinfo_tests.generate.samples.recording import Recorder


def again(op, *args, **kwargs):
    name, got, named = made(spelled(op, args, kwargs))
    assert name == op
    return got, named


def laid(t):
    return t.dtype, t.shape, t.stride()


def test_shapes_strides_dtypes_and_numbers_stay():
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    wide = torch.randn(3, 1).expand(3, 4)
    (a, b, scale, none), named = again("aten::f", x, [wide], 2.5, None, dtype=torch.float64, device=torch.device("cpu"))
    assert laid(a) == laid(x)
    assert laid(b[0]) == laid(wide)
    assert (b[0] == b[0][:, :1]).all()
    assert (scale, none, named) == (2.5, None, {"dtype": torch.float64, "device": torch.device("cpu")})


def test_values_are_of_the_same_kind():
    mask = torch.tensor([[0.0, -torch.inf], [0.0, 0.0]])
    offsets = torch.tensor([0, 3, 3, 7])
    ids = torch.arange(100) % 13 + 2
    (x, m, o, i), _ = again("aten::f", torch.linspace(-3, 5, 50), mask, offsets, ids)
    assert -3 <= x.min() < x.max() <= 5
    assert set(m.flatten().tolist()) <= {0.0, -torch.inf}
    assert o.equal(offsets)
    assert len(offsets) <= SHORT < len(ids)
    assert 2 <= i.min() < i.max() <= 14


def test_tensors_in_one_memory_stay_in_one():
    x = torch.zeros(10)
    (a, b), _ = again("aten::f", x[2:6], x[4:8])
    assert a.untyped_storage()._cdata == b.untyped_storage()._cdata
    assert (a.storage_offset(), b.storage_offset()) == (2, 4)


def test_another_dtype_takes_the_place_of_the_recorded_one():
    line = spelled("aten::f", (torch.ones(3), torch.ones(3, dtype=torch.int64)), {"dtype": torch.float32})
    _, (x, n), named = made(line, "bfloat16")
    assert (x.dtype, n.dtype, named["dtype"]) == (torch.bfloat16, torch.int64, torch.bfloat16)


def test_what_no_line_can_hold_is_refused():
    with pytest.raises(NotKeptError):
        spelled("aten::f", (torch.Generator(),), {})
    with pytest.raises(NotKeptError):
        spelled("aten::f", (torch.empty(2, device="meta"),), {})


def test_the_file_says_what_it_holds():
    head = DATA.read_text(encoding="utf-8").split("\n", 1)[0]
    assert f"{len(lines())} calls of {len({json.loads(line)[0] for line in lines()})} overloads" in head
    assert len(set(lines())) == len(lines())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_calls_of_the_file_are_calls_that_torch_takes(dtype):
    """Some values no longer fit together after they are redrawn, but nearly all calls of most overloads run."""
    refused = ran = 0
    recorder = Recorder(lambda name: False, lambda case: None)
    for line in lines()[::7]:
        op, args, kwargs = made(line, dtype)
        packet, _, overload = op.removeprefix("aten::").partition(".")
        try:
            with torch.no_grad(), recorder:
                getattr(getattr(torch.ops.aten, packet), overload or "default")(*args, **kwargs)
            ran += 1
        except Exception:
            refused += 1
    assert refused < 0.05 * ran
