"""Operators that the executor computes differently from the table: close to torch, and equal to the table where it uses
the table."""

import io
import multiprocessing
from functools import partial

import numpy as np
import pytest
import threadpoolctl
import torch
from torch import nn
from torch.nn import functional as F

import torchnp
from torchnp import blas
from torchnp.blas import one_thread, share_products
from torchnp.interop.convert import to_numpy
from torchnp.runtime import elementwise_chains, fast_conv_pooling, fast_linear_sdpa, recurrent
from torchnp.runtime.graph import Ref
from torchnp.threads import LARGE

IMAGE = lambda: torch.randn(2, 3, 37, 34)


@pytest.mark.parametrize("window", [(3, 2, 1), (2,), ([3, 2], [1, 2], [1, 0]), (2, 2, 0, 2), (3, 2, 0, 1, True), (40,)])
def test_max_pool(window):
    x = IMAGE().numpy()
    x[0, 0, 0, 0] = np.nan
    for image in (x, np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)):
        try:
            wanted = torchnp.aten.max_pool2d(image, *window)
        except RuntimeError as error:
            with pytest.raises(RuntimeError) as said:
                fast_conv_pooling.max_pool2d(image, *window)
            assert str(said.value) == str(error)
            continue
        found = fast_conv_pooling.max_pool2d(image, *window)
        assert np.array_equal(found, wanted, equal_nan=True) and found.strides == wanted.strides


# Images, channels, output channels, height and width, kernel, stride, padding: one for each way of computing them.
CONVOLUTIONS = {
    "points": (3, 20, 30, 9, 8, 1, 1, 0),
    "points in two parts": (2, 96, 96, 33, 31, 1, 1, 0),
    "every second point, and an edge": (2, 5, 7, 9, 8, 1, 2, 1),
    "columns": (3, 3, 8, 21, 19, 3, 1, 1),
    "columns, stride": (1, 3, 16, 65, 64, 7, 2, 3),
    "one channel": (2, 1, 1, 10, 11, 4, 3, 2),
    "channels": (2, 40, 300, 5, 6, 3, 1, 1),
    "channels, stride": (1, 130, 129, 8, 9, 3, 2, 1),
    "taps": (2, 32, 33, 23, 17, 3, 1, 1),
    "taps, odd": (3, 33, 40, 57, 60, 3, 1, 0),
    "taps, stride": (1, 40, 20, 41, 42, 5, 3, 2),
    "taps, one row": (1, 33, 32, 1, 90, 1, 1, 1),
    "winograd": (4, 256, 256, 8, 8, 3, 1, 1),
    "winograd, odd": (2, 256, 258, 13, 15, 3, 1, 1),
    "winograd, no edge": (1, 257, 256, 18, 19, 3, 1, 0),
    "winograd, several parts": (9, 256, 256, 12, 12, 3, 1, 1),
    "no image": (0, 3, 4, 5, 5, 3, 1, 1),
}


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("given", CONVOLUTIONS)
def test_convolutions_are_as_near_to_the_truth_as_plain_sums(given, threads, monkeypatch):
    n, c, o, h, w, kernel, stride, padding = CONVOLUTIONS[given]
    monkeypatch.setattr(torchnp.threads._threads, "number", threads)
    torch.manual_seed(0)
    x, weight, bias = torch.randn(n, c, h, w), torch.randn(o, c, kernel, kernel) / (kernel * c**0.5), torch.randn(o)
    truth = F.conv2d(x.double(), weight.double(), bias.double(), stride, padding).relu()
    own = (F.conv2d(x, weight, bias, stride, padding).relu() - truth).abs()
    for memory in (torch.contiguous_format, torch.channels_last):
        points = truth[:, 0].numel()
        convolution = fast_conv_pooling.Convolution(weight.numpy(), bias.numpy(), (stride,) * 2, (padding,) * 2, points)
        assert convolution._winograd == given.startswith("winograd")
        convolution.relu, convolution.channels_last = True, memory == torch.channels_last
        found = convolution(x.contiguous(memory_format=memory).numpy())
        assert found.shape == truth.shape and found.dtype == np.float32
        if found.size:
            assert torch.from_numpy(found).is_contiguous(memory_format=memory)
            assert np.abs(found - truth.numpy()).max() < max(8 * own.max().item(), 3e-6)


