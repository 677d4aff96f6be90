"""Shared memory: expanded targets and overlapping operands, against torch."""

import mmap
import random

import numpy as np
import pytest
import torch

import torchnp
from torchnp import dtypes as dt
from torchnp.derived.targets import contiguous_outs, exceptions
from torchnp.interop import NumpyMode, to_numpy, to_torch
from torchnp.layout.overlap import check_resized, is_dense, overlap

TABLE = torchnp.table
aten = torch.ops.aten
DTYPES = (dt.bool_, dt.uint8, dt.int64, dt.bfloat16, dt.float32, dt.float64, dt.complex64)


def outcome(run):
    try:
        run()
    except Exception as error:  # torch is the oracle, whatever it raises
        return type(error).__name__, str(error).split()[:6]
    return None


def expanded(dtype, shape, wide):
    """Return the same expanded memory for both: torch's base and target, and ours."""
    small = [1 if w else n for n, w in zip(shape, wide, strict=True)]
    values = dt.cast(np.random.default_rng(len(shape)).integers(-4, 5, small).astype(np.float32), dtype)
    mine, theirs = values.copy(), to_torch(values).clone()
    strides = tuple(0 if w else s for s, w in zip(mine.strides, wide, strict=True))
    return mine, np.lib.stride_tricks.as_strided(mine, shape, strides), theirs, theirs.expand(shape)


def both_write(row, dtype, shape, wide, rest):
    base, overload = row.split(".") if "." in row else (row, "default")
    mine, target, theirs, ttarget = expanded(dtype, shape, wide)
    given = [to_torch(a) if isinstance(a, np.ndarray) else a for a in rest]
    given = [[None if x is None else to_torch(x) for x in a] if isinstance(a, list) else a for a in given]
    expect = outcome(lambda: getattr(getattr(aten, base), overload)(ttarget, *given))
    assert outcome(lambda: TABLE[f"aten::{row}"](target, *rest)) == expect
    if expect is None:
        np.testing.assert_array_equal(dt.cast(mine, dt.complex128), dt.cast(to_numpy(theirs), dt.complex128))
    return expect


MASK = np.array([[True, False, True, False], [False, False, True, True], [False, False, False, True]])
WRITERS = [
    ("zero_", ()),
    ("fill_.Scalar", (3,)),
    ("fill_.Tensor", (np.array(1),)),
    ("masked_fill_.Scalar", (MASK, 1)),
    ("index_fill_.int_Scalar", (0, np.array([2, 0]), 1)),
    ("index_fill_.int_Scalar", (-1, np.array([1]), 1)),
    ("threshold_", (1, -2)),
    ("tril_", ()),
    ("triu_", (1,)),
    ("tril_", (-1,)),
    ("conj_physical_", ()),
    ("nan_to_num_", ()),
    ("dropout_", (0.5, False)),
    ("alpha_dropout_", (0.0, True)),
    ("neg_", ()),
    ("abs_", ()),
    ("float_power_.Scalar", (2,)),
    ("mvlgamma_", (1,)),
    ("add_.Scalar", (1,)),
    ("cumsum_", (0,)),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("row", "rest"), WRITERS)
def test_an_expanded_target_is_written_or_refused_as_in_torch(row, rest, dtype):
    for wide in ((True, False), (False, True), (True, True)):
        both_write(row, dtype, (3, 4), wide, rest)


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
@pytest.mark.parametrize("scales", [{}, {"beta": 0}, {"beta": 2, "alpha": 3}])
def test_products_go_element_by_element(dtype, scales):
    a, b = (dt.cast(np.arange(8.0).reshape(2, 2, 2) + i, dtype) for i in (0, 1))
    for wide in ((True, False, False), (False, True, False), (False, False, True), (True, True, True)):
        mine, target, theirs, ttarget = expanded(dtype, (2, 2, 2), wide)
        TABLE["aten::baddbmm_"](target, a, b, **scales)
        aten.baddbmm_(ttarget, to_torch(a), to_torch(b), **scales)
        np.testing.assert_array_equal(dt.cast(mine, dt.complex128), dt.cast(to_numpy(theirs), dt.complex128))
    mine, target, theirs, ttarget = expanded(dtype, (2,), (True,))
    TABLE["aten::addmv_"](target, a[0], b[0, 0], **scales)
    aten.addmv_(ttarget, to_torch(a[0]), to_torch(b[0, 0]), **scales)
    np.testing.assert_array_equal(dt.cast(mine, dt.complex128), dt.cast(to_numpy(theirs), dt.complex128))


