"""Kernels that compute in parts give the same results as for the whole, on both sides of a part's size."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from torchnp import table
from torchnp.interop import to_numpy
from torchnp.kernels import sort
from torchnp.kernels.numerics.blocks import STRIP, row_major_blocks

RNG = np.random.default_rng(7)
SHAPES = [(3, 40, 5), (700, 101), (101, 700), (2, STRIP + 3), (STRIP + 1,)]


@pytest.mark.parametrize("shape", [(), (0,), (4, 0, 3), (1, 9), (3, 7, 5), (2, 1, 40)])
@pytest.mark.parametrize("size", [1, 4, 33, 1000])
def test_parts_are_all_elements_in_order(shape, size):
    x = np.arange(math.prod(shape)).reshape(shape)
    parts = [x[part] for part in row_major_blocks(shape, 1, size)]
    assert np.array_equal(np.concatenate([np.empty(0, int), *map(np.ravel, parts)]), x.reshape(-1))
    assert all(np.size(part) <= size for part in parts)


def _numbers(shape, dtype):
    x = RNG.integers(-9, 9, shape).astype(dtype)
    if np.dtype(dtype).kind == "f":
        x[RNG.random(shape) < 0.05] = np.nan
        x[..., 1:2] = -0.0
        x[:1] = np.nan
    return x


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "uint8"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dim", [0, -1])
def test_order_statistics_are_of_the_stable_order(shape, dtype, dim):
    x = _numbers(shape, dtype)
    keys, n = sort.sort_keys(x), shape[dim]
    order, back = (k.argsort(dim, kind="stable") for k in (keys, ~keys))
    first = lambda index, k: index.take(range(k), dim)
    for k in {1, n // 4, n // 2, n}:
        assert np.array_equal(table["aten::topk"](x, k, dim)[1], first(back, k))
        assert np.array_equal(table["aten::topk"](x, k, dim, False)[1], first(order, k))
        if k:
            assert np.array_equal(table["aten::kthvalue"](x, k, dim)[1], order.take(k - 1, dim))
    assert np.array_equal(table["aten::sort"](x, dim)[1], order)
    bad = (x != x).sum(dim, keepdims=True)
    middle = np.where(bad == n, (n - 1) // 2, (n - bad - 1) // 2)
    at = lambda where: np.take_along_axis(order, where, dim).squeeze(dim)
    assert np.array_equal(table["aten::nanmedian.dim"](x, dim)[1], at(middle))
    assert np.array_equal(table["aten::median.dim"](x, dim)[1], at(np.where(bad, n - bad, (n - 1) // 2)))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dim", [0, -1])
def test_gather_and_scatter(shape, dim):
    x, index = _numbers(shape, "float32"), RNG.integers(0, shape[dim], shape)
    assert np.array_equal(table["aten::gather"](x, dim, index), np.take_along_axis(x, index, dim), equal_nan=True)
    want = x.copy()
    np.put_along_axis(want, index, x, dim)
    assert np.array_equal(table["aten::scatter.src"](x, dim, index, x), want, equal_nan=True)
    want, where = np.zeros(shape), list(np.indices(shape))
    where[dim] = index
    ones = np.ones(shape)
    np.add.at(want, tuple(where), ones)
    assert np.array_equal(table["aten::scatter_add"](np.zeros(shape), dim, index, ones), want)
    assert np.array_equal(table["aten::gather_backward"](ones, x, dim, index, False), want)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int32"])
@pytest.mark.parametrize("count", [5, 3000])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_added_slices(dtype, count, dim):
    x = RNG.integers(-9, 9, (6, 7, 9)).astype(dtype)
    index = RNG.integers(0, x.shape[dim], count)
    source = RNG.integers(-2, 2, [count if d == dim else n for d, n in enumerate(x.shape)]).astype(dtype)
    want = x.copy()
    np.add.at(want, (slice(None),) * dim + (index,), source)
    assert np.array_equal(table["aten::index_add"](x, dim, index, source), want)
    indices = [None] * dim + [index]
    assert np.array_equal(table["aten::index_put"](x, indices, source, True), want)
    assert np.array_equal(table["aten::index_put"](x, [None] * dim + [index - x.shape[dim]], source, True), want)


def test_indices_apart_are_added_in_front():
    x, (i, j) = np.zeros((6, 300, 9)), (RNG.integers(-6, 6, (400, 1)), RNG.integers(-9, 9, 2))
    values = RNG.integers(0, 9, (400, 2, 300)).astype(float)
    want = x.copy()
    np.add.at(want, (i, slice(None), j), values)
    assert np.array_equal(table["aten::index_put"](x, [i, None, j], values, True), want)
    with pytest.raises(IndexError, match="index 6 is out of bounds for dimension 0 with size 6"):
        table["aten::index_put"](x, [i * 0 + 6, None, j], values, True)


@pytest.mark.parametrize("width", [1, 3, 9, 900])
@pytest.mark.parametrize("places", [1, 4, 5000])
def test_sums_of_half_rows_are_rounded_one_by_one(width, places):
    rows, index = RNG.standard_normal((300, width)).astype(np.float16), RNG.integers(0, places, 300)
    want = np.zeros((places, width), np.float16)
    for place, row in zip(index, rows):
        want[place] += row
    assert np.array_equal(table["aten::embedding_backward"](rows, index, places, -1, False, False), want)


@pytest.mark.parametrize("rows", [[3], [-2, 0, 0, 4, 1, 2], [5, 9, 1], np.sort(RNG.integers(0, 50, 2 * STRIP + 5))])
@pytest.mark.parametrize("size", [1, 5, 60])
def test_rows_are_walked(rows, size):
    rows = np.asarray(rows)
    places = np.arange(size + 1)
    want = np.searchsorted(np.maximum.accumulate(rows), places)
    want = np.where(places > rows[-1], rows.size, want)
    assert np.array_equal(table["aten::_convert_indices_from_coo_to_csr"](rows, size), want)


@pytest.mark.parametrize("r", [1, 2, 3])
@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_combinations_are_in_pythons_order(n, r):
    import itertools

    x = np.arange(n) * 10
    for replaced, chosen in (False, itertools.combinations), (True, itertools.combinations_with_replacement):
        found = table["aten::combinations"](x, r, replaced)
        assert found.tolist() == [list(one) for one in chosen(x.tolist(), r)]


@pytest.mark.parametrize("inner", [0, 511, 512, 513, 2000])
@pytest.mark.parametrize("first", [(np.int8, -128), (np.uint8, 255)])
def test_products_of_bytes_are_exact(inner, first):
    dtype, most = first
    a, b = np.full((2, inner), most, dtype), np.full((inner, 3), -128, np.int8)
    assert (table["aten::_int_mm"](a, b) == most * -128 * inner).all()


@pytest.mark.parametrize("n", [9, 2 * STRIP + 7])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_gradients_are_unscaled_in_strips(n, dtype):
    for bad in (False, True):
        x, found = RNG.standard_normal(n).astype(dtype), np.zeros((), np.float32)
        x[-1] = np.inf if bad else 1
        want = (x.astype(np.float32) * np.float32(0.3)).astype(dtype)
        table["aten::_amp_foreach_non_finite_check_and_unscale_"]([x], found, np.asarray(0.3, np.float32))
        assert np.array_equal(x, want) and found == bad


def test_steps_of_optimizers_in_strips():
    grad, numbers = RNG.standard_normal(STRIP + 9).astype(np.float32), {"weight_decay": 0.1, "momentum": 0.0, "lr": 0.5}
    numbers |= {"dampening": 0.0, "nesterov": False, "maximize": False, "is_first_step": True}
    whole = np.ones((2, STRIP + 9), np.float32)
    table["aten::_fused_sgd_"]([whole[0]], [grad], [], **numbers)
    for part in slice(0, 99), slice(99, None):
        table["aten::_fused_sgd_"]([whole[1, part]], [grad[part]], [], **numbers)
    assert np.array_equal(*whole)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(3, 1), (2, 5, 7), (2, 1 << 17)])
def test_norms_of_weights_are_added_in_torchs_order(shape, dtype):
    v, g = np.abs(RNG.standard_normal(shape)).astype(dtype), np.ones((shape[0], *[1] * (len(shape) - 1)), dtype)
    norms = table["aten::_weight_norm_interface"](v, g)[1].reshape(-1)
    want = torch._weight_norm_interface(torch.from_numpy(v), torch.from_numpy(g))[1].numpy().reshape(-1)
    assert np.allclose(norms, want, rtol=4 * np.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("ord", [0, 1, 2, 3, -1, 0.5])
@pytest.mark.parametrize("n", [1, 5, 2 * STRIP + 3])
def test_powers_of_doubles_are_added_one_by_one(n, ord):
    x = np.abs(RNG.standard_normal(n)) + 1
    lanes = 4 if ord == 2 else 1
    powers = np.append(x**ord, np.zeros(-n % lanes)).reshape(-1, lanes)
    want = np.add.accumulate(np.add.accumulate(powers)[-1])[-1]
    assert np.isclose(table["aten::linalg__powsum"](x, ord), want, rtol=1e-15)


def test_gradients_of_half_bags_are_rounded_row_by_row():
    grad, scale = (RNG.standard_normal(shape).astype(np.float16) for shape in ((6, 30), 6))
    bags, sizes, want = np.arange(6), np.zeros(6, np.int64), np.zeros((1, 30), np.float16)
    for row, one in zip(grad, scale):
        want += row * one
    given = grad, np.zeros(6, np.int64), bags, sizes, sizes, 1, False, 0, scale
    assert np.array_equal(table["aten::_embedding_bag_dense_backward"](*given), want)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3)])
@pytest.mark.parametrize("axis", [0, -1])
def test_lines_without_elements_are_sorted(shape, axis):
    values, indices = table["aten::sort"](np.zeros(shape, np.float32), axis)
    assert values.shape == indices.shape == shape
    assert table["aten::_unique"](np.zeros(shape, np.int64))[0].shape == (0,)


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("index", [np.array(2), np.array([2]), np.array([[2, 0]])])
@pytest.mark.parametrize("shape", [(3,), (3, 4)])
def test_positions_without_dimensions(shape, index, accumulate):
    x, values = np.arange(math.prod(shape), dtype=np.float32).reshape(shape), np.array(7, np.float32)
    wanted = torch.ops.aten.index_put(
        torch.from_numpy(x), [torch.from_numpy(index)], torch.from_numpy(values), accumulate
    )
    assert np.array_equal(table["aten::index_put"](x, [index], values, accumulate), wanted.numpy())


@pytest.mark.parametrize("shape, dim", [((0,), 0), ((3,), 0), ((2, 0), 1), ((3, 4), 1)])
def test_no_slices_are_added(shape, dim):
    source = np.zeros([0 if d == dim else n for d, n in enumerate(shape)], np.float32)
    x = np.ones(shape, np.float32)
    assert np.array_equal(table["aten::index_add"](x, dim, np.zeros(0, np.int64), source), x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("count", [300, 65519, 65520])  # from 65520 on, the size of a bag is infinite in float16
def test_means_of_bags_round_their_size(dtype, count):
    weight, index, offsets = (
        torch.full((1, 3), 3.0, dtype=dtype),
        torch.zeros(count, dtype=torch.int64),
        torch.tensor([0, 0]),
    )
    wanted = torch.ops.aten.embedding_bag(weight, index, offsets, False, 1)[0]
    found = table["aten::embedding_bag"](to_numpy(weight), index.numpy(), offsets.numpy(), False, 1)[0]
    assert found.tobytes() == to_numpy(wanted).tobytes()
