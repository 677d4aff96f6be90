"""Operators that read or write a few elements of a large array, in any layout: torch's bits, and no copy of the
array."""

import tracemalloc

import ml_dtypes
import numpy as np
import pytest
import torch

import torchnp

ROWS, COLUMNS = 1200, 900
LAYOUTS = {
    "row-major": lambda x: x,
    "transposed": lambda x: x.t(),
    "every other": lambda x: x[:, ::2],
    "3-d": lambda x: x.view(108, 100, 100).permute(1, 2, 0)[3:99],
}
FEW = torch.tensor([3, 7, 3])


def arrays_of(x):
    if isinstance(x, torch.Tensor):
        if x.dtype == torch.bfloat16:
            return arrays_of(x.view(torch.int16)).view(ml_dtypes.bfloat16)
        return x.numpy()
    return [arrays_of(y) for y in x] if isinstance(x, list) else x


def large(layout, dtype):
    """Return a large tensor and a view of it."""
    memory = torch.randint(-50, 50, (ROWS, COLUMNS)).to(dtype) / (1 if dtype == torch.int64 else 4)
    return memory, LAYOUTS[layout](memory)


def along(x, dim, n):
    """Return an index for gather and scatter, with ``n`` positions along a dimension and few elsewhere."""
    shape = [min(4, s) for s in x.shape]
    shape[dim] = n
    return torch.randint(x.shape[dim], shape)


def values(x, *shape):
    return (torch.randint(-50, 50, shape) / (1 if x.dtype == torch.int64 else 8)).to(x.dtype)


READS = {
    "index.Tensor": [lambda x: ([FEW],), lambda x: ([None, FEW],), lambda x: ([FEW, FEW],), lambda x: ([-FEW],)],
    "index_select": [
        lambda x: (0, FEW),
        lambda x: (-x.ndim, FEW[:1]),
        lambda x: (-2, FEW),
        lambda x: (1, FEW.int()),
        lambda x: (-1, FEW[:0]),
    ],
    "take": [lambda x: (torch.randint(-x.numel(), x.numel(), (5, 2)),)],
    "gather": [lambda x: (0, along(x, 0, 5)), lambda x: (1, along(x, 1, 7)), lambda x: (x.ndim - 1, along(x, -1, 3))],
}
WRITES = {
    "index_put_": [
        lambda x: ([FEW], values(x, 3, *x.shape[1:]), True), lambda x: ([FEW, FEW], values(x, 1), True),
        lambda x: ([None, -FEW[1:]], values(x, x.shape[0], 2, *x.shape[2:])), lambda x: ([FEW[1:]], values(x, 1)),
    ],
    "index_fill_.int_Scalar": [lambda x: (0, FEW, 2), lambda x: (1, -FEW, 3)],
    "index_copy_": [lambda x: (0, FEW[1:], values(x, 2, *x.shape[1:]))],
    "index_add_": [
        lambda x: (0, FEW, values(x, 3, *x.shape[1:])), lambda x: (x.ndim - 1, FEW, values(x, *x.shape[:-1], 3)),
        lambda x: (1, FEW.int(), values(x, x.shape[0], 3, *x.shape[2:])),
    ],
    "index_reduce_": [
        lambda x: (0, FEW, values(x, 3, *x.shape[1:]), "amax"),
        lambda x: (1, FEW, values(x, x.shape[0], 3, *x.shape[2:]), "prod"),
    ],
    "scatter_.src": [lambda x: (1, along(x, 1, 1), values(x, *along(x, 1, 1).shape))],
    "scatter_.value": [lambda x: (0, along(x, 0, 9), 3)],
    "scatter_add_": [lambda x: (1, along(x, 1, 8), values(x, *along(x, 1, 8).shape))],
    "scatter_reduce_.two": [
        lambda x: (0, along(x, 0, 8), values(x, *along(x, 0, 8).shape), "amin"),
        lambda x: (1, along(x, 1, 8), values(x, *along(x, 1, 8).shape), "sum"),
        lambda x: (1, along(x, 1, 8), values(x, *along(x, 1, 8).shape), "mean"),
    ],
    "put_": [
        lambda x: (torch.tensor([3, -1, 700]), values(x, 3)), lambda x: (torch.tensor([3, -1, 3]), values(x, 3), True),
    ],
}  # fmt: skip
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.float64]


def overload(name):
    packet, _, rest = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), rest or "default")