def test_index_put_goes_in_the_order_of_the_indices():
    draw = random.Random(0)
    rng = np.random.default_rng(0)
    for _ in range(300):
        shape = [draw.randint(1, 4) for _ in range(draw.randint(1, 3))]
        wide = [n > 1 and draw.random() < 0.6 for n in shape]
        if not any(wide):
            continue
        last = draw.randint(0, len(shape) - 1)
        size = [draw.randint(1, 4) for _ in range(draw.randint(0, 2))]
        at = [d for d in range(last) if draw.random() < 0.5] + [last]
        indices = [rng.integers(-shape[d], shape[d], size) if d in at else None for d in range(last + 1)]
        where = tuple(slice(None) if i is None else torch.from_numpy(np.asarray(i)) for i in indices)
        values = rng.integers(0, 9, torch.zeros(shape)[where].shape).astype(np.float32)
        indices = [i if i is None else np.asarray(i) for i in indices]
        assert (
            both_write("index_put_", dt.float32, shape, wide, (indices, np.asarray(values), draw.random() < 0.5))
            is None
        )


def test_a_list_with_an_expanded_tensor():
    x, tx = np.ones((1, 3), np.float32), torch.ones(1, 3)
    TABLE["aten::_foreach_zero_"]([np.lib.stride_tricks.as_strided(x, (2, 3), (0, 4))])
    torch._foreach_zero_([tx.expand(2, 3)])
    np.testing.assert_array_equal(x, tx.numpy())
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        TABLE["aten::_foreach_neg_"]([np.lib.stride_tricks.as_strided(x, (2, 3), (0, 4))])


def windows():
    """Return pairs of windows on 36 numbers, dense or not, in the same and in different memory orders."""
    forms = [((6, 6), (6, 1)), ((6, 6), (1, 6)), ((36,), (1,)), ((3, 6), (6, 1)), ((5, 5), (6, 1)), ((2, 2), (3, 1))]
    for a, sa in forms:
        for b, sb in forms:
            for start in (0, 1, 6, 18):
                if a == b and start + sum((n - 1) * s for n, s in zip(b, sb, strict=True)) < 36:
                    yield a, sa, b, sb, start


@pytest.mark.parametrize("row", ["add_.Tensor", "mul_.Tensor", "copy_", "lt_.Tensor", "pow_.Tensor"])
def test_operands_that_share_memory(row):
    base, _, overload = row.partition(".")
    for a, sa, b, sb, start in windows():
        memory = np.arange(36, dtype=np.float32)
        theirs = torch.arange(36.0)
        x = np.lib.stride_tricks.as_strided(memory, a, [4 * s for s in sa])
        y = np.lib.stride_tricks.as_strided(memory[start:], b, [4 * s for s in sb])
        tx, ty = theirs.as_strided(a, sa), theirs.as_strided(b, sb, start)
        expect = outcome(lambda: getattr(getattr(aten, base), overload or "default")(tx, ty))
        assert outcome(lambda: TABLE[f"aten::{row}"](x, y)) == expect, (a, sa, b, sb, start)


def test_dense_is_what_torch_calls_so():
    draw = random.Random(1)
    for _ in range(500):
        shape = [draw.choice((1, 2, 3)) for _ in range(draw.randint(0, 4))]
        x = torch.empty(shape).permute(draw.sample(range(len(shape)), len(shape)))
        if shape and draw.random() < 0.5:
            x = x[..., : draw.randint(1, 2)]
        assert is_dense(x.numpy()) == torch.ops.aten.is_non_overlapping_and_dense(x)
    x = np.zeros(4)
    assert overlap(x, x) == "full"
    assert overlap(x[:2], x[2:]) == "no"
    assert overlap(x[:3], x[1:]) == "partial"
    assert overlap(x[::2], x[1::2]) == ""


