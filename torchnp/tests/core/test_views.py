"""The strides of views against torch, on any memory, also for dimensions of size 1 and for empty tensors."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import torchnp
from torchnp.interop import to_numpy


@st.composite
def tensors(draw):
    """Return a window with gaps on permuted memory; a dimension that is cut to size 1 keeps its stride."""
    shape = draw(st.lists(st.sampled_from([1, 1, 2, 3, 4, 0]), max_size=4))
    whole = [n * draw(st.sampled_from([1, 1, 2])) + draw(st.sampled_from([0, 0, 1])) for n in shape]
    x = torch.arange(max(1, int(np.prod(whole))), dtype=torch.float32)[: int(np.prod(whole))].reshape(whole)
    x = x[tuple(slice(0, n) for n in shape)]
    return x.permute(draw(st.permutations(range(len(shape)))))


def _dims(x):
    return st.integers(-x.dim(), x.dim() - 1)


@st.composite
def shapes(draw, x):
    """Return a shape with the same number of elements, some of its dimensions of size 1."""
    rest, sizes = x.numel(), []
    for prime in (2, 2, 2, 3, 3, 4):
        if rest and rest % prime == 0 and draw(st.booleans()):
            sizes.append(prime)
            rest //= prime
    sizes.append(rest)
    sizes += [1] * draw(st.integers(0, 2))
    return draw(st.permutations(sizes))


VIEWS = {
    "aten::view": lambda x: st.tuples(shapes(x) | st.just(list(x.shape))),
    "aten::_unsafe_view": lambda x: st.tuples(shapes(x)),
    "aten::reshape": lambda x: st.tuples(shapes(x)),
    "aten::unsqueeze": lambda x: st.tuples(st.integers(-x.dim() - 1, x.dim())),
    "aten::squeeze": lambda x: st.just(()),
    "aten::atleast_2d": lambda x: st.just(()),
    "aten::atleast_3d": lambda x: st.just(()),
    "aten::ravel": lambda x: st.just(()),
    "aten::flatten.using_ints": lambda x: st.tuples(st.integers(0, max(x.dim() - 1, 0)), st.just(-1)),
    "aten::slice.Tensor": lambda x: (
        st.tuples(_dims(x), *[st.integers(-4, 5)] * 2, st.integers(1, 3)) if x.dim() else st.nothing()
    ),
    "aten::select.int": lambda x: st.tuples(_dims(x), st.just(0)) if x.dim() else st.nothing(),
    "aten::unfold": lambda x: st.tuples(_dims(x), st.just(1), st.integers(1, 2)) if x.dim() else st.nothing(),
    "aten::split.Tensor": lambda x: st.tuples(st.integers(1, 3), _dims(x)) if x.dim() else st.nothing(),
    "aten::unflatten.int": lambda x: st.just((0, [x.shape[0], 1])) if x.dim() else st.nothing(),
    "aten::expand": lambda x: st.just(([2, *x.shape],)) | st.just(([3 if n == 1 else n for n in x.shape],)),
}


def _called(op, *args):
    try:
        out = op(*args)
    except (RuntimeError, IndexError) as error:
        return RuntimeError if isinstance(error, RuntimeError) else IndexError, str(error).splitlines()[0]
    return list(out) if isinstance(out, (list, tuple)) else [out]


@pytest.mark.parametrize("name", VIEWS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_views_have_torchs_strides(name, data):
    x = data.draw(tensors().filter(lambda x: x.dim() or not VIEWS[name](x).is_empty))
    args = data.draw(VIEWS[name](x))
    base, _, overload = name.removeprefix("aten::").partition(".")
    theirs = _called(getattr(getattr(torch.ops.aten, base), overload or "default"), x, *args)
    ours = _called(torchnp.table[name], to_numpy(x), *args)
    if isinstance(theirs, tuple):
        assert ours == theirs
        return
    assert [(r.shape, tuple(s // r.itemsize for s in r.strides)) for r in ours] == [
        (r.shape, r.stride()) for r in theirs
    ]
    assert all(np.array_equal(a, b.numpy()) for a, b in zip(ours, theirs))
    shared = [r.numel() > 0 and r.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() for r in theirs]
    assert [np.shares_memory(r, to_numpy(x)) for r in ours] == shared
