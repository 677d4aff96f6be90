"""Row labels: experiments on the kernels confirm them, and everything that per-sample training needs is labelled."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

from torchnp import rpc
from torchnp.rpc import wire
from torchnp.rpc.server.privacy.row_array import RowArray, values_of
from torchnp.rpc.server.privacy.row_calls import library
from torchnp.rpc.server.privacy.row_labels import Mixed, Rows
from torchnp.rpc.server.session.overload_info import Served
from torchnp.rpc.server.session.protocol import Connection, ServerState

SERVICE = ServerState()
ROWS = 4


def _arrays(value):
    return (
        [a for x in value for a in _arrays(x)] if isinstance(value, list) else [value] * isinstance(value, np.ndarray)
    )


def _run(name, args, given):
    """Run an operator on labelled arrays; return its results and their labels, or None if it refuses the arguments."""
    connection = Connection(SERVICE)
    store = connection.store
    arrays = [a for v in args for a in _arrays(v)]
    ids = {}
    for i, (array, label) in enumerate(zip(arrays, given, strict=True)):
        store.claim(i, 1)
        store.put(i, array, label is None, rows=label)
        ids.setdefault(id(array), []).append(wire.Handle(i))

    def said(v):
        if isinstance(v, np.ndarray):
            return ids[id(v)].pop(0)
        return wire.Items([said(x) for x in v]) if isinstance(v, list) else v

    schema, frame = SERVICE.agreement.schemas[name], [said(v) for v in args]
    key = 0 if SERVICE.row(SERVICE.agreement.index[name]).random else None
    first = len(arrays)
    for count in [2, 1, 3, 4] if any(r.type == "Tensor[]" for r in schema.returns) else [len(schema.returns)]:
        failures = []
        connection.executor.run_all(
            [wire.Op(SERVICE.agreement.index[name], first, count, frame, {}, key=key)], 0, failures.append
        )
        if not failures:
            entries = [store.get(i) for i in range(first, first + count)]
            return [(e.array.copy(), e.label) for e in entries]
        first += count
    return None


def _order(label, n):
    return np.frombuffer(label.order, np.int64) if label.order else np.arange(n)


def _judge(name, args, given):
    """Change the data one row at a time and check which results change; return the labels of the results."""
    with np.errstate(all="ignore"):
        before = _run(name, args, given)
    assert before is not None, "the kernel does not take these arguments"
    operands = [a for v in args for a in _arrays(v)]
    seed = np.random.default_rng(0)
    for data_row in range(ROWS):
        changed = []
        for a, label in zip(operands, given, strict=True):
            b = a.copy()
            if isinstance(label, Rows):
                for place in np.flatnonzero(_order(label, a.shape[label.dim]) == data_row):
                    at = (slice(None),) * label.dim + (place,)
                    b[at] = (
                        ~b[at]
                        if a.dtype == bool
                        else seed.permutation(a.reshape(-1))[: b[at].size].reshape(b[at].shape)
                    )
                    if a.dtype.kind == "f":
                        b[at] = np.where(np.arange(b[at].size).reshape(b[at].shape) % 2, np.inf, np.nan)
            changed.append(b)
        left = iter(changed)
        swap = lambda v: [swap(x) for x in v] if isinstance(v, list) else next(left) if isinstance(v, np.ndarray) else v
        with np.errstate(all="ignore"):
            after = _run(name, [swap(v) for v in args], given)
        assert [label for _, label in after] == [label for _, label in before]
        for (x, label), (y, _) in zip(before, after):
            if isinstance(label, Rows):
                rows = _order(label, x.shape[label.dim])
                assert len(set(rows[rows >= 0].tolist())) == (rows >= 0).sum(), name
                keep = np.flatnonzero(rows != data_row)
                x, y = x.take(keep, label.dim), y.take(keep, label.dim)
                assert x.tobytes() == y.tobytes(), f"{name}: row {data_row} is in others' places ({label})"
    return [label for _, label in before]


def test_what_looks_at_memory_labels_nothing():
    """Operators that depend on memory layout get no label, because row numbers (used to trace moves) have another
    layout than the rows."""
    names, schemas = SERVICE.agreement.names, SERVICE.agreement.schemas
    whole = [row for row in (Served(n, SERVICE.agreement.table[n], schemas[n]) for n in names) if row.whole]
    assert len(whole) >= 15 and not any(row.by_rows for row in whole)


_X = np.arange(24, dtype=np.float32).reshape(ROWS, 6)
_W = np.arange(30, dtype=np.float32).reshape(6, 5) / 7
_B = np.arange(ROWS * 6, dtype=np.float32).reshape(ROWS, 2, 3)
_I = np.array([[0, 2, 1], [1, 1, 1], [2, 0, 0], [0, 0, 2]])
_R0, _R1, _R2 = Rows("d", 0), Rows("d", 1), Rows("d", 2)
_BACK = Rows("d", 0, np.array([3, 2, 1, 0]).tobytes())


# The operator, its arguments, the labels of the arrays among them, and the dimension of the rows in each result.
CALLS = [
    ("aten::mm", [_X, _W], [_R0, None], [0]),
    ("aten::mm", [_W.T, _X.T], [None, _R1], [1]),
    ("aten::mm", [_X.T, _X], [_R1, _R0], [None]),
    ("aten::mm", [_X, _X.T], [_R0, _R1], [None]),
    ("aten::bmm", [_B, _B.transpose(0, 2, 1)], [_R0, _R0], [0]),
    ("aten::bmm", [_B, _B.transpose(0, 2, 1)], [_R0, _BACK], [None]),
    ("aten::bmm", [_B.transpose(1, 0, 2), np.ones((2, 3, 5), np.float32)], [_R1, None], [1]),
    ("aten::addmm", [np.ones(5, np.float32), _X, _W], [None, _R0, None], [0]),
    ("aten::addmm", [np.ones(6, np.float32), _X.T, np.eye(4, 6, dtype=np.float32)], [None, _R1, None], [None]),
    ("aten::addmm", [np.ones(4, np.float32), _W.T, _X.T], [_R0, None, _R1], [1]),
    ("aten::mv", [_X, np.ones(6, np.float32)], [_R0, None], [0]),
    ("aten::native_layer_norm", [_B, [3], np.ones(3, np.float32), None, 1e-5], [_R0, None], [0, 0, 0]),
    ("aten::native_layer_norm", [_B, [2, 3], None, None, 1e-5], [_R1], [None, None, None]),
    ("aten::gather", [_X, 1, _I], [_R0, _R0], [0]),
    ("aten::gather", [_X, 1, _I], [_R0, None], [0]),
    ("aten::gather", [_X, 0, _I], [None, _R0], [0]),
    ("aten::gather", [_X, 0, _I], [_R0, _R0], [None]),
    ("aten::gather", [_X, 1, _I], [_R0, _BACK], [None]),
    ("aten::scatter.value", [_X, 1, _I, 5], [None, _R0], [0]),
    ("aten::scatter.value", [_X, 0, _I, 5], [None, _R0], [None]),
    ("aten::scatter_add", [_X, 1, _I, _X[:, :3]], [_R0, _R0, _R0], [0]),
    ("aten::embedding", [_W, _I], [None, _R0], [0]),
    ("aten::embedding", [_W, _I.T], [None, _R1], [1]),
    ("aten::index_select", [_W, 1, _I[:, 1]], [None, _R0], [1]),
    ("aten::index_select", [_X, 0, np.array([3, 2, 1, 0])], [_R0, None], [0]),
    ("aten::index_select", [_X, 0, np.array([1, 1])], [_R0, None], [None]),
    ("aten::index_select", [_X, 1, np.array([1, 1])], [_R0, None], [0]),
    ("aten::index.Tensor", [_X, [np.array([2, 0])]], [_R0, None], [0]),
    ("aten::index.Tensor", [_X, [_I]], [None, _R0], [0]),
    ("aten::index.Tensor", [_X, [_I]], [_R0, _R0], [None]),
    ("aten::index.Tensor", [_X, [None, _I[:, 0]]], [None, _R0], [1]),
    ("aten::permute", [_B, [2, 0, 1]], [_R0], [1]),
    ("aten::transpose.int", [_B, 0, -1], [_R0], [2]),
    ("aten::t", [_X], [_R0], [1]),
    ("aten::view", [_X, [4, 2, 3]], [_R0], [0]),
    ("aten::view", [_X, [2, 2, 6]], [_R0], [None]),
    ("aten::view", [_X, [24]], [_R0], [None]),
    ("aten::view", [_B, [8, 3]], [_R0], [None]),
    ("aten::reshape", [_X.T, [2, 3, 4]], [_R1], [2]),
    ("aten::expand", [_X, [2, 4, 6]], [_R0], [1]),
    ("aten::expand", [_X[:1], [4, 6]], [_R0], [None]),
    ("aten::unsqueeze", [_X, 0], [_R0], [1]),
    ("aten::squeeze.dim", [_X[:, :1], 1], [_R0], [0]),
    ("aten::slice.Tensor", [_X, 0, 1, 3], [_R0], [0]),
    ("aten::slice.Tensor", [_X, 1, 1, 3], [_R0], [0]),
    ("aten::select.int", [_X, 0, 1], [_R0], [None]),
    ("aten::select.int", [_X, 1, 1], [_R0], [0]),
    ("aten::diagonal", [_B, 0, 0, 1], [_R0], [1]),
    ("aten::unfold", [_X, 0, 2, 1], [_R0], [None]),
    ("aten::unfold", [_X, 1, 2, 1], [_R0], [0]),
    ("aten::unbind.int", [_B, 1], [_R0], [0, 0]),
    ("aten::split.Tensor", [_X, 2, 0], [_R0], [0, 0]),
    ("aten::flip", [_X, [0]], [_R0], [0]),
    ("aten::roll", [_X, [1], [0]], [_R0], [0]),
    ("aten::roll", [_X, [1]], [_R0], [None]),
    ("aten::cat", [[_X, _X], 1], [_R0, _R0], [0]),
    ("aten::cat", [[_X, np.ones((4, 1), np.float32)], 1], [_R0, None], [0]),
    ("aten::cat", [[_X, _X], 0], [_R0, _R0], [None]),
    ("aten::cat", [[_X, np.ones((2, 6), np.float32)], 0], [_R0, None], [0]),
    ("aten::cat", [[_X, _X], 1], [_R0, _BACK], [None]),
    ("aten::stack", [[_X, _X], 1], [_R0, _R0], [0]),
    ("aten::repeat", [_X, [1, 2]], [_R0], [0]),
    ("aten::repeat", [_X, [2, 1]], [_R0], [None]),
    ("aten::constant_pad_nd", [_X, [1, 1], 2], [_R0], [0]),
    ("aten::tril", [_X], [_R0], [0]),
    ("aten::select_backward", [_X, [4, 2, 6], 1, 0], [_R0], [0]),
    ("aten::sum.dim_IntList", [_B, [1], True], [_R0], [0]),
    ("aten::sum.dim_IntList", [_B, [0]], [_R1], [0]),
    ("aten::sum.dim_IntList", [_B, None], [_R0], [None]),
    ("aten::sum", [_B], [_R0], [None]),
    ("aten::sort", [_X, 0], [_R0], [None, None]),
    ("aten::add.Tensor", [_X, _X], [_R0, _BACK], [None]),
    ("aten::add.Tensor", [_X, _X], [_R0, Rows("other", 0)], [None]),
    ("aten::add.Tensor", [_X, _X], [_R0, Mixed("aten::mm")], [None]),
    ("aten::mse_loss", [_X, _X + 1, 0], [_R0, _R0], [0]),
    ("aten::mse_loss", [_X, _X + 1, 1], [_R0, _R0], [None]),
    ("aten::cumsum", [_X, 0], [_R0], [None]),
    ("aten::as_strided", [_X, [4], [6]], [_R0], [None]),
    ("aten::_reshape_alias", [_X, [4], [1]], [_R0], [None]),  # all four elements are the first row's
    ("aten::_reshape_alias_copy", [_X, [4], [1]], [_R0], [None]),
    ("aten::slice_inverse", [_X, np.ones((4, 1), np.float32), 0, 0, 4, 1], [_R0, None], [None]),
    ("aten::convolution", [_B, np.ones((1, 2, 1), np.float32), None, [1], [0], [1], False, [0], 1], [_R0, None], [0]),
    ("aten::convolution", [_W[None], _X[:, :, None], None, [1], [0], [1], False, [0], 1], [None, _R0], [1]),
    ("aten::bernoulli", [np.ones((4, 2), np.float32)], [_R0], [None]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "given", "want"), CALLS)
def test_a_call_has_its_labels_and_they_hold(name, args, given, want):
    assert [x.dim if isinstance(x, Rows) else None for x in _judge(name, args, given)] == want


def test_the_experiment_finds_a_label_that_is_wrong(monkeypatch):
    """The faulty row subtracts the maximum of all rows from each, bypassing the array that tracks rows."""

    def relu(lib, self):
        values = values_of(self)
        return RowArray(values - values.max(), self.axis)

    monkeypatch.setitem(library().own, "aten::relu", relu)
    with pytest.raises(AssertionError, match="in others' places"):
        _judge("aten::relu", [_X], [_R0])


# ---------------------------------------------------------------- in a session


def _label(session, handle):
    session.sync()
    return session.channel.transport._connection.store.get(handle._object.id).label


@pytest.fixture
def session():
    rng = np.random.default_rng(0)
    arrays = {"d.x": rng.normal(size=(7, 6)).astype(np.float32), "d.y": rng.integers(0, 3, 7), "e": np.ones((7, 6))}
    with rpc.local(datasets=arrays) as s:
        yield s


def test_labels_follow_a_session(session):
    x, e = session.dataset("d.x"), session.dataset("e")
    assert _label(session, x) == Rows("d", 0)
    assert _label(session, x.T) == Rows("d", 1)
    assert _label(session, (x * 2).relu()) == Rows("d", 0)
    assert _label(session, session.send(torch.ones(2))) is None
    assert _label(session, x + e) == Mixed("aten::add.Tensor")
    assert _label(session, x.sum(0) + 1) == Mixed("aten::sum.dim_IntList")
    picked = torch.tensor([5, 1])
    assert _label(session, x[picked] + x[picked]) == Rows("d", 0, np.array([5, 1]).tobytes())
    assert _label(session, x[:2] + x[1:3]) == Mixed("aten::add.Tensor")


def test_what_is_written_into_is_mixed(session):
    x = session.dataset("d.x")
    mine, copy = session.send(torch.zeros(7, 6)), x.clone()
    view = mine[0]
    mine.copy_(x)
    for handle in (mine, view):
        assert _label(session, handle) == Mixed("aten::copy_")
    row = copy[1:]
    copy.cumsum_(0)
    assert _label(session, row) == Mixed("aten::cumsum_")


def test_elementwise_writes_from_the_same_rows_keep_the_label(session):
    x, y = session.dataset("d.x"), session.dataset("d.y")
    copy = x.clone()
    row, column = copy[1:], copy[:, 2]
    copy.add_(x).mul_(2).relu_()
    copy.T.add_(y.float())
    column.add_(y.float())
    for handle, label in ((copy, Rows("d", 0)), (column, Rows("d", 0)), (copy.T, Rows("d", 1))):
        assert _label(session, handle) == label
    row.add_(x[:-1])  # adds the previous rows
    for handle in (copy, column, row):
        assert _label(session, handle) == Mixed("aten::add_.Tensor")
    numbers = y.clone()
    numbers.div_(y, rounding_mode="floor")  # elsewhere this fails for a zero; here the result is one
    assert _label(session, numbers) == Rows("d", 0)
    numbers.cumsum_(0)
    assert _label(session, numbers) == Mixed("aten::cumsum_")


@pytest.mark.parametrize(
    ("model", "loss"),
    [
        (torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3)), F.cross_entropy),
        (torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.LayerNorm(5), torch.nn.GELU(), torch.nn.Linear(5, 3)),
         F.cross_entropy),
        (torch.nn.Sequential(torch.nn.Linear(6, 1), torch.nn.Flatten(0)),
         lambda out, y: F.binary_cross_entropy_with_logits(out, (y > 1).float())),
        (torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1), torch.nn.Flatten(0)),
         lambda out, y: F.mse_loss(out, y.float())),
    ],
    ids=["mlp", "layer-norm", "logistic", "regression"],
)  # fmt: skip
def test_per_sample_gradients_keep_their_rows(session, model, loss):
    parameters = {k: session.send(v.detach()) for k, v in model.named_parameters()}
    of_one = lambda p, x, y: loss(functional_call(model, p, (x[None],)), y[None])
    gradients = vmap(grad(of_one), (None, 0, 0))(parameters, session.dataset("d.x"), session.dataset("d.y"))
    flat = torch.cat([g.flatten(1) for g in gradients.values()], 1)
    assert _label(session, flat) == Rows("d", 0)


def test_a_row_that_fails_leaves_the_others_alone():
    """One row of the data has an index out of range, or an integer divided by zero."""
    results = []
    for bad in (0, 1):
        index, divisor = np.array([[0], [1], [9 if bad else 1]]), np.array([1, 2, 0 if bad else 1])
        with rpc.local(datasets={"d.i": index, "d.n": divisor, "d.x": np.arange(6.0).reshape(3, 2)}) as session:
            x, i, n = (session.dataset(f"d.{k}") for k in "xin")
            table = session.send(torch.arange(8.0).reshape(4, 2))
            made = [
                torch.gather(x, 1, i), F.embedding(i, table), torch.div(session.send(torch.tensor(6)), n, rounding_mode="floor"),
                table[i],
            ]  # fmt: skip
            labels = [_label(session, h) for h in made]
            assert all(label == Rows("d", 0) for label in labels), labels
            store = session.channel.transport._connection.store
            results.append([store.get(h._object.id).array.copy() for h in made])
    for x, y in zip(*results):
        assert np.array_equal(x[:2], y[:2]) and x[:2].any()
        assert not np.array_equal(x[2], y[2])
