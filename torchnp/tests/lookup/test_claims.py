"""The statements of the reference are true: names exist, examples show their difference, and statements about order
hold at any size."""

import re

import numpy as np
import pytest
import scipy
import scipy.linalg
import scipy.ndimage
import scipy.signal.windows
import scipy.spatial.distance
import scipy.special
import scipy.stats
import torch

from torchnp.difference_catalogue import CATALOGUE
from torchnp.differences import shows
from torchnp.lookup import argument_names, equivalents, no_counterpart, not_operators, op_index, spellings
from torchnp.lookup.render import as_text, told
from torchnp.lookup.resolve import calls_of, is_called, meaning_of
from torchnp.lookup.torch_counterpart import in_torch

# ---------------------------------------------------------------- names

ROOTS = {
    "torch": torch,
    "np": np,
    "scipy": scipy,
    "Tensor": torch.Tensor,
    "F": torch.nn.functional,
    "ndarray": np.ndarray,
    "nn": torch.nn,
}
NAMED = re.compile(r"(?<![\w.])(?:torch|np|scipy|Tensor|F|ndarray|nn)(?:\.[A-Za-z_]\w*)+")
OLD = {"np.in1d", "np.trapz"}  # names of NumPy before 2.0
OF_GENERATORS = {"np.random.integers", "np.random.permuted"}  # methods of np.random.default_rng's result


def exists(name):
    value = ROOTS[name.partition(".")[0]]
    for part in name.split(".")[1:]:
        if not hasattr(value, part):
            return False
        value = getattr(value, part)
    return True


def texts():
    """Yield all texts of the reference, with the names that they belong to."""
    for i, d in CATALOGUE.items():
        yield from ((i, text) for text in (d.title, d.why, d.torch, d.numpy, d.in_numpy, d.in_torch))
    for row in (*equivalents.EQUIVALENTS, *equivalents.NUMPY_ONLY):
        yield from ((row.name, text) for text in row)
    for op, row in op_index.ops().items():
        yield from ((op, text) for text in (row["does"], row["reason"], row["numpy"].replace("numpy.", "np.", 1)))
    for pair, example in op_index.examples().items():
        yield from ((pair, text) for text in (example.torch, example.numpy, example.in_numpy, example.in_torch))
    yield from op_index.callers().items()
    yield from ((why, why) for why, _ in (*no_counterpart.GROUPS, *not_operators.GROUPS))
    for known in (spellings.TORCH, spellings.NUMPY, spellings.SCIPY, spellings.COUNTERPARTS):
        yield from ((name, f"{name} {other}") for name, other in known.items())


def test_every_name_that_is_mentioned_exists():
    unknown = {name: where for where, text in texts() for name in NAMED.findall(text) if not exists(name)}
    assert unknown.keys() <= OLD | OF_GENERATORS, unknown


PUBLIC = [*(n for n in sorted(op_index.torch_names()) if "__" not in n), *(f"np.{n}" for n in dir(np) if n[:1] != "_")]


def test_see_also_names_what_python_code_can_call():
    """Operators without a public name are listed only if a difference belongs to no others."""
    for name in [*PUBLIC, *CATALOGUE, *spellings.PYTHON, *argument_names.ARGUMENTS]:
        meaning = meaning_of(name)
        tail = as_text(told(meaning)).rpartition("\n")[2] if meaning is not None else ""
        if tail.startswith("See also") or (tail.startswith("Of: ") and is_called(meaning.ops[0])):
            listed = re.split(", (?:and )?", tail.partition(": ")[2])
            assert not [n for n in listed if n.startswith(("aten::", "prims::")) or "._" in n], (name, tail)


@pytest.mark.parametrize(
    ("written", "meant"),
    [("torch.repeat", "Tensor.repeat"), ("torch.copy", "np.copy"), ("np.cat", "torch.cat"), ("torch.expand_dims", "np.expand_dims"),
     ("torch.astype", "np.astype"), ("np.unsqueeze", "torch.unsqueeze"), ("Tensor.einsum", "torch.einsum"),
       ("torch.percentile", "np.percentile")],
)  # fmt: skip
def test_a_name_that_does_not_exist_is_said_to_and_leads_to_another(written, meant):
    meaning = meaning_of(written)
    assert meaning.name == meant and f"There is no {written}." in as_text(told(meaning))


def test_repeat_is_tile():
    assert "np.repeat  is torch.repeat_interleave" in as_text(told(meaning_of("np.repeat")))
    assert "Tensor.repeat  is np.tile in NumPy" in as_text(told(meaning_of("Tensor.repeat")))
    assert op_index.ops()["aten::repeat"]["numpy"] == "numpy.tile"


# ---------------------------------------------------------------- examples


@pytest.mark.parametrize("i", CATALOGUE)
def test_a_title_that_opens_with_a_function_is_shown_on_it(i):
    d = CATALOGUE[i]
    functions = {name.rpartition(".")[2] for name in op_index.torch_names()}
    named = [word for word in re.findall(r"[a-z_]\w+", d.title) if word in functions]
    if named and d.title.startswith(named[0]):
        assert [word for word in named if re.search(rf"(?<![a-z]){word}", d.torch)], d.torch


