"""Questions that people ask, with words that the answer of ``torchnp explain`` and the site's search must contain."""

import json
import re

import pytest

import torchnp
from torchnp.cli import main
from torchnp.difference_catalogue import CATALOGUE
from torchnp.lookup import op_index, render
from torchnp.lookup.resolve import meaning_of
from torchnp.lookup.search import near, search

QUESTIONS = [
    # question, words of the answer
    ("ddof", ["torch.var", "ddof=1 is torch's default correction=1", "correction=0"]),
    ("numpy.var", ["is torch.var", "divide by N - 1", "float32[] 1.666667", "float32[] 1.25"]),
    ("unbiased", ["torch.var", "torch.std", "unbiased=True"]),
    ("broadcast_to", ["is np.broadcast_to in NumPy", "-1 in expand and broadcast_to keeps a size"]),
    ("torch.unique", ["is np.unique in NumPy", "Every nan is unique", "return_index", "equal_nan=False"]),
    ("np.unique", ["is torch.unique", "return_counts"]),
    ("F.interpolate", ["np.repeat(v, 2)", "mode='nearest-exact'", "align_corners=True", "upsample_bilinear2d"]),
    ("F.cross_entropy", ["np.logaddexp.reduce(x, axis=1)", "ignore_index=-100", "aten::cross_entropy_loss("]),
    ("Tensor.T", ["ndarray.T", "permute", "aten::numpy_T("]),
    ("//", ["rounds down in both", "-7 // 2 is -4", "rounding_mode='trunc'", "ZeroDivisionError"]),
    ("np.ndarray.sum", ["is torch.sum", "dtype=np.int64", "int64[] 3", "uint64[] 3"]),
    ("percentile", ["torch.quantile(x, 0.3)"]),
    ("np.ptp", ["torch.amax(x, 1) - torch.amin(x, 1)"]),
    ("np.nanmax", ["nan_to_num(gaps, nan=-torch.inf)"]),
    ("np.gradient", ["is torch.gradient", "aten::gradient.scalarint("]),
    ("np.average", ["torch.sum(v * w) / torch.sum(w)"]),
    ("np.random.default_rng", ["torch.Generator().manual_seed(0)", "PCG64"]),
    ("np.lexsort", ["stable=True", "least important first"]),
    ("np.interp", ["searchsorted", "F.interpolate resizes regular grids"]),
    ("%", ["sign of the divisor in both", "-7 % 3 is 2"]),
    ("sort", ["stable=True", "gives the elements and where they were", "Neither sort is stable by default"]),
    ("np.pad", ["edge", "'replicate'", "'circular'", "symmetric", "flat, the last dimension first"]),
    ("quantile", ["float32 and float64 alone", "five of NumPy's thirteen methods", "too large"]),
    ("x[::-1]", ["flip", "Slices need a positive step"]),
    ("max.dim", ["values and indices", "(int64[] 3, int64[] 1)"]),
    ("torch.median", ["lower of the two in the middle", "method='lower'"]),
    ("np.repeat", ["repeat_interleave"]),
    ("Tensor.repeat", ["np.tile", "int64[4] [1, 2, 1, 2]"]),
    ("np.transpose", ["is torch.permute", "transpose swaps two dimensions", "np.swapaxes"]),
    ("torch.meshgrid", ["indexing='ij'", "indexing='xy'"]),
    ("np.cumsum", ["is torch.cumsum", "cumsum and cumprod need a dimension", "dtype=np.float64"]),
    ("x[mask] = v", ["index_put_", "masked_fill converts the value"]),
    ("np.random.normal", ["torch.normal"]),
    ("np.concatenate", ["is torch.cat", "skips empty tensors"]),
    ("torch.std", ["is np.std in NumPy", "np.std(np.array([1.0, 2.0, 3.0, 4.0], np.float32), ddof=1)"]),
    ("np.dot", ["dot takes two vectors", "torch.matmul"]),
    ("edge", ["mode='replicate'", "modes of pad have names"]),
    ("x[idx] += 1", ["counts once in both", "index_add_", "np.add.at"]),
    ("x[0, :, [0, 1]]", ["(3, 2) in torch, (2, 3) in NumPy"]),
    ("x[..., 0]", ["A view in both"]),
    ("x[1:3]", ["A view in both", "Slices need a positive step"]),
    ("x[mask]", ["A copy in both"]),
    ("x[i] = v", ["9.7 among integers is 9"]),
    ("x in y", ["Whether any element is equal"]),
    ("a == b", ["torch.eq", "np.equal", "promoted dtype"]),
    ("+=", ["the dtype stays", "narrow within a category"]),
    ("x.size", ["x.numel()", "a method that gives the shape"]),
    ("x.shape", ["tuple(x.shape)", "torch.Size is a tuple"]),
    ("x.dtype", ["torchnp.interop converts"]),
    ("x.astype", ["is Tensor.to", "astype copies unless copy=False"]),
    ("np.float32", ["torch.float32"]),
    ("np.array", ["is torch.tensor", "A copy in both"]),
    ("torch.tensor", ["is np.array in NumPy", "float32 in torch"]),
    ("torch.from_numpy", ["is np.asarray in NumPy", "the array's own memory"]),
    ("np.take", ["count through all elements", "torch.index_select"]),
    ("np.vdot", ["expected both vectors to have same dtype"]),
    ("np.convolve", ["w.flip(0)", "padding=4"]),
    ("np.sum(x, axis=0)", ["is torch.sum", "dtype=np.int64"]),
    ("x.t()", ["is np.transpose in NumPy"]),
    ("x @ y.T", ["torch refuses operands of two dtypes"]),
    ("-7 // 2", ["rounds down in both"]),
    ("x[x > 0] = 0", ["index_put_", "masked_fill converts the value"]),
    ("x[1:, :-1]", ["A view in both"]),
    ("x[None]", ["torch.unsqueeze"]),
    ("Tensor.tolist", ["is np.ndarray.tolist in NumPy"]),
    ("sliding_window_view", ["is Tensor.unfold", "unfold takes a window's size and step"]),
    ("torch.std_mean", ["torchnp/kernels/variance.py"]),
    ("F.unfold", ["sliding_window_view", "im2col"]),
    ("np.add.reduce", ["is torch.sum"]),
    ("np.maximum.accumulate", ["is torch.cummax"]),
    ("torch.long", ["is a dtype", "np.int64"]),
    ("torch.bfloat16", ["a dtype that NumPy does not have", "ml_dtypes"]),
    ("torch.pi", ["np.pi"]),
    ("np.clip", ["is torch.clip"]),
    ("torch.gather", ["take_along_axis"]),
    ("torch.topk", ["gives the indices too", "largest first"]),
    ("np.histogram", ["is torch.histogram"]),
    ("np.digitize", ["is torch.bucketize"]),
    ("x.strides", ["is Tensor.stride"]),
    ("np.shape", ["is Tensor.size", "tuple(x.size())"]),
    ("np.copyto", ["is Tensor.copy_"]),
    ("np.random.uniform", ["uniform_(1.0, 2.0)"]),
    ("np.random.exponential", ["one over NumPy's scale"]),
    ("x[mask, :]", ["A copy in both"]),
    ("x[idx, :]", ["A copy in both"]),
    ("x[:, idx]", ["A copy in both"]),
    ("x[i, j]", ["a 0-d view in torch", "as a copy"]),
    ("x[rows, cols]", ["A copy in both", "np.ix_"]),
    ("a[i, j] = v", ["converted to the dtype of x"]),
    ("np.ix_", ["x[torch.tensor([0, 2])[:, None]"]),
    ("~a", ["Of bools logical"]),
    ("-x", ["torch.neg", "Both refuse bools"]),
    ("np.round", ["both round halves to even"]),
    ("np.rint", ["is torch.round", "both round halves to even"]),
    ("np.fft.fft", ["norm= means the same in both"]),
    ("np.split", ["number of equal pieces", "takes the size of the pieces"]),
    ("np.tile", ["is torch.tile"]),
    ("torch.mode", ["Which occurrence the index names is not specified"]),
    ("nn.LSTM", ["torch.lstm"]),
    ("CrossEntropyLoss", ["F.cross_entropy", "ignore_index=-100"]),
]
# Questions that only the command answers, because arguments have no pages on the site.
ARGUMENTS = [
    ("axis", ["axis= is dim= in torch"]),
    ("keepdims", ["keepdim=True"]),
    ("dim=", ["dim= is axis= in NumPy", "torch.max with dim= gives the indices"]),
    ("keepdim", ["keepdims=True"]),
    ("endpoint", ["torch.linspace(0, 1, 5)[:-1]"]),
    ("largest", ["torch.topk(v, 2, largest=False)"]),
    ("out", ["out= of the wrong shape is resized", "Both write there"]),
    ("where=", ["none of torch's", "torch.sum(torch.where(mask, v, 0))"]),
    ("order=", ["none of torch's", "x.t().reshape(-1)"]),
    ("axis=0", ["axis= is dim= in torch"]),
    ("keepdim=True", ["keepdims=True"]),
    ("ddof=1", ["correction=1"]),
    ("accumulate", ["adds every duplicate", "np.add.at"]),
    ("indexing='xy'", ["torch.meshgrid", "indexing='xy'"]),
    ("norm='ortho'", ["'ortho' divides both by sqrt(n)"]),
    ("dtype=torch.float32", ["converted before the sum"]),
    ("inplace=True", ["is an argument of torch's functions", "out= of the input"]),
    ("return_index=True", ["no first indices"]),
    ("np.gradient", ["torch gives a tuple"]),
    ("np.take", ["IndexError", "mode='wrap'", "clamp(0"]),
]
# Several names, topics with several answers, and pasted code, with words of the answers.
SEVERAL = [
    ("np.var np.std", ["np.var is torch.var", "np.std is torch.std"]),
    ("np.var, np.std", ["np.var is torch.var", "np.std is torch.std"]),
    ("np.var and torch.var", ["np.var is torch.var", "torch.var is np.var in NumPy"]),
    ("difference between np.split and torch.split", ["np.split is torch.split", "torch.split is np.split in NumPy"]),
    ("in-place", ["Tensor.add_", "overlap-inplace", "out-resized"]),
    ("promotion", ["goes by category", "three tiers", "A Python integer wraps"]),
    ("default dtype", ["Floats are made in the default dtype", "Float functions of integers"]),
    ("type casting", ["astype copies", "compares categories"]),
    ("nan to int", ["depends on the processor", "nan_to_num"]),
    ("fft norm", ["'backward' (the default) divides the inverse by n"]),
    ("broadcasting rules", ["torch.broadcast_to"]),
    ("modulo of negative numbers", ["sign of the divisor"]),
    ("how to convert tensor to numpy", ["shares memory"]),
    ("tensor.numpy()", ["It shares memory"]),
    ("arr.sum(axis=0)", ["is np.sum in NumPy"]),
    ("a if x else b", ["both raise for more elements"]),
    ("0 < x < 1", ["both raise for more elements"]),
    ("x.T @ y", ["torch refuses operands of two dtypes"]),
    ("x @= y", ["binds x to a new tensor"]),
    ("np.where(a > 0, a, 0)", ["is torch.where"]),
    ("img[:, np.newaxis]", ["A view in both"]),
    ("x[np.arange(n), y]", ["elements at the pairs"]),
    ("x[labels == 1] = 0", ["index_put_"]),
    ("x[i] += 1", ["counts once in both"]),
    ("x[0] += 1", ["In place in both"]),
    ("y = x.astype(int)", ["Both truncate towards zero"]),
    ("np.newaxis", ["is torch.newaxis"]),
    ("torch.optim.Adam", ["belongs to a part of torch that has no operators"]),
    ("np.ma", ["a module of NumPy that has no counterpart"]),
    ("scipy.special.softmax", ["is torch.softmax"]),
]
ASKED = [*QUESTIONS, *ARGUMENTS]