def same_bits(a, b):
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def measured(run):
    """Return a function's result, and its peak memory."""
    tracemalloc.start()
    try:
        return run(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", READS)
def test_reads(name, layout, dtype):
    torch.manual_seed(0)
    _, x = large(layout, dtype)
    for make in READS[name]:
        args = make(x)
        expected, own = overload(name)(x, *args), arrays_of([x, *args])
        torchnp.table[f"aten::{name}"](*own)  # imports modules before the measurement
        found, peak = measured(lambda own=own: torchnp.table[f"aten::{name}"](*own))
        assert same_bits(found, arrays_of(expected))
        assert peak < x.numel() * x.itemsize


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", WRITES)
def test_writes(name, layout, dtype):
    torch.manual_seed(0)
    memory, x = large(layout, dtype)
    for make in WRITES[name]:
        args, mine = make(x), memory.clone()
        own = arrays_of([LAYOUTS[layout](mine), *args])
        torchnp.table[f"aten::{name}"](*own)
        overload(name)(x, *args)
        assert same_bits(arrays_of(mine), arrays_of(memory))
        found, peak = measured(lambda own=own: torchnp.table[f"aten::{name}"](*own))
        overload(name)(x, *args)
        assert found is own[0]
        assert same_bits(arrays_of(mine), arrays_of(memory))  # includes the memory between a view's elements
        assert peak < x.numel() * x.itemsize


def test_searching_few_values_looks_at_few_boundaries():
    edges, x = torch.linspace(0, 1, 1 << 20), torch.tensor([0.2, 0.7, float("nan"), -1.0, 2.0])
    for name, args in (("bucketize.Tensor", (x, edges)), ("searchsorted.Tensor", (edges, x))):
        for right in False, True:
            own = arrays_of(list(args))
            found, peak = measured(
                lambda own=own, name=name, right=right: torchnp.table[f"aten::{name}"](*own, right=right)
            )
            assert same_bits(found, overload(name)(*args, right=right).numpy())
            assert peak < edges.numel()


def test_tensors_that_differ_early_are_compared_in_part():
    x = np.zeros((2000, 2000), np.float32)
    y = x.copy()
    y[0, 0] = 1
    for a, b in ((x, y), (x.T, y.T), (x, y.T), (x, x.copy())):
        found, peak = measured(lambda a=a, b=b: torchnp.table["aten::equal"](a, b))
        assert found == torch.equal(torch.from_numpy(a), torch.from_numpy(b))
        assert peak < x.nbytes / 8


@pytest.mark.parametrize("name", ["bilinear2d", "bicubic2d", "nearest2d"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_a_small_image_of_a_large_one(name, dtype):
    x = torch.rand(1, 1, 2000, 900).to(dtype)
    for layout in x, x.transpose(2, 3), x[..., ::2]:
        args = ([5, 4],) if name == "nearest2d" else ([5, 4], False)
        own = arrays_of([layout, *args])
        found, peak = measured(lambda own=own: torchnp.table[f"aten::upsample_{name}"](*own))
        expected = overload(f"upsample_{name}")(layout, *args)
        torch.testing.assert_close(torch.from_numpy(found), expected)
        assert peak < layout.numel() * x.itemsize / 8


def test_an_expanded_target_is_written_once():
    for at in ([torch.tensor([-1])] * 2, [torch.tensor([2, 3, 2]), torch.tensor([1, 1, 1])]):
        for accumulate in False, True:
            memory = torch.arange(5.0)
            mine = memory.clone()
            args = (at, torch.tensor(1.5), accumulate)
            torch.ops.aten._index_put_impl_(memory.expand(5, 5), *args)
            torchnp.table["aten::_index_put_impl_"](*arrays_of([mine.expand(5, 5), *args]))
            assert mine.tolist() == memory.tolist()


def test_few_elements_that_are_read_are_no_size_of_the_input():
    x = torch.zeros(1, 1, 100, 3)  # if a size stays the same, torch turns infinities into nan
    x[:, :, 0] = float("inf")
    for sizes, scales in (([2, 4], (100.0, None)), ([2, 3], (100.0, None)), ([1, 4], (None, None))):
        expected = torch.ops.aten.upsample_bilinear2d(x, sizes, False, *scales)
        found = torchnp.table["aten::upsample_bilinear2d"](x.numpy(), sizes, False, *scales)
        torch.testing.assert_close(torch.from_numpy(found), expected, equal_nan=True)
