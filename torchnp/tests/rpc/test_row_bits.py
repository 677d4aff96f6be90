"""No row of an owner's data changes a bit of another row: kernels cannot ask for values, and a fuzzer compares the
bits."""

from __future__ import annotations

import ast
import copy
import inspect
import operator
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

from torchnp.core.schema import load
from torchnp.rpc import wire
from torchnp.rpc.server.privacy import row_array, row_calls, row_overrides
from torchnp.rpc.server.privacy.row_array import RowArray, Unlabelled, canonical, smooth, to, values_of
from torchnp.rpc.server.privacy.row_calls import KEPT
from torchnp.tests.rpc.row_bits import LARGE, MOST_LARGE, Fuzzer, what_runs

X = RowArray(np.arange(12.0).reshape(4, 3), 0)


# ---------------------------------------------------------------- what cannot be asked for

ASKED = {
    "bool": bool, "int": int, "float": float, "complex": complex, "index": operator.index, "iter": iter, "len": len,
    "list": list, "in": lambda x: 1.0 in x, "item": lambda x: x.item(), "tolist": lambda x: x.tolist(),
    "any": lambda x: x.any(), "all": lambda x: x.all(), "np.any": np.any, "np.all": np.all, "nonzero": np.nonzero,
    "flatnonzero": np.flatnonzero, "argwhere": np.argwhere, "unique": np.unique, "asarray": np.asarray,
    "array": np.array, "ascontiguousarray": np.ascontiguousarray, "asanyarray": np.asanyarray,
    "view": lambda x: x.view(np.ndarray), "base": lambda x: x.base, "data": lambda x: x.data,
    "memoryview": memoryview, "bytes": bytes, "tobytes": lambda x: x.tobytes(), "pickle": pickle.dumps,
    "copy": copy.copy, "deepcopy": copy.deepcopy, "format": lambda x: f"{x:.3f}", "hash": hash,
    "mask": lambda x: np.arange(12.0).reshape(4, 3)[x > 3], "own mask": lambda x: x[x > 3], "row": lambda x: x[0], "last row": lambda x: x[..., -1, :],
    "row by array": lambda x: x[np.array([0, 1])], "slice of rows' values": lambda x: np.arange(9)[: to(x, np.dtype("int64"))],
    "as an index": lambda x: np.arange(3)[to(x, np.dtype("int64"))], "compress": lambda x: np.compress(x > 3, np.arange(12)),
    "write": lambda x: x.__setitem__(0, 1), "in place": lambda x: operator.iadd(x, 1), "put": lambda x: np.put(x, 0, 1),
    "out": lambda x: np.add(x, 1, out=np.empty((4, 3))), "where=": lambda x: np.add(x, 1, where=x > 3),
    "out of a public one": lambda x: np.add(np.ones((4, 3)), 1, where=x > 3), "sum": np.sum, "max": np.max,
    "reduce": np.add.reduce, "accumulate": np.add.accumulate, "outer": lambda x: np.add.outer(x, x),
    "at": lambda x: np.add.at(x, 0, 1), "at rows": lambda x: np.add.at(np.zeros(3), to(x, np.dtype("int64")), 1),
    "power": lambda x: x ** 2, "exp": np.exp, "log": np.log, "sin": np.sin, "arctan2": lambda x: np.arctan2(x, x),
    "dtype=": lambda x: np.add(x, 1, dtype=np.float32), "assert": np.testing.assert_array_equal,
      "array_equal": lambda x: np.array_equal(x, x),
    "isclose": lambda x: np.isclose(x, x), "sort": np.sort, "argmax": np.argmax, "dot": lambda x: np.dot(x, x),
    "einsum": lambda x: np.einsum("ij->", x), "repeat": lambda x: np.repeat(np.arange(3), to(x, np.dtype("int64"))),
    "range": lambda x: range(x), "arange": np.arange, "zeros": np.zeros, "reshape": lambda x: np.zeros(12).reshape(x),
    "from_dlpack": np.from_dlpack, "frombuffer": np.frombuffer, "memory": lambda x: x.__array_interface__,
    "divmod": lambda x: divmod(x, 2), "integers": lambda x: to(x, np.dtype("int64")) // 2, "matmul of rows": lambda x: x @ x,
}  # fmt: skip


@pytest.mark.parametrize("ask", list(ASKED.values()), ids=list(ASKED))
def test_rows_cannot_be_asked_for_values(ask):
    with pytest.raises((TypeError, AttributeError, Unlabelled)) as told:
        ask(X)
    assert "11" not in str(told.value)