def test_the_data_names_rows():
    for row, kinds in exceptions().items():
        of_out = kinds <= {"apart", "blind", "looks", "expands", "copied", "biased", "-"}
        assert of_out == TABLE.schemas[f"aten::{row}"].is_out
        assert of_out or TABLE[f"aten::{row}"].rule == "in-place"
    for name in contiguous_outs():
        row, _, out = name.partition(":")
        assert out in {a.name for a in TABLE.schemas[f"aten::{row}"].args if a.is_out}


@pytest.mark.parametrize(
    "row, rest",
    [
        ("amax.out", ([0],)),  # torch checks neither the input nor the out
        ("prod.int_out", (0,)),
        ("mean.out", ([0],)),  # torch checks only the out
        ("t_copy.out", ()),  # a generated form: copies its own result into the out
        ("mul.Scalar_out", (2,)),
        ("add.Scalar_out", (2,)),
        ("neg.out", ()),  # torch checks both
        ("cumsum.out", (0,)),
    ],
)
def test_an_out_that_overlaps(row, rest):
    """An out that partly overlaps the input, or whose own elements overlap: torchnp refuses what torch refuses, and
    nothing else."""
    base, overload = row.split(".")
    run = getattr(getattr(aten, base), overload)
    shape = run(torch.zeros(3, 3), *rest, out=torch.empty(0)).shape
    ours, theirs = np.arange(20, dtype=np.float32), torch.arange(20.0)
    n = int(np.prod(shape))
    expect = outcome(lambda: run(theirs[:9].view(3, 3), *rest, out=theirs[4 : 4 + n].view(shape)))
    mine = TABLE[f"aten::{row}"]
    assert outcome(lambda: mine(ours[:9].reshape(3, 3), *rest, out=ours[4 : 4 + n].reshape(shape))) == expect
    if expect is None and "generated" in TABLE.schemas[f"aten::{row}"].tags:
        np.testing.assert_array_equal(ours, theirs.numpy())
    wide, twide = np.zeros(9, np.float32), torch.zeros(9)
    strides = (0,) * len(shape)
    expect = outcome(lambda: run(torch.ones(3, 3), *rest, out=twide.as_strided(shape, strides)))
    target = np.lib.stride_tricks.as_strided(wide, shape, strides)
    assert outcome(lambda: mine(np.ones((3, 3), np.float32), *rest, out=target)) == expect


@pytest.mark.parametrize(
    "row, outs",
    [
        ("linalg_qr.out", "Q R"),
        ("qr.Q", "Q R"),
        ("linalg_lu.out", "P L U"),
        ("linalg_eigh.eigvals", "eigvals eigvecs"),
        ("_linalg_det.result", "result LU pivots"),
        ("_linalg_slogdet.sign", "sign logabsdet LU pivots"),
        ("geqrf.a", "a tau"),
    ],
)
@pytest.mark.parametrize("by_columns", [False, True])
def test_factors_that_torch_computes_in_an_out(row, outs, by_columns):
    """LAPACK works in one of the outs, into which torch copies the matrix; this out must not partly overlap the
    matrix."""
    base, overload = row.split(".")
    run, mine = getattr(getattr(aten, base), overload), TABLE[f"aten::{row}"]
    shapes = [tuple(r.shape) for r in getattr(aten, base).default(torch.eye(3))]
    for name in [n for n, s in zip(outs.split(), shapes, strict=True) if s == (3, 3)]:

        def call(op, own, of, name=name):
            given = {n: own(s, n) for n, s in zip(outs.split(), shapes, strict=True)}
            return op(of(0), **given | {name: of(1).T if by_columns else of(1)})

        theirs, ours = torch.eye(4)[:3].reshape(12), np.eye(4, dtype=np.float32)[:3].reshape(12)
        kind = lambda n, ints, floats: ints if n == "pivots" else floats
        expect = outcome(
            lambda: call(
                run, lambda s, n: torch.zeros(s, dtype=kind(n, torch.int32, torch.float32)),
                lambda i: theirs[i : i + 9].view(3, 3),
            )
        )  # fmt: skip
        found = outcome(
            lambda: call(
                mine, lambda s, n: np.zeros(s, kind(n, np.int32, np.float32)), lambda i: ours[i : i + 9].reshape(3, 3)
            )
        )
        assert found == expect


