"""What single ops check before they write, against torch."""

import math
import warnings

import numpy as np
import pytest
import torch

import torchnp
from torchnp import dtypes as dt
from torchnp.core.registry import REGISTERED
from torchnp.interop import to_numpy, to_torch

TABLE = torchnp.table
aten = torch.ops.aten
DTYPES = (dt.bool_, dt.uint8, dt.int64, dt.float16, dt.bfloat16, dt.float32, dt.float64, dt.complex64, dt.complex128)


def to_both(x, lib):
    if isinstance(x, np.ndarray):
        return x.copy() if lib == "mine" else to_torch(x).clone()
    return [to_both(y, lib) for y in x] if isinstance(x, list) else x


def run(row, args, kwargs, lib):
    """Call a row, and return its error or the contents of the written arguments."""
    schema = TABLE.schemas[f"aten::{row}"]
    args, kwargs = [to_both(x, lib) for x in args], {k: to_both(v, lib) for k, v in kwargs.items()}
    base, _, overload = row.partition(".")
    kernel = TABLE[f"aten::{row}"] if lib == "mine" else getattr(getattr(aten, base), overload or "default")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kernel(*args, **kwargs)
    except Exception as error:  # torch is the oracle, whatever it raises
        return type(error).__name__, str(error).split()[:8]
    given = dict(zip((a.name for a in schema.args), args, strict=False)) | kwargs
    return [to_numpy(x) if isinstance(x, torch.Tensor) else x for x in (given[a.name] for a in schema.written)]


def flat(written):
    """Return all arrays, including those in lists."""
    lists = [x if isinstance(x, list) else [x] for x in written]
    return [to_numpy(x) if isinstance(x, torch.Tensor) else x for y in lists for x in y]


