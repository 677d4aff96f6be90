"""Strides of empty tensors in `NumpyMode`: torch keeps them, whereas NumPy sets all of them to 0."""

import itertools

import pytest

torch = pytest.importorskip("torch")

from torchnp.interop import NumpyMode  # noqa: E402

CALLS = [
    lambda x: x.sort(),
    lambda x: x.sort(stable=True, dim=0),
    lambda x: [x.argsort(), x.clone(), x + 1, x.long(), x.cumsum(0), x.flip(0), x.contiguous(), x.relu(), x.softmax(0)],
    lambda x: [
        torch.zeros_like(x),
        torch.ones_like(x),
        torch.empty_like(x),
        torch.where(x > 1, x, x),
        torch.cat([x, x]),
    ],
    lambda x: [x.t() if x.dim() == 2 else x.movedim(0, -1), x[:0], x.msort(), *x.topk(0)],
    lambda x: [torch.empty_strided(x.shape, x.stride()), x.new_empty_strided(x.shape, x.stride())],
]


@pytest.mark.parametrize("shape", [(4, 0), (0, 4), (0, 2, 0), (2, 0, 3), (0,)], ids=str)
def test_strides_are_torchs(shape):
    for strides in itertools.product((0, 1, 2, 6), repeat=len(shape)):
        for call in CALLS:
            x = torch.empty_strided(shape, strides)
            want = [t.stride() for t in call(x)]
            with NumpyMode():
                assert [t.stride() for t in call(x)] == want, strides
