"""Compares a random operator of torch with the table's row: same seed, same values, same state afterwards."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import torchnp
from torchnp import random as engine
from torchnp.interop import to_numpy

A = torch.ops.aten
SIZES = [0, 1, 2, 15, 16, 17, 31, 32, 33, 1000, 100003]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
COMPLEX = ["complex32", "complex64", "complex128"]
INTS = ["uint8", "int8", "int16", "int32", "int64"]
ALL = [*FLOATS, *COMPLEX, *INTS, "bool", "uint16", "uint32", "uint64", "float8_e4m3fn"]

needs_avx2 = pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"),
    reason="without AVX2 torch rounds a * b + c twice and evaluates other sines: the last bits differ",
)


def twin(x):
    """Return a copy with the same strides."""
    extent = 1 + sum((size - 1) * stride for size, stride in zip(x.shape, x.strides, strict=True)) // x.itemsize
    memory = np.zeros(max(extent, 1), x.dtype)
    copied = np.ndarray(x.shape, x.dtype, memory, strides=x.strides)
    copied[...] = x
    return copied


def bits(x):
    x = np.ascontiguousarray(x)
    return x.view(np.uint8) if x.ndim else x.reshape(1).view(np.uint8)


def same(ours, theirs):
    theirs = to_numpy(theirs)
    assert isinstance(ours, np.ndarray)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    assert np.array_equal(bits(ours), bits(theirs)), f"{ours.ravel()[:6]} {theirs.ravel()[:6]}"


def in_step():
    assert np.array_equal(engine.get_rng_state(), torch.get_rng_state().numpy()), "the streams have parted"


def seed(s):
    torch.manual_seed(s)
    torchnp.manual_seed(s)


def call(name, *args, **kwargs):
    """Run the table's row and torch's op on the same arguments from the same random state; tensors are converted for
    the row."""
    packet, _, overload = name.partition(".")
    theirs_op = getattr(getattr(A, packet), overload or "default")
    ours_kwargs = {
        k: str(v).removeprefix("torch.") if isinstance(v, (torch.dtype, torch.memory_format)) else
        to_numpy(v) if isinstance(v, torch.Tensor) else v
        for k, v in kwargs.items()
    }  # fmt: skip
    ours_args = [to_numpy(a) if isinstance(a, torch.Tensor) else a for a in args]
    if packet.endswith("_"):  # torch would write to the memory that both share
        ours_args[0] = twin(ours_args[0])
    try:
        theirs = theirs_op(*args, **kwargs)
    except Exception as error:
        with pytest.raises(type(error)) as caught:
            torchnp.table[f"aten::{name}"](*ours_args, **ours_kwargs)
        words = str(error).split("\n")[0][:60]
        assert str(caught.value).startswith(words), f"{caught.value} | {error}"
        return None
    ours = torchnp.table[f"aten::{name}"](*ours_args, **ours_kwargs)
    if isinstance(theirs, tuple):
        for a, b in zip(ours, theirs, strict=True):
            same(a, b)
    else:
        same(ours, theirs)
    in_step()
    return ours, theirs


def tensor(shape, dtype):
    return torch.zeros(shape, dtype=getattr(torch, dtype))
