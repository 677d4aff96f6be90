"""The portable table: signatures follow schemas, each core operator has a row or a reason, promotion and halves are
torch's."""

import inspect

import numpy as np
import pytest
import torch

import torchnp
from torchnp import dtypes as dt
from torchnp.interop import to_numpy
from torchnp.portable import draws
from torchnp.portable.host_reasons import HOST_REASONS
from torchnp.portable.libraries import library_for
from torchnp.portable.rows import HOSTED, ROWS, portable

STRICT = library_for("array_api_strict")
TORCH = library_for("torch")
CORE = [name for name, schema in torchnp.table.schemas.items() if "core" in schema.tags]


def has_row(lib, name):
    return name in lib.own or (name in lib.standard and name not in HOSTED) or draws_it(name)


def draws_it(name):
    return name in draws._DRAWN or name in draws._MASKS


def test_each_core_operator_has_a_row_or_a_reason():
    without = {name for name in CORE if not has_row(STRICT, name)}
    assert without <= HOST_REASONS.keys()
    assert [name for name in without if not HOST_REASONS[name]] == []
    assert len(CORE) - len(without) >= 160


def test_reasons_are_of_operators_without_a_row():
    assert [name for name in HOST_REASONS if has_row(STRICT, name) or name not in CORE] == []


def test_rows_take_their_schemas_arguments():
    """A row accepts a call as an archive stores it: positional arguments in order, and keywords by name."""
    wrong = []
    library_rows = [ROWS[kind] for kind in ROWS]  # includes libraries that other tests have loaded
    for rows in library_rows:
        for name, row in rows.items():
            schema = torchnp.table.schemas.get(name)
            if schema is None:
                assert ".higher_order." in name, name
                continue
            signature = inspect.signature(row)
            try:
                signature.bind(
                    None,
                    *(a.name for a in schema.args if not a.kwonly),
                    **{a.name: None for a in schema.args if a.kwonly},
                )
                signature.bind(
                    None,
                    *(a.name for a in schema.args if not a.has_default and not a.kwonly),
                    **{a.name: None for a in schema.args if a.kwonly and not a.has_default},
                )
            except TypeError as error:
                wrong.append(f"{schema}: {error}")
    assert wrong == []


def test_a_second_row_is_refused():
    with pytest.raises(ValueError, match="aten::relu has two rows on standard"):
        portable("aten::relu")(lambda lib, self: self)


# ---------------------------------------------------------------- promotion and rounding

OPERANDS = {
    "uint8": torch.tensor([250, 3], dtype=torch.uint8),
    "int64": torch.tensor([-7, 2]),
    "a 0-d float": torch.tensor(2.5),
    "float64": torch.tensor([0.1, -3.0], dtype=torch.float64),
    "bool": torch.tensor([True, False]),
    "a number": 10,
    "a float": 1.5,
}


@pytest.mark.parametrize("op", ["add.Tensor", "mul.Tensor", "div.Tensor", "maximum", "lt.Tensor", "remainder.Tensor"])
@pytest.mark.parametrize("a", OPERANDS)
@pytest.mark.parametrize("b", OPERANDS)
def test_promotion(op, a, b):
    x, y = OPERANDS[a], OPERANDS[b]
    tensors = [isinstance(v, torch.Tensor) for v in (x, y)]
    # Libraries accept a bool divided by False; torch refuses it for integers.
    if not tensors[0] or (op == "maximum" and not all(tensors)) or (op == "remainder.Tensor" and b == "bool"):
        return
    name, _, overload = op.partition(".")
    if not tensors[1]:
        overload = "Scalar"
    wanted = getattr(getattr(torch.ops.aten, name), overload or "default")(x, y)
    given = [STRICT.from_numpy(to_numpy(v)) if isinstance(v, torch.Tensor) else v for v in (x, y)]
    found = STRICT.to_numpy(STRICT.call(f"aten::{name}{'.' * bool(overload)}{overload}", *given))
    assert found.dtype == to_numpy(wanted).dtype
    np.testing.assert_allclose(found, to_numpy(wanted), rtol=1e-6)


