"""In-place operators whose target shares memory with an operand give torch's values: torch writes element by element,
in its order."""

import functools
import random

import numpy as np
import pytest
import torch

import torchnp
from torchnp import dtypes as dt
from torchnp import rpc
from torchnp.derived import overlapping_writes
from torchnp.interop import NumpyMode, to_numpy, to_torch
from torchnp.tests.core.test_overlap import outcome

TABLE = torchnp.table
aten = torch.ops.aten

COPY = [("copy_", {})]
FLOATS = [
    (name, {})
    for name in (
        "add_.Tensor", "sub_.Tensor", "mul_.Tensor", "div_.Tensor", "multiply_.Tensor", "floor_divide_.Tensor", "fmod_.Tensor",
        "remainder_.Tensor", "pow_.Tensor", "atan2_", "hypot_", "copysign_.Tensor", "heaviside_", "xlogy_.Tensor",
        "nextafter_", "clamp_min_.Tensor", "clamp_max_.Tensor", "lt_.Tensor", "ge_.Tensor", "eq_.Tensor", "logical_and_",
        "logical_xor_", "ldexp_",
    )
] + [("add_.Tensor", {"alpha": 2}), ("div_.Tensor_mode", {"rounding_mode": "trunc"}), ("lerp_.Scalar", {"weight": 0.5})]  # fmt: skip
INTEGERS = [
    (name, {})
    for name in ("add_.Tensor", "bitwise_xor_.Tensor", "bitwise_or_.Tensor", "gcd_", "lcm_", "mul_.Tensor", "__ior__.Tensor", "le_.Tensor")
]  # fmt: skip
BOOLS = [
    (name, {}) for name in ("add_.Tensor", "logical_or_", "bitwise_and_.Tensor", "ne_.Tensor", "masked_fill_.Scalar")
]
CASES = [
    *((op, dtype) for op in COPY for dtype in (dt.bool_, dt.uint8, dt.int64, dt.bfloat16, dt.float32, dt.complex64)),
    *((op, dtype) for op in FLOATS for dtype in (dt.float16, dt.float32, dt.float64)),
    *((op, dtype) for op in INTEGERS for dtype in (dt.uint8, dt.int32)),
    *((op, dt.bool_) for op in BOOLS),
]


def of_torch(row):
    base, _, overload = row.partition(".")
    return getattr(getattr(aten, base), overload or "default")


def run_of(shape, strides, itemsize):
    """Return the length in bytes of rows without gaps, which torch may read as vectors."""
    run = itemsize
    for stride, n in sorted((s * itemsize, n) for s, n in zip(strides, shape, strict=True) if n > 1):
        if stride == run:
            run *= n
    return run


def windows(seed, itemsize):
    """Return a target and an operand on one memory: permuted, with steps, shifted, broadcast or transposed.

    No row of the target is as long as torch's shortest vectors: there every processor gives one answer.
    """
    draw = random.Random(seed)
    found = 0
    while found < 40:
        ndim = draw.randint(1, 3)
        shape = [draw.choice((1, 2, 3, 5, 7)) for _ in range(ndim)]
        steps = [draw.choice((1, 1, 1, 2, 3)) for _ in shape]
        room = [n * step + draw.choice((0, 1, 2)) for n, step in zip(shape, steps, strict=True)]
        order = draw.sample(range(ndim), ndim)
        strides, size = [0] * ndim, 1
        for d in order:
            strides[d], size = size, size * room[d]

        def window(sizes, room=room, steps=steps, strides=strides):
            reach = [(n - 1) * step + 1 for n, step in zip(sizes, steps, strict=True)]
            start = sum(draw.randint(0, r - n) * s for r, n, s in zip(room, reach, strides, strict=True))
            return sizes, [s * step for s, step in zip(strides, steps, strict=True)], start

        target, other = window(shape), window([1 if draw.random() < 0.2 else n for n in shape])
        if ndim == 2 and shape[0] == shape[1] and draw.random() < 0.5:
            other = other[0][::-1], other[1][::-1], other[2]
        if run_of(*target[:2], itemsize) < 32:
            found += 1
            yield size, target, other


def memory_of(size, dtype, seed):
    numbers = np.random.default_rng(seed).integers(0, 2 if dtype == dt.bool_ else 5, size)
    return dt.cast(numbers - 2.0 if dtype.kind in "fV" else numbers, dtype)


def seen(memory, window):
    shape, strides, start = window
    return np.lib.stride_tricks.as_strided(memory[start:], shape, [s * memory.itemsize for s in strides])


def extra(row):
    return (True,) if row.startswith("masked_fill_") else ()


@pytest.mark.parametrize(("op", "dtype"), CASES, ids=lambda x: str(x) if isinstance(x, np.dtype) else x[0])
def test_operands_in_the_memory_that_is_written(op, dtype):
    row, given = op
    told = 0
    for i, (size, target, other) in enumerate(windows(len(row), dtype.itemsize)):
        mine = memory_of(size, dtype, i)
        before, theirs = mine.copy(), to_torch(mine.copy())
        run = functools.partial(
            of_torch(row), theirs.as_strided(*target), theirs.as_strided(*other), *extra(row), **given
        )
        expect = outcome(run)
        apart, ours = before.copy(), functools.partial(TABLE[f"aten::{row}"], **given)
        assert outcome(lambda: ours(seen(mine, target), seen(mine, other), *extra(row))) == expect, (target, other)
        if expect is None:
            wide = [dt.cast(x, dt.complex128) for x in (mine, to_numpy(theirs))]
            np.testing.assert_allclose(*wide, rtol=1e-3, err_msg=str((target, other)))
            ours(seen(apart, target), seen(before, other), *extra(row))
            told += not np.array_equal(dt.cast(apart, dt.complex128), wide[0], equal_nan=True)
    assert told or row not in ("copy_", "add_.Tensor", "sub_.Tensor", "mul_.Tensor", "div_.Tensor") or dtype == dt.bool_


