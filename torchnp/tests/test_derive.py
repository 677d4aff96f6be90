"""Derived rows against torch: what in-place, out=, _copy, _foreach_ and functional forms write, and refuse."""

import warnings

import numpy as np
import pytest
import torch

import torchnp
from torchnp import dtypes as dt
from torchnp.interop import to_numpy, to_torch

TABLE = torchnp.table
aten = torch.ops.aten


def both(mine, theirs):
    """Run both; they give the same error class and words, or two results."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = theirs()
    except Exception as error:  # whatever torch raises is the oracle
        with pytest.raises(type(error)) as got:
            mine()
        assert type(got.value) is type(error)
        assert str(got.value).split()[:6] == str(error).split()[:6]
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return mine(), expected


def values(dtype, shape=(2, 3)):
    x = np.arange(1, 1 + int(np.prod(shape))).reshape(shape)
    return dt.cast(x.astype(np.float32), dtype)


def tensor(x):
    return to_torch(x).clone()


DTYPES = (dt.bool_, dt.uint8, dt.int16, dt.int64, dt.float16, dt.bfloat16, dt.float32, dt.float64, dt.complex64)


@pytest.mark.parametrize("target", DTYPES, ids=str)
@pytest.mark.parametrize("other", DTYPES, ids=str)
def test_inplace_casts_into_self(target, other):
    x, y = values(target), values(other)
    tx, ty = tensor(x), tensor(y)
    found = both(lambda: TABLE["aten::mul_.Tensor"](x, y), lambda: aten.mul_.Tensor(tx, ty))
    if found:
        assert found[0] is x
        np.testing.assert_array_equal(x, to_numpy(tx))


@pytest.mark.parametrize("target", DTYPES, ids=str)
@pytest.mark.parametrize("other", DTYPES, ids=str)
def test_out_casts(target, other):
    x, y, out = values(other), values(other), np.zeros((2, 3), target)
    tx, ty, tout = tensor(x), tensor(y), tensor(out)
    found = both(lambda: TABLE["aten::mul.out"](x, y, out=out), lambda: aten.mul.out(tx, ty, out=tout))
    if found:
        assert found[0] is out
        np.testing.assert_array_equal(out, to_numpy(tout))


def test_inplace_shape_must_fit():
    both(
        lambda: TABLE["aten::add_.Tensor"](np.ones(3, np.float32), np.ones((2, 3), np.float32)),
        lambda: aten.add_.Tensor(torch.ones(3), torch.ones(2, 3)),
    )


def test_inplace_on_views_writes_the_base():
    base, tbase = np.zeros((3, 4), np.float32), torch.zeros(3, 4)
    TABLE["aten::add_.Tensor"](base[1:, ::2], 1)
    tbase[1:, ::2].add_(1)
    np.testing.assert_array_equal(base, tbase.numpy())
    TABLE["aten::mul_.Tensor"](base.T, np.arange(3, dtype=np.float32))
    tbase.T.mul_(torch.arange(3.0))
    np.testing.assert_array_equal(base, tbase.numpy())


def test_inplace_on_expanded_is_refused():
    x = np.zeros((1, 3), np.float32)
    both(
        lambda: TABLE["aten::add_.Tensor"](TABLE["aten::expand"](x, [2, 3]), 1),
        lambda: aten.add_.Tensor(torch.zeros(1, 3).expand(2, 3), 1),
    )
    assert not x.any()


def test_inplace_with_itself():
    x, tx = values(dt.float32), torch.from_numpy(values(dt.float32))
    TABLE["aten::mul_.Tensor"](x, x)
    tx.mul_(tx)
    np.testing.assert_array_equal(x, tx.numpy())


@pytest.mark.parametrize("shape", [(0,), (5,), (3, 2), (2, 3), (1, 2, 3)])
def test_out_is_resized(shape):
    x, out = values(dt.float32), np.full(shape, 7, np.float32)
    tx, tout = tensor(x), tensor(out)
    warns = out.size and shape != (2, 3)
    for call in (lambda: TABLE["aten::neg.out"](x, out=out), lambda: torch.neg(tx, out=tout)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        assert any("An output with one or more elements was resized" in str(w.message) for w in caught) == bool(warns)
    assert out.shape == tuple(tout.shape)
    np.testing.assert_array_equal(out, tout.numpy())


def test_out_that_is_a_view_cannot_be_resized():
    with pytest.raises(RuntimeError, match="not resizable"):
        TABLE["aten::neg.out"](values(dt.float32), out=np.zeros((4, 4), np.float32)[1:])


def test_out_overlapping_an_input_is_refused():
    x = np.arange(6, dtype=np.float32)
    tx = torch.arange(6.0)
    both(lambda: TABLE["aten::neg.out"](x[:5], out=x[1:]), lambda: aten.neg.out(tx[:5], out=tx[1:]))
    np.testing.assert_array_equal(x, np.arange(6))
    found = both(lambda: TABLE["aten::neg.out"](x, out=x), lambda: aten.neg.out(tx, out=tx))
    assert found is not None
    np.testing.assert_array_equal(x, tx.numpy())


def test_out_of_several_results():
    x = np.array([[3, 1, 2]], np.float32)
    v, i = np.zeros(0, np.float32), np.zeros(0, np.int64)
    result = TABLE["aten::sort.values"](x, 1, values=v, indices=i)
    assert result[0] is v and result[1] is i
    np.testing.assert_array_equal(v, [[1, 2, 3]])
    np.testing.assert_array_equal(i, [[1, 2, 0]])


def test_copy_rows_share_nothing():
    rows = [n for n in TABLE if TABLE[n].rule == "copy"]
    assert len(rows) >= 20
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for name, args in (
        ("view_copy", ([6],)),
        ("expand_copy", ([2, 2, 3],)),
        ("t_copy", ()),
        ("select_copy.int", (0, 1)),
    ):
        copied = TABLE[f"aten::{name}"](x, *args)
        assert not np.shares_memory(copied, x)
        np.testing.assert_array_equal(copied, getattr(aten, name.partition(".")[0])(torch.from_numpy(x), *args).numpy())
    for piece in TABLE["aten::split_copy.Tensor"](x, 1):
        assert not np.shares_memory(piece, x)


FOREACH = [
    ("_foreach_add.List", ([1.5, -2.0], [3.0, 4.0]), {"alpha": 2}),
    ("_foreach_add.Scalar", ([1.5, -2.0], 3), {}),
    ("_foreach_mul.ScalarList", ([1.5, -2.0], None), {}),
    ("_foreach_sqrt", ([1.5, 2.0],), {}),
    ("_foreach_lerp.Scalar", ([1.5, -2.0], [3.0, 4.0], 0.25), {}),
    ("_foreach_addcmul.Scalar", ([1.0, 2.0], [3.0, 4.0], [5.0, 6.0], 0.5), {}),
    ("_foreach_addcdiv.ScalarList", ([1.0, 2.0], [3.0, 4.0], [5.0, 6.0], None), {}),
    ("_foreach_maximum.List", ([1.0, 2.0], [3.0, -4.0]), {}),
    ("_foreach_maximum.Scalar", ([1.0, 2.0], 1.5), {}),
    ("_foreach_pow.Scalar", ([1.0, 2.0], 3), {}),
    ("_foreach_norm.Scalar", ([1.0, 2.0],), {}),
]


@pytest.mark.parametrize(("name", "args", "kwargs"), FOREACH, ids=[row[0] for row in FOREACH])
def test_foreach(name, args, kwargs):
    def lists(make):
        filled = [[0.5, 2.5] if a is None else a for a in args]
        return [
            [make(v, n + 1) for n, v in enumerate(a)] if isinstance(a, list) and args[i] is not None else a
            for i, a in enumerate(filled)
        ]

    base, _, overload = name.partition(".")
    theirs = getattr(getattr(aten, base), overload or "default")(*lists(lambda v, n: torch.full((n,), v)), **kwargs)
    mine = TABLE[f"aten::{name}"](*lists(lambda v, n: np.full(n, v, np.float32)), **kwargs)
    assert len(mine) == len(theirs)
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(torch.from_numpy(a), b)


def test_foreach_inplace_writes_each_tensor():
    arrays = [np.ones(2, np.float32), np.ones((2, 2), np.float32)]
    assert TABLE["aten::_foreach_add_.Scalar"](arrays, 1) is None
    assert all((a == 2).all() for a in arrays)


@pytest.mark.parametrize("lengths", [(0, 0), (2, 3)])
def test_foreach_lists_must_fit(lengths):
    both(
        lambda: TABLE["aten::_foreach_add.List"](*([np.ones(1, np.float32)] * n for n in lengths)),
        lambda: aten._foreach_add.List(*([torch.ones(1)] * n for n in lengths)),
    )


def test_running_statistics_are_written():
    x = np.random.default_rng(0).random((4, 3, 2)).astype(np.float32)
    mean, var = np.zeros(3, np.float32), np.ones(3, np.float32)
    tmean, tvar = torch.zeros(3), torch.ones(3)
    mine = TABLE["aten::native_batch_norm"](x, None, None, mean, var, True, 0.1, 1e-5)
    theirs = aten.native_batch_norm(torch.from_numpy(x), None, None, tmean, tvar, True, 0.1, 1e-5)
    for a, b in zip((*mine, mean, var), (*theirs, tmean, tvar), strict=True):
        torch.testing.assert_close(torch.from_numpy(a), b)
    assert mean.any()


def test_functional_forms_leave_their_inputs():
    x = np.zeros(4, np.float32)
    filled = TABLE["aten::fill.Scalar"](x, 3)
    assert (filled == 3).all() and not x.any()
    drawn = TABLE["aten::uniform"](x)
    assert drawn.any() and not x.any()