@pytest.mark.parametrize("pair", op_index.examples(), ids="-".join)
def test_an_example_parts_as_its_difference_does(pair):
    example = op_index.examples()[pair]
    assert shows(CATALOGUE[pair[1]], example.torch_value, example.numpy_value)


def test_what_shows_another_thing_is_told():
    refusal, other = CATALOGUE["no-bool-product"], "RuntimeError: batch1 must be a 3D tensor"
    assert shows(refusal, "NotImplementedError: \"bmm\" not implemented for 'Bool'", "bool[1] [True]")
    assert not shows(refusal, other, "bool[1] [True]")
    assert not shows(CATALOGUE["sum-dtype"], "RuntimeError: expected scalar type Int but found Double", "float64[] 0")
    assert not shows(CATALOGUE["half-opmath"], "(float16[2] [0, -inf])", "float16[2] [0, -inf]")


# ---------------------------------------------------------------- order

SIZES = (5, 16, 17, 40, 1000, 5000)


def drawn(n, dtype=torch.int64, kinds=3):
    return torch.from_numpy(np.random.default_rng(n).integers(0, kinds, n)).to(dtype)


def places(x, value):
    return torch.nonzero(x == value).ravel().tolist()


def with_nans(n):
    x = drawn(n, torch.float64)
    x[torch.from_numpy(np.random.default_rng(n + 1).integers(0, n, 3))] = torch.nan
    return x


def extremes_come_first(n):
    x = drawn(n)
    for function, index in ((torch.max, torch.argmax), (torch.min, torch.argmin)):
        value, place = function(x, 0)
        assert place.item() == index(x).item() == places(x, value)[0]
    assert np.argmax(x.numpy()) == torch.argmax(x).item() and np.argmin(x.numpy()) == torch.argmin(x).item()


def first_nan_wins(n):
    x = with_nans(n)
    first = torch.nonzero(torch.isnan(x))[0].item()
    found = [torch.max(x, 0)[1], torch.min(x, 0)[1], torch.argmax(x), torch.argmin(x), torch.median(x, 0)[1]]
    assert [i.item() for i in found] == [first] * 5


def running_extremes_come_last(n):
    x = drawn(n)
    for function in (torch.cummax, torch.cummin):
        values, indices = function(x, 0)
        assert all(i == places(x[: k + 1], v)[-1] for k, (v, i) in enumerate(zip(values[:60], indices[:60].tolist())))


def stable_keeps_the_order(n):
    x = drawn(n)
    mine, down = np.argsort(x.numpy(), stable=True), n - 1 - np.argsort(x.numpy()[::-1], stable=True)[::-1]
    assert torch.argsort(x, stable=True).tolist() == torch.sort(x, stable=True)[1].tolist() == mine.tolist()
    assert torch.argsort(x, stable=True, descending=True).tolist() == down.tolist()


def other_sorts_promise_values_alone(n):
    x = drawn(n)
    order = torch.argsort(x)
    assert x[order].tolist() == np.sort(x.numpy()).tolist() and sorted(order.tolist()) == list(range(n))
    values, indices = torch.topk(x, 3)
    assert (
        values.tolist() == np.sort(x.numpy())[::-1][:3].tolist() == x[indices].tolist()
        and len({*indices.tolist()}) == 3
    )


def mode_is_the_smallest_at_one_of_its_places(n):
    value, place = torch.mode(x := drawn(n))
    assert value.item() == np.bincount(x.numpy()).argmax() and place.item() in places(x, value)
    assert value.item() == scipy.stats.mode(x.numpy())[0]


