"""Half-precision loops of NumPy and ml_dtypes give the same results as float32 followed by rounding."""

import numpy as np
import pytest
import torch

import torchnp
from torchnp.dtypes import HALVES, float32
from torchnp.interop import to_numpy, to_torch
from torchnp.kernels._elementwise import _OWN_OF_ONE, EXACT_BINARY_UFUNCS
from torchnp.kernels.numerics.erf import MANY

BITS = np.arange(1 << 16, dtype=np.uint16)
SPECIAL = np.array(
    [0, 0x8000, 1, 0x8001, 0x3C00, 0x3F80, 0x7BFF, 0x7F7F, 0x7C00, 0xFC00, 0x7F80, 0xFF80, 0x7E00, 0x7FC0], np.uint16
)
ROUNDED = {
    "sqrt",
    "negative",
    "absolute",
    "floor",
    "ceil",
    "trunc",
    "rint",
    "square",
    "isnan",
    "isinf",
    "isfinite",
    "signbit",
}


def names(functions):
    return sorted(functions, key=lambda f: f.__name__)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("function", names(_OWN_OF_ONE), ids=lambda f: f.__name__)
def test_functions_of_one(function, dtype):
    x = BITS.view(dtype)
    with np.errstate(all="ignore"):
        found, wanted = function(x), function(x.astype(float32))
        assert found.dtype == (dtype if wanted.dtype == float32 else np.bool_)
        found, wanted = (v.astype(dtype).astype(float32) for v in (found, wanted))
    if function.__name__ in ROUNDED:
        np.testing.assert_array_equal(found, wanted)
        sure = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(found[sure]), np.signbit(wanted[sure]))
        return
    differ = (found != wanted) & ~(np.isnan(found) & np.isnan(wanted))
    assert differ.sum() <= 20  # float32's last bit decides between two neighbours
    with np.errstate(all="ignore"):
        apart = np.abs(
            found[differ].astype(dtype).view(np.int16).astype(int) - wanted[differ].astype(dtype).view(np.int16)
        )
    assert (apart <= 1).all()


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("function", names(EXACT_BINARY_UFUNCS), ids=lambda f: f.__name__)
def test_functions_of_two(function, dtype):
    rng = np.random.default_rng(0)
    some = rng.integers(0, 1 << 16, (2, 300_000), np.uint16)
    x, y = (
        np.concatenate([a, b]).view(dtype)
        for a, b in zip(some, (np.repeat(SPECIAL, len(SPECIAL)), np.tile(SPECIAL, len(SPECIAL))))
    )
    with np.errstate(all="ignore"):
        found, wanted = function(x, y), function(x.astype(float32), y.astype(float32))
        assert found.dtype == (dtype if wanted.dtype == float32 else np.bool_)
        found, wanted = (v.astype(dtype).astype(float32) for v in (found, wanted))
    np.testing.assert_array_equal(found, wanted)
    sure = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found[sure]), np.signbit(wanted[sure]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("number", [3, -2, 0.1, 1e-6, 300.5, float("nan"), float("inf"), 40000.0, True])
@pytest.mark.parametrize(
    "name", ["add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor", "lt.Scalar", "eq.Scalar", "maximum"]
)
def test_a_number_beside_a_half_type(name, number, dtype):
    torch.manual_seed(0)
    x = torch.randn(200).to(dtype)
    packet, _, overload = name.partition(".")
    if name == "maximum":
        number = torch.tensor(number, dtype=dtype)
    theirs = getattr(getattr(torch.ops.aten, packet), overload or "default")
    try:
        wanted = theirs(x, number)
    except RuntimeError as error:
        with pytest.raises(RuntimeError) as said:
            torchnp.table[f"aten::{name}"](to_numpy(x), number)
        assert str(said.value) == str(error)
        return
    given = to_numpy(number) if isinstance(number, torch.Tensor) else number
    found = torchnp.table[f"aten::{name}"](to_numpy(x), given)
    assert torch.equal(to_torch(found).nan_to_num(7), wanted.nan_to_num(7)) and wanted.dtype == to_torch(found).dtype


@pytest.mark.parametrize("name", ["erf", "gelu"])
def test_many_float32s_are_as_near_to_the_truth_as_few(name):
    x = np.concatenate([np.linspace(-7, 7, MANY), np.geomspace(1e-38, 9, MANY), [0, -0.0, np.inf, 3e38, -3e38]]).astype(
        np.float32
    )
    function = {"erf": torch.erf, "gelu": torch.nn.functional.gelu}[name]
    truth = function(torch.from_numpy(x).double()).numpy()
    found = torchnp.table[f"aten::{name}"](x)
    few = np.concatenate([torchnp.table[f"aten::{name}"](part) for part in np.array_split(x, 16)])
    finite = np.isfinite(truth)
    assert np.array_equal(found[~finite], few[~finite]) and np.array_equal(np.signbit(found), np.signbit(few))
    found, truth = found[finite], truth[finite]
    limit = 4 * np.spacing(np.maximum(np.abs(truth), 1e-37).astype(np.float32))
    assert (np.abs(found - truth) <= (limit if name == "erf" else np.maximum(limit, 7e-7))).all()