def check(row, *args, **kwargs):
    mine, theirs = run(row, args, kwargs, "mine"), run(row, args, kwargs, "torch")
    if isinstance(theirs, tuple) or isinstance(mine, tuple):
        assert mine == theirs
        return
    for x, y in zip(mine, theirs, strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        rtol = {2: 1e-2, 4: 1e-5}.get(y.itemsize, 1e-5)
        np.testing.assert_allclose(dt.cast(x, dt.complex128), dt.cast(y, dt.complex128), rtol=rtol, atol=1e-6)


def some(dtype, *shape):
    return dt.cast(np.random.default_rng(3).uniform(0.5, 3, shape), dtype)


@pytest.mark.parametrize("d", DTYPES, ids=str)
def test_the_dtype_of_out(d):
    for x in (dt.float16, dt.bfloat16, dt.float32, dt.complex64, dt.int64):
        floating = dt.is_floating(x)
        check("abs.out", some(x, 4), out=np.zeros(4, d))
        check("all.all_out", some(dt.uint8, 4), out=np.zeros((), d))
        check("any.out", some(dt.uint8, 4), 0, out=np.zeros((), d))
        check("nansum.out", some(x, 2, 3), [0], out=np.zeros(3, d))
        for n in (0, 1, 2):
            check("diff.out", some(x, 5), n, 0, None, None, out=np.zeros(5 - n, d))
        if floating:
            check("glu_backward.grad_input", some(x, 4, 2), some(x, 8, 2), 0, grad_input=np.zeros((8, 2), d))
            # For half types, oneDNN has a kernel on some processors, whose refusals we follow; elsewhere torch
            # promotes.
            if x == dt.float32 or (
                x == dt.bfloat16 != d != dt.float16 and torch.ops.mkldnn._is_mkldnn_bf16_supported()
            ):
                check("gelu_backward.grad_input", some(x, 4), some(x, 4), grad_input=np.zeros(4, d))
            check("gelu_backward.grad_input", some(x, 4), some(x, 4), approximate="tanh", grad_input=np.zeros(4, d))
            check("gelu_backward.grad_input", some(x), some(x), grad_input=np.zeros((), d))
            check(
                "_upsample_nearest_exact3d_backward.grad_input",
                some(x, 1, 1, 2, 2, 2),
                [2, 2, 2],
                [1, 1, 4, 4, 4],
                grad_input=np.zeros((1, 1, 4, 4, 4), d),
            )
    for n in range(-5, 9):
        check("linalg_matrix_power.out", np.eye(2, dtype=np.float32) * 2, n, out=np.zeros((2, 2), d))
    for x in (dt.float32, dt.int64):
        check("median.dim_values", some(x, 3), 0, values=np.zeros((), d), indices=np.zeros((), d))
        check("nanmedian.dim_values", some(x, 3), 0, values=np.zeros((), d), indices=np.zeros((), np.int64))


@pytest.mark.parametrize("row", ["var", "std"])
@pytest.mark.parametrize("d", (dt.bfloat16, dt.float16, dt.float32, dt.float64), ids=str)
def test_half_moments_of_everything_have_no_wider_out(row, d):
    for x in (dt.bfloat16, dt.float16, dt.float32):
        check(f"{row}.out", some(x, 3, 4), [0, 1], out=np.zeros((), d))
        check(f"{row}.out", some(x, 3, 4), [0], out=np.zeros(4, d))
        check(f"{row}.out", some(x, 3, 1), [-2], out=np.zeros(1, d))
        check(f"{row}.out", some(x, 3, 4), None, out=np.zeros((), d))
        check(f"{row}.out", some(x, 3, 1), 0, out=np.zeros(1, d))
        check(f"{row}.correction_out", some(x, 3, 4), [1, 0], correction=1, keepdim=True, out=np.zeros((1, 1), d))


@pytest.mark.parametrize("shape", [(), (1,), (3,), (1, 1), (3, 1), (1, 4), (3, 4), (2, 2), (1, 3, 4), (1, 1, 1)])
def test_shapes_of_the_target(shape):
    x = some(dt.float32, *shape)
    check("addr_", x, some(dt.float32, 3), some(dt.float32, 4))
    check("addr_", x, some(dt.float32, 3, 1), some(dt.float32, 4))
    for mask in ((3, 4), (4,), (1,), ()):
        check("masked_scatter_", x, np.ones(mask, bool), some(dt.float32, 3, 4))
    # torch's copy reads a column that it has begun to write, so it gives other values here than torch's addbmm.
    if len(shape) < 3 and shape not in ((3, 1), (2, 2)):
        check("addbmm_", x, some(dt.float32, 2, 3, 5), some(dt.float32, 2, 5, 4))


@pytest.mark.parametrize("dtype", (dt.bfloat16, dt.float16, dt.complex32), ids=str)
def test_a_number_times_half_in_place_is_rounded_first(dtype):
    for number in (0.1, 1 / 3, 1001, -257.3, 2, True):
        for shape in ((40,), (3,), ()):
            x = some(dt.float32, *shape)
            x = dt.cast(x, dtype)
            for row, args in (
                ("mul_.Scalar", (x, number)),
                ("mul.Scalar_out", (x, number)),
                ("multiply_.Scalar", (x, number)),
                ("_foreach_mul_.Scalar", ([x, some(dt.float32, 2)], number)),
                ("_foreach_mul_.ScalarList", ([x, x], [number, 3.3])),
            ):
                kwargs = {"out": np.zeros(shape, dtype)} if row.endswith("out") else {}
                mine, theirs = (flat(run(row, args, kwargs, lib)) for lib in ("mine", "torch"))
                for a, b in zip(mine, theirs, strict=True):
                    np.testing.assert_array_equal(dt.cast(a, dt.complex128), dt.cast(b, dt.complex128))


def test_outs_that_have_to_be_contiguous():
    def steps(*shape):
        return np.zeros((*shape, 2), np.float32)[..., 0]

    x, index = some(dt.float32, 2, 3), np.array([1, 0])
    for grad_input in (steps(2, 3), np.zeros((2, 3), np.float32)):
        args = (some(dt.float32), x, index, 1, 1.0, None, 1)
        row = "multi_margin_loss_backward.grad_input"
        base, _, overload = row.partition(".")
        theirs = torch.from_numpy(grad_input)  # a tensor with the same strides
        try:
            given = [to_torch(a) if isinstance(a, np.ndarray) else a for a in args]
            getattr(getattr(aten, base), overload)(*given, grad_input=theirs)
            expect = None
        except RuntimeError as error:
            expect = str(error)
        if expect is None:
            TABLE[f"aten::{row}"](*args, grad_input=grad_input)
        else:
            with pytest.raises(RuntimeError, match=expect):
                TABLE[f"aten::{row}"](*args, grad_input=grad_input)


def test_a_tensor_of_one_number_is_a_number():
    x = np.arange(10.0)
    for start in (np.array(True), np.array(2), np.array([2.5]), np.array(2, np.int32)):
        np.testing.assert_array_equal(
            TABLE["aten::narrow"](x, 0, start, 3),
            aten.narrow.default(torch.from_numpy(x), 0, torch.from_numpy(start), 3),
        )
    out = np.zeros((2, 2))
    for number in (np.array(0.5), np.array([1], np.int64), np.array(1.5, np.float32)):
        TABLE["aten::linalg_pinv.atol_rtol_float_out"](np.eye(2), rtol=number, out=out)
        expect = aten.linalg_pinv.atol_rtol_float(torch.eye(2, dtype=torch.float64), rtol=torch.from_numpy(number))
        np.testing.assert_array_equal(out, expect)
    with pytest.raises(RuntimeError, match=r"Expected a value of type 'Optional\[float\]' for argument 'rtol'"):
        TABLE["aten::linalg_pinv.atol_rtol_float_out"](np.eye(2), rtol=np.array(1j), out=out)


def test_narrow_copy_refuses_in_words_of_its_own():
    x = np.arange(10.0)
    for args in ((0, 0, -1), (0, 12, -1), (1, 0, 1), (-2, 0, 1), (0, 5, 6), (0, 10, 0), (0, -4, 3), (0, -3, -5)):
        expect, mine = [], []
        for found, call, y in (
            (expect, aten.narrow_copy.default, torch.from_numpy(x)),
            (mine, TABLE["aten::narrow_copy"], x),
        ):
            try:
                found.append(call(y, *args).shape)
            except Exception as error:  # torch is the oracle, whatever it raises
                found.append((type(error).__name__, str(error).split()[:8]))
        assert mine == expect


@pytest.mark.parametrize("shape", [(3,), (0,), (2,), (), (3, 2), (1, 1)])
def test_batch_norm_that_saves_nothing_leaves_its_outs(shape):
    x = some(dt.float32, 2, 3)
    for save_mean, save_invstd in (
        (np.ones(shape, np.float32), np.ones(0, np.float32)),
        (np.ones(0, np.float32), np.ones(shape, np.float32)),
    ):
        check(
            "native_batch_norm.out", x, None, None, some(dt.float32, 3), some(dt.float32, 3), False, 0.1, 1e-5,
            out=np.zeros((2, 3), np.float32), save_mean=save_mean, save_invstd=save_invstd,
        )  # fmt: skip


# ---------------------------------------------------------------- which of two faults is found first

NONE, ONE = np.zeros((3, 0), bool), np.zeros((), np.int32)
ACROSS, PAIR = np.zeros(0, np.int64), np.zeros((2, 2), np.int64)
EXPANDED = np.lib.stride_tricks.as_strided(np.zeros(1, np.uint8), (1, 4), (1, 0))


@pytest.mark.parametrize(("row", "args", "kwargs"), [
    ("index_reduce_", (NONE, 0, ACROSS, NONE[:0], "mean"), {"include_self": False}),
    ("index_reduce_", (NONE, 0, np.zeros(2, np.int64), NONE[:2], "mean"), {}),
    ("index_add_", (some(dt.float32), 0, ACROSS, some(dt.float32)), {}),
    ("index_add_", (some(dt.float32, 3, 2), 1, ACROSS, some(dt.float32)), {}),
    ("scatter_reduce_.two", (NONE, 1, PAIR[:, :0], NONE, "mean"), {}),
    ("scatter_.reduce", (some(dt.int64, 2, 2), 1, PAIR, ONE.astype(np.int64)), {"reduce": "add"}),
    ("index_put_", (some(dt.float32, 3), [PAIR, np.zeros(3, np.int64)], some(dt.float64)), {}),
    ("index_put_", (some(dt.float32, 3, 2), [PAIR, np.zeros(3, np.int64)], some(dt.float64)), {}),
    ("index_put_", (some(dt.float32, 3), [PAIR], some(dt.float64, 5)), {}),
    ("index_put_", (np.zeros(3, np.uint16), [PAIR + 7], np.zeros(5, np.uint16)), {}),
    ("floor_divide_.Scalar", (np.ones(2, bool), 0), {}),
    ("remainder_.Tensor", (np.ones(2, np.int8), np.zeros((2, 2), np.int8)), {}),
    ("nansum.out", (some(dt.float16, 2), [0]), {"dtype": 3, "out": ONE}),
    ("adaptive_avg_pool2d.out", (some(dt.complex64, 1, 2, 3), [1, 1]), {"out": np.zeros((1, 1, 1), np.complex64)}),
    ("adaptive_avg_pool3d.out", (some(dt.int64, 1, 2, 3, 2), [1] * 3), {"out": np.zeros((1, 1, 1, 1), np.int64)}),
])  # fmt: skip
def test_what_is_found_first(row, args, kwargs):
    told = {k: v for k, v in kwargs.items() if k != "dtype"}
    if "dtype" not in kwargs:
        check(row, *args, **told)
        return
    mine = TABLE[f"aten::{row}"](*args, dtype=np.dtype(np.int32), out=np.zeros((), np.int32))
    theirs = aten.nansum.out(to_torch(args[0]), [0], dtype=torch.int32, out=torch.zeros((), dtype=torch.int32))
    assert mine == theirs.item()


@pytest.mark.parametrize(("row", "args"), [
    ("scatter_.value_reduce", (1, np.zeros((1, 4), np.int64), 300, "add")),
    ("add_.Tensor", (np.ones((1, 4), np.uint8), 300)),
    ("add_.Tensor", (np.ones((1, 4), np.uint8), True)),
    ("clamp_", (0, 300)),
    ("masked_fill_.Scalar", (np.ones((1, 4), bool), 300)),
    ("fill_.Scalar", (300,)),
    ("uniform_", (0.0, 1.0)),
])  # fmt: skip
def test_a_number_too_large_for_an_expanded_target(row, args):
    base, _, overload = row.partition(".")
    last = {"reduce": args[-1]} if row.endswith("reduce") else {"alpha": args[-1]} if row == "add_.Tensor" else {}
    given = args[: len(args) - len(last)]
    found = []
    for kernel, lib in (
        (TABLE[f"aten::{row}"], "mine"),
        (getattr(getattr(aten, base), overload or "default"), "torch"),
    ):
        target = EXPANDED if lib == "mine" else torch.zeros(1, 1, dtype=torch.uint8).expand(1, 4)
        with pytest.raises(RuntimeError) as error:
            kernel(target, *(to_both(x, lib) for x in given), **last)
        found.append(str(error.value).split()[:8])
    assert found[0] == found[1]


# ---------------------------------------------------------------- losses, bags, products

HUGE = np.array([[6.0, 0.5], [-1.0, 1e30]])
CANCEL = np.array([[10.0, -1e30], [1.0, 1e30], [0.0, 2.0]])
BAGS = np.zeros(4, np.int64)
IMAGE = some(dt.float64, 1, 1, 2, 3)
GROUP = (IMAGE, IMAGE, np.zeros((1, 1)), np.ones((1, 1)))
SINGLE = dt.cast(np.array([[1e30], [2.0]]), dt.bfloat16)


@pytest.mark.parametrize(
    "row, args, kwargs",
    [
        ("mse_loss_backward.grad_input", (some(dt.float32, 2), some(dt.bfloat16, 2), some(dt.float32, 2), 2),
          {"grad_input": np.zeros(2, np.int64)}),
        ("mse_loss_backward.grad_input", (some(dt.float32, 2), some(dt.bfloat16, 2), some(dt.float32, 2), 2),
          {"grad_input": np.zeros(2, np.float32)}),
        ("huber_loss.out", (some(dt.bfloat16, 2), some(dt.float32, 2), 0, 0.25), {"out": np.zeros(2)}),
        ("multilabel_margin_loss", (np.array(1.0), np.zeros((1, 1), np.int64)), {}),
        ("nll_loss_backward", (np.array(1.0), np.ones(2), np.zeros(1, np.int64), None, 1, -100, np.array(1.0)), {}),
        ("_embedding_bag_backward", (np.ones((2, 1)), BAGS, np.zeros(4, np.int64)[::2], BAGS[::2], BAGS[:2],
          BAGS[:2, None], 3, False, 0, False, None), {}),
        ("embedding_bag", (some(dt.float8_e5m2, 3, 3), BAGS, BAGS[:1]), {}),
        ("linalg_cholesky", (some(dt.float8_e5m2, 1, 1),), {}),
        ("bilinear", (some(dt.float16, 1, 1), some(dt.float16, 1, 3), some(dt.float16, 1, 1, 3), some(dt.float32, 1)), {}),
        # Torch asks for the complex dtype before it checks the shape.
        ("linalg_eig", (some(dt.float8_e5m2, 2, 3),), {}),
        ("linalg_solve_triangular", (some(dt.int16, 1, 1), some(dt.uint8, 1, 1)), {"upper": True}),
        ("linalg_solve_triangular", (some(dt.float32, 2, 2), some(dt.float64, 2, 2)), {"upper": True}),
        ("bilinear", (some(dt.float32, 1), some(dt.float32, 1), some(dt.float32)), {}),
        ("bilinear", (some(dt.float32, 1), some(dt.float32, 1), some(dt.float32, 1, 1)), {}),
        ("linear", (some(dt.float32, 1, 4), some(dt.float32, 2, 4, 4)), {}),
        ("tensordot", (some(dt.float8_e5m2, 1, 2), some(dt.float8_e5m2, 2), [1], [0]), {}),
        ("einsum", ("ij->j", [some(dt.float8_e5m2, 1, 2)]), {}),
        ("einsum", ("ij,jk->ik", [some(dt.int8, 2, 2), some(dt.float32, 2, 2)]), {}),
        ("einsum", ("ij,jk,kl->il", [some(dt.float32, 2, 2)] * 3), {"path": [0, 2, 0, 2]}),
        ("linalg_matmul.out", (some(dt.float32, 2, 2, 1), some(dt.float32, 1)), {"out": np.zeros((2, 2), np.int64)}),
        ("linalg_matmul.out", (some(dt.float32, 2), some(dt.float32, 2)), {"out": np.zeros((), np.int64)}),
        ("linalg_vector_norm", (np.ones((1, 2)), 2, [-2, -2], False), {"dtype": torch.float32}),
        ("linalg_vector_norm", (np.ones((1, 0)), np.inf, [-1]), {}),
        ("norm_except_dim", (np.ones((2, 0, 3)), 2, 1), {}),
        ("_slow_conv2d_backward.output_mask", (IMAGE, IMAGE, np.ones(1), [1, 1], [1, 1], [0, 0], [True] * 3), {}),
        ("_slow_conv2d_backward.output_mask", (IMAGE, IMAGE, np.ones((1, 2)), [1, 1], [1, 1], [0, 0], [True] * 3), {}),
        ("thnn_conv2d", (some(dt.bfloat16, 1, 1, 2, 3), np.ones((1, 1, 1, 1), np.int8), [1, 1]), {}),
        ("native_group_norm_backward", (*GROUP[:4], np.ones(1, bool), 1, 1, 6, 1, [True] * 3), {}),
        ("glu_backward_jvp", (np.ones(4), np.ones((2, 4)), np.ones(4), np.ones(4), np.ones(4), 0), {}),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)  # fmt: skip
def test_what_is_said_first_and_what_is_computed_in_an_out(row, args, kwargs):
    check(row, *args, **kwargs)


@pytest.mark.parametrize(
    "row, args",
    [
        # For one number, torch does not square, so nothing overflows.
        ("pairwise_distance", (SINGLE, SINGLE[::-1].copy())),
        # The margin is added before the cancellation.
        ("triplet_margin_loss", (HUGE, np.zeros((2, 2)), np.ones((2, 2)))),
        ("nll_loss_backward", (np.array(1.0), np.ones(2), np.array([1, 0]), None, 1, -100, np.array(1.0))),
        ("soft_margin_loss_backward", (some(dt.bfloat16, 3), -some(dt.bfloat16, 3), some(dt.bfloat16, 3), 0)),
        ("bmm", (np.full((2, 2, 3), 6.0), np.stack([CANCEL, CANCEL]))),  # each product is rounded before it is added
        ("mm", (dt.cast(np.array([[3e38, 6e30]]), dt.bfloat16), dt.cast(np.array([[-1e30], [1e30]]), dt.bfloat16))),
        ("norm_except_dim", (some(dt.float64, 2, 3, 4), 2, 1)),
        ("binary_cross_entropy", (np.zeros((2, 0)).T, np.zeros((2, 0)).T, None, 0)),
        ("einsum", ("ij->ji", [np.zeros((2, 0, 3))[..., 0]])),
        # Nothing is summed, so this is a product.
        ("einsum", ("Aa,aB->BA", [some(dt.int8, 3, 1), some(dt.bfloat16, 1, 4)])),
        ("einsum", ("ijk,k", [np.zeros((2, 0, 4), np.float32), np.zeros(4, np.float16)])),
        ("einsum", ("na,nb,bc->ca", [some(dt.float16, 2, 3), some(dt.float16, 2, 4), some(dt.float16, 4, 5)])),
        ("_slow_conv2d_forward", (IMAGE, np.ones((1, 1, 1, 1)), [1, 1], np.array([2]), [1, 1], [0, 0])),
        ("slow_conv3d", (IMAGE[None], np.ones((1, 1, 1, 1, 1)), [1, 1, 1], np.array([2]))),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_results_and_their_strides(row, args):
    schema = TABLE.schemas[f"aten::{row}"]
    base, _, overload = row.partition(".")
    mine = TABLE[f"aten::{row}"](*[to_both(x, "mine") for x in args])
    theirs = getattr(getattr(aten, base), overload or "default")(*[to_both(x, "torch") for x in args])
    assert len(schema.returns) == 1
    assert tuple(s // mine.itemsize for s in mine.strides) == theirs.stride()
    theirs = to_numpy(theirs)
    assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
    wide = [dt.cast(x, dt.float64) for x in (mine, theirs)]
    np.testing.assert_allclose(*wide, rtol=0 if mine.itemsize == 2 else 1e-14)


@pytest.mark.parametrize("beta", [0, 1])
@pytest.mark.parametrize("inner", [0, 2])
def test_an_expanded_target_of_addmm_is_made_zero_or_refused(beta, inner):
    said = []
    for lib in ("mine", "torch"):
        a, b = (to_both(np.ones(s), lib) for s in ((3, inner), (inner, 3)))
        target = np.lib.stride_tricks.as_strided(np.ones(3), (3, 3), (0, 8))
        target = target if lib == "mine" else torch.ones(3, dtype=torch.float64).expand(3, 3)
        op = TABLE["aten::addmm_"] if lib == "mine" else aten.addmm_.default
        try:
            said.append(op(target, a, b, beta=beta).tolist())
        except RuntimeError as error:
            said.append(str(error).splitlines()[0])
    assert said[0] == said[1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8])
def test_memory_that_no_array_owns(dtype):
    """A window on memory that no array owns extends from its first to its last element."""
    x = torch.arange(48).to(dtype).view(6, 8)[1:4, 1:6:2]
    a = x.numpy()
    assert not isinstance(a.base, np.ndarray)
    count = 2 * 8 + 4 + 1
    found = torchnp.aten.as_strided(a, [count], [1])
    assert np.array_equal(found, np.arange(9, 9 + count))
    with pytest.raises(
        RuntimeError, match=f"of {(count + 1) * a.itemsize} are out of bounds for storage of size {count * a.itemsize}$"
    ):
        torchnp.aten.as_strided(a, [count + 1], [1])
    found[1] = 77
    assert x.as_strided([1], [1], 10).item() == 77
    a.flags.writeable = False
    assert not torchnp.aten.as_strided(a, [2], [1]).flags.writeable


@pytest.mark.parametrize("dim", [0, 1])
def test_what_the_rounding_of_few_logarithms_of_softmax_is_of(dim):
    """The error scales with the distance from the largest element and the logarithm of the sum, which has at least one
    term."""
    x = torch.tensor([[1.0, 4.0, -2.5], [0.5, -3.0, 8.0]], dtype=torch.float64)
    found = REGISTERED["aten::_log_softmax"].quick.scale(to_numpy(x), dim, False)
    want = (x - x.amax(dim, keepdim=True)).abs() + math.log(x.shape[dim]) + 1
    torch.testing.assert_close(to_torch(found), want)


@pytest.mark.parametrize("n", [1, 2, 3, 8, 16])
def test_the_most_frequent_element_beside_nan(n):
    """No comparison puts nan first, so up to sixteen elements keep the order of C++'s insertion sort."""
    draw = np.random.default_rng(n)
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.from_numpy(draw.choice([np.nan, 0.0, -0.0, 1.0, 2.0, np.inf], (200, n))).to(dtype)
        value, index = torch.mode(x, 1)
        found = torchnp.aten.mode(to_numpy(x), 1)
        np.testing.assert_array_equal(found[1], index.numpy())
        np.testing.assert_array_equal(found[0].astype(float), to_numpy(value).astype(float))


@pytest.mark.parametrize("offset", [0, 1e3])
@pytest.mark.parametrize("given", [(), ("weight",), ("weight", "bias")])
def test_layer_norm(given, offset):
    torch.manual_seed(0)
    x, named = torch.randn(3, 70, 40) * 3 + offset, {name: torch.randn(40) for name in given}
    wanted = torch.nn.functional.layer_norm(x.double(), [40], **{k: v.double() for k, v in named.items()})
    own = (torch.nn.functional.layer_norm(x, [40], **named).double() - wanted).abs().max()
    found = torchnp.aten.layer_norm(x.numpy(), [40], **{k: v.numpy() for k, v in named.items()})
    assert (torch.from_numpy(found).double() - wanted).abs().max() < 4 * own + 1e-6
    x = x - offset
    x[0, 1, 2], x[1, 2, 3], x[2, 3] = torch.nan, torch.inf, 7
    found = torchnp.aten.layer_norm(x.numpy(), [40])
    torch.testing.assert_close(torch.from_numpy(found), torch.nn.functional.layer_norm(x, [40]), equal_nan=True)


@pytest.mark.parametrize("n", [40, 768, 1000])
@pytest.mark.parametrize("mean", [1.0, 100.0, 1e6])
def test_layer_norm_of_equal_numbers_and_of_large_means(n, mean):
    torch.manual_seed(0)
    for x in (torch.full((120, n), mean), torch.full((120, n), 3.3e30)):
        found = torchnp.aten.layer_norm(x.numpy(), [n])
        torch.testing.assert_close(torch.from_numpy(found), torch.nn.functional.layer_norm(x, [n]), equal_nan=True)
    x = torch.randn(120, n) + mean
    found, truth = torchnp.aten.layer_norm(x.numpy(), [n]), torch.nn.functional.layer_norm(x.double(), [n])
    own = (torch.nn.functional.layer_norm(x, [n]).double() - truth).abs().max()
    assert (torch.from_numpy(found).double() - truth).abs().max() <= 4 * own + 1e-6
