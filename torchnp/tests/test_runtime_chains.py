"""Chains of elementwise operators in one call: the same bits as one by one, whatever the shapes, layouts and writes."""

import numpy as np
import pytest
import torch

import torchnp

SIZES = (300, 1024)  # large enough for parts


def rounded(x, y):
    return torch.tanh(x * 1.5) * y + torch.sigmoid(y - 2)


def many(x, y):
    g = x * y.sigmoid()
    return torch.where(x > 0, g, 0.1 * g).clamp(-2, 2), (g - y).abs().to(torch.float64) * 2


def with_a_row(x, y):
    return (x * y[0] + y[1]).exp().neg()


def with_a_column(x, y):
    return (x - x.mean(1, keepdim=True)).square() * y[:, :1]


def smaller_first(x, y):
    return (y[:1] * 2 + 1) * x + x  # what is repeated along the rows is made once


def twice(x, y):
    z = x + y
    return (z * z).abs() - z


def written_between(x, y):
    z = x.clone()
    a = z * 2
    z.add_(1)
    return a + z


def of_numbers(x, y):
    return torch.addcmul(x, y, y, value=0.5).lerp(y, 0.25).add(x, alpha=2)


def halves(x, y):
    x, y = x.bfloat16(), y.bfloat16()
    return (x * y + x).exp().float()


def integers(x, y):
    i = (x * 100).to(torch.int64)
    return (i + 3) * i // 7, (i > 2) & (i < 50)


FUNCTIONS = [
    rounded, many, with_a_row, with_a_column, smaller_first, twice, written_between, of_numbers, halves, integers
]  # fmt: skip


def program(function, tmp_path, *inputs, exact=False, **kwargs):
    class Module(torch.nn.Module):
        def forward(self, *given):
            return function(*given)

    place = tmp_path / "p.pt2"
    if not place.exists():
        torch.export.save(torch.export.export(Module(), inputs, **kwargs).run_decompositions(), place)
    return torchnp.load(place, exact=exact)


def same(found, expected):
    found, expected = (x if isinstance(x, tuple) else (x,) for x in (found, expected))
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        assert (a.dtype, a.shape, a.strides) == (b.dtype, b.shape, b.strides)
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("layout", ["rows", "turned", "one of them turned", "steps", "small"])
def test_the_same_bits(function, layout, tmp_path):
    torch.manual_seed(0)
    shape = (7, 5) if layout == "small" else SIZES
    x, y = torch.randn(shape), torch.randn(shape)
    if layout == "turned":
        x, y = (v.t().contiguous().t() for v in (x, y))
    if layout == "one of them turned":
        y = y.t().contiguous().t()
    if layout == "steps":
        x = torch.cat([x, x], 1)[:, ::2]
    quick = program(function, tmp_path, x, y)
    exact = program(function, tmp_path, x, y, exact=True)
    found = quick(x.numpy(), y.numpy())
    same(found, exact(x.numpy(), y.numpy()))
    expected = function(x, y)
    for a, b in zip(
        found if isinstance(found, tuple) else (found,), expected if isinstance(expected, tuple) else [expected]
    ):
        assert a.strides == tuple(s * a.itemsize for s in b.stride())
        # The last step may be a conversion: what came before it is as near as its own dtype allows.
        computed = torch.bfloat16 if function is halves else torch.promote_types(b.dtype, torch.int8)
        computed = torch.float32 if computed is torch.float64 else computed
        torch.testing.assert_close(torch.from_numpy(a).to(computed), b.to(computed))


def test_how_much_is_one_call(tmp_path):
    x = torch.randn(SIZES)
    profile = []
    quick = program(rounded, tmp_path, x, x)
    quick.run((x.numpy(), x.numpy()), {}, lambda node, _: profile.append(node.label or node.target))
    assert len(profile) == 1
    assert all(word in profile[0] for word in ("2 mul.Tensor", "tanh", "sigmoid", "sub", "add"))


def test_images_and_open_sizes(tmp_path):
    """In other layouts that have no gaps, and where sizes are known only when it runs."""
    x = torch.randn(8, 16, 64, 64).to(memory_format=torch.channels_last)
    weight = torch.randn(1, 16, 1, 1)
    batch = torch.export.Dim("batch", max=100)
    quick = program(
        lambda x, w: (x * w + 1).relu() * x, tmp_path, x, weight, dynamic_shapes={"given": ({0: batch}, {})}
    )
    exact = program(None, tmp_path, exact=True)
    for n in (8, 3):
        image = np.ascontiguousarray(x[:n].permute(0, 2, 3, 1).numpy()).transpose(0, 3, 1, 2)
        same(quick(image, weight.numpy()), exact(image, weight.numpy()))


def test_refused_in_the_words_of_one_by_one(tmp_path):
    i = torch.ones(SIZES, dtype=torch.int64)
    quick = program(lambda x, y: (x + 1) // y * 2, tmp_path, i, i)
    zero = np.zeros(SIZES, np.int64)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        quick(i.numpy(), zero)


def test_in_compiled_training():
    torch.manual_seed(0)
    x = torch.randn(SIZES, requires_grad=True)
    y = torch.randn(SIZES)

    def loss(x):
        return (torch.nn.functional.silu(x * 2) * y).tanh().square().sum()

    (expected,) = torch.autograd.grad(loss(x), x)
    (found,) = torch.autograd.grad(torch.compile(loss, backend="torchnp")(x), x)
    torch.testing.assert_close(found, expected)