@pytest.mark.parametrize(
    "row, names, shape, rest",
    [  # input, weight and bias are in one piece of memory; the out begins a few elements later, or is expanded
        ("_upsample_bilinear2d_aa.out", "x", (2, 1, 2, 3), ([2, 3], False)),
        ("_upsample_bicubic2d_aa.out", "x", (2, 1, 2, 4), ([2, 4], True)),
        ("slow_conv_transpose2d.out", "xw", (2, 1, 3, 4), ([2, 2],)),
        ("slow_conv_transpose2d.out", "xwb", (2, 1, 3, 4), ([2, 2],)),
        ("_native_batch_norm_legit.no_stats_out", "x", (2, 1, 2, 3), (None, None, True, 0.1, 1e-5)),
        ("_native_batch_norm_legit.out", "x", (2, 1, 2, 3), (None, None, "m", "v", True, 0.1, 1e-5)),
    ],
)
@pytest.mark.parametrize("how", ["apart", "in the bias", "in part", "expanded", "strided input"])
def test_an_out_that_torch_copies_into_or_iterates_over(row, names, shape, rest, how):
    """torch checks the memory of inputs and outs for copies and for TensorIterator loops, but not for other loops."""
    run, mine = getattr(getattr(aten, row.split(".")[0]), row.split(".")[1]), TABLE[f"aten::{row}"]
    given = {"x": ((2, 1, 2, 3), 0), "w": ((1, 1, 2, 2), 40), "b": ((1,), 50), "m": ((1,), 51), "v": ((1,), 52)}
    starts = {"apart": 80, "in the bias": 45, "in part": 3, "expanded": 80, "strided input": 3}
    dense = lambda s: [int(np.prod(s[i + 1 :])) for i in range(len(s))]
    saved = {"save_mean": np.zeros(1, np.float32), "save_invstd": np.zeros(1, np.float32)} if "batch" in row else {}

    def call(op, view, own):
        def of(name):
            s, start = given[name]
            return view(s, [2 * n for n in dense(s)] if how == "strided input" and name == "x" else dense(s), start)

        strides = [0, *dense(shape)[1:]] if how == "expanded" else dense(shape)
        out = view(shape, strides, starts[how])
        more = {k: own(v) for k, v in saved.items()}
        args = [of(r) if isinstance(r, str) else r for r in (*names[:2], *rest, *names[2:])]
        return op(*args, out=out, **more)

    theirs, ours = torch.arange(200.0), np.arange(200, dtype=np.float32)
    expect = outcome(lambda: call(run, lambda s, st, o: theirs.as_strided(s, st, o), torch.from_numpy))
    strided = lambda s, st, o: np.lib.stride_tricks.as_strided(ours[o:], s, [4 * n for n in st])
    assert outcome(lambda: call(mine, strided, np.copy)) == expect


def test_an_out_that_is_the_input():
    x, tx = np.arange(6, dtype=np.float32), torch.arange(6.0)
    i = np.array([2, 1, 0])
    for row, args, targs in (
        ("gather.out", (x, 0, i), (tx, 0, torch.from_numpy(i))),
        ("cat.out", ([x, x], 0), ([tx, tx], 0)),
        ("add.out", (x, x), (tx, tx)),
    ):
        base, _, overload = row.partition(".")
        expect = outcome(lambda: getattr(getattr(aten, base), overload)(*targs, out=tx.view(6)))
        assert outcome(lambda: TABLE[f"aten::{row}"](*args, out=x[:])) == expect
    # torch resizes this out before it checks, so the out then overlaps the memory behind it.
    expect = outcome(lambda: aten.gather.out(tx, 0, torch.from_numpy(i)[1:], out=torch.from_numpy(i)[:1]))
    assert outcome(lambda: TABLE["aten::gather.out"](i.copy(), 0, i[1:], out=i[:1])) is not None and expect is not None
    with pytest.raises(RuntimeError, match="some elements of the input tensor"):
        TABLE["aten::gather.out"](i.copy(), 0, i[1:], out=i[:1])


