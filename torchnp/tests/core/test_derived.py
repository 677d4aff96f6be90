"""Derived rows against torch: what in-place, out=, _copy, _foreach_ and functional forms write, and which calls they
refuse."""

import ast
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import torchnp
from torchnp import dtypes as dt
from torchnp.derived import rules
from torchnp.interop import to_numpy, to_torch

TABLE = torchnp.table
aten = torch.ops.aten


def both(mine, theirs):
    """Run both functions and assert that they raise the same error (class and words); otherwise return the two
    results."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = theirs()
    except Exception as error:  # torch is the oracle, whatever it raises
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


# ---------------------------------------------------------------- the rules of out=


def call(row, args, outs, kwargs=None):
    """Run a row and torch with the same arguments, and with outs of the same dtypes and shapes."""
    schema = TABLE[f"aten::{row}"].schema
    names = [a.name for a in schema.args if a.is_out]
    base, _, overload = row.partition(".")
    theirs = {n: tensor(o) for n, o in zip(names, outs, strict=True)}
    given = [tensor(a) if isinstance(a, np.ndarray) else a for a in args]
    found = both(
        lambda: TABLE[f"aten::{row}"](*args, **(kwargs or {}), **dict(zip(names, outs, strict=True))),
        lambda: getattr(getattr(aten, base), overload)(*given, **(kwargs or {}), **theirs),
    )
    if found:
        for mine, other in zip(outs, theirs.values(), strict=True):
            torch.testing.assert_close(
                to_torch(mine), other, equal_nan=True, rtol=1e-2 if mine.itemsize == 2 else 1e-5, atol=1e-6
            )


ROW = [dt.cast(np.array([[1.5, 2.25, 1.25], [3.0, 1.75, 4.0]]), d) for d in (dt.float32, dt.int64, dt.complex64)]
SQUARE = dt.cast(np.array([[2.0, 1.0], [1.0, 3.0]]), dt.float32)
WITNESSES = {  # at least one row of each rule
    "cast": [("mul.out", 2), ("sqrt.out", 1), ("gt.Tensor_out", 2), ("maximum.out", 2)],
    "same": [("neg.out", 1), ("ceil.out", 1), ("clamp_min.out", (1.0,)), ("nan_to_num.out", 1), ("t_copy.out", 1)],
    "flag": [("any.all_out", 1), ("all.out", (1,)), ("any.dims_out", ([0],))],
    "inexact": [("logsumexp.out", ([0],)), ("mean.out", ([0],))],
    "into": [("sum.IntList_out", ([0],)), ("prod.int_out", (0,)), ("cumsum.out", (0,)), ("cumprod.out", (1,))],
    "modulus": [("abs.out", 1)],
    "any": [("zeros_like.out", 1), ("full_like.out", (3,)), ("ones_like.out", 1)],
    "structured": [("tril.out", 1), ("amax.out", ([0],)), ("index_select.out", (0, np.array([1, 0])))],
}
CALLS = [(rule, row, rest) for rule, rows in WITNESSES.items() for row, rest in rows]


@pytest.mark.parametrize("target", DTYPES, ids=str)
@pytest.mark.parametrize(("rule", "row", "rest"), CALLS, ids=[f"{r}-{n}" for r, n, _ in CALLS])
def test_out_by_its_rule(rule, row, rest, target):
    for x in ROW:
        args = (x,) * rest if isinstance(rest, int) else (x, *rest)
        if x.dtype == dt.complex64 and row in (
            "maximum.out",
            "gt.Tensor_out",
            "nan_to_num.out",
            "ceil.out",
            "amax.out",
        ):
            continue  # the op itself refuses the arguments, before or after it checks ``out=``
        call(row, args, [np.zeros(0, target)])


def test_every_rule_has_rows_and_every_row_is_known():
    from torchnp.derived import casts

    for name, (rule, words) in casts.exceptions().items():
        row = f"aten::{name.partition(':')[0]}"
        assert row in TABLE, row
        kind, *how = rule.split(" ")
        assert kind in casts.ALLOWS
        assert set(how) <= {"into", "flat", "copy", "sized"}
        words.format(r="", d="", rc="", dc="", rt="", dt="", x="", i32="")
        if ":" in name:
            assert name.partition(":")[2] in {a.name for a in TABLE.schemas[row].args if a.is_out}


def of_one_tensor():
    """Return the out= rows that can be called with a single tensor."""
    for name in TABLE:
        schema = TABLE.schemas[name]
        if not schema.is_out or name.startswith("prims::") or "nondeterministic_seeded" in schema.tags:
            continue
        needed = [a for a in schema.args if not a.has_default and not a.is_out]
        outs = [a for a in schema.args if a.is_out]
        if [a.type for a in needed] == ["Tensor"] and [a.type for a in outs] == ["Tensor"]:
            yield name.removeprefix("aten::")


# Ops without a kernel for the out= form in torch's CPU build, or that need an accelerator.
ELSEWHERE = {
    "mkldnn_reorder_conv2d_weight.out", "mkldnn_reorder_conv3d_weight.out", "native_norm.out", "_pin_memory.out",
    "_to_dense.out",
}  # fmt: skip


@pytest.mark.parametrize("row", sorted(ELSEWHERE))
def test_torchs_cpu_refuses_what_is_left_out(row):
    base, _, overload = row.partition(".")
    with pytest.raises(RuntimeError, match="Could not run|accelerator|NVIDIA|NYI|mkldnn|dense"):
        getattr(getattr(aten, base), overload)(torch.from_numpy(SQUARE), out=torch.zeros(0))


# Uninitialised memory, and ops that do not accept a square matrix of float32.
LEFT = ELSEWHERE | {"empty_like.out", "_conj_copy.out", "repeat_interleave.Tensor_out", "linalg_tensorinv.out"}


@pytest.mark.parametrize("target", (dt.float32, dt.float64, dt.int64, dt.bool_, dt.complex64), ids=str)
@pytest.mark.parametrize("row", sorted(set(of_one_tensor()) - LEFT))
def test_out_of_every_op_of_one_tensor(row, target):
    call(row, (SQUARE,), [np.zeros(0, target)])


@pytest.mark.parametrize("shape", [(0,), (0, 2), (4, 1), (2, 2), (5,)])
def test_a_range_keeps_the_shape_of_as_many_elements(shape):
    for end in (0, 4):
        call("arange.start_out", (0, end), [np.zeros(shape, np.float32)])
        call("linspace.out", (0.0, 1.0, end), [np.zeros(shape, np.float32)])


def test_lists_of_outs_are_copied_into():
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    outs, touts = [np.zeros((1, 2), np.int32) for _ in range(3)], [torch.zeros(1, 2, dtype=torch.int32)] * 3
    both(
        lambda: TABLE["aten::split_copy.Tensor_out"](x, 1, out=outs),
        lambda: aten.split_copy.Tensor_out(torch.from_numpy(x), 1, out=touts),
    )
    np.testing.assert_array_equal(np.concatenate(outs), x)


# ---------------------------------------------------------------- in place

INPLACE = [
    ("abs_", ()),
    ("cumsum_", (0,)),
    ("cumprod_", (0,)),
    ("float_power_.Scalar", (2,)),
    ("mvlgamma_", (1,)),
    ("polygamma_", (1,)),
    ("sqrt_", ()),
    ("neg_", ()),
    ("eq_.Scalar", (2,)),
    ("add_.Scalar", (2.5,)),
    ("mul_.Scalar", (70000,)),
    ("pow_.Scalar", (2,)),
]


@pytest.mark.parametrize("target", DTYPES, ids=str)
@pytest.mark.parametrize(("row", "rest"), INPLACE, ids=[row for row, _ in INPLACE])
def test_inplace_by_its_rule(row, rest, target):
    x = values(target)
    tx = tensor(x)
    base, _, overload = row.partition(".")
    found = both(
        lambda: TABLE[f"aten::{row}"](x, *rest), lambda: getattr(getattr(aten, base), overload or "default")(tx, *rest)
    )
    if found:
        assert found[0] is x
        torch.testing.assert_close(to_torch(x), tx)


@pytest.mark.parametrize("row", ["add_.Tensor", "mul_.Tensor", "lt_.Tensor", "less_.Tensor", "div_.Tensor"])
def test_inplace_looks_at_shapes_first(row):
    base, _, overload = row.partition(".")
    for dtype in (np.int64, np.complex64):
        x, y = np.ones((5, 1), dtype), np.ones(5, np.float32)
        both(lambda: TABLE[f"aten::{row}"](x, y), lambda: getattr(getattr(aten, base), overload)(tensor(x), tensor(y)))
        assert (x == 1).all()


def test_inplace_with_an_overlapping_operand_is_refused():
    x = np.arange(6, dtype=np.float32)
    tx = torch.arange(6.0)
    both(lambda: TABLE["aten::add_.Tensor"](x[1:], x[:-1]), lambda: aten.add_.Tensor(tx[1:], tx[:-1]))
    both(lambda: TABLE["aten::copy_"](x[1:], x[:-1]), lambda: aten.copy_(tx[1:], tx[:-1]))
    np.testing.assert_array_equal(x, np.arange(6))


def test_inplace_lists_go_tensor_by_tensor():
    x, tx = np.ones(4, np.float32), torch.ones(4)
    TABLE["aten::_foreach_add_.List"]([x, x], [x, x])
    torch._foreach_add_([tx, tx], [tx, tx])
    np.testing.assert_array_equal(x, tx.numpy())
    TABLE["aten::_foreach_add_.Scalar"]([x[:3], x[1:]], 1)
    torch._foreach_add_([tx[:3], tx[1:]], 1)
    np.testing.assert_array_equal(x, tx.numpy())
    TABLE["aten::_foreach_mul_.ScalarList"]([x, x], [2.0, 3.0])
    torch._foreach_mul_([tx, tx], [2.0, 3.0])
    np.testing.assert_array_equal(x, tx.numpy())


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


@pytest.mark.parametrize("target", DTYPES, ids=str)
@pytest.mark.parametrize("row", ["eq_.Scalar", "lt_.Scalar", "ge_.Scalar", "add_.Scalar", "bitwise_and_.Scalar"])
def test_inplace_with_a_number_that_the_dtype_does_not_hold(row, target):
    base, _, overload = row.partition(".")
    for number in (-1, 255, 300, -129, 127, 65519, 70000, 0.1):
        x = values(target)
        x[0, 0] = dt.cast(np.asarray(255.0), target)
        tx = tensor(x)
        found = both(
            lambda: TABLE[f"aten::{row}"](x, number), lambda: getattr(getattr(aten, base), overload)(tx, number)
        )
        if found:
            np.testing.assert_array_equal(x, to_numpy(tx))


def test_no_rule_names_an_op():
    """Anything specific to one op belongs to its row, so no string in the rules is the name of an op (apart from plain
    words)."""
    words = {"any", "complex", "copy", "data", "full", "max", "min", "pin_memory", "real", "values"}
    names = {s.base for s in TABLE.schemas.values()} | {n.partition("::")[2] for n in TABLE.schemas}
    for path in Path(rules.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert node.value.removeprefix("aten::") not in names - words, f"{path.name}:{node.lineno}"