@pytest.mark.parametrize("given", ["winograd", "taps", "columns", "channels", "points"])
def test_infinities_and_nan_are_where_torch_has_them(given):
    n, c, o, h, w, kernel, stride, padding = CONVOLUTIONS[given]
    torch.manual_seed(0)
    x, weight = torch.randn(n, c, h, w), torch.randn(o, c, kernel, kernel)
    x[0, 0, 3, 3], x[-1, 1, 1, 2], x[-1, 2, 0, 0] = torch.inf, -torch.inf, torch.nan
    convolution = fast_conv_pooling.Convolution(weight.numpy(), None, (stride,) * 2, (padding,) * 2, n * h * w)
    with np.errstate(all="ignore"):
        found, wanted = convolution(x.numpy()), F.conv2d(x, weight, None, stride, padding).numpy()
    far = ~np.isfinite(wanted)
    assert far.any() and not far.all() and np.array_equal(found[far], wanted[far], equal_nan=True)
    assert np.isfinite(found[~far]).all()


class Added(nn.Module):
    """Adds an image to a convolution of another one, and then uses operators that reveal the memory layout."""

    def __init__(self, last):
        super().__init__()
        self.conv, self.last = nn.Conv2d(4, 4, 3, padding=1), last

    def forward(self, x, y):
        return self.last(x + self.conv(y))


@pytest.mark.parametrize("last", [lambda z: z, lambda z: z.relu(), lambda z: torch.as_strided(z, (2, 3), (1, 4))])
@pytest.mark.parametrize(
    "formats", [(torch.channels_last, torch.contiguous_format), (torch.contiguous_format, torch.channels_last)]
)
def test_sums_with_convolutions_are_laid_out_as_torch_does(last, formats):
    x, y = (torch.randn(2, 4, 5, 6).contiguous(memory_format=f) for f in formats)
    module, file = Added(last).eval(), io.BytesIO()
    with torch.no_grad():
        torch.export.save(torch.export.export(module, (x, y)), file)
        wanted = module(x, y).numpy()
    file.seek(0)
    program = torchnp.load(file)
    found = program(x.numpy(), y.numpy())
    assert found.strides == wanted.strides and np.allclose(found, wanted, rtol=1e-5, atol=1e-5)
    program(x.numpy() * np.inf, y.numpy())  # must not warn


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_large_images_are_pooled_by_parts(threads, monkeypatch):
    monkeypatch.setattr(torchnp.threads._threads, "number", threads)
    x = torch.randn(3, 40, 97, 101).numpy()
    x[1, 2, 3:5, 4] = np.nan
    assert x.size > LARGE
    for window in ((3, 2, 1), (2,), ([5, 1], [1, 3], [2, 0])):
        for image in (x, np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)):
            found, wanted = fast_conv_pooling.max_pool2d(image, *window), torchnp.aten.max_pool2d(image, *window)
            assert np.array_equal(found, wanted, equal_nan=True) and found.strides == wanted.strides


def test_products_keep_to_the_threads_of_their_parts():
    """BLAS uses one thread while convolutions run, however many parts they have, and as many as before afterwards."""
    seen = []
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        many = blas_threads()
        for parts in (1, 2, 3):
            share_products(lambda part: seen.append(blas_threads()), range(parts))
            assert blas_threads() == many
        with pytest.raises(ZeroDivisionError):
            share_products(lambda part: 1 / part, range(2))
        assert blas_threads() == many
    assert seen == [[1] * len(many)] * 6


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_leaves_the_limit_of_blas_behind():
    """A forked child has none of the threads that changed the setting, and no lock of the parent."""
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()

    def child():
        given = [blas_threads()]
        share_products(lambda part: given.append(blas_threads()), range(2))
        queue.put([*given, blas_threads()])

    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        many = blas_threads()
        with one_thread(), blas._limit.lock:
            process = context.Process(target=child)
            process.start()
        process.join(60)
        assert process.exitcode == 0 and queue.get() == [many, [1] * len(many), [1] * len(many), many]
        assert blas_threads() == many