def test_a_list_that_shares_memory_with_numbers_in_a_tensor():
    x, tx = np.ones(4, np.float32), torch.ones(4)
    scalars = np.array([0.5, 2.0], np.float32)
    TABLE["aten::_foreach_addcmul_.Tensor"]([x, x], [x, x], [x, x], scalars)
    torch._foreach_addcmul_([tx, tx], [tx, tx], [tx, tx], torch.from_numpy(scalars))
    np.testing.assert_array_equal(x, tx.numpy())


# What is written and what is read, of one 3x4 tensor x; i makes a vector of indices. Rows are called on the table,
# statements run under the mode.
ROWS = [
    ("fill_.Tensor", lambda x, i: (x[1], x[1, 0, ...])),
    ("fill_.Tensor", lambda x, i: (x, x[2, 3, ...])),
    ("copy_", lambda x, i: (x[1], x[1, 0, ...])),
    ("copy_", lambda x, i: (x[1:], x[0])),
    ("copy_", lambda x, i: (x, x[0])),
    ("copy_", lambda x, i: (x[1:], x[:2])),
    ("copy_", lambda x, i: (x[:, 1:], x[:, :1])),
    ("masked_fill_.Tensor", lambda x, i: (x, x > 3, x[0, 1, ...])),
    ("masked_fill_.Tensor", lambda x, i: (x[1], x[1] > 3, x[1, 1, ...])),
    ("index_fill_.int_Tensor", lambda x, i: (x, 0, i(1), x[1, 2, ...])),
    ("index_fill_.int_Tensor", lambda x, i: (x[1], 0, i(0, 1), x[1, 2, ...])),
    ("index_put_", lambda x, i: (x, [i(1)], x[1, 0, ...])),
    ("index_put_", lambda x, i: (x, [i(1)], x[2])),
    ("index_put_", lambda x, i: (x, [x > 3], x[1, 0, ...])),
    ("index_put_", lambda x, i: (x, [x > 3], x[1, 0, ...], True)),
    ("_index_put_impl_", lambda x, i: (x, [x > 3], x[1, 0, ...])),
    ("_index_put_impl_", lambda x, i: (x, [i(1)], x[1, 0, ...])),
    ("put_", lambda x, i: (x, i(1), x[0, :1])),
    ("masked_scatter_", lambda x, i: (x[:2], x[:2] > 3, x[1:])),
    ("add_.Tensor", lambda x, i: (x, x[0])),
    ("add_.Tensor", lambda x, i: (x[:, ::2], x[:, 1::2])),
    ("mul_.Tensor", lambda x, i: (x, x[0, 1, ...])),
    ("addcmul_", lambda x, i: (x, x[0], x[0, 1, ...])),
    ("lerp_.Scalar", lambda x, i: (x, x[0], 0.5)),
    ("clamp_.Tensor", lambda x, i: (x, x[0, 0, ...], x[0, 2, ...])),
    ("eq_.Tensor", lambda x, i: (x, x[0, 2, ...])),
    ("scatter_.src", lambda x, i: (x, 0, i(0).reshape(1, 1), x)),
    ("scatter_.src", lambda x, i: (x[1:], 0, i(0).reshape(1, 1), x[:2])),
    ("scatter_.value", lambda x, i: (x[1:], 0, i(0).reshape(1, 1), 7.0)),
    ("scatter_add_", lambda x, i: (x[1:], 0, i(0).reshape(1, 1), x[:2])),
    ("scatter_reduce_.two", lambda x, i: (x, 0, i(0).reshape(1, 1), x[:1], "sum")),
    ("index_add_", lambda x, i: (x, 0, i(1), x[:1])),
    ("index_copy_", lambda x, i: (x, 0, i(1), x[:1])),
    ("index_reduce_", lambda x, i: (x, 0, i(1), x[:1], "prod")),
    ("_foreach_add_.List", lambda x, i: ([x[0], x[1]], [x[1], x[0]])),
    ("_foreach_copy_", lambda x, i: ([x[0], x[1]], [x[1], x[0]])),
    ("_foreach_copy_", lambda x, i: ([x[0]], [x[0, 1, ...]])),
    ("_foreach_mul_.Tensor", lambda x, i: ([x[0], x[1]], x[0, 1, ...])),
    ("_foreach_addcmul_.Scalar", lambda x, i: ([x[0], x[1]], [x[1], x[0]], [x[2], x[0]])),
]


