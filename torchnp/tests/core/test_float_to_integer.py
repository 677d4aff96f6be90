"""NaN, infinities and floats out of range as integers: torch's own values, and the same on every processor."""

import itertools
import platform

import numpy as np
import pytest
import torch

import torchnp
from torchnp import dtypes as dt
from torchnp import float_to_integer
from torchnp.interop import to_numpy, to_torch

TABLE = torchnp.table
INTEGERS = (*dt.INTS, *dt.BARE_UNSIGNED)
SOURCES = (*dt.FLOATS, *dt.FLOAT8S, dt.complex64, dt.complex128)
VALUES = [np.nan, -np.nan, np.inf, -np.inf, 300, -1, -300, 4e4, -4e4, 7e4, 3e9, -3e9, 5e9, 1e10, -1e10, 1e19, -1e19, 1.8e19,
          2e19, 1e30, -1e30, 2.0**31, 2.0**31 - 0.5, -(2.0**31) - 0.5, -(2.0**31) - 256, 2.0**63, -(2.0**63), 2.0**32, 2.0**64,
          -1.5, -129, -0.5, 255.5, 1e15, -1e15]  # fmt: skip
X86 = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="torch has other values on other processors"
)


@pytest.fixture(autouse=True)
def quiet():
    """Switch NumPy's warnings off, as the table does for kernels."""
    with np.errstate(all="ignore"):
        yield


@X86
@pytest.mark.parametrize("source", SOURCES, ids=str)
@pytest.mark.parametrize("target", INTEGERS, ids=str)
def test_what_does_not_fit(source, target):
    x = dt.cast(np.array(VALUES), source)
    one_by_one = torch.stack([to_torch(x[i : i + 1]).to(getattr(torch, str(target)))[0] for i in range(len(x))])
    expect = to_numpy(one_by_one).tolist()
    for i, e in enumerate(expect):
        assert dt.cast(x[i : i + 1], target).tolist() == [e], VALUES[i]
        assert dt.cast(x[i : i + 1].reshape(()), target).tolist() == e, VALUES[i]
        many = np.repeat(x[i : i + 1], 67)
        assert dt.cast(many, target).tolist() == [e] * 67, VALUES[i]
        assert dt.cast(many[::3], target).tolist() == [e] * 23, VALUES[i]
        for op, args in (
            ("copy_", (np.zeros(67, target), many)),
            ("to.dtype", (many, target)),
            ("fill_.Tensor", (np.zeros(3, target), x[i])),
        ):
            if op != "fill_.Tensor" or not dt.is_complex(source):
                written = TABLE[f"aten::{op}"](*(np.asarray(a) if isinstance(a, np.generic) else a for a in args))
                assert set(written.tolist()) == {e}, (op, VALUES[i])


@pytest.mark.parametrize("source", [dt.float32, dt.float64], ids=str)
@pytest.mark.parametrize("target", INTEGERS, ids=str)
def test_the_values_are_fixed(source, target, monkeypatch):
    """The fixed values are those of x86: NumPy's where NumPy converts that way, and computed elsewhere."""
    x = np.concatenate([np.array(VALUES, source), np.linspace(-200, 200, 77, dtype=source)])
    usual = dt.cast(x, target)
    monkeypatch.setattr(float_to_integer, "_converts_as_x86", lambda *_: False)
    np.testing.assert_array_equal(dt.cast(x, target), usual)
    smallest = (
        0 if target.itemsize < 4 or target == dt.uint32 else 2**63 if target == dt.uint64 else np.iinfo(target).min
    )
    assert usual[:2].tolist() == [smallest] * 2
    assert usual[-77:].tolist() == [int(v) % 2 ** (8 * target.itemsize) for v in x[-77:]] or target.kind == "i"


def test_torchs_vectors_differ_where_nothing_is_promised():
    """torch's own result varies: a float32 converted to uint32 may have one value in a vector and another in the
    rest."""
    x = torch.full((67,), -3e9)
    found = set(x.to(torch.uint32).tolist())
    assert found <= {1294967296, 2147483648, 4294967295, 0}
    assert dt.cast(to_numpy(x), dt.uint32).tolist() == [1294967296] * 67


def test_numbers_are_refused_as_torch_refuses_them():
    for (target, number), op in itertools.product(
        itertools.product(INTEGERS, (float("nan"), float("inf"), 1e30, -1.0)), ("fill_", "masked_fill_", "full")
    ):
        own = getattr(torch, str(target))
        calls = {
            "fill_": (
                lambda o=own, n=number: torch.zeros(2, dtype=o).fill_(n),
                lambda t=target, n=number: TABLE["aten::fill_.Scalar"](np.zeros(2, t), n),
            ),
            "masked_fill_": (
                lambda o=own, n=number: torch.zeros(2, dtype=o).masked_fill_(torch.tensor([True, False]), n),
                lambda t=target, n=number: TABLE["aten::masked_fill_.Scalar"](
                    np.zeros(2, t), np.array([True, False]), n
                ),
            ),
            "full": (
                lambda o=own, n=number: torch.full((2,), n, dtype=o),
                lambda t=target, n=number: TABLE["aten::full"]([2], n, dtype=t),
            ),
        }
        told = []
        for call in calls[op]:
            try:
                told.append(np.asarray(call()).tolist())
            except RuntimeError as error:
                told.append((type(error), str(error)[:40]))
        assert told[0] == told[1], (op, target, number)