def answer(name):
    found = meaning_of(name)
    assert found is not None, name
    return render.as_text(render.told(found))


@pytest.mark.parametrize(("name", "words"), ASKED, ids=[q for q, _ in ASKED])
def test_question(name, words):
    text = " ".join(answer(name).split())
    assert [w for w in words if w not in text] == []


@pytest.mark.parametrize(
    ("sentence", "name"),
    [("what does torch.gather do in NumPy?", "torch.gather"), ("numpy equivalent of torch.topk", "torch.topk"),
     ("how do I write np.take_along_axis in torch", "np.take_along_axis"), ("what does np.ptp become", "np.ptp")],
)  # fmt: skip
def test_a_question_in_words_is_answered(sentence, name, capsys):
    assert main(["explain", sentence]) == 0
    asked = capsys.readouterr().out
    assert main(["explain", name]) == 0
    assert asked == capsys.readouterr().out


@pytest.mark.parametrize(("asked", "words"), SEVERAL, ids=[q for q, _ in SEVERAL])
def test_several_names_topics_and_code(asked, words, capsys):
    assert main(["explain", asked]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert [w for w in words if w not in text] == []


def test_several_names_as_words_of_the_command(capsys):
    assert main(["explain", "np.var", "np.std", "--json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == ["np.var", "np.std"]
    assert main(["explain", "-x"]) == 0 and "torch.neg" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("asked", "unknown"),
    [("nosuch_name", "'nosuch_name'"), ("np.var, np.nosuch", "'np.nosuch'"), ("words of no topic at all", "'words of no topic at all'")],
)  # fmt: skip
def test_what_is_unknown_is_named(asked, unknown, capsys):
    assert main(["explain", asked]) == 2
    assert f"no name {unknown} is known" in capsys.readouterr().err


def test_nothing_is_its_own_neighbour():
    assert "See also" not in answer("torch.unique") and "See also: torch.std" in answer("ddof")


@pytest.mark.parametrize("i", CATALOGUE)
def test_every_difference_is_explained(i):
    text = answer(i)
    assert CATALOGUE[i].torch in text and CATALOGUE[i].torch_value in text


def test_every_op_is_explained():
    for op in op_index.overloads():
        assert op in answer(op), op


def test_differences_have_examples_of_their_own_operator():
    """Examples call the operator to which they belong."""
    for (op, i), example in op_index.examples().items():
        base = op.partition("::")[2]
        assert re.search(rf"\b{base}_?(\.\w+)?\(", example.kernel), (op, i)


@pytest.mark.parametrize(
    ("query", "op"),
    [("ddof", "aten::var"), ("numpy.var", "aten::var"), ("unbiased", "aten::var"), ("broadcast_to", "aten::broadcast_to"),
     ("np.var", "aten::var"), ("var", "aten::var"), ("softmax", "aten::softmax"), ("F.cross_entropy", "aten::cross_entropy_loss"),
     ("cross entropy", "aten::cross_entropy_loss"), ("torch.unique", "aten::_unique2"), ("edge", "aten::pad"),
     ("integer division of negatives", "aten::floor_divide"),
     ("numpy.linalg.norm", "aten::linalg_norm"), ("interpolate", "aten::upsample_nearest1d"), ("ndarray.sum", "aten::sum")],
)  # fmt: skip
def test_search_lands_on_the_op(query, op):
    hits = search(query)
    assert hits[0].ops[:1] == (op,) or meaning_of(hits[0].name).ops[:1] == (op,), hits[:3]


def test_search_ranks_names_before_differences_before_examples():
    kinds = [hit.kind for hit in search("sort", 200)]
    first = [kinds.index(kind) for kind in ("name", "description", "difference", "advice", "example")]
    assert first == sorted(first)
    assert search("correction")[0].kind == "argument"


@pytest.mark.parametrize(
    ("typo", "meant"),
    [("softmx", "softmax"), ("np.vra", "np.var"), ("F.crossentropy", "F.cross_entropy"), ("broadcastto", "broadcast_to"),
     ("np.percentil", "np.percentile"), ("torch.uniqe", "torch.unique"), ("cumsm", "cumsum"), ("defualt_rng", "np.random.default_rng")],
)  # fmt: skip
def test_near_names(typo, meant):
    assert meant in near(typo)


def test_a_miss_of_the_table_costs_microseconds():
    import timeit

    get = torchnp.table.get
    get("aten::nosuch")
    assert min(timeit.repeat(lambda: get("aten::nosuch"), number=100, repeat=5)) / 100 < 20e-6
