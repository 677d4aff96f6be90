"""The table of `torchnp.np`: every name of NumPy is covered, and each difference that a row lists is undone."""

import re
import subprocess
import sys
import types
import warnings

import numpy as np
import pytest
import torch

import torchnp.np as tnp
from torchnp.difference_catalogue import CATALOGUE
from torchnp.differences import show
from torchnp.lookup import on_tensors
from torchnp.np.arrays import unwrapped
from torchnp.np.create import CONSTANTS, DTYPES
from torchnp.np.rebind_numpy_functions import NAMESPACE
from torchnp.np.table import in_numpy

SPACES = {
    "": np,
    "linalg.": np.linalg,
    "fft.": np.fft,
    "random.": np.random,
    "lib.stride_tricks.": np.lib.stride_tricks,
}


def public_names():
    for space, module in SPACES.items():
        for name in dir(module):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                value = getattr(module, name)
            if not name.startswith("_") and not isinstance(value, types.ModuleType):
                yield f"{space}{name}"


def test_every_public_name_has_a_row_or_a_reason():
    named = set(public_names())
    known = {*tnp.table, *DTYPES, *CONSTANTS, "bool", "in1d", "trapz"}  # NumPy 2.4 removed the last two
    assert sorted(named - known - tnp.refused().keys()) == []
    assert sorted(tnp.table.keys() & tnp.refused().keys()) == []


def test_the_table_has_as_many_functions_as_is_said():
    functions = {id(row.function) for row in tnp.table.values()}
    assert len(functions) > 300 and len(tnp.table) > 350


def test_refused_names_say_why():
    with pytest.raises(AttributeError, match=r"torchnp.np has no loadtxt: it reads or writes files"):
        assert tnp.loadtxt
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        assert tnp.nothing


def test_data_of_the_lookup_is_that_of_the_table():
    installed = {name: undoes for name, undoes in on_tensors.rows().items() if in_numpy(name) is not None}
    assert installed == {name: row.undoes for name, row in sorted(tnp.table.items())}


# ---------------------------------------------------------------- the catalogue

ALONE = [
    d
    for d in CATALOGUE.values()
    if d.holds()
    and re.search(r"\bnp\.", d.numpy)
    and not re.search(r"\b(scipy|ml_dtypes|torchnp|torch|table|aten)\b", d.numpy)
]
# Differences for which the result on tensors is not NumPy's.
PARTS = {
    "half-cumsum": "torch adds in float32 and rounds once; NumPy rounds each step",
    "cumsum-accumulator": "torch adds float32 in float64; NumPy's steps round",
    "cascade-sum": "torch's sums lose fewer digits than NumPy's",
    "variance-in-double": "the mean, a sum, loses fewer digits than NumPy's",
    "clamp-zero-sign": "which of 0 and -0 is the maximum depends on the processor",
    "sorter-in-range": "NumPy reads as many entries of sorter as its search visits; here all are checked",
    "resize-references": "an array cannot tell who else holds its memory: no resize in place",
    "fft-out-sized": "both refuse, here in fewer words",
    "negative-strided": "an error of NumPy's, which writes wrong elements",
    "predicate-strided": "an error of NumPy's, which writes wrong elements",
    "empty-with-gaps": "tensors are made by functions, not by numpy.ndarray",
    "as-strided-bounds": "torch refuses a window beyond the memory",
    "view-dtype-alignment": "torch views larger elements only from aligned offsets",
}  # fmt: skip


def value_of(expression, namespace):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return show(unwrapped(eval(expression, {"np": namespace})))
        except Exception as error:
            return show(error)


@pytest.mark.parametrize("difference", [d for d in ALONE if d.id not in PARTS], ids=lambda d: d.id)
def test_numpys_answer_on_tensors(difference):
    assert value_of(difference.numpy, NAMESPACE) == value_of(difference.numpy, np)


def test_most_expressions_give_numpys_answer():
    assert len(ALONE) - len(PARTS.keys() & {d.id for d in ALONE}) >= 280
    assert PARTS.keys() <= CATALOGUE.keys()


