"""to_numpy and to_torch: shared memory, every dtype, and clear errors for tensors that no array can represent."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torchnp.interop import to_numpy, to_torch  # noqa: E402
from torchnp.interop.convert import NUMPY_DTYPE  # noqa: E402

DTYPES = list(NUMPY_DTYPE)
COMPLEX = [torch.complex32, torch.complex64, torch.complex128]
LAYOUTS = {
    "whole": lambda x: x,
    "transposed": lambda x: x.t(),
    "offset": lambda x: x[1:, 2:],
    "stepped": lambda x: x[:, ::2],
    "empty": lambda x: x[:0],
    "0-d": lambda x: x[1, 2],
    "expanded": lambda x: x[0, 0].expand(3, 2),
    "requires grad": lambda x: x.requires_grad_() if x.is_floating_point() and x.element_size() > 1 else x,
}


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "ComplexHalf support is experimental")
        warnings.filterwarnings("ignore", ".*quantized tensors are deprecated|.*quantize_per_tensor")
        yield


def make(dtype: torch.dtype) -> torch.Tensor:
    return torch.ones(4, 6).to(dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_both_ways_on_one_memory(dtype, layout):
    x = LAYOUTS[layout](make(dtype))
    a = to_numpy(x)
    assert type(a) is np.ndarray
    assert (a.dtype, a.shape) == (NUMPY_DTYPE[dtype], tuple(x.shape))
    assert a.flags.writeable
    y = to_torch(a)
    assert (y.dtype, y.shape, y.requires_grad) == (x.dtype, x.shape, False)
    assert a.strides == tuple(s * a.itemsize for s in x.stride())
    assert y.stride() == x.stride()
    if x.numel():
        assert a.__array_interface__["data"][0] == x.data_ptr() == y.data_ptr()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values_survive(dtype):
    x = torch.tensor([0, 1, 2, 4]).to(dtype)
    wide = np.complex64 if dtype.is_complex else np.float32
    zero = 2.0**-127 if dtype == torch.float8_e8m0fnu else 0
    expected = [zero, 1, 1, 1] if dtype == torch.bool else [zero, 1, 2, 4]
    np.testing.assert_array_equal(to_numpy(x).astype(wide), np.array(expected, wide))


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_conjugate_and_negative_bits_are_resolved(dtype):
    z = torch.tensor([1 + 2j, complex(3, float("nan")), complex(0, -0.0)], dtype=dtype)
    wide = np.complex128
    np.testing.assert_array_equal(to_numpy(z.conj()).astype(wide), np.conj(to_numpy(z).astype(wide)))
    assert not np.shares_memory(to_numpy(z.conj()), to_numpy(z))
    negated = z.conj().imag
    assert negated.is_neg()
    np.testing.assert_array_equal(to_numpy(negated), [-2, np.nan, 0])
    assert not np.signbit(to_numpy(negated)[2])


def test_zero_tensors_and_decorating_subclasses():
    np.testing.assert_array_equal(to_numpy(torch._efficientzerotensor((2,))), [0.0, 0.0])

    class Tagged(torch.Tensor):
        pass

    x = torch.ones(2)
    assert np.shares_memory(to_numpy(x.as_subclass(Tagged)), to_numpy(x))
    assert np.shares_memory(to_numpy(torch.nn.Parameter(x)), to_numpy(x))


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.arange(3)[::-1], [2, 1, 0]),
        (np.broadcast_to(np.float32(2), (2, 2)), [[2, 2], [2, 2]]),
        (np.array([1, 2], ">i4"), [1, 2]),
        (np.array(7, ">f8"), 7.0),
        (np.zeros(2, [("a", "i1"), ("b", "<i4")])["b"], [0, 0]),
        (np.float32(3), 3.0),
        (np.bool_(True), True),
    ],
    ids=[
        "negative stride",
        "read-only",
        "byte order",
        "0-d byte order",
        "stride of no whole item",
        "scalar",
        "bool scalar",
    ],
)
def test_what_torch_cannot_express_is_copied_without_a_warning(array, expected):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = to_torch(array)
    assert x.tolist() == expected
    x.zero_()
    np.testing.assert_array_equal(array, expected)


def test_long_long_is_int64():
    assert to_torch(np.arange(3, dtype="q")).dtype == torch.int64
    assert to_torch(np.arange(3, dtype="Q")).dtype == torch.uint64


def fake():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.ones(2)


@pytest.mark.parametrize(
    ("make_tensor", "exception", "words"),
    [
        (lambda: [1], TypeError, "expects a torch.Tensor, got list"),
        (fake, TypeError, "FakeTensor is a tensor subclass"),
        (lambda: torch.eye(2).to_sparse(), TypeError, "layout torch.sparse_coo"),
        (lambda: torch.eye(2).to_sparse_csr(), TypeError, "layout torch.sparse_csr"),
        (lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), TypeError, "quantized"),
        (lambda: torch.nested.nested_tensor([torch.ones(2)]), TypeError, "nested"),
        (lambda: torch.ones(2, device="meta"), RuntimeError, "a meta tensor has no data"),
        (lambda: torch.zeros(2, dtype=torch.float4_e2m1fn_x2), TypeError, "float4"),
    ],
    ids=["list", "fake", "sparse", "csr", "quantized", "nested", "meta", "float4"],
)
@pytest.mark.filterwarnings("ignore")
def test_clear_words_for_what_has_no_array_form(make_tensor, exception, words):
    with pytest.raises(exception, match=words):
        to_numpy(make_tensor())


def test_clear_words_inside_a_transform():
    with pytest.raises(RuntimeError, match=r"inside a torch\.func transform"):
        torch.vmap(to_numpy)(torch.ones(2))


@pytest.mark.parametrize(
    ("array", "words"),
    [([1], "got list"), (np.array(["a"]), "no dtype for <U1"), (np.ones(1, np.longdouble), "no dtype for")],
)
def test_to_torch_refuses_what_torch_lacks(array, words):
    with pytest.raises(TypeError, match=words):
        to_torch(array)