def test_rows_have_no_attribute_but_shape_dtype_and_axis():
    plain = [n for n in dir(X) if not n.startswith("_")]
    assert plain == ["axis", "dtype", "ndim", "order", "shape"]
    assert "11" not in repr(X) + str(X)
    with pytest.raises(AttributeError):
        X.axis = 1


@pytest.mark.parametrize(
    "mix",
    [
        lambda x: row_array.reduce(np.add, x, [0]),
        lambda x: row_array.reduce(np.add, x, [0, 1]),
        lambda x: row_array.reduce(np.add, x, [-2]),
        lambda x: row_array.reduce(np.add, x, []),
        lambda x: row_array.scan(np.add, x, 0),
        lambda x: row_array.order(x, 0),
        lambda x: row_array.extreme(np.argmax, x, -2, True),
        lambda x: row_array.reduce(np.maximum, x, None),
        lambda x: row_array.concat([x, x], 0),
        lambda x: row_array.concat([x, x[::-1]], 1),
        lambda x: row_array.concat([x[:2], x[1:3]], 0),
        lambda x: row_array.squeeze(x[:1], 0),
        lambda x: x[:2] + x[1:3],
        lambda x: x + x[::-1],
        lambda x: row_array.where(np.ones((4, 3), bool), x, row_array.roll(x, 1, 0)),
        lambda x: row_array.reshape(x, (2, 6)),
        lambda x: row_array.reshape(x, (12,)),
        lambda x: row_array.reshape(x, (2, 2, 3)),
        lambda x: row_array.tile(x, (2, 1)),
        lambda x: row_array.roll(x, 1),
        lambda x: row_array.broadcast_to(x[:1], (4, 3)),
        lambda x: row_array.take(x, np.array([0, 0]), 0),
        lambda x: row_array.take(x, np.array([[0, 1]]), 0),
        lambda x: row_array.take(x, np.array([3, -1]), 0),
        lambda x: row_array.take_along_axis(x, np.array([[0, 1, 2]]), 0),
        lambda x: row_array.take_along_axis(x, np.array([[0, 1, 0], [1, 0, 1]]), 0),
        lambda x: row_array.index(x, (np.array([0, 0, 1]), np.array([0, 1, 0]))),
        lambda x: row_array.index(x, (np.array([[True, True, False]] * 4),)),
        lambda x: row_array.matmul(row_array.permute_dims(x, (1, 0)), x[::-1]),
        lambda x: x + RowArray(np.ones((4, 3)), 1),
        lambda x: x + RowArray(np.ones((1, 3)), 0),
        lambda x: RowArray(np.ones((1, 3)), 0) + np.ones((4, 3)),
        lambda x: x + RowArray(np.ones(3), 0),
        lambda x: row_array.where(RowArray(np.ones((4, 4), bool), 1), np.ones((4, 4)), RowArray(np.ones((4, 4)), 0)),
        lambda x: np.matmul(np.ones((2, 4)), x),
        lambda x: np.matmul(x, RowArray(np.ones((3, 4)), 1)),
        lambda x: np.matmul(x, RowArray(np.ones((3, 2)), 0)),
        lambda x: np.matmul(RowArray(np.ones((1, 2, 3)), 0), np.ones((4, 3, 2))),
        lambda x: row_array.take_along_axis(x, RowArray(np.zeros((4, 3), int), 0), 0),
        lambda x: row_array.take_along_axis(x, np.zeros((4, 3), int), 0),
        lambda x: row_array.take_along_axis(x, RowArray(np.zeros((3, 3), int), 0), 1),
        lambda x: row_array.take(x, RowArray(np.zeros(4, int), 0), 0),
        lambda x: row_array.scatter(np.zeros((4, 3)), 0, RowArray(np.zeros((4, 3), int), 0), x, True),
        lambda x: row_array.scatter(x, 1, RowArray(np.zeros((2, 3), int), 0), np.array(1.0), False),
    ],
)
def test_rows_do_not_meet(mix):
    with pytest.raises(Unlabelled):
        mix(X)