def test_what_users_write():
    """Run the call in torch, under the mode, and on the table."""
    programs = {
        "along rows": lambda x: x[:, 1:].copy_(x[:, :-1]),
        "along columns": lambda x: x[1:, :3].copy_(x[:-1, :3]),
        "back": lambda x: x[:, :-1].copy_(x[:, 1:]),
        "first column": lambda x: x.sub_(x[:, :1]),
        "first of a part": lambda x: x[:, :3].div_(x[0, 0]),
        "running sum": lambda x: x[:, 1:].add_(x[:, :-1]),
        "transposed": lambda x: x[:, :4].add_(x[:, :4].T),
        "in a list": lambda x: torch._foreach_mul_([x[:, 1:]], [x[:, :-1]]),
        "set": lambda x: x.__setitem__((slice(None), slice(1, None)), x[:, :-1]),
    }
    for name, program in programs.items():
        expect = torch.arange(2.0, 22.0).reshape(4, 5)
        program(expect)
        found = torch.arange(2.0, 22.0).reshape(4, 5)
        with NumpyMode():
            program(found)
        assert torch.equal(expect, found), name
        checked = torch.arange(2.0, 22.0).reshape(4, 5)
        with NumpyMode(crosscheck=True):
            program(checked)
    assert torch.equal(expect, expect[:, :1].expand(4, 5))


@pytest.mark.parametrize(
    "write", [lambda x: x[1:].copy_(x[:-1]), lambda x: x.sub_(x[0]), lambda x: x[1].copy_(x[1, 0])]
)
def test_dense_operands_are_refused(write):
    x = torch.arange(6.0).reshape(3, 2)
    words = "unsupported operation: some elements of the input tensor and the written-to tensor"
    for context in (torch.no_grad(), NumpyMode()):
        with context, pytest.raises(RuntimeError, match=words):
            write(x)
    named = np.arange(6.0)
    with pytest.raises(RuntimeError, match=words):
        TABLE["aten::add_.Tensor"](named[1:], other=named[:-1])


def test_rows_of_vectors_are_those_of_avx2_on_every_processor():
    x = np.arange(100, dtype=np.float32).reshape(2, 50)
    TABLE["aten::copy_"](x[:, 1:], x[:, :-1])
    # torch reads 16 numbers before it writes the first of them, and processes the last of the 49 separately.
    assert x[0].tolist() == [0, *range(16), *([15, *range(17, 32)]), *([31, *range(33, 48)]), 47]


def test_long_chains_end():
    x = np.zeros((1, 20001), np.float64)
    x[0, 0] = 1
    TABLE["aten::copy_"](x[:, 2::2], x[:, :-2:2])
    assert x[0, ::2].all() and not x[0, 1::2].any()
    TABLE["aten::add_.Tensor"](x[:, 2:2001:2], x[:, :1999:2])
    assert x[0, :2001:2].tolist() == list(range(1, 1002))


def test_another_dtype_in_the_same_memory():
    for number, dtype in ((np.uint8, np.int8), (np.int64, np.float64)):
        mine = np.arange(1, 31, dtype=number).reshape(5, 6)
        theirs = torch.from_numpy(mine.copy())
        theirs[:, 1:3].view(to_torch(np.zeros(1, dtype)).dtype).copy_(theirs[:, :2])
        TABLE["aten::copy_"](mine[:, 1:3].view(dtype), mine[:, :2])
        np.testing.assert_array_equal(mine, theirs.numpy())


def test_crosscheck_lets_pass_what_torch_does_not_promise(monkeypatch):
    """Simulate a processor whose vectors have another length than torch assumes here."""
    monkeypatch.setattr(overlapping_writes, "VECTOR", 128)
    with NumpyMode(crosscheck=True):
        x = torch.arange(200.0).reshape(2, 100)
        x[:, 1:] = x[:, :-1]
    plain = torch.arange(200.0).reshape(2, 100)
    plain[:, 1:] = plain[:, :-1].clone()
    assert not torch.equal(x, plain)
    assert overlapping_writes.is_promised(np.zeros((9, 8), np.float32)[:, 1:], np.zeros((9, 8), np.float32)[:, :-1])
    y = np.zeros((9, 8), np.float32)
    assert overlapping_writes.is_promised(y[:, 1:5], y[:, :4])
    assert not overlapping_writes.is_promised(y[:, :], y.T[:, :8])


REMOTE = [
    lambda x: x[:, 1:].copy_(x[:, :-1]),
    lambda x: x[:, 1:].add_(x[:, :-1]),
    lambda x: x.sub_(x[:, :1]),
    lambda x: x.__setitem__((slice(1, None), slice(2)), x[:-1, :2]),
    lambda x: x.__isub__(x[:, :1]),
    lambda x: torch._foreach_mul_([x[1:, :2]], [x[:-1, :2]]),
    lambda x: x[:, 1:].mul_(2).lt_(x[:, :-1]),
]


def test_handles_do_the_same():
    with rpc.local() as session:
        for program in REMOTE:
            here = torch.arange(2.0, 22.0).reshape(4, 5)
            there = session.send(here)
            program(here)
            program(there)
            assert torch.equal(there.publish(), here)
        with pytest.raises(RuntimeError, match="unsupported operation: some elements of the input tensor"):
            there.sub_(there[0])
            there.publish()  # the overlap is found on the server, which has the memory