def middle_is_at_one_of_its_places(n):
    x = drawn(n)
    for value, place in (torch.median(x, 0), torch.kthvalue(x, n // 2 + 1)):
        assert place.item() in places(x, value)


def the_last_write_stays_in_numpy(n):
    index = drawn(n).numpy()
    x = np.zeros(3, np.int64)
    x[index] = np.arange(n)
    assert x.tolist() == [np.flatnonzero(index == k)[-1] for k in range(3)]


def unique_is_sorted(n):
    x = drawn(n, kinds=7)
    assert torch.unique(x).tolist() == np.unique(x.numpy()).tolist() == sorted({*x.tolist()})
    runs = torch.unique_consecutive(x)
    assert runs.tolist() == [v for k, v in enumerate(x.tolist()) if not k or v != x[k - 1].item()]


# Statements of the reference about the order of equal elements, and the tests for them.
ABOUT_ORDER = re.compile(
    r"(?i)equal elements|where the first of each|last index|first NaN|occurrence|which of several writes|names? one place twice"
)
TESTED = {
    "Of equal elements max and min give the first index": extremes_come_first,
    "and the first index of each; the first NaN wins.": extremes_come_first,
    "the first NaN if there is one": first_nan_wins,
    "first largest element": extremes_come_first,
    "the last index of each": running_extremes_come_last,
    "of equal elements the last": running_extremes_come_last,
    "A stable descending sort keeps the order of equal elements": stable_keeps_the_order,
    "equal elements keep their order if ``stable`` is set": stable_keeps_the_order,
    "stable=True (kind='stable' in older NumPy code) to keep equal elements in their order": stable_keeps_the_order,
    "Which of equal elements are taken, and in which order": other_sorts_promise_values_alone,
    "of several, the smallest), and the index of one occurrence": mode_is_the_smallest_at_one_of_its_places,
    "mode gives the index of one of the occurrences": mode_is_the_smallest_at_one_of_its_places,
    "Which occurrence the index names is not specified": mode_is_the_smallest_at_one_of_its_places,
    "median and kthvalue may give any": middle_is_at_one_of_its_places,
    "which of several writes to one place stays is not specified in torch, the last in NumPy": the_last_write_stays_in_numpy,
    "torch does not specify which value stays, and NumPy keeps the last": the_last_write_stays_in_numpy,
    "torch.unique gives no indices of first occurrences": unique_is_sorted,
    "The first NaN wins": first_nan_wins,
}  # fmt: skip


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("check", dict.fromkeys(TESTED.values()), ids=lambda check: check.__name__)
def test_what_is_said_of_order(check, n):
    check(n)


def test_everything_that_is_said_of_order_is_tested():
    untested = [
        (where, text)
        for where, text in texts()
        if ABOUT_ORDER.search(text) and not any(said in text for said in TESTED)
    ]
    assert untested == []


def test_unstable_sorts_do_keep_no_order():
    """Unstable sorts change the order of more than 16 elements, so the reference must not say that they keep it."""
    x = drawn(1000)
    assert torch.argsort(x).tolist() != torch.argsort(x, stable=True).tolist()
    value, place = torch.mode(x)
    assert place.item() != places(x, value)[-1]


# ---------------------------------------------------------------- the same in both


@pytest.mark.parametrize("n", SIZES)
def test_halves_go_to_even_in_both(n):
    x = np.arange(-n, n) / 2
    np.testing.assert_array_equal(torch.round(torch.from_numpy(x)).numpy(), np.round(x))
    np.testing.assert_array_equal(torch.round(torch.from_numpy(x)).numpy(), np.rint(x))


@pytest.mark.parametrize("norm", ["backward", "forward", "ortho", None])
@pytest.mark.parametrize("function", [n for n in dir(np.fft) if re.fullmatch(r"[ir]{0,2}h?i?fft", n)])
def test_norm_means_the_same_in_every_transform(function, norm):
    x = np.random.default_rng(0).standard_normal(40)
    mine, theirs = getattr(np.fft, function)(x, norm=norm), getattr(torch.fft, function)(torch.from_numpy(x), norm=norm)
    np.testing.assert_allclose(theirs.resolve_conj().numpy(), mine, atol=1e-12)


@pytest.mark.parametrize(("n", "size"), [(6, 2), (17, 5), (1000, 333)])
def test_split_by_a_number(n, size):
    x = np.arange(n)
    theirs = [p.tolist() for p in torch.split(torch.from_numpy(x), size)]
    assert theirs == [p.tolist() for p in np.split(x, np.arange(size, n, size))]
    assert [len(p) for p in np.array_split(x, size)] == [len(p) for p in torch.tensor_split(torch.from_numpy(x), size)]


# ---------------------------------------------------------------- advice

SPACES = {"np": np, "np.linalg": np.linalg, "np.fft": np.fft}
FUNCTIONS = {
    f"{space}.{n}": f
    for space, held in SPACES.items()
    for n in dir(held)
    if callable(f := getattr(held, n)) and hasattr(f, "_implementation")  # dispatches through __array_function__
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_advice_names_what_exists_and_says_how_it_differs(name):
    way, words = in_torch(FUNCTIONS[name])
    said = f"{way} {words}"
    assert [n for n in NAMED.findall(said) if not exists(n)] == []
    for theirs in dict.fromkeys(n for n in NAMED.findall(said) if n.startswith("torch.")):
        meaning = meaning_of(theirs)
        for row in told(meaning)["differences"] if meaning and meaning.ops else ():
            own = row["op"] == meaning.ops[0].partition(".")[0]
            named = row["id"] in said or CATALOGUE[row["id"]].title.lower() in said.lower()
            assert named or not own, (theirs, row["id"], said)


def test_there_is_advice_for_most_functions():
    assert len(FUNCTIONS) > 250
    named = [name for name in FUNCTIONS if in_torch(FUNCTIONS[name])[0]]
    assert len(named) > 170


def test_take_says_what_is_out_of_bounds():
    text = " ".join(as_text(told(meaning_of("np.take"))).split())
    assert "Both raise IndexError out of bounds" in text and text.count("torch has no mode=") == 3
    assert [row.name for row in calls_of("np.take")] == ["np.take mode='wrap'", "np.take mode='clip'"]
    for library, x, i in ((np, np.arange(3), [5]), (torch, torch.arange(3), torch.tensor([5]))):
        with pytest.raises(IndexError):
            library.take(x, i)