def test_kernels_on_the_list_have_no_way_around_the_array():
    """These files never name the attribute with the values, and never make a RowArray."""
    library = row_calls.library()
    modules = {sys.modules[library.row(row_calls.functional(load()[n])).__module__] for n in KEPT} | {row_overrides}
    assert len(modules) > 15
    for module in modules:
        tree = ast.parse(Path(inspect.getsourcefile(module)).read_text())
        for node in ast.walk(tree):
            name = getattr(node, "attr", None) or getattr(node, "id", None) or ""
            assert name not in ("values_of", "_RowArray__values", "__dict__", "gc", "ctypes"), name
            assert not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "RowArray"), module.__name__
            if isinstance(node, ast.ImportFrom):
                assert not any(a.name == "values_of" for a in node.names), module.__name__


# ---------------------------------------------------------------- nan, and functions on their plain range


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "complex64", "complex128"])
def test_there_is_one_nan(dtype):
    from torchnp.dtypes import as_dtype

    dtype = as_dtype(dtype)
    raw = np.random.default_rng(0).integers(0, 256, 40_000, np.uint8)
    made = raw[: 40_000 // dtype.itemsize * dtype.itemsize].view(dtype).reshape(-1, 5)
    with np.errstate(all="ignore"):
        found = values_of(canonical(RowArray(made, 0)))
        parts = found.view(np.float32 if dtype == "complex64" else np.float64) if dtype.kind == "c" else found
        was = made.view(parts.dtype)
        nan, same = np.isnan(parts), np.isnan(was)
    assert nan.any() and np.array_equal(nan, same) and len({x.tobytes() for x in parts[nan]}) == 1
    assert parts[~nan].tobytes() == was[~nan].tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["exp", "expm1", "log", "log1p", "tanh"])
def test_functions_are_right_at_every_edge(name, dtype):
    rng = np.random.default_rng(0)
    tiny = np.finfo(dtype).tiny
    edges = [0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 88.7, 88.73, -87.4, -100, 709.7, 709.79, -708, 20, 20.1, -20.1, 1e-30,
        tiny, -tiny, tiny / 2, 1e38, 0.99, -0.999999]  # fmt: skip
    x = np.concatenate([np.array(edges), rng.normal(size=2000) * 10.0 ** rng.integers(-9, 3, 2000)]).astype(dtype)
    with np.errstate(all="ignore"):
        found = values_of(smooth(name, RowArray(x, 0)))
        want = getattr(np, name)(x.astype(np.float64))
        wide = want.astype(dtype)
    smallest = np.finfo(dtype).tiny
    np.testing.assert_allclose(found, wide, rtol=8 * np.finfo(dtype).eps, atol=smallest)
    assert np.array_equal(np.signbit(found[~np.isnan(found)]), np.signbit(wide[~np.isnan(found)]))


@pytest.mark.parametrize("name", ["exp", "expm1", "log", "log1p", "tanh"])
def test_the_library_is_asked_for_plain_numbers_alone(name, monkeypatch):
    """Vector code may process a whole vector differently because of one number that is infinite, denormal or too
    large."""
    asked = []
    function = getattr(np, name)
    monkeypatch.setattr(np, name, lambda x: asked.append(x) or function(x))
    for dtype in (np.float32, np.float64):
        info = np.finfo(dtype)
        odd = [
            0,
            -0.0,
            np.inf,
            -np.inf,
            np.nan,
            info.tiny / 4,
            -info.tiny / 4,
            info.max,
            -info.max,
            -1,
            1,
            1e-300,
            800,
            -800,
        ]
        with np.errstate(all="ignore"):
            smooth(name, RowArray(np.array(odd, dtype), 0))
        (x,), asked[:] = asked, []
        result = function(x)
        for values in (x, result):
            assert np.isfinite(values).all()
            assert (np.abs(values[values != 0]) >= info.tiny).all()


# ---------------------------------------------------------------- the list, and the fuzzer


def test_what_is_on_the_list_is_an_overload_with_a_row():
    schemas = load()
    assert [n for n in KEPT if not row_calls.kept(schemas[n])] == []
    in_place = [n for n in KEPT if schemas[n].args[0].is_write]
    assert len(KEPT) > 440 and len(in_place) > 80
    assert [n for n in in_place if not n.partition(".")[0].endswith("_")] == []
    for name in ("aten::_conj", "aten::_neg_view_copy", "aten::as_strided", "aten::view.dtype", "aten::bernoulli",
                 "aten::add.out", "aten::_foreach_add.List", "aten::native_batch_norm", "aten::sum", "prims::add"):  # fmt: skip
        assert not row_calls.rule(schemas[name]), name