def blas_threads():
    return [library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"]


def test_refusals_of_convolutions_are_torchs():
    conv = fast_conv_pooling.Convolution(np.ones((2, 3, 3, 3), "f4"), None, (1, 1), (0, 0))
    with pytest.raises(RuntimeError) as theirs:
        F.conv2d(torch.ones(1, 3, 2, 2), torch.ones(2, 3, 3, 3))
    with pytest.raises(RuntimeError) as ours:
        conv(np.ones((1, 3, 2, 2), "f4"))
    assert str(ours.value) == str(theirs.value)


def heads(queries=150, keys=170, size=16, batch=2, last=True):
    torch.manual_seed(0)
    q, k, v = (torch.randn(batch, n, 4, size).transpose(1, 2) for n in (queries, keys, keys))
    return q, k, v


MASKS = {
    "none": dict,
    "causal": lambda: {"is_causal": True},
    "bool": lambda: {"attn_mask": torch.rand(150, 170) > 0.3},
    "float": lambda: {"attn_mask": torch.randn(2, 1, 1, 170)},
    "minus infinity": lambda: {"attn_mask": torch.where(torch.rand(2, 1, 150, 170) > 0.3, 0.0, -torch.inf)},
    "sees nothing": lambda: {"attn_mask": torch.arange(150)[:, None].expand(150, 170) > 3},
    "scale": lambda: {"scale": 0.1},
    "far": lambda: {"scale": 40.0},
    "zero": lambda: {"scale": 0.0, "is_causal": True},
    "negative": lambda: {"scale": -1.0, "is_causal": True},
    "slopes": lambda: {"attn_mask": -torch.arange(170.0).expand(150, 170)},
    "far mask": lambda: {"attn_mask": torch.where(torch.arange(170) > 0, -104.0, 0.0).expand(150, 170)},
    "large mask": lambda: {"attn_mask": torch.full((150, 170), 19.9)},
    "small masks": lambda: {"attn_mask": torch.full((150, 170), -1e30)},
}


@pytest.mark.parametrize("mask", MASKS)
def test_attention(mask):
    given = heads()
    options = MASKS[mask]()
    named = {k: v.numpy() if isinstance(v, torch.Tensor) else v for k, v in options.items()}
    found = fast_linear_sdpa.attention(*(x.numpy() for x in given), **named)
    wanted = F.scaled_dot_product_attention(*given, **options)
    if mask == "far":
        kernel = torchnp.table["aten::scaled_dot_product_attention"]
        assert_left_to(kernel(*(x.numpy() for x in given), **named), found, given, wanted)
    else:
        torch.testing.assert_close(torch.from_numpy(found), wanted, check_stride=True, equal_nan=True)


def assert_left_to(kernels, found, given, torchs):
    """The table's kernel was called.

    Its result is compared with torch's by mean error against float64: for scores this large, float32 keeps four digits,
    so the two results may differ by more than torch's tolerance.
    """
    assert np.array_equal(found, kernels)
    exact = F.scaled_dot_product_attention(*(x.double() for x in given), scale=40.0)
    ours, theirs = ((torch.as_tensor(x) - exact).abs().mean() for x in (found, torchs))
    assert ours < 2 * theirs


@pytest.mark.parametrize(
    "score, value, mask", [(59, 1e13, None), (-55, 1e-22, None), (19, 1e13, 19.9), (-55, 1.0, -104.0), (15, 1.0, 15.0)]
)
def test_attention_of_extremes(score, value, mask):
    q, k, v = torch.zeros(1, 1, 128, 64), torch.zeros(1, 1, 1000, 64), torch.full((1, 1, 1000, 64), value)
    q[..., 0], k[..., 0], k[0, 0, 0, 0], v[0, 0, 0] = 8, score, -score, 0
    m = None if mask is None else torch.full((128, 1000), mask).index_fill(1, torch.tensor(0), 0)
    found = fast_linear_sdpa.attention(q.numpy(), k.numpy(), v.numpy(), None if m is None else m.numpy())
    torch.testing.assert_close(
        torch.from_numpy(found), F.scaled_dot_product_attention(q, k, v, m), rtol=1e-5, atol=0
    )  # for sums of 1,000 terms


@pytest.mark.parametrize("mask", ["none", "causal", "float", "far", "small masks"])
def test_flash_attention(mask):
    given, options = heads(), MASKS[mask]()
    named = {k: v.numpy() if isinstance(v, torch.Tensor) else v for k, v in options.items()}
    found = fast_linear_sdpa.flash_attention(*(x.numpy() for x in given), **named)
    wanted = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(*given, **options)[0]
    if mask == "far":
        kernel = torchnp.table["aten::_scaled_dot_product_flash_attention_for_cpu"]
        assert_left_to(kernel(*(x.numpy() for x in given), **named)[0], found, given, wanted)
    else:
        torch.testing.assert_close(torch.from_numpy(found), wanted, check_stride=True)


def test_attention_is_laid_out_as_torch_does():
    q = torch.randn(2, 4, 16, 80).transpose(2, 3)
    found = fast_linear_sdpa.attention(q.numpy(), q.numpy(), q.numpy())
    torch.testing.assert_close(torch.from_numpy(found), F.scaled_dot_product_attention(q, q, q), check_stride=True)


def test_attention_of_what_is_not_finite_is_the_tables():
    q, k, v = (x.numpy() for x in heads())
    q[0, 1, 2, 3], k[1, 2, 3, 4] = np.nan, np.inf
    wanted = torchnp.aten.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert np.array_equal(fast_linear_sdpa.attention(q, k, v, is_causal=True), wanted, equal_nan=True)


def test_refusals_of_attention_are_torchs():
    q, k, v = (x.numpy() for x in heads())
    for given, mask in (((q, k[..., :8], v), None), ((q, k, v.astype("f8")), None), ((q, k, v), np.ones(3, "f4"))):
        with pytest.raises((RuntimeError, IndexError)) as said:
            fast_linear_sdpa.attention(*given, mask)
        with pytest.raises(said.type) as theirs:
            F.scaled_dot_product_attention(
                *map(torch.from_numpy, given), None if mask is None else torch.from_numpy(mask)
            )
        assert str(said.value) == str(theirs.value)


@pytest.mark.parametrize("made", [recurrent.LSTM, recurrent.GRU])
def test_refusals_of_recurrent_layers_are_the_tables(made):
    torch.manual_seed(0)
    kind = {"LSTM": nn.LSTM, "GRU": nn.GRU}[made.__name__](5, 7)
    params = [p.detach().numpy() for p in kind.parameters()]
    h = np.zeros((1, 2, 7), "f4")
    call = partial(
        made(),
        params=params,
        has_biases=True,
        num_layers=1,
        dropout=0.0,
        train=False,
        bidirectional=False,
        batch_first=False,
    )
    hx = (h, h) if made.states == 2 else h
    for x, state in ((np.ones((3, 2, 4), "f4"), hx), (np.ones((3, 4, 5), "f4"), hx)):
        with pytest.raises(RuntimeError) as said:
            call(x, state)
        with pytest.raises(RuntimeError) as theirs:
            torchnp.table[made.name](x, state, params, True, 1, 0.0, False, False, False)
        assert str(said.value) == str(theirs.value)


# ---------------------------------------------------------------- chains


class Chained(nn.Module):
    """A chain of elementwise operators over all elements; two results are used outside, and some operators take smaller
    operands."""

    def forward(self, x, row, column, number):
        a = x * row + column
        b = torch.where(a > number, torch.sigmoid(a), a.exp())
        return b, (b * 2 - x).to(torch.float64).sum(), torch.clamp(b, 0.1, 0.9) + 1


def chained(module, *args, **options):
    file = io.BytesIO()
    torch.export.save(torch.export.export(module, args, **options), file)
    seen = []
    program, exact = torchnp.load(file), torchnp.load(file, exact=True)
    given = [to_numpy(x) for x in args]
    found = program.run((*given,), {}, lambda node, seconds: seen.append(node))
    return found, exact(*given), [node for node in seen if isinstance(node.function, elementwise_chains.Chain)]


@pytest.mark.parametrize(
    "shape", [(600, 700), (3, 7, 150, 130), (1, 2**18 + 5), (2**18 + 5, 1), (40, 50), (2**11, 2**12)]
)
def test_chains_have_the_bits_of_the_table(shape):
    torch.manual_seed(0)
    x, row = torch.randn(shape), torch.randn(shape[-1])
    column = torch.randn(*shape[:-1], 1)
    found, wanted, joined = chained(Chained(), x, row, column, torch.tensor(0.2, dtype=torch.float64))
    assert len(joined) == 2 and "aten::sigmoid" in joined[0].label
    for a, b in zip(found, wanted, strict=True):
        assert np.array_equal(a, b) and a.dtype == b.dtype and a.strides == b.strides


@pytest.mark.parametrize("dtype", [torch.float64, torch.int32, torch.complex64, torch.bool])
def test_chains_of_other_dtypes(dtype):
    class Few(nn.Module):
        def forward(self, x, y):
            return (x + y) * x == y, x + 0.5

    torch.manual_seed(0)
    x, y = (torch.randint(0, 9, (700, 800)).to(dtype) for _ in range(2))
    found, wanted, joined = chained(Few(), x, y)
    assert joined
    for a, b in zip(found, wanted, strict=True):
        assert np.array_equal(a, b) and a.dtype == b.dtype


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.complex64, torch.float32])
def test_what_torch_leaves_over_from_vectors_stays_at_the_end(dtype):
    class Roots(nn.Module):
        def forward(self, x):
            return torch.rsqrt(x * x + 1) * 1, -x + 0

    torch.manual_seed(0)
    x = torch.randn(3001, 101).to(dtype) * 1000
    found, wanted, joined = chained(Roots(), x)
    assert joined
    for a, b in zip(found, wanted, strict=True):
        bits = f"u{a.dtype.itemsize if a.dtype.kind != 'c' else 4}"
        assert np.array_equal(a.view(bits), b.view(bits))


