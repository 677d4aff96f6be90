"""Results have torch's strides: the rules alone against torch, and code that relies on them, such as ``.view``."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import torchnp
from torchnp.core.schema import of_any_version
from torchnp.interop import NumpyMode, to_numpy
from torchnp.layout import named_rules, stride_rules

aten = torchnp.aten
F = torch.nn.functional


@st.composite
def operands(draw: st.DrawFn, most: int = 3) -> list[torch.Tensor]:
    """Tensors that broadcast: in any memory order, with gaps, expanded, with sizes 1 and 0."""
    shape = draw(st.lists(st.sampled_from([0, 1, 2, 3, 4]), max_size=5))
    found = []
    for _ in range(draw(st.integers(1, most))):
        sizes = [draw(st.sampled_from([n, n, n, 1])) for n in shape[draw(st.integers(0, len(shape))) if found else 0 :]]
        order = draw(st.permutations(range(len(sizes))))
        gaps = [draw(st.sampled_from([1, 1, 1, 2])) for _ in sizes]
        memory = torch.zeros([sizes[d] * gaps[d] for d in order])
        x = memory[tuple(slice(None, None, gaps[d]) for d in order)].permute(
            [order.index(d) for d in range(len(sizes))]
        )
        if sizes and draw(st.integers(0, 4)) == 0 and 0 not in sizes:
            d = draw(st.integers(0, len(sizes) - 1))
            x = x.narrow(d, 0, 1).expand(sizes)
        found.append(x)
    return found


def shapes_and_strides(tensors: list[torch.Tensor]) -> list[stride_rules.Layout]:
    return [(tuple(x.shape), x.stride()) for x in tensors]


@settings(max_examples=200, deadline=None)
@given(operands())
def test_iterator(tensors: list[torch.Tensor]) -> None:
    op = {1: torch.neg, 2: torch.add, 3: torch.addcmul}[len(tensors)]
    assert stride_rules.iterated(shapes_and_strides(tensors)) == op(*tensors).stride()


@settings(max_examples=100, deadline=None)
@given(operands(1))
def test_one_tensor(tensors: list[torch.Tensor]) -> None:
    (x,) = tensors
    (found,) = shapes_and_strides(tensors)
    assert stride_rules.is_contiguous(*found) == x.is_contiguous()
    assert stride_rules.is_dense(*found) == torch.ops.aten.is_non_overlapping_and_dense(x)
    assert stride_rules.preserved(*found) == torch.empty_like(x).stride()
    assert stride_rules.contiguous(found[0]) == torch.empty(found[0]).stride()
    if x.ndim in stride_rules.CHANNELS_LAST:
        last = torch.channels_last if x.ndim == 4 else torch.channels_last_3d
        assert stride_rules.is_channels_last(*found) == x.is_contiguous(memory_format=last)
        assert (
            stride_rules.in_format(found[0], str(last).removeprefix("torch."))
            == torch.empty(found[0], memory_format=last).stride()
        )


@settings(max_examples=100, deadline=None)
@given(operands(1), st.data())
def test_transforms(tensors: list[torch.Tensor], data: st.DataObject) -> None:
    (x,) = tensors
    if not x.ndim or not x.numel():
        return
    dims = data.draw(st.lists(st.integers(0, x.ndim - 1), min_size=1, unique=True))
    wanted = torch.ops.aten._fft_r2c(x, dims, 0, True)
    assert (
        stride_rules.transformed(*shapes_and_strides(tensors), tuple(wanted.shape), dims, whole=False)
        == wanted.stride()
    )
    wanted = torch.ops.aten._fft_c2c(x.to(torch.complex64), dims, 0, True)
    found = shapes_and_strides([x.to(torch.complex64)])
    assert stride_rules.transformed(*found, tuple(wanted.shape), dims, whole=True) == wanted.stride()


def test_rules_name_rows_and_rules_that_there_are() -> None:
    for name, texts in named_rules.rules().items():
        for text in texts:
            named_rules.parse(text, of_any_version()[name])


MATRICES = {
    "row-major": torch.arange(12.0).view(3, 4),
    "transposed": torch.arange(12.0).view(4, 3).t(),
    "with gaps": torch.arange(48.0).view(6, 8)[::2, ::2],
    "expanded": torch.arange(4.0).expand(3, 4),
    "of one column": torch.arange(12.0).view(4, 3).t()[:, :1],
    "empty": torch.zeros(0, 4).t(),
}


@pytest.mark.parametrize("name", MATRICES)
def test_softmax_can_be_viewed_flat(name: str) -> None:
    x = MATRICES[name]
    with NumpyMode():
        for dim in (0, 1):
            for op in (torch.softmax, torch.log_softmax, torch.cumsum):
                assert op(x, dim).view(-1).shape == (x.numel(),)


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("op", [
    torch.softmax, torch.sum, torch.amax, torch.cumsum, torch.sort, torch.logsumexp, torch.argsort, torch.std, F.normalize,
])  # fmt: skip
def test_strides_of_what_goes_along_a_dimension(name: str, op) -> None:
    x = MATRICES[name]
    if name == "empty" and op is torch.amax:
        return
    for dim in (0, 1):
        options = {} if op is not F.normalize else {"p": 2.0}
        wanted = op(x, dim=dim, **options)
        with NumpyMode():
            found = op(x, dim=dim, **options)
        for w, f in zip([wanted] if torch.is_tensor(wanted) else wanted, [found] if torch.is_tensor(found) else found):
            assert f.stride() == w.stride()


CHAINS = {
    "conv": lambda x: F.conv2d(x, torch.ones(4, 4, 3, 3), padding=1),
    "batch norm": lambda x: F.batch_norm(x, torch.zeros(4), torch.ones(4), training=True),
    "relu": F.relu,
    "sum": lambda x: x + x.clone(),
    "mixed sum": lambda x: x + torch.ones(x.shape),
    "mixed sum the other way": lambda x: torch.ones(x.shape) + x,
    "sum with channels": lambda x: x * torch.ones(4, 1, 1),
    "number": lambda x: 2 * x - 1,
    "promotion": lambda x: x + torch.ones(x.shape, dtype=torch.float64),
    "max pool": lambda x: F.max_pool2d(x, 2),
    "average pool": lambda x: F.avg_pool2d(x, 2),
    "adaptive pool": lambda x: F.adaptive_avg_pool2d(x, 3),
    "global pool": lambda x: F.adaptive_avg_pool2d(x, 1),
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "dropout": lambda x: F.dropout(x, 0.5),
    "where": lambda x: torch.where(x > 0, x, 0.0),
    "cat": lambda x: torch.cat([x, x], 1),
    "stack": lambda x: torch.stack([x, x], 1),
    "pad": lambda x: F.pad(x, (1, 1)),
    "mean": lambda x: x.mean((2, 3), keepdim=True),
    "cast": lambda x: x.to(torch.float64),
    "group norm": lambda x: F.group_norm(x, 2),
}


@pytest.mark.parametrize("name", CHAINS)
def test_channels_last_goes_as_far_as_in_torch(name: str) -> None:
    chain = CHAINS[name]
    x = torch.randn(2, 4, 6, 6)
    for image in (x.to(memory_format=torch.channels_last), x, x[:, :, :, ::2], x[:1], x.transpose(1, 2)):
        if image.shape[1] != 4:
            continue
        wanted = chain(image)
        with NumpyMode():
            found = chain(image)
        assert found.stride() == wanted.stride()


def test_the_table_itself_has_torchs_strides() -> None:
    x = np.zeros((2, 3, 4), np.float32).transpose(2, 0, 1)
    for ours in (aten.softmax(x, 0), aten.sum.dim_IntList(x, [0], True), aten.cumsum(x, 1)):
        assert ours.flags.c_contiguous
    assert aten.add(x, x.astype(np.int64)).strides == x.strides
    assert aten.zeros([2, 0, 3]).strides == (12, 12, 4)


def test_a_result_is_never_laid_over_an_argument() -> None:
    x = np.zeros((2, 3), np.float32)
    assert aten.contiguous(x) is x or np.shares_memory(aten.contiguous(x), x)
    assert to_numpy(torch.zeros(2)).shape == (2,)


def laid(shape: tuple[int, ...], steps: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.arange(1, 41).to(dtype).as_strided(shape, steps)


# A dimension of one element may have any stride, and an empty tensor any strides.
LONE = {
    "one element": laid((1, 1, 1), (2, 2, 2)),
    "one row": laid((1, 3), (1, 1)),
    "one channel": laid((1, 2, 5), (1, 1, 2)),
    "images of one row": laid((1, 4, 1, 2), (1, 1, 4, 4)),
    "empty": laid((3, 0, 2), (1, 3, 7)),
    "complex": laid((1, 1, 2), (2, 2, 2), torch.complex64),
}
KEEPS = {
    "cast": lambda x: torch.ops.aten._cast_Double(x),
    "to": lambda x: x.to(torch.complex128),
    "to float8": lambda x: x.to(torch.float8_e5m2),
    "to row-major": lambda x: x.to(torch.complex128, memory_format=torch.contiguous_format),
    "angle": torch.angle,
    "deg2rad": torch.deg2rad,
    "flip": lambda x: x.flip(0),
    "rot90": lambda x: x.rot90(),
    "pad": lambda x: F.pad(x, (0, 0)),
    "reflect": lambda x: F.pad(x, (0, 0), mode="reflect"),
    "circular": lambda x: torch.ops.aten._pad_enum(x, [0, 0], 2, None),
    "meshgrid": lambda x: torch.meshgrid(x[0, :, 0], x[0, 0], indexing="ij")[1] if x.ndim == 3 and x.numel() else x,
    "where": lambda x: torch.where(torch.ones(x.shape, dtype=torch.bool), x, 2j),
}


@pytest.mark.parametrize("name", LONE)
@pytest.mark.parametrize("op", KEEPS)
def test_strides_of_lone_elements(name: str, op: str) -> None:
    x, of = LONE[name], KEEPS[op]
    try:
        wanted = of(x)
    except (RuntimeError, NotImplementedError):  # the op does not accept this rank or size
        return
    with NumpyMode():
        found = of(x)
    assert found.stride() == wanted.stride()


def test_a_tensor_in_the_format_that_it_suggests_is_not_copied() -> None:
    x = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (4,), (0,))
    assert aten.to.dtype_layout(x, device="cpu", memory_format="contiguous_format") is x
    image = np.zeros((1, 1, 1, 1), np.float32)
    assert aten.to.dtype_layout(image, device="cpu", memory_format="channels_last") is not image


@pytest.mark.parametrize("parameters", [False, True])
@pytest.mark.parametrize("shape, strides", [
    ((4, 3, 5, 6), (90, 1, 18, 3)), ((2, 1, 3, 3), (9, 1, 3, 1)), ((1, 3, 1, 1), (3, 1, 3, 3)), ((2, 3, 1, 4), (12, 1, 12, 3)),
])  # fmt: skip
def test_batch_norm_is_row_major_where_its_input_is_that_too(shape, strides, parameters):
    x = torch.randn(400).as_strided(shape, strides)
    weight, mean, var = (torch.ones(shape[1]) for _ in range(3))
    w = weight if parameters else None
    for name, args in {
        "native_batch_norm": (x, w, w, None, None, True, 0.1, 1e-5),
        "_native_batch_norm_legit.no_stats": (x, w, w, True, 0.1, 1e-5),
        "_batch_norm_impl_index": (x, w, w, mean, var, True, 0.1, 1e-5, False),
        "_batch_norm_no_update": (x, w, w, mean, var, 0.1, 1e-5),
    }.items():
        packet, _, overload = name.partition(".")
        wanted = getattr(getattr(torch.ops.aten, packet), overload or "default")(*args)[0]
        found = torchnp.table[f"aten::{name}"](*(to_numpy(a) if isinstance(a, torch.Tensor) else a for a in args))[0]
        assert tuple(s // 4 for s in found.strides) == wanted.stride(), name


@pytest.mark.parametrize("transposed", [False, True])
def test_out_takes_a_result_in_any_layout(monkeypatch, transposed):
    """The result is copied directly into ``out=``, without a copy in torch's layout before, unless ``out=`` is
    resized."""
    x, index = np.arange(20.0, dtype=np.float32).reshape(5, 4).T, np.zeros((2, 2), np.int64)
    wanted = aten.scatter.value(x, 0, index, 7.0)
    out = np.empty((5, 4), np.float32).T if transposed else np.empty((4, 5), np.float32)
    strides, copies = out.strides, []
    place = stride_rules.place
    monkeypatch.setattr(stride_rules, "place", lambda a, to: copies.append(a) or place(a, to))
    assert aten.scatter.value_out(x, 0, index, 7.0, out=out) is out
    assert np.array_equal(out, wanted) and out.strides == strides and not copies
    resized = np.empty((0,), np.float32)
    aten.scatter.value_out(x, 0, index, 7.0, out=resized)
    assert copies and resized.shape == wanted.shape and resized.strides == wanted.strides
