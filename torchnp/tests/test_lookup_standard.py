"""The array API standard's counterparts: that the standard, NumPy by way of array-api-compat and our operators have them."""

import contextlib
import operator
import warnings

import array_api_compat.numpy
import array_api_strict
import pytest

from torchnp.lookup import facts, standard
from torchnp.lookup.meaning import meaning_of
from torchnp.lookup.telling import as_text, told


@pytest.mark.parametrize("name", sorted(standard.FUNCTIONS))
def test_every_name_is_the_standards(name):
    assert callable(operator.attrgetter(name)(array_api_compat.numpy))
    function = operator.attrgetter(name)(array_api_strict)
    warned, refused = warnings.catch_warnings(), contextlib.suppress(TypeError, ValueError, IndexError)
    with warned, array_api_strict.ArrayAPIStrictFlags(api_version=standard.VERSION), refused:
        warnings.simplefilter("ignore")
        function()  # without arguments: what is of a later version says so first, with another error


def test_nothing_of_the_standard_is_left_out():
    """But what tells of dtypes and devices, and what linalg has of the main namespace."""
    spaces = {"": array_api_strict, "linalg.": array_api_strict.linalg, "fft.": array_api_strict.fft}
    names = {f"{prefix}{name}" for prefix, space in spaces.items() for name in space.__all__}
    functions = {
        n for n in names if callable(f := operator.attrgetter(n)(array_api_strict)) and not isinstance(f, type)
    }
    later = {"broadcast_shapes", "isin"}
    settings = {n for n in functions if n.endswith("array_api_strict_flags")}
    again = {n for n in functions if n.startswith("linalg.") and n.removeprefix("linalg.") in standard.FUNCTIONS}
    assert (
        functions - later - settings - again - {"finfo", "iinfo", "isdtype", "__array_namespace_info__"}
        == standard.FUNCTIONS
    )


def test_counterparts_of_operators():
    found = {
        n: facts.ops()[n]["array_api"] for n in ("aten::add.Tensor", "aten::add_.Tensor", "aten::amax", "aten::permute")
    }
    assert found == {
        "aten::add.Tensor": "add", "aten::add_.Tensor": "add", "aten::amax": "max", "aten::permute": "permute_dims",
    }  # fmt: skip
    assert facts.ops()["aten::cumsum"]["array_api"] == "cumulative_sum"
    assert facts.ops()["aten::repeat"]["array_api"] == "tile"
    assert facts.ops()["aten::erfinv"]["array_api"] is None


def test_what_is_renamed_is_a_counterpart():
    likes = {row["numpy"].removeprefix("numpy.") for row in facts.ops().values()}
    assert standard.RENAMED.keys() <= likes
    assert standard.OF_OPS.keys() <= facts.overloads().keys()
    assert {*standard.RENAMED.values(), *standard.OF_OPS.values()} <= standard.FUNCTIONS


def test_explain_says_it():
    assert "In the array API standard xp.max or xp.maximum." in as_text(told(meaning_of("torch.max")))
    assert "array API standard" not in as_text(told(meaning_of("torch.erfinv")))