HALF_ROWS = ("aten::exp", "aten::sigmoid", "aten::gelu", "aten::silu", "aten::log1p", "aten::rsqrt")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", HALF_ROWS)
def test_halves_are_computed_in_float32_and_rounded_once(name, dtype):
    x = torch.linspace(0.1, 3, 200).to(dtype)
    wide = TORCH.call(name, x.float()).to(dtype)
    assert torch.equal(TORCH.call(name, x), wide)


def test_sums_of_halves_add_in_float32():
    x = torch.full((4096,), 1.0, dtype=torch.bfloat16)
    assert float(TORCH.call("aten::sum", x)) == 4096
    assert float(TORCH.call("aten::mean", x)) == 1


def test_numbers_wrap():
    x = STRICT.from_numpy(np.array([250], np.uint8))
    np.testing.assert_array_equal(STRICT.to_numpy(STRICT.call("aten::add.Tensor", x, 300)), [38])


def test_integer_widths_are_kept():
    for d in dt.INTS:
        x = STRICT.from_numpy(np.ones(3, d))
        assert STRICT.dtype_of(STRICT.call("aten::mul.Tensor", x, 2)) == d
        assert STRICT.dtype_of(STRICT.call("aten::sum", x)) == dt.int64


def test_random_numbers_are_torchs():
    torchnp.manual_seed(3)
    wanted = torchnp.table["aten::rand"]([4])
    torch.manual_seed(3)
    np.testing.assert_array_equal(wanted, torch.rand(4).numpy())


# ---------------------------------------------------------------- rows on several libraries

DIMS = [0, -1]


@pytest.mark.parametrize("lib", [STRICT, TORCH], ids=["strict", "torch"])
@pytest.mark.parametrize("dim", DIMS)
def test_extremes_of_nans(lib, dim):
    x = torch.tensor([[1.0, float("nan"), 3.0], [2.0, 2.0, float("-inf")]])
    for name in ("max", "min", "median"):
        wanted = getattr(x, name)(dim)
        value, place = lib.call(f"aten::{name}.dim", lib.from_numpy(x.numpy()), dim)
        np.testing.assert_array_equal(lib.to_numpy(value), wanted.values.numpy())
        np.testing.assert_array_equal(lib.to_numpy(place), wanted.indices.numpy())


@pytest.mark.parametrize("descending", [False, True])
def test_sorting_is_stable(descending):
    x = torch.tensor([2, 1, 2, 1, 0])
    wanted = x.sort(stable=True, descending=descending)
    values, places = STRICT.call("aten::sort", STRICT.from_numpy(x.numpy()), -1, descending)
    np.testing.assert_array_equal(STRICT.to_numpy(values), wanted.values)
    np.testing.assert_array_equal(STRICT.to_numpy(places), wanted.indices)


PRIMS_OF_NUMBERS = [(torch.tensor([7.0, -3.0]), 2.0), (torch.tensor([7, -3]), 2)]


@pytest.mark.parametrize(("x", "number"), PRIMS_OF_NUMBERS)
def test_prims_div_of_a_number(x, number):
    wanted = torch.ops.prims.div(x, number)
    found = STRICT.to_numpy(STRICT.call("prims::div", STRICT.from_numpy(x.numpy()), number))
    assert found.dtype == wanted.numpy().dtype
    np.testing.assert_array_equal(found, wanted.numpy())


@pytest.mark.parametrize("name", ["sum", "prod"])
def test_prims_of_unsigned_integers_give_int64(name):
    x = np.array([2, 3], np.uint8)
    found = STRICT.to_numpy(STRICT.call(f"prims::{name}", STRICT.from_numpy(x), [0]))
    assert found.dtype == np.int64 and int(found) == (5 if name == "sum" else 6)
