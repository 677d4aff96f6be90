"""Errors and values of torch that change with the size: both sides of each."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import torchnp
from torchnp.interop import to_numpy


def outcome(call):
    try:
        call()
    except NotImplementedError as error:
        return str(error).partition("\n")[0]
    return ""


@pytest.mark.parametrize("n", [32767, 32768])
@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64, torch.uint8], ids=str)
@pytest.mark.parametrize("name", ["sort", "argsort", "msort", "_unique2", "_unique"])
def test_sorts_of_unsigned_integers(name, dtype, n):
    x = torch.zeros(n, dtype=dtype)
    theirs = outcome(lambda: getattr(torch.ops.aten, name)(x))
    assert outcome(lambda: torchnp.table[f"aten::{name}"](to_numpy(x))) == theirs
    assert bool(theirs) == (n == 32768 and dtype != torch.uint8)


@pytest.mark.parametrize("sizes", [(7, 7, 8), (8, 7, 8), (1, 400, 1), (1, 399, 1)])
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint16, torch.complex32, torch.float8_e5m2], ids=str)
def test_products_of_batches(dtype, sizes):
    m, k, n = sizes
    a, b, c = (torch.zeros(2, *size).to(dtype) for size in ((m, k), (k, n), (m, n)))
    for name, args in (("bmm", (a, b)), ("baddbmm", (c, a, b))):
        theirs = outcome(lambda: getattr(torch, name)(*args))
        assert outcome(lambda: torchnp.table[f"aten::{name}"](*map(to_numpy, args))) == theirs != ""


@pytest.mark.parametrize("shape, axis", [((5, 5, 41935), 1), ((41935, 5, 5), 1), ((3, 70000), 0), ((70000, 3), 0)])
@pytest.mark.parametrize("turned", [False, True])
def test_along_any_axis_in_any_memory_order(turned, shape, axis):
    torch.manual_seed(1)
    x = torch.randn(shape)
    if turned:
        x = x.permute(*reversed(range(x.ndim))).contiguous().permute(*reversed(range(x.ndim)))
    for name in ("softmax", "log_softmax", "cumsum", "cumprod", "cummax", "cummin"):
        theirs = getattr(torch, name)(x, axis)
        overload = {"softmax": "softmax.int", "log_softmax": "log_softmax.int"}.get(name, name)
        ours = torchnp.table[f"aten::{overload}"](to_numpy(x), axis)
        for one, other in zip(ours, theirs) if isinstance(ours, tuple) else ((ours, theirs),):
            torch.testing.assert_close(torch.from_numpy(np.asarray(one)), other)


def test_cosines_of_long_column_major_rows():
    torch.manual_seed(0)
    x, y = ((torch.randn(3, 5) * 5).repeat(1, 69905).t().contiguous().t() for _ in range(2))
    ours = torchnp.table["aten::cosine_embedding_loss"](x.numpy(), y.numpy(), np.ones(3, np.int64), 0.0, 1)
    exact = torch.nn.functional.cosine_embedding_loss(x.double(), y.double(), torch.ones(3))
    torch.testing.assert_close(torch.from_numpy(ours), exact.float())


def refusal(call):
    try:
        call()
    except (RuntimeError, NotImplementedError) as error:
        return type(error), str(error).partition("\n")[0]
    return None


LAYOUTS = {
    "rows": lambda x: x,
    "columns": lambda x: x.mT.contiguous().mT,
    "gaps": lambda x: x.repeat_interleave(2, -1)[..., ::2],
    "expanded": lambda x: x[:1].expand(x.shape),
}


@pytest.mark.parametrize("rows", [5, 20])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "pair",
    ["float32 float64", "float64 int64", "int32 int64", "bfloat16 float32", "float8_e5m2 float32", "bool complex32"],
)
def test_products_of_two_dtypes(pair, layout, rows):
    """From 400 multiplications on BLAS refuses them, of batches whose matrices it can read, or matrix by matrix."""
    for one, other in (pair.split(), pair.split()[::-1]):
        a = LAYOUTS[layout](torch.zeros(2, rows, 10).to(getattr(torch, one)))
        b = torch.zeros(2, 10, 4).to(getattr(torch, other))
        base = torch.zeros(rows, 4).to(a.dtype)
        calls = {"bmm": (a, b), "baddbmm": (base, a, b)}
        matmuls = ((a, b), (a.expand(2, *a.shape), b), (a, b[0]), (a, b[0, :, 0]), (a[0], b), (a[0, 0], b))
        for name, args in (*calls.items(), *(("matmul", args) for args in matmuls)):
            theirs = refusal(lambda: getattr(torch, name)(*args))
            ours = refusal(lambda: torchnp.table[f"aten::{name}"](*map(to_numpy, args)))
            assert theirs and ours == theirs, (name, one, other)