@pytest.mark.parametrize(("row", "given"), ROWS)
def test_a_target_that_is_read_as_well(row, given):
    base, _, overload = row.partition(".")
    mine, theirs = np.arange(12.0).reshape(3, 4), torch.arange(12.0, dtype=torch.float64).reshape(3, 4)
    under = theirs.clone()
    vector = lambda *places: torch.tensor(places)
    op = getattr(getattr(aten, base), overload or "default")
    expect = outcome(lambda: op(*given(theirs, vector)))
    assert outcome(lambda: TABLE[f"aten::{row}"](*given(mine, lambda *places: np.array(places)))) == expect
    np.testing.assert_array_equal(mine, theirs.numpy())
    with NumpyMode():
        assert outcome(lambda: op(*given(under, vector))) == expect
    np.testing.assert_array_equal(under.numpy(), theirs.numpy())


STATEMENTS = [
    "x[1] = x[1][0]", "x[1:2, 1:2] = x[1, 1]", "x[:] = x[0, 0]", "x[[1]] = x[1, 0]", "x[[1]] = x[2]", "x[x > 3] = x[1, 0]",
    "x[:, 1:] = x[:, :1]", "x[1:] = x[:-1]", "x[1:] = x[0]", "x[::2] = x[1]", "x[1, 1] = x[1, 1]", "x += x[0]",
    "x *= x[0, 1]", "x[0] -= x[0, 2]", "torch.add(x[:-1], 1, out=x[1:])", "torch.add(x[0], x[1, 1], out=x[0])",
    "torch.mul(x[0], x[0, 1], out=x[0])", "torch.where(x > 2, x[0], x[0, 0], out=x)", "torch.cumsum(x, 0, out=x)",
    "torch.gather(x, 0, x[:1].long() * 0, out=x[:1])", "torch.index_select(x, 0, torch.tensor([0]), out=x[:1])",
    "torch.cat([x[0], x[1]], out=x.view(-1)[:8])", "torch.masked_select(x, x > 3, out=x.view(-1))",
    "torch.range(0, 5, out=x[:, :2])", "torch.range(0, 11, out=x)", "torch.arange(0, 6, out=x[:, :2])",
    "torch.linspace(0, 5, 6, out=x[:, :2])", "torch.logspace(0, 5, 6, out=x[:, :2])", "torch.range(0, 3, out=x[0])",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:torch.range is deprecated")
@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements_that_read_what_they_write(statement):
    theirs, mine = torch.arange(12.0).reshape(3, 4), torch.arange(12.0).reshape(3, 4)
    expect = outcome(lambda: exec(statement, {"x": theirs, "torch": torch}))
    with NumpyMode():
        assert outcome(lambda: exec(statement, {"x": mine, "torch": torch})) == expect
    assert mine.shape == theirs.shape
    np.testing.assert_array_equal(mine.numpy(), theirs.numpy())


def test_a_resized_out_does_not_overlap_what_lies_behind_it_by_chance():
    """Two arrays on one mapping (as on one heap) have different owners, or the same one."""
    memory = mmap.mmap(-1, 4096)
    first, second = (np.frombuffer(memoryview(memory)[part], np.float32) for part in (slice(0, 16), slice(16, 48)))
    out = first[:2]
    check_resized(out, 8, [second])
    whole = np.zeros(12, np.float32)
    with pytest.raises(RuntimeError, match="some elements of the input tensor"):
        check_resized(whole[:2], 8, [whole[4:]])
    with pytest.raises(RuntimeError, match="some elements of the input tensor"):
        check_resized(first[:2], 2, [first[1:]])