def test_constants_are_cut_too():
    class Fixed(nn.Module):
        def forward(self, x):
            places = torch.arange(512).float().sin().expand(512, 512).mul(2)
            return (x * places + torch.ones(512, 1)).relu()

    found, wanted, joined = chained(Fixed(), torch.randn(512, 512))
    assert np.array_equal(found, wanted)
    assert [type(x) for x in joined[0].args] == [Ref, np.ndarray, np.ndarray]


def test_what_cannot_be_cut_is_computed_whole():
    class Turned(nn.Module):
        def forward(self, x, y):
            return (x.mT + y).abs().sqrt()

    class Outer(nn.Module):
        def forward(self, x, y):
            return (x + y).abs().sqrt()

    x, y = torch.randn(700, 700), torch.randn(700, 700)
    for module, args in ((Turned(), (x, y)), (Outer(), (torch.randn(2**18, 1), torch.randn(3)))):
        found, wanted, joined = chained(module, *args)
        assert joined and np.array_equal(found, wanted) and found.strides == wanted.strides


def test_layouts_are_kept_in_chains():
    class Turned(nn.Module):
        def forward(self, x):
            return (x * 2).clone(memory_format=torch.channels_last) + 1

    found, wanted, _ = chained(Turned(), torch.randn(512, 3, 16, 16))
    assert np.array_equal(found, wanted) and found.strides == wanted.strides
    assert found.transpose(0, 2, 3, 1).flags.c_contiguous


def test_chains_leave_their_arguments():
    class Same(nn.Module):
        def forward(self, x):
            return torch.conj_physical(x) * 1, torch.conj_physical(x).neg()

    x = torch.randn(700, 700)
    before = x.clone()
    found, wanted, _ = chained(Same(), x)
    for a, b in zip(found, wanted, strict=True):
        assert np.array_equal(a, b) and not np.shares_memory(a, x.numpy())
    assert torch.equal(x, before)
