"""Counterparts in the array API standard exist in the standard, in NumPy (through array-api-compat) and in our
table."""

import contextlib
import operator
import warnings

import array_api_compat.numpy
import array_api_strict
import pytest

from torchnp.lookup import array_api_standard, op_index
from torchnp.lookup.render import as_text, told
from torchnp.lookup.resolve import meaning_of


@pytest.mark.parametrize("name", sorted(array_api_standard.FUNCTIONS))
def test_every_name_is_the_standards(name):
    assert callable(operator.attrgetter(name)(array_api_compat.numpy))
    function = operator.attrgetter(name)(array_api_strict)
    warned, refused = warnings.catch_warnings(), contextlib.suppress(TypeError, ValueError, IndexError)
    with warned, array_api_strict.ArrayAPIStrictFlags(api_version=array_api_standard.VERSION), refused:
        warnings.simplefilter("ignore")
        function()  # called without arguments; a function of a later version raises another error first


def test_nothing_of_the_standard_is_left_out():
    """Left out are only functions about dtypes and devices, and functions that linalg shares with the main
    namespace."""
    spaces = {"": array_api_strict, "linalg.": array_api_strict.linalg, "fft.": array_api_strict.fft}
    names = {f"{prefix}{name}" for prefix, space in spaces.items() for name in space.__all__}
    functions = {
        n for n in names if callable(f := operator.attrgetter(n)(array_api_strict)) and not isinstance(f, type)
    }
    later = {"broadcast_shapes", "isin"}
    settings = {n for n in functions if n.endswith("array_api_strict_flags")}
    again = {
        n for n in functions if n.startswith("linalg.") and n.removeprefix("linalg.") in array_api_standard.FUNCTIONS
    }
    assert (
        functions - later - settings - again - {"finfo", "iinfo", "isdtype", "__array_namespace_info__"}
        == array_api_standard.FUNCTIONS
    )


def test_counterparts_of_operators():
    found = {
        n: op_index.ops()[n]["array_api"]
        for n in ("aten::add.Tensor", "aten::add_.Tensor", "aten::amax", "aten::permute")
    }
    assert found == {
        "aten::add.Tensor": "add", "aten::add_.Tensor": "add", "aten::amax": "max", "aten::permute": "permute_dims",
    }  # fmt: skip
    assert op_index.ops()["aten::cumsum"]["array_api"] == "cumulative_sum"
    assert op_index.ops()["aten::repeat"]["array_api"] == "tile"
    assert op_index.ops()["aten::erfinv"]["array_api"] is None


def test_what_is_renamed_is_a_counterpart():
    likes = {row["numpy"].removeprefix("numpy.") for row in op_index.ops().values()}
    assert array_api_standard.RENAMED.keys() <= likes
    assert array_api_standard.OF_OPS.keys() <= op_index.overloads().keys()
    assert {*array_api_standard.RENAMED.values(), *array_api_standard.OF_OPS.values()} <= array_api_standard.FUNCTIONS


def test_explain_says_it():
    assert "In the array API standard xp.max or xp.maximum." in as_text(told(meaning_of("torch.max")))
    assert "array API standard" not in as_text(told(meaning_of("torch.erfinv")))
