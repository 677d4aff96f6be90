"""Other parts of torch under NumpyMode: gradcheck, dual numbers, subclasses, warnings, error classes."""

from __future__ import annotations

import warnings
from contextlib import nullcontext

import pytest

torch = pytest.importorskip("torch")
from torch.autograd import forward_ad, gradcheck, gradgradcheck  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from torchnp.interop import CrossCheckError, NumpyMode  # noqa: E402

CASES = {}


def case(function):
    """Declare a case; its return value is compared as text."""
    CASES[function.__name__] = function
    return function


class Marked(torch.Tensor):
    """A subclass that torch's own constructor makes."""


@case
def dtypes_of_results():
    a, b = torch.ones(2), torch.ones(2, dtype=torch.float64)
    torch.testing.assert_close(a, b, check_dtype=False)
    return torch.promote_types(torch.bfloat16, torch.int8), torch.result_type(a, 1j), torch.can_cast(a.dtype, b.dtype)


@case
def derivatives_are_checked():
    x = torch.arange(1.0, 4, dtype=torch.float64).requires_grad_()
    z = torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex128).requires_grad_()
    every = {"check_batched_grad": True, "check_forward_ad": True, "check_batched_forward_grad": True}
    first = [gradcheck(torch.sin, (v,), **every) for v in (x, z)]
    second = [gradgradcheck(torch.exp, (v,), check_batched_grad=True, check_fwd_over_rev=True) for v in (x, z)]
    return first, second, gradcheck(torch.abs, (z,), fast_mode=True)


@case
def dual_numbers():
    with forward_ad.dual_level():
        d = forward_ad.make_dual(torch.ones(2), torch.full((2,), 2.0))
        written = torch.zeros(2).add_(d)
        z = forward_ad.make_dual(torch.ones(2) * 1j, torch.ones(2) + 1j)
        return [forward_ad.unpack_dual(x) for x in (d * d, written, d[1:].exp(), z.conj(), z.imag)]


@case
def transforms():
    x = torch.arange(3.0)
    value, linear = torch.func.linearize(torch.sin, x)
    traced = make_fx(lambda y: y.view(1, 3).sin())(x)
    return (
        torch.func.jacfwd(lambda y: y**3)(x),
        torch.func.hessian(lambda y: (y**3).sum())(x),
        value,
        linear(x),
        traced(x),
    )


@case
def subclasses():
    made = Marked([1.0, 2.0]), Marked(2, 3).zero_(), Marked(torch.ones(1)), torch.ones(2).as_subclass(Marked) + 1
    return made, [type(x) for x in made], type(torch.nn.Parameter(made[0]))


@case
def error_classes():
    found = []
    for refused in (
        lambda: torch.linalg.inv(torch.zeros(2, 2)),
        lambda: torch.linalg.cholesky(-torch.eye(2)),
        lambda: torch.linalg.svd(torch.full((2, 2), torch.nan)),
        lambda: torch.linalg.solve_ex(torch.zeros(2, 2), torch.ones(2), check_errors=True),
    ):
        with pytest.raises(torch.linalg.LinAlgError) as error:
            refused()
        found.append(str(error.value))
    return found


@case
def deterministic_algorithms():
    found = []
    x, place = torch.zeros(3), torch.tensor([0])
    for warn_only in (False, True):
        torch.use_deterministic_algorithms(True, warn_only=warn_only)
        try:
            found += [torch.empty(2), torch.empty(2, dtype=torch.int8), torch.empty_like(x), torch.zeros(2).resize_(3)]
            for undetermined in (
                lambda: x.put_(place, torch.ones(1)),
                lambda: torch.nn.functional.max_unpool2d(torch.ones(1, 1, 1, 1), place.view(1, 1, 1, 1), 2),
            ):
                try:
                    found.append(undetermined())
                except RuntimeError as error:
                    found.append(str(error))
        finally:
            torch.use_deterministic_algorithms(False)
    return found


@case
def resized():
    template = torch.zeros(3, 2)
    last = torch.zeros(1, 2, 2, 2).contiguous(memory_format=torch.channels_last)
    grown = [
        torch.arange(6.0).view(2, 3).t().resize_as_(template),
        torch.zeros(2, 6).sum(0).resize_as_(last, memory_format=torch.preserve_format).zero_(),
        torch.zeros(2, 3).sum(0).resize_(4).zero_(),
        torch.fft.fft(torch.ones(3), out=torch.zeros(2, dtype=torch.complex64)),
        torch.fft.hfft2(torch.ones(2, 3) + 0j, out=torch.zeros(0)),
        torch.zeros(5).addbmm_(torch.ones(2, 3, 4), torch.ones(2, 4, 5)),
        torch.arange(4, out=torch.zeros(2, 3)),
        torch.eye(2, out=torch.zeros(3)),
    ]
    return grown, [x.stride() for x in grown]


@case
def masks_of_bytes_warn():
    x, mask = torch.arange(3.0), torch.tensor([1, 0, 1], dtype=torch.uint8)
    x[mask] = x[mask] + 1
    return x


def outcome(function, mode):
    torch.manual_seed(0)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with mode:
            result = repr(function())
    said = {str(w.message).partition(" (Triggered")[0] for w in heard if w.category is UserWarning}
    return result, sorted(words for words in said if "Attempted to insert" not in words)


