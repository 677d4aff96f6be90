"""Distances between many rows, against torch; they are computed in blocks whose memory does not grow with the number of
pairs."""

import math
import tracemalloc

import numpy as np
import pytest
import torch

import torchnp
from torchnp.kernels import distance
from torchnp.kernels._reduction import add_reduce

ORDERS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, math.inf)
# Both sets of rows: one matrix, broadcast batches, many small matrices, few large ones, single rows.
SHAPES = [
    ((50, 64), (50, 64)),
    ((130, 40), (7, 40)),
    ((2, 1, 40, 30), (3, 25, 30)),
    ((300, 4, 3), (300, 5, 3)),
    ((1, 600), (90, 600)),
]


def rows(shape, seed, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def same(found, wanted, **tolerance):
    torch.testing.assert_close(torch.from_numpy(found), wanted, **tolerance)


@pytest.mark.parametrize("largest", [distance.LARGEST, 2000, 1])
@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_cdist(shapes, p, largest, monkeypatch):
    """Blocks of every size: some rows of one matrix, or several matrices."""
    monkeypatch.setattr(distance, "LARGEST", largest)
    x, y = (rows(s, i) for i, s in enumerate(shapes))
    given = [torch.from_numpy(x), torch.from_numpy(y)]
    wanted = torch.ops.aten._cdist_forward(*given, p, 2)
    # For p = 0.5, sums of square roots are squared.
    same(torchnp.table["aten::_cdist_forward"](x, y, p, 2), wanted, rtol=5e-6, atol=1e-5)
    grad = rows(tuple(wanted.shape), 5)
    batch = tuple(wanted.shape[:-2])
    wide = [x.expand(*batch, *x.shape[-2:]).contiguous() for x in given]  # expanded as in autograd's formula
    pulled = torch.ops.aten._cdist_backward(torch.from_numpy(grad), *wide, p, wanted)
    found = torchnp.table["aten::_cdist_backward"](grad, *(x.numpy() for x in wide), p, wanted.numpy())
    same(found, pulled, rtol=2e-5, atol=1e-6 * float(pulled.abs().max()))


@pytest.mark.parametrize("largest", [distance.LARGEST, 300])
@pytest.mark.parametrize("p", ORDERS)
def test_pdist(p, largest, monkeypatch):
    monkeypatch.setattr(distance, "LARGEST", largest)
    x = rows((70, 33), 1)
    wanted = torch.ops.aten._pdist_forward(torch.from_numpy(x), p)
    found = torchnp.table["aten::_pdist_forward"](x, p)
    same(found, wanted)
    grad = rows(wanted.shape, 2)
    pulled = torch.ops.aten._pdist_backward(torch.from_numpy(grad), torch.from_numpy(x), p, wanted)
    found = torchnp.table["aten::_pdist_backward"](grad, x, p, wanted.numpy())
    same(found, pulled, rtol=2e-5, atol=1e-6 * float(pulled.abs().max()))


@pytest.mark.parametrize("p", ORDERS)
def test_pairwise_distance(p):
    x, y = rows((900, 64), 1), rows((900, 64), 2)
    same(torchnp.table["aten::pairwise_distance"](x, y, p), torch.pairwise_distance(*map(torch.from_numpy, (x, y)), p))


def peak(function, *args):
    tracemalloc.start()
    try:
        function(*args)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("p", [0.0, 1.5, 2.0, math.inf])
def test_memory_does_not_grow_with_the_differences(p):
    """The differences of 700 rows of 64 take 125 MB."""
    x = rows((700, 64), 3)
    matrix, pairs = rows((700, 700), 4), rows((700 * 699 // 2,), 4)
    block = 8 * 4 * distance.LARGEST  # a few arrays of a block's size, in float32
    table = torchnp.table
    assert peak(table["aten::_cdist_forward"], x, x, p, 2) < block + 4 * matrix.nbytes
    assert peak(table["aten::_cdist_backward"], matrix, x, x, p, np.abs(matrix)) < block + 4 * matrix.nbytes
    assert peak(table["aten::_pdist_forward"], x, p) < block + 16 * pairs.nbytes
    assert peak(table["aten::_pdist_backward"], pairs, x, p, np.abs(pairs)) < 8_000_000
    many, one = rows((400, 1, 64), 5), rows((1, 400, 64), 6)  # one side is broadcast over a batch
    assert peak(table["aten::_cdist_forward"], many, one, p, 2) < block + 4 * 4 * 400 * 400


@pytest.mark.parametrize("shape", [(50, 400), (3, 5000), (40, 30, 20), (20_000,), (5, 4)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_sums_take_negative_axes(shape, order):
    x = np.asarray(rows(shape, 7), order=order)
    for axis in range(-len(shape), 0):
        for keep in (False, True):
            found = add_reduce(x, (axis,), keep)
            assert np.array_equal(found, add_reduce(x, (axis % len(shape),), keep))
            np.testing.assert_allclose(found, x.sum(axis, np.float64, keepdims=keep), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("reduce", ["amax", "amin"])
@pytest.mark.parametrize("initial", [None, -2.0, 0.5, math.nan])
def test_segments_have_torchs_names_of_extremes(reduce, initial):
    data = np.array([[1.0, np.nan, -1.0, 3.0, 3.0, -0.0], [2.0, 2.0, 0.0, -0.0, 5.0, -3.0]], np.float32).T.copy()
    given = torch.from_numpy(data)
    for named in ({"lengths": np.array([2, 0, 3, 1])}, {"offsets": np.array([0, 2, 2, 5, 6])}):
        theirs = {k: torch.from_numpy(v) for k, v in named.items()}
        wanted = torch.segment_reduce(given, reduce, initial=initial, **theirs)
        found = torchnp.table["aten::segment_reduce"](data, reduce, initial=initial, **named)
        same(found, wanted, rtol=0, atol=0, equal_nan=True)
        grad = rows(tuple(wanted.shape), 8)
        theirs = torch.ops.aten._segment_reduce_backward(
            torch.from_numpy(grad), wanted, given, reduce, initial=initial, **theirs
        )
        ours = torchnp.table["aten::_segment_reduce_backward"](grad, found, data, reduce, initial=initial, **named)
        same(ours, theirs, rtol=0, atol=0, equal_nan=True)
