"""Protocols compared with NumPy's integers, at the limits of their ranges."""

import numpy as np
import pytest

from torchnp.mpc.bilinear import function
from torchnp.tests.mpc.sharing import Parties

rng = np.random.default_rng(0)
EDGES = np.array([0, 1, -1, 2**62, -(2**62), 2**63 - 1, -(2**63), 2**31, -(2**31), 5])
WORDS = np.concatenate([EDGES, rng.integers(-(2**63), 2**63 - 1, 200)])


@pytest.fixture(params=[2, 3, 5])
def parties(request):
    with np.errstate(over="ignore"):
        yield Parties(request.param)


def test_products(parties):
    x, y = WORDS, WORDS[::-1].copy()
    p = parties.protocol
    assert np.array_equal(parties.words(p.multiply(parties.share(x), parties.share(y))), x * y)
    a, b = WORDS[:60].reshape(3, 4, 5), WORDS[:35].reshape(5, 7)
    assert np.array_equal(parties.words(p.bilinear("matmul", parties.share(a), parties.share(b))), a @ b)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("stride, padding, dilation, groups", [(1, 1, 1, 1), (2, 0, 1, 2), (2, 1, 2, 1), (3, 2, 1, 4)])
def test_gradients_of_convolutions(transposed, stride, padding, dilation, groups):
    import torch

    generator = torch.Generator().manual_seed(0)
    shape = (4, 8 // groups, 3, 2) if transposed else (8, 4 // groups, 3, 2)
    x = torch.randint(-9, 9, (2, 4, 9, 8), generator=generator).double().requires_grad_()
    w = torch.randint(-9, 9, shape, generator=generator).double().requires_grad_()
    options = {"stride": [stride] * 2, "padding": [padding] * 2, "dilation": [dilation] * 2, "groups": groups}
    extra = [1 if transposed and stride > 1 else 0] * 2
    y = torch.convolution(x, w, None, **options, transposed=transposed, output_padding=extra)
    g = torch.randint(-9, 9, y.shape, generator=generator).double()
    y.backward(g)
    options |= {"transposed": transposed, "output_padding": extra}
    words = lambda t: t.detach().long().numpy()
    of_input = function("convolution_of_input", {**options, "size": list(x.shape)})(words(g), words(w))
    of_weight = function("convolution_of_weight", {**options, "size": list(w.shape)})(words(g), words(x))
    assert np.array_equal(of_input, words(x.grad)) and np.array_equal(of_weight, words(w.grad))


@pytest.mark.parametrize("bits", [1, 16, 24, 40])
def test_truncation_is_off_by_less_than_one_and_right_on_average(parties, bits):
    """Up to 2**62 truncation never fails; the protocol's documentation gives this bound."""
    p = parties.protocol
    x = np.concatenate([rng.integers(-(2**62), 2**62, 4000), [2**62 - 1, -(2**62), 0, 1 << bits, -(1 << bits)]])
    error = parties.words(p.truncate(parties.share(x), bits)) - (x >> bits)
    assert set(np.unique(error)) <= {0, 1}
    assert not error[x % (1 << bits) == 0].any()  # multiples are not rounded
    cut = (x % (1 << bits)) / 2.0**bits
    # Each error is 1 with the probability `cut`; the bound is six standard deviations of their sum.
    assert abs((error - cut).sum()) < 6 * np.sqrt((cut * (1 - cut)).sum()) + 1e-9


def test_truncation_beyond_its_range_is_wrong(parties):
    """The bound is tight: from 2**62 on, results are off by a power of two."""
    x = np.full(2000, 2**62 + 2**61)
    error = parties.words(parties.protocol.truncate(parties.share(x), 16)) - (x >> 16)
    assert (np.abs(error) > 2**40).any()


def test_comparisons_and_bits_are_exact(parties):
    p = parties.protocol
    assert np.array_equal(parties.words(p.negative(parties.share(WORDS))), WORDS < 0)
    assert np.array_equal(parties.words(p.zero(parties.share(WORDS))), WORDS == 0)
    places = p.to_sums(p.bits_of(parties.share(WORDS)), 64)
    assert np.array_equal(parties.words(places), WORDS >> np.arange(64)[:, None] & 1)
    size = np.abs(WORDS[3:])
    highest = parties.words(p.to_sums(p.highest_bit(p.bits_of(parties.share(size))), 64))
    assert np.array_equal(highest.argmax(0), [int(n).bit_length() - 1 if n >= 0 else 63 for n in size])


@pytest.mark.parametrize("length", [2, 16, 1024])
def test_unit_vectors(parties, length):
    index = rng.integers(0, length, (3, 40))
    found = parties.words(parties.protocol.unit_vectors(parties.share(index), length))
    assert np.array_equal(found, np.eye(length)[index])