@pytest.mark.parametrize("name", CASES)
def test_as_without_the_mode(name):
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        assert outcome(CASES[name], NumpyMode()) == outcome(CASES[name], nullcontext())
    finally:
        torch.set_warn_always(always)


# ---------------------------------------------------------------- attention with shared heads


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("heads", [(4, 2, 2), (4, 1, 1), (6, 3, 2)], ids=str)
def test_heads_of_keys_are_shared(heads, dtype):
    torch.manual_seed(0)
    shapes = [(2, n, t, 8) for n, t in zip(heads, (70, 40, 40), strict=True)]
    inputs = [torch.randn(s).to(dtype).requires_grad_() for s in shapes]
    plain, ours = [], []
    for results, mode in ((plain, nullcontext()), (ours, NumpyMode())):
        with mode:
            out = torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=True, enable_gqa=True)
            results += [out, *torch.autograd.grad(out.square().sum(), inputs)]
    half = dtype in (torch.bfloat16, torch.float16)  # one rounding of the largest terms
    atol = 8 * torch.finfo(dtype).eps if half else None
    torch.testing.assert_close(ours, plain, atol=atol, rtol=1.6e-2 if half else None)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_running_sums_of_layer_norm_are_rounded(dtype):
    torch.manual_seed(0)
    x, grad = torch.randn(200, 5).to(dtype), torch.randn(200, 5).to(dtype)
    norm = torch.nn.LayerNorm(5).to(dtype)
    plain = torch.autograd.grad(norm(x), list(norm.parameters()), grad)
    with NumpyMode():
        ours = torch.autograd.grad(norm(x), list(norm.parameters()), grad)
    torch.testing.assert_close(ours, plain)


# ---------------------------------------------------------------- crosscheck


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_crosscheck_knows_how_long_sums_are(dtype):
    torch.manual_seed(0)
    with NumpyMode(crosscheck=True):
        convolution = torch.nn.Conv2d(64, 64, 3, padding=1).to(dtype)
        convolution(10 * torch.randn(1, 64, 8, 8).to(dtype)).square().sum().backward()


def test_a_wrong_element_of_a_long_sum_is_seen():
    import torchnp

    def wrong(self, mat2):
        out = torchnp.aten.mm(self, mat2)
        out[0, 0] += 1
        return out

    torch.manual_seed(0)
    with NumpyMode(crosscheck=True, table={**torchnp.table, "aten::mm": wrong}), pytest.raises(CrossCheckError):
        torch.randn(64, 512) @ torch.randn(512, 64)


def test_ties_are_counted():
    with NumpyMode(crosscheck=True) as mode:
        torch.ones(50).topk(7)
        torch.arange(50).topk(7)
    assert mode.ties == {"aten::topk": 1}


# ---------------------------------------------------------------- what NumPy gets wrong


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.int64])
@pytest.mark.parametrize("apart", [2, 4, 8])
def test_elements_apart_are_negated(apart, dtype):
    x = torch.arange(40 * apart, dtype=dtype).view(40, apart)
    expected = x.clone()
    expected[:, 1:2] = -x[:, 1:2]
    with NumpyMode():
        x[:, 1:2].neg_()
    assert torch.equal(x, expected)


# ---------------------------------------------------------------- rare values, classes and words

NAN = torch.nan
RARE = {
    "the batch of an unbatched pool": lambda: torch.nn.functional.adaptive_max_pool2d(torch.ones(0, 4, 4), 2),
    "channels of none": lambda: torch.nn.functional.adaptive_max_pool2d(torch.ones(1, 0, 4, 4), 2),
    "fractions of nothing": lambda: torch.nn.functional.fractional_max_pool3d(torch.ones(0, 4, 4, 4), 2, 2),
    "slices with nan": lambda: torch.unique(torch.tensor([[NAN, 1, NAN], [2, 0, 2]]), dim=1, return_inverse=True),
    "vectors with nan": lambda: torch.unique(torch.tensor([NAN, 1, NAN, 1]), dim=0, return_counts=True),
    "an odd offset": lambda: torch.arange(7.0)[1:].view(torch.float64),
    "a size before a stride": lambda: torch.arange(8.0).view(2, 4).t().view(torch.complex128),
    "no index": lambda: torch.ones(2).index_put_((), torch.ones(())),
    "segments by index": lambda: torch.segment_reduce(torch.ones(2), "sum", indices=torch.tensor([0, 1])),
    "lengths of floats": lambda: torch.segment_reduce(torch.ones(2), "sum", lengths=torch.tensor([2.0])),
    "no segment": lambda: torch.segment_reduce(torch.ones(0), "max", lengths=torch.tensor([], dtype=torch.int64)),
    "segments of a number": lambda: torch.segment_reduce(torch.tensor(1.0), "sum", lengths=torch.tensor([1])),
}


@pytest.mark.parametrize("name", RARE)
def test_rare(name):
    found = []
    for mode in (NumpyMode(), nullcontext()):
        with mode:
            try:
                found.append(repr(RARE[name]()))
            except (RuntimeError, IndexError) as error:
                found.append((type(error), str(error)))
    assert found[0] == found[1]


def test_a_crosscheck_of_lazy_and_recurrent_layers():
    torch.manual_seed(0)
    with NumpyMode(crosscheck=True):
        x = torch.nn.LazyLinear(4)(torch.randn(5, 2, 3))
        torch.nn.LSTM(4, 6)(x)[0].sum().backward()
