"""Names that people know: every public function of torch and NumPy has an answer, and the calls in the answers give
what they claim."""

import types
import warnings

import numpy as np
import pytest
import torch

from torchnp.lookup import argument_names, equivalents, name_of_code, op_index, spellings
from torchnp.lookup.resolve import SPELLED, meaning_of, meanings_of, spelled, torch_ops
from torchnp.lookup.search import search
from torchnp.lookup.synonyms import TOPICS

SPACES = {
    "torch": torch, "Tensor": torch.Tensor, "F": torch.nn.functional, "torch.linalg": torch.linalg,
    "torch.fft": torch.fft, "torch.special": torch.special, "np": np, "np.linalg": np.linalg, "np.fft": np.fft,
    "np.random": np.random, "np.ndarray": np.ndarray,
}  # fmt: skip
WITH_PROPERTIES = {"Tensor", "np.ndarray"}


def public_names(space):
    """Yield the names of functions and methods, and for classes also of properties."""
    for name in dir(SPACES[space]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = getattr(SPACES[space], name, None)
        is_one = callable(value) or space in WITH_PROPERTIES
        if not name.startswith("_") and is_one and not isinstance(value, types.ModuleType):
            yield f"{space}.{name}"


@pytest.mark.parametrize("space", SPACES)
def test_every_public_name_has_an_answer(space):
    unanswered = []
    for name in public_names(space):
        found = meaning_of(name)
        if found is None or not (found.ops or found.calls or found.says):
            unanswered.append(name)
    assert unanswered == []


def test_modules_by_the_functions_that_they_call():
    named = {"Linear": "linear", "CrossEntropyLoss": "cross_entropy_loss", "ReLU": "relu", "Conv2d": "conv2d", "SiLU": "silu",
             "BatchNorm2d": "batch_norm", "MSELoss": "mse_loss", "LSTM": "lstm", "KLDivLoss": "kl_div", "Flatten": "flatten",
             "BCELoss": "binary_cross_entropy", "Embedding": "embedding", "LayerNorm": "layer_norm"}  # fmt: skip
    assert {m: meaning_of(f"nn.{m}").ops[0] for m in named} == {m: f"aten::{op}" for m, op in named.items()}
    assert meaning_of("nn.Nosuch") is None
    assert (meaning_of("nn.CrossEntropyLoss").name, meaning_of("nn.LSTM").name) == ("F.cross_entropy", "torch.lstm")


@pytest.mark.parametrize(
    ("written", "known"),
    [("-7 // 2", "//"), ("x.sum(0) / 3", "/"), ("a[0] == b[1]", "=="), ("n -= 1", "-="), ("a <= b", "<="), ("x[0] = 5", "x[i] = v"),
     ("x[idx] -= 1", "x[index] += v"), ("img[2:5] = 0", "x[a:b] = v"), ("x[~seen] = 0", "x[mask] = v"), ("x[[0, 2]] = v", "x[index] = v"),
     ("x[x > 0]", "x[mask]"), ("x[(x > 0) & (x < 2)]", "x[mask]"), ("x[:, ::-1]", "x[::-1]"), ("x[1::3]", "x[::2]"), ("x[1:-1]", "x[a:b]"),
     ("img[..., None]", "x[None]"), ("x[..., 1:]", "x[...]"), ("x[1:, :-1]", "x[...]"), ("x[:, [0, 1]]", "x[:, index]"),
     ("x[[0, 2]]", "x[index]"), ("x[-1, 2]", "x[i]"), ("x.cumsum(0)", "Tensor.cumsum"), ("np.linalg.norm(x - y)", "np.linalg.norm"),
     ("x[mask, :]", "x[mask, :]"), ("x[idx, :]", "x[index, :]"), ("x[:, idx]", "x[:, index]"), ("x[i, j]", "x[i, j]"),
       ("x[rows, cols]", "x[rows, cols]"),
     ("a[i, j] = v", "x[i, j] = v"), ("~a", "~"), ("-x", "-x"), ("x[[0, 1], [1, 2]]", "x[rows, cols]"), ("x[idx]", "x[index]"),
     ("nn.Linear(3, 4)", "F.linear"), ("Linear", "F.linear"), ("max-with-indices", "max-with-indices")],
)  # fmt: skip
def test_code_as_it_is_written(written, known):
    assert meaning_of(written).name == known


@pytest.mark.parametrize(
    "written",
    ["x[mask, :]", "x[idx, :]", "x[:, idx]", "x[i, j]", "x[rows, cols]", "a[i, j] = v", "~a", "-x", "-7 // 2",
      "x @ y.T", "x[x > 0] = 0", "x[1:3]",
     "x[..., 0]", "img[:, ::-1]", "x[None]", "x[idx] += 1", "x[:, [0, 1]]", "x[-1, 2]", "x[[0, 2]]", "a == b", "x[1::3]"],
)  # fmt: skip
def test_patterns_read_code_as_its_syntax_tree_says(written):
    """The site's search uses only the patterns, without Python's parser."""
    assert spelled(written) == name_of_code.name_of(written)


def test_what_an_expression_is_taken_for_is_itself():
    for pattern, ours in SPELLED:
        assert not ours.startswith("x[") or meaning_of(ours).name == ours, pattern


def test_callers_are_names_of_their_operators():
    wrong = {op: name for op, name in op_index.callers().items() if torch_ops(name) and op not in torch_ops(name)}
    assert wrong == {}


def test_the_operators_named_are_registered():
    for names in (spellings.PYTHON, spellings.TORCH, spellings.NUMPY, argument_names.ARGUMENTS):
        for name, bases in names.items():
            assert [b for b in bases.split() if f"aten::{b}" not in op_index.overloads()] == [], name


def test_data_says_nothing_that_the_rule_finds():
    """A torch name that follows a rule needs no line in `spellings`."""
    assert [n for n, bases in spellings.TORCH.items() if n.rpartition(".")[2] == bases] == []


@pytest.mark.parametrize("phrase", TOPICS)
def test_a_phrase_leads_to_names(phrase):
    answers = [meaning_of(name) for name in TOPICS[phrase]]
    assert None not in answers and meanings_of(phrase.capitalize()) == (answers, [])
    assert search(phrase, 1)[0].name == answers[0].name


CALLS = (*equivalents.NUMPY_ONLY, *equivalents.EQUIVALENTS)


@pytest.fixture
def in_double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def evaluated(call, tensors):
    names = {"np": np, "torch": torch}
    for name, expression in equivalents.EXAMPLE.items():
        array = eval(expression, {"np": np})
        names[name] = torch.from_numpy(array) if tensors else array
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval(call, names)


def flat(value):
    parts = value if isinstance(value, tuple) else (value,)
    return np.concatenate([np.ravel(np.asarray(p)) for p in parts])


@pytest.mark.parametrize("row", CALLS, ids=lambda row: row.name)
def test_both_calls_give_the_same(row, in_double):
    """Both are computed in float64, because torch's default dtype would hide differences."""
    mine, theirs = evaluated(row.numpy, tensors=False), evaluated(row.torch, tensors=True)
    if row.name.startswith("np.random."):
        assert np.shape(mine) == np.shape(theirs)
        return
    assert isinstance(mine, tuple) or np.shape(mine) == np.shape(theirs)
    if isinstance(mine, str):
        assert mine == theirs
    else:
        np.testing.assert_allclose(flat(theirs), flat(mine), rtol=1e-12, atol=1e-12)


def test_calls_have_one_row_each():
    names = [row.name for row in CALLS]
    assert sorted({n for n in names if names.count(n) > 1}) == []
