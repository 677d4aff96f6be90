"""Kernels that compute many elements differently from few: values on both sides of the size, and peak memory."""

import itertools
import tracemalloc

import numpy as np
import pytest
import torch

import torchnp
from torchnp.interop import to_numpy
from torchnp.kernels import arithmetic, power, resample
from torchnp.kernels.numerics import blocks, erf, products

table = torchnp.table
SPECIAL = (
    0.0,
    -0.0,
    1,
    -1,
    2,
    -2,
    3,
    -3,
    0.5,
    -0.5,
    2.5,
    -2.5,
    1e-30,
    -1e-30,
    1e30,
    16777217,
    268435456,
    -7,
    0.1,
    1 / 3,
)
SPECIAL += (float("inf"), -float("inf"), float("nan"))


def pairs(dtype, times):
    a, b = np.meshgrid(np.array(SPECIAL, dtype), np.array(SPECIAL, dtype))
    return np.tile(a.ravel(), times), np.tile(b.ravel(), times)


def same_bits(a, b):
    return np.array_equal(a, b, equal_nan=True) and np.array_equal(np.signbit(a[a == a]), np.signbit(b[b == b]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("times", [1, 5])
def test_powers_of_special_values(times, dtype):
    a, b = pairs(dtype, times)
    assert a.size > power._FEW
    mine = table["aten::pow.Tensor_Tensor"](a, b)
    # NumPy's result in double, because torch's vectors overflow early on some processors.
    with np.errstate(all="ignore"):
        exact = np.power(a.astype(np.float64), b.astype(np.float64)).astype(dtype)
    limit = {"float32": 5e-7, "float64": 5e-15}[dtype]  # some units in the last place, for the processors' vector code
    np.testing.assert_allclose(mine, exact, limit)
    assert np.array_equal(np.signbit(mine[mine == mine]), np.signbit(exact[exact == exact]))
    # For powers of a half, torch takes roots.
    for exponent in map(float, np.array([x for x in SPECIAL if abs(x) != 0.5], dtype)):
        with np.errstate(all="ignore"):
            exact = np.power(a.astype(np.float64), np.full(a.size, exponent)).astype(dtype)
        np.testing.assert_allclose(table["aten::pow.Tensor_Scalar"](a, exponent), exact, limit)


@pytest.mark.parametrize("times", [1, 5])
def test_remainders_have_the_bits_of_c(times):
    rng = np.random.default_rng(0)
    wide = (rng.standard_normal(50_000) * 10.0 ** rng.uniform(-5, 8, 50_000)).astype(np.float32)
    random = rng.integers(0, 2**32, (2, 50_000), dtype=np.uint32).view(np.float32)
    whole = (rng.integers(1, 2**27, 50_000) * wide.astype(np.float64)).astype(np.float32)
    for a, b in (pairs("float32", times), (wide, wide[::-1]), random, (whole, wide), (np.nextafter(whole, 0), wide)):
        with np.errstate(all="ignore"):
            assert same_bits(arithmetic._quick_fmod(a, b), np.fmod(a, b))
            assert same_bits(arithmetic._floor_divide(a, b), np.floor_divide(a, b))
    assert pairs("float32", 1)[0].size < arithmetic._FEW < pairs("float32", 5)[0].size


SHAPES = [(200_000,), (300, 700), (7, 30_000), (30_000, 7), (30, 50, 100), (2, 3, 40_000)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_variances_of_blocks(shape, dtype):
    torch.manual_seed(0)
    x = torch.randn(shape, dtype=torch.complex128 if dtype.is_complex else torch.float64).mul(2).add(5).to(dtype)
    assert x.numel() > 2 * blocks.STRIP
    inner = range(len(shape))
    dims = [None, *(list(c) for n in range(1, len(shape) + 1) for c in itertools.combinations(inner, n))]
    special = x.clone()
    special.view(-1)[12_345] = torch.inf
    limit = {torch.float64: 1e-11, torch.bfloat16: 1e-2}.get(dtype, 1e-5)
    for given, dim in itertools.product((x, x.transpose(0, -1), special), dims):
        for op, keepdim in (("var", False), ("std_mean", True)):
            mine = table[f"aten::{op}.correction"](to_numpy(given), dim, keepdim=keepdim)
            torchs = getattr(torch.ops.aten, op).correction(given, dim, keepdim=keepdim)
            for a, b in zip(*((r if isinstance(r, tuple) else (r,)) for r in (mine, torchs)), strict=True):
                b = to_numpy(b)
                assert (a.shape, a.dtype) == (b.shape, b.dtype)
                np.testing.assert_allclose(a.astype(np.complex128), b.astype(np.complex128), limit)


@pytest.mark.parametrize("dim", [None, [0], [1]])
def test_a_variance_holds_a_block_in_double(dim):
    x = np.random.default_rng(0).random((2048, 1024), np.float32)
    before = torchnp.get_num_threads()
    torchnp.set_num_threads(1)
    tracemalloc.start()
    try:
        table["aten::var.correction"](x, dim)
        assert tracemalloc.get_traced_memory()[1] < 5 * 8 * blocks.STRIP
    finally:
        tracemalloc.stop()
        torchnp.set_num_threads(before)


@pytest.mark.parametrize("terms", [0, 1, 70_000])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_products_of_bytes_are_exact(terms, dtype):
    info = np.iinfo(dtype)
    a, b = np.full((30, terms), info.min or info.max, dtype), np.full((terms, 40), -128, np.int8)
    b[::3] = 127
    want = (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)  # wraps
    assert np.array_equal(table["aten::_int_mm"](a, b), want)


def test_long_sums_of_products():
    torch.manual_seed(0)
    for terms in (products._LONG, products._LONG + 1, 1_000_000):
        a, b = torch.randn(2, terms) + 3, torch.randn(terms, 3) + 2
        exact = (a.double() @ b.double()).numpy()
        mine = table["aten::mm"](a.numpy(), b.numpy())
        assert mine.dtype == np.float32 and np.abs(mine / exact - 1).max() < 1e-5  # BLAS kernels without AVX reach 2e-6


@pytest.mark.parametrize("size", [(resample.MANY_TAPS // 2 * 4, 4), (1100, 4), (900, 7)])
def test_images_of_many_taps(size):
    torch.manual_seed(0)
    x = torch.rand(1, 2, size[0], 33)
    for op in ("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"):
        torchs = getattr(torch.ops.aten, op).default(x, [size[1], 5], False)
        np.testing.assert_allclose(table[f"aten::{op}"](x.numpy(), [size[1], 5], False), torchs.numpy(), 2e-5, 1e-6)


def test_erfc_of_few_and_many():
    x = np.concatenate([np.linspace(-6, 11, 3 * erf.MANY), [np.inf, -np.inf, np.nan, 0.0, -0.0]]).astype(np.float32)
    many, few = table["aten::erfc"](x), np.concatenate([table["aten::erfc"](part) for part in np.split(x[:-5], 12)])
    with np.errstate(over="ignore"):
        exact = erf.scipy_special("erfc")(x.astype(np.float64))
    assert np.array_equal(many[-5:], [0, 2, np.nan, 1, 1], equal_nan=True)
    normal = exact[:-5] > 1.2e-38
    spacing = np.spacing(exact[:-5][normal].astype(np.float32))
    assert (np.abs(many[:-5][normal] - exact[:-5][normal]) <= spacing).all()
    np.testing.assert_allclose(many[:-5][normal], few[normal], 3e-6)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("sizes", [(131_070, 65_535), (40_000, 20_001), (20_001, 40_000), (9_000, 31)], ids=str)
def test_long_signals_and_their_gradients(sizes, align_corners):
    """torch rounds positions to float32 before it rounds them down, also for double."""
    size, out = sizes
    torch.manual_seed(0)
    for op, shape, of in (("linear1d", (1, 2, size), [out]), ("bilinear2d", (1, 1, 2, size), [3, out])):
        x = torch.rand(shape, dtype=torch.float64)
        forward, backward = f"upsample_{op}", f"upsample_{op}_backward"
        torchs = getattr(torch.ops.aten, forward).default(x, of, align_corners)
        np.testing.assert_allclose(
            table[f"aten::{forward}"](x.numpy(), of, align_corners), torchs.numpy(), 1e-12, 1e-12
        )
        gradient = torch.rand_like(torchs)
        torchs = getattr(torch.ops.aten, backward).default(gradient, of, list(shape), align_corners)
        mine = table[f"aten::{backward}"](gradient.numpy(), of, list(shape), align_corners)
        np.testing.assert_allclose(mine, torchs.numpy(), 1e-9, 1e-12)
        assert mine.strides == tuple(8 * s for s in torchs.stride())
    gradient = torch.rand(1, 1, 2, out)  # in single precision, its positions are rounded differently from the forward's
    torchs = torch.ops.aten.upsample_bicubic2d_backward(gradient, [2, out], [1, 1, 2, size], align_corners)
    mine = table["aten::upsample_bicubic2d_backward"](gradient.numpy(), [2, out], [1, 1, 2, size], align_corners)
    np.testing.assert_allclose(mine, torchs.numpy(), 1e-5, 1e-5)  # hundreds of terms are added to each of 31 elements


@pytest.mark.parametrize("kind", ["plain", "ties", "nan", "all -inf"])
@pytest.mark.parametrize(
    ("shape", "out"),
    [
        ((2, 3, 20, 30), (2, 3)), ((3, 20, 31), (2, 3)), ((2, 3, 8, 8), (1, 1)), ((2, 1, 8, 9), (1, 1)), ((0, 3, 20, 20), (2, 2)),
        ((2, 3, 12, 13, 14), (2, 3, 2)), ((2, 3, 20, 20), (0, 2)), ((1, 2, 16, 16), (4, 4)), ((1, 2, 15, 18), (4, 4)),
        ((1, 1, 64, 64), (8, 7)),
    ],
    ids=str,
)  # fmt: skip
def test_maxima_of_few_bins(shape, out, kind):
    torch.manual_seed(0)
    x = torch.randn(shape)
    if kind == "ties":
        x = x.round()
    elif kind == "nan" and x.numel():
        x.view(-1)[::37] = torch.nan
    elif kind == "all -inf":
        x.fill_(-torch.inf)
    name = f"adaptive_max_pool{len(out)}d"
    for mine, torchs in zip(
        table[f"aten::{name}"](x.numpy(), out), getattr(torch.ops.aten, name).default(x, out), strict=True
    ):
        assert np.array_equal(mine, torchs.numpy(), equal_nan=True)
        assert mine.strides == tuple(mine.itemsize * s for s in torchs.stride())