@pytest.mark.filterwarnings("ignore")
def test_the_list_is_what_runs():
    """To write the list again, run ``python -m torchnp.tests.rpc.row_bits --write``."""
    with np.errstate(all="ignore"):
        found, fuzzer = what_runs(2, seed=3)
    assert not fuzzer.differences, fuzzer.shown[:5]
    assert set(found) <= set(KEPT)
    assert len(set(KEPT) - set(found)) < 8, set(KEPT) - set(found)


@pytest.mark.filterwarnings("ignore")
def test_no_bit_of_another_row_differs():
    """Runs over the whole list. To run longer: ``python -m torchnp.tests.rpc.row_bits --minutes 60``."""
    fuzzer = Fuzzer(11)
    with np.errstate(all="ignore"):
        fuzzer.play(3)
    assert not fuzzer.differences, fuzzer.shown[:5]
    never = [n for n in fuzzer.names if not fuzzer.labelled[n]]
    assert len(fuzzer.names) > 440 and len(never) < 5, never


@pytest.mark.filterwarnings("ignore")
def test_no_bit_of_another_row_differs_among_many():
    fuzzer = Fuzzer(12)
    fuzzer.lengths, fuzzer.most = LARGE, MOST_LARGE
    with np.errstate(all="ignore"):
        fuzzer.play(1)
    assert not fuzzer.differences, fuzzer.shown[:5]
    assert len([n for n in fuzzer.names if fuzzer.labelled[n]]) > 450


@pytest.mark.parametrize("name", ["aten::relu", "aten::cumsum", "aten::mm", "aten::add_.Tensor", "aten::flip"])
def test_the_fuzzer_finds_what_looks_at_all_rows(name, monkeypatch):
    """The wrong kernel adds an ulp to all rows if any value is not finite, like kernels that then switch to other
    code."""

    def spoiled(call, results, labels):
        found = kernels(call, results, labels)
        bad = any(not np.isfinite(e.array.astype(complex)).all() for e in call.entries)
        return [np.nextafter(x, np.inf) if bad and x is not None and x.dtype.kind == "f" else x for x in found]

    kernels = row_calls.values
    monkeypatch.setattr(row_calls, "values", spoiled)
    fuzzer = Fuzzer(1, (name,))
    with np.errstate(all="ignore"):
        fuzzer.play(60)
    assert fuzzer.differences[name]


_CLOSE = {"float64": 1e-7, "float32": 4e-5, "float16": 4e-3, "bfloat16": 3e-2, "complex64": 4e-5, "complex128": 1e-7}


@pytest.mark.filterwarnings("ignore")
def test_results_are_those_of_the_table():
    """Results agree within the tolerances of torch's own tests."""
    fuzzer, compared = Fuzzer(5), set()
    fuzzer.odd_ones = 0
    with np.errstate(all="ignore"):
        for name in fuzzer.names * 3:
            for found, want in fuzzer.both(name) or ():
                assert (found.shape, found.dtype) == (want.shape, want.dtype), name
                close = _CLOSE.get(found.dtype.name, 0)
                a, b = (x.astype(complex if x.dtype.kind == "c" else np.float64) for x in (found, want))
                scale = np.abs(np.where(np.isfinite(b), b, 0)).max(initial=1.0)
                np.testing.assert_allclose(a, b, rtol=close, atol=close * scale, err_msg=name)
                compared.add(name)
    assert len(compared) > 380


def test_integers_that_fail_are_filled():
    least = np.iinfo(np.int64).min
    a, b = np.array([7, -7, least, least, 5]), np.array([0, 2, -1, 0, -3])
    for rest, want in ((False, [0, -4, least, 0, -2]), (True, [0, 1, 0, 0, -1])):
        assert values_of(row_array.quotient(RowArray(a, 0), RowArray(b, 0), rest)).tolist() == want
    bad = RowArray(np.array([np.nan, np.inf, -np.inf, 1e30, 2.9]), 0)
    assert values_of(to(bad, np.dtype("int64"))).tolist() == [least] * 4 + [2]
    table = np.arange(6.0).reshape(3, 2)
    found = values_of(row_array.take(table, RowArray(np.array([2, 9, -4, 0]), 0), 0))
    assert found.tolist() == [[4, 5], [0, 0], [0, 0], [0, 1]]


def test_the_list_can_travel():
    assert all(wire.can_travel(load()[name]) for name in KEPT)