def test_rows_list_differences_that_exist_and_are_undone():
    listed = {i for row in tnp.table.values() for i in row.undoes}
    assert sorted(listed - CATALOGUE.keys()) == []
    # If a row lists differences of PARTS, they hold for other calls than the example's.
    assert sorted(listed & PARTS.keys() - {"clamp-zero-sign", "sorter-in-range", "negative-strided", "predicate-strided",
                                           "fft-out-sized"}) == []  # fmt: skip


# ---------------------------------------------------------------- where it runs


def test_without_torch_the_error_says_what_to_install():
    program = (
        "import importlib.util as u; f = u.find_spec; u.find_spec = lambda n, *a: None if n == 'torch' else f(n, *a)\n"
        "import torchnp\nimport torchnp.np"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (
        "ModuleNotFoundError: torchnp.np works on torch's tensors: it needs the package torch: pip install"
        in ran.stderr
    )


def test_gradients_pass():
    x = torch.tensor([1.0, 2.0, 4.0, 8.0], dtype=torch.float64, requires_grad=True)
    for function in (tnp.var, tnp.median, lambda t: tnp.gradient(t).sum(), lambda t: tnp.quantile(t, 0.3), lambda t: tnp.linalg.norm(t),
                     lambda t: tnp.pad(t, 2, mode="reflect").sum(), lambda t: tnp.interp(1.5, [0.0, 1, 2, 3], t)):  # fmt: skip
        assert torch.autograd.gradcheck(function, (x,))


@pytest.mark.parametrize(
    "function",
    [lambda t: tnp.var(t, axis=0), lambda t: tnp.add(t, 2.5), lambda t: tnp.median(t), lambda t: tnp.where(t > 0, t, 0),
     lambda t: tnp.argsort(t), lambda t: tnp.linalg.norm(t), lambda t: tnp.diff(t)],
    ids=["var", "add", "median", "where", "argsort", "norm", "diff"],
)  # fmt: skip
def test_compiled(function):
    x = torch.arange(6.0).reshape(2, 3) - 2
    torch.testing.assert_close(torch.compile(function, backend="eager")(x), function(x))


def test_semantics():
    a, b = torch.tensor([1, 2, 3]), torch.ones(3)
    with tnp.semantics():
        assert (a + b).dtype == torch.float64
        assert (a // 0).tolist() == [0, 0, 0]
        assert a[::-1].tolist() == [3, 2, 1]
        assert (torch.tensor([True]) ** 2).dtype == torch.int8
        assert (torch.tensor([255], dtype=torch.uint8) == -1).tolist() == [False]
        with pytest.raises(ValueError, match="Integers to negative integer powers"):
            a ** torch.tensor([-1])
        with pytest.raises(OverflowError, match="Python integer 300 out of bounds for uint8"):
            torch.zeros(1, dtype=torch.uint8) + 300
    assert (a + b).dtype == torch.float32


def test_on_handles():
    from torchnp import rpc

    x = torch.tensor([[1.0, 2, 3, 4], [5, 1, 7, 2]])
    session = rpc.local()
    handle = session.send(x)
    for function in (
        tnp.var,
        tnp.median,
        tnp.cumsum,
        tnp.gradient,
        tnp.fft.fft,
        lambda t: tnp.pad(t, 1),
        lambda t: tnp.add(t, 1.5),
    ):
        result = function(handle)
        for mine, theirs in zip(
            *(r if isinstance(r, (tuple, list)) else [r] for r in (result, function(x))), strict=True
        ):
            assert hasattr(mine, "publish")
            torch.testing.assert_close(mine.publish(), theirs)
    with pytest.raises(TypeError, match=r"Or tnp.var \(import torchnp.np as tnp\)"):
        np.var(handle)
    with pytest.raises(rpc.ValueAccessError, match=r"tnp.add \(import torchnp.np as tnp\)"):
        np.add(handle, 1)
    with tnp.semantics():
        assert np.var(handle).publish() == np.var(x.numpy())
        assert np.add(handle, np.ones(4)).publish().dtype == torch.float64
        assert np.add.reduce(handle).publish().tolist() == [6, 3, 10, 6]
