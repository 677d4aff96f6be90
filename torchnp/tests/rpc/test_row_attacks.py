"""Attempts to move a value of one owner's row to another row or to a public result, through portable rows."""

from __future__ import annotations

import array_api_compat.numpy
import numpy as np
import pytest

from torchnp.core.schema import load
from torchnp.portable.library import ValueNeeded
from torchnp.rpc import wire
from torchnp.rpc.server.privacy import row_array, row_calls, row_library
from torchnp.rpc.server.privacy.row_array import RowArray, Unlabelled, values_of
from torchnp.rpc.server.privacy.row_labels import Mixed, Rows
from torchnp.rpc.server.session.protocol import Connection
from torchnp.tests.rpc.row_bits import Fuzzer
from torchnp.tests.rpc.test_row_labels import SERVICE, _judge

LIB = row_calls.library()
SECRET = 1234567
X = RowArray(np.full((4, 3), float(SECRET)), 0)
N = RowArray(np.full((4, 3), SECRET), 0)
B = RowArray(np.ones((4, 3), bool), 0)


def _public(found):
    """Return the results of a function that are no RowArray, flattened."""
    if isinstance(found, RowArray):
        return []
    if isinstance(found, (list, tuple)):
        return [y for x in found for y in _public(x)]
    return [found]


# ---------------------------------------------------------------- the namespace and the library


@pytest.mark.filterwarnings("ignore")
def test_no_function_of_the_namespace_reads_rows():
    """Call each function of NumPy's namespace with rows at each position, by name, in lists, as out=, as where=."""
    ones, tried = np.ones((4, 3)), 0
    names = {*dir(array_api_compat.numpy), *row_library.PRIMITIVES}
    names -= {"save", "savez", "savez_compressed", "savetxt", "test", "show_config", "info", "source", "lookfor"}
    for name in sorted(n for n in names if not n.startswith("_")):
        function = getattr(LIB.xp, name, None)
        if not callable(function):
            continue
        for x in (X, N, B):
            for args, kwargs in (
                ((x,), {}), ((x, x), {}), ((ones, x), {}), ((x, ones), {}), ((x, 1), {}), (([x, x],), {}), (([ones, x],), {}),
                (([[x]],), {}), ((ones,), {"where": x}), ((ones,), {"out": x}), ((ones, ones), {"out": (x,)}), ((x, x, x), {}),
                ((ones, x, x), {}), ((x, [x]), {}), ((2,), {"dtype": x}), ((x,), {"axis": 1}), ((x,), {"axis": 0}),
                ((x,), {"axis": None}), ((x, np.zeros((1, 3), int)), {"axis": 0}), ((ones, {"a": x}), {}), (({"a": x},), {}),
            ):  # fmt: skip
                tried += 1
                try:
                    found = function(*args, **kwargs)
                except Exception as error:
                    assert str(SECRET) not in str(error), name
                    continue
                for value in _public(found):
                    assert str(SECRET) not in repr(value), (name, args, kwargs)
                    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
                        assert not (value == SECRET).any(), (name, args, kwargs)
    assert tried > 20_000


def test_primitives_give_rows_or_constants():
    """A result that is no RowArray counts as public."""
    for x in (X, N, B):
        for name, (_, function) in row_library.PRIMITIVES.items():
            for args in ((x,), (x, x), (x, (4, 3)), (x, 1), ([x, x], 1), (x, 1, 1), (B, x, x)):
                try:
                    found = function(*args)
                except Exception:
                    continue
                assert not _public(found) or name in ("zeros_like", "ones_like"), name


@pytest.mark.parametrize(
    "read",
    [
        lambda: LIB.item(RowArray(np.ones((1,)), 0)),
        lambda: LIB.to_numpy(X),
        lambda: LIB.on_host(np.asarray, [X], {}, None),
        lambda: LIB.on_host(np.asarray, [[X]], {}, None),
        lambda: LIB.on_host(np.asarray, [], {"x": X}, None),
        lambda: np.asarray(LIB.from_numpy(X)),
        lambda: LIB.call("aten::lgamma", X),
        lambda: LIB.call("aten::item", X),
        lambda: LIB.call("aten::narrow", X, 1, N, 1),
        lambda: LIB.call("aten::slice.Tensor", X, 1, N),
        lambda: LIB.call("aten::select.int", X, 1, N),
        lambda: LIB.call("aten::full", [N], 1),
        lambda: LIB.call("aten::arange", N),
        lambda: LIB.call("aten::one_hot", N, N),
        lambda: LIB.call("aten::repeat", X, [1, N]),
        lambda: LIB.call("aten::expand", X, [N, 4, 3]),
        lambda: LIB.call("aten::view", X, [N, 3]),
        lambda: LIB.call("aten::roll", X, [N], [1]),
        lambda: LIB.call("aten::constant_pad_nd", X, [N, 0]),
        lambda: LIB.call("aten::sum.dim_IntList", X, [N]),
        lambda: LIB.call("aten::topk", X, N),
        lambda: LIB.call("aten::tensor_split.tensor_indices_or_sections", X, N),
        lambda: LIB.call("aten::bucketize.Tensor", X, np.array([3.0, 1.0, 2.0])),
        lambda: LIB.call("aten::meshgrid", [X, X]),
        lambda: LIB.call("aten::einsum", "ij,kj->ik", [X, X]),
        lambda: LIB.call("aten::tensordot", X, X, [1], [1]),
        lambda: LIB.call("aten::linalg_det", RowArray(np.ones((2, 3, 3)), 0)),
        lambda: LIB.call("torch.ops.higher_order.cond", B, lambda: X, lambda: X, []),
    ],
)
def test_the_library_reads_no_rows(read):
    with pytest.raises((Unlabelled, ValueNeeded, TypeError, AttributeError)) as told:
        read()
    assert str(SECRET) not in str(told.value)


def test_a_draw_that_rows_would_steer_is_not_made():
    for name in ("aten::dropout", "aten::rrelu", "aten::alpha_dropout"):
        args = (0.5, True) if "dropout" in name else (0.1, 0.3, True)
        assert LIB.call(name, X, *args) is NotImplemented
    schemas = load()
    drawing = [n for n, s in schemas.items() if "nondeterministic_seeded" in s.tags]
    assert len(drawing) > 40 and not any(row_calls.functional(schemas[n]) for n in drawing)


# ---------------------------------------------------------------- through the server

_X = np.arange(24, dtype=np.float32).reshape(4, 6)
_I = np.array([[0, 2, 1], [1, 1, 1], [2, 0, 0], [0, 0, 2]])
_IMAGES = np.arange(4 * 2 * 5 * 5, dtype=np.float32).reshape(4, 2, 5, 5)
_FILTER = np.ones((2, 2, 3, 3), np.float32)
_SEQUENCES = np.arange(4 * 2 * 3 * 5, dtype=np.float32).reshape(4, 2, 3, 5) / 60
_ONES, _W = np.ones(6, np.float32), np.arange(30, dtype=np.float32).reshape(6, 5) / 7
_R0, _R1, _R2, _R3 = (Rows("d", d) for d in range(4))
_BACK = Rows("d", 0, np.array([3, 2, 1, 0]).tobytes())
_NONE = [None, None, False, False, 1.0, 1e-5]

# The operator, its arguments, the labels of the arrays among them, and the dimension of the rows in each result.
ATTEMPTS = {
    # lists of tensors
    "the same rows twice": ("aten::cat", [[_X, _X], 0], [_R0, _R0], [None]),
    "parts with a row in common": ("aten::concat", [[_X[:3], _X[2:]], 0], [_R0, Rows("d", 0, np.array([2, 3]).tobytes())], [None]),
    "rows beside others": ("aten::hstack", [[_X, _X]], [_R0, _BACK], [None]),
    "rows in blocks": ("aten::block_diag", [[_X, _X]], [_R0, _R0], [None]),
    "rows across blocks": ("aten::block_diag", [[_X, _X]], [_R1, _R1], [None]),
    "rows and columns": ("aten::broadcast_tensors", [[_X[:, :4].copy(), _X[:, :4].copy()]], [_R0, _R1], [0, 1]),
    "an index that rows hold, of rows": ("aten::index.Tensor", [_X, [_I[:, 0].copy(), _I[:, 1].copy()]], [_R0, None, _R0], [None]),
    "indices twice": ("aten::index.Tensor", [_X, [np.array([0, 0])]], [_R0, None], [None]),
    # reductions, scans and sorts that reach the rows indirectly
    "all dimensions": ("aten::amax", [_X, []], [_R0], [None]),
    "all dimensions, named": ("aten::var.correction", [_X, [0, 1]], [_R0], [None]),
    "the same dimension twice": ("aten::logsumexp", [_X, [0]], [_R0], [None]),
    "from the end": ("aten::sum.dim_IntList", [_X, [-2]], [_R0], [None]),
    "a median of rows": ("aten::median.dim", [_X, 0], [_R0], [None, None]),
    "differences of rows": ("aten::diff", [_X, 1, 0], [_R0], [None]),
    "a loss that is a mean": ("aten::cross_entropy_loss", [_X, _I[:, 0], None, 1], [_R0, _R0], [None]),
    "a loss for each": ("aten::cross_entropy_loss", [_X, _I[:, 0], None, 0], [_R0, _R0], [0]),
    "a loss with others' classes": ("aten::cross_entropy_loss", [_X, _I[:, 0], None, 0], [_R0, _BACK], [None]),
    "a softmax over rows": ("aten::_safe_softmax", [_X, 0], [_R0], [None]),
    "similar rows": ("aten::cosine_similarity", [_X, _X, 0], [_R0, _R0], [None]),
    "norms of the rows": ("aten::layer_norm", [_X, [4, 6], None, None], [_R0], [None]),
    "norms of rows as channels": ("aten::group_norm", [_X[None], 2, None, None], [_R1], [None]),
    "norms of rows as a batch": ("aten::_native_batch_norm_legit.no_stats", [_IMAGES, None, None, True, 0.1, 1e-5], [_R0], [None] * 3),
    # products
    "rows by rows": ("aten::matmul", [_X, _X.T], [_R0, _R1], [None]),
    "rows summed over": ("aten::matmul", [_ONES[:4], _X], [None, _R0], [None]),
    "rows by a vector": ("aten::matmul", [_X, _ONES], [_R0, None], [0]),
    "a vector of rows": ("aten::matmul", [_X[:, 0].copy(), _X], [_R0, None], [None]),
    "a linear layer of rows": ("aten::linear", [_X, _X], [_R0, _R0], [None]),
    "weights that are rows": ("aten::linear", [_ONES[None], _X], [None, _R0], [1]),
    "attention among rows": ("aten::scaled_dot_product_attention", [_SEQUENCES] * 3, [_R2] * 3, [None]),
    "attention, which may draw": ("aten::scaled_dot_product_attention", [_SEQUENCES] * 3, [_R0] * 3, [None]),
    "scores within rows": ("aten::matmul", [_SEQUENCES, _SEQUENCES.swapaxes(2, 3).copy()], [_R0, _R0], [0]),
    "scores of others' rows": ("aten::matmul", [_SEQUENCES, _SEQUENCES.swapaxes(2, 3).copy()], [_R0, _BACK], [None]),
    # windows
    "a filter over rows": ("aten::conv2d", [_IMAGES.transpose(1, 2, 0, 3)[:, :2], _FILTER], [_R2, None], [None]),
    "rows as channels": ("aten::conv2d", [_IMAGES.transpose(1, 0, 2, 3)[:, :2], _FILTER], [_R1, None], [None]),
    "rows as a batch": ("aten::conv2d", [_IMAGES, _FILTER], [_R0, None], [0]),
    "pools over rows": ("aten::max_pool1d", [_X.T[None], [2]], [_R2], [None]),
    "rows between rows": ("aten::upsample_linear1d", [_X.T[None], [8], False, None], [_R2], [None]),
    "windows of rows": ("aten::unfold", [_X, 0, 2, 1], [_R0], [None]),
    "windows of one row": ("aten::unfold", [_X, 1, 2, 1], [_R0], [0]),
    # views
    "a bias of rows": ("aten::add.Tensor", [_X[:, :4].copy(), _X[:, :4].copy()], [_R0, _R1], [None]),
    "other bytes": ("aten::view.dtype", [_X, wire.Dtype("int16")], [_R0], [None]),
    "strides": ("aten::as_strided", [_X, [4, 6], [0, 1]], [_R0], [None]),
    "a diagonal across rows": ("aten::diagonal", [_X[:, :4]], [_R0], [0]),
    "merged, and divided": ("aten::reshape", [_X, [6, 4]], [_R0], [None]),
    "flattened": ("aten::flatten.using_ints", [_X], [_R0], [None]),
    "as complex numbers": ("aten::view_as_complex", [_X.reshape(4, 3, 2)], [_R0], [None]),
    "rows as two parts": ("aten::view_as_complex", [_X[:2].T.copy()], [_R1], [None]),
    # writes, dtypes and numbers
    "scattered among rows": ("aten::scatter.src", [_X, 0, _I % 3, _X[:, :3].copy()], [_R0, _R0, _R0], [None]),
    "a dtype that overflows": ("aten::sum.dim_IntList", [_X * 1e4, [1], False], [_R0], [0]),
    "a cast of nans": ("aten::_to_copy", [_X], [_R0], [0]),
    "powers by rows": ("aten::pow.Tensor_Tensor", [_X, _X], [_R0, _R0], [None]),
    "bounds from others": ("aten::clamp.Tensor", [_X, _X[::-1].copy()], [_R0, _BACK], [None]),
    "unsorted boundaries": ("aten::bucketize.Tensor", [_X, np.array([3.0, 1.0, 2.0], np.float32)], [_R0, None], [None]),
    "rows among rows": ("aten::isin.Tensor_Tensor", [_X, _X], [_R0, _R0], [None]),
    "rows among public ones": ("aten::isin.Tensor_Tensor", [_X, _ONES], [_R0, None], [0]),
    "public ones among rows": ("aten::isin.Tensor_Tensor", [_ONES, _X], [None, _R0], [None]),
    "constants": ("aten::new_full", [_X, [4, 6], 2], [_R0], [0]),
    "constants of another shape": ("aten::new_full", [_X, [6, 4], 2], [_R0], [None]),
    "another dataset's rows": ("aten::where.self", [_X > 3, _X, _X], [_R0, Rows("e", 0), _R0], [None]),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_an_attempt_has_no_label_or_one_that_holds(attempt):
    name, args, given, want = ATTEMPTS[attempt]
    found = [x.dim if isinstance(x, Rows) else None for x in _judge(name, args, given)]
    assert found == want if want is not None else not any(d is not None for d in found)


def _connection(*objects):
    connection = Connection(SERVICE)
    connection.known = True
    for i, (array, label) in enumerate(objects):
        connection.store.claim(i, 1)
        connection.store.put(i, array, label is None, rows=label)
    return connection


def _ran(connection, name, first, count, *args, **kwargs):
    failures = []
    op = wire.Op(SERVICE.agreement.index[name], first, count, list(args), kwargs)
    connection.executor.run_all([op], 0, failures.append)
    return failures


def test_sizes_and_numbers_that_rows_decide_are_not_offered_or_refused():
    for name in ("nonzero", "masked_select", "_unique2", "repeat_interleave.Tensor", "_local_scalar_dense", "bincount"):
        assert f"aten::{name}" not in SERVICE.agreement.index and f"aten::{name}" not in row_calls.KEPT
    secret = np.full((4, 3), float(SECRET))
    connection = _connection((secret, _R0), (secret > 3, _R0))
    failures = _ran(connection, "aten::index.Tensor", 9, 1, wire.Handle(0), wire.Items([wire.Handle(1)]))
    assert len(failures) == 1 and str(SECRET) not in failures[0].text


def test_a_label_is_of_the_index_that_is_given():
    """Calls with equal shapes but different public indices do not share a label."""
    index = np.array([2, 1])
    connection = _connection((_X, _R0), (index, None))
    labels = []
    for first, (a, b) in enumerate(([2, 1], [1, 1], [0, 1]), 10):
        index[:] = a, b
        assert not _ran(connection, "aten::index_select", first, 1, wire.Handle(0), 0, wire.Handle(1))
        labels.append(connection.store.get(first).label)
    assert labels == [Rows("d", 0, np.array([2, 1]).tobytes()), Mixed("aten::index_select"), _R0]


@pytest.mark.parametrize(
    "later", [lambda x: x[::-1], lambda x: x[:, ::-1][:3], lambda x: row_array.permute_dims(x, (1, 0))]
)
def test_a_result_with_another_label_than_the_one_before_is_zeros(later, monkeypatch):
    """A row whose second run (on the values) moves rows differently from its first run (on zeros) gives zeros."""
    runs = iter([lambda x: x, later])
    monkeypatch.setitem(LIB.own, "aten::relu", lambda lib, self: next(runs)(self))
    square = np.arange(16, dtype=np.float32).reshape(4, 4)
    connection = _connection((square, _R0))
    assert not _ran(connection, "aten::relu", 1, 1, wire.Handle(0))
    assert connection.store.get(1).label == _R0 and not connection.store.get(1).array.any()


def test_results_do_not_share_memory_with_what_they_were_computed_from():
    numbers = np.arange(24).reshape(4, 6)
    connection = _connection((numbers, _R0), (numbers.copy(), None))
    calls = [("aten::clone", []), ("aten::select_copy.int", [1, 0]), ("aten::permute_copy", [wire.Items([1, 0])]),
             ("aten::tile", [wire.Items([1, 1])]), ("aten::zeros_like", []), ("aten::nan_to_num", [])]  # fmt: skip
    for first, (name, args) in enumerate(calls, 10):
        assert not _ran(connection, name, first, 1, wire.Handle(0), *args)
        made = connection.store.get(first)
        assert isinstance(made.label, Rows) and not np.may_share_memory(made.array, numbers), name
        assert made.array.flags.writeable


def test_a_write_from_other_rows_mixes_the_target():
    connection = _connection((_X.copy(), _R0), (_X.copy(), _BACK), (_X[:, :4].copy(), _R0))
    assert not _ran(connection, "aten::t", 5, 1, wire.Handle(2))
    assert not _ran(connection, "aten::clone", 6, 1, wire.Handle(5))
    assert not _ran(connection, "aten::add_.Tensor", 7, 0, wire.Handle(2), wire.Handle(6))
    assert not _ran(connection, "aten::mul_.Tensor", 7, 0, wire.Handle(0), wire.Handle(1))
    assert all(isinstance(connection.store.get(i).label, Mixed) for i in (0, 2, 5))


def test_a_public_target_of_rows_is_mixed_and_its_memory_private():
    connection = _connection((_X, _R0), (np.zeros((4, 6), np.float32), None))
    assert not _ran(connection, "aten::copy_", 5, 0, wire.Handle(1), wire.Handle(0))
    assert isinstance(connection.store.get(1).label, Mixed) and not connection.store.get(1).buffer.public


@pytest.mark.parametrize(
    "name", ["aten::squeeze_", "aten::t_", "aten::swapdims_", "aten::transpose_", "aten::unsqueeze_"]
)
def test_what_changes_a_tensors_shape_in_place_keeps_no_label(name):
    assert not row_calls.kept(load()[name]) and not row_calls.functional(load()[name])


@pytest.mark.filterwarnings("ignore")
def test_the_steps_do_not_depend_on_values(monkeypatch):
    """The primitives called, their shapes, and the point of failure are the same for any values in the rows."""
    steps = []

    def noted(name, function):
        def primitive(*args, **kwargs):
            steps.append((name, *(getattr(a, "shape", None) for a in args)))
            return function(*args, **kwargs)

        return primitive

    for name, (kind, function) in list(row_library.PRIMITIVES.items()):
        monkeypatch.setitem(row_library.PRIMITIVES, name, (kind, noted(name, function)))
    for name in ("part", "to", "canonical", "elementwise", "_made"):
        monkeypatch.setattr(row_array, name, noted(name, getattr(row_array, name)))
    fuzzer, compared = Fuzzer(2), 0
    values, seen = row_calls.values, []

    def kept(call, results, labels):
        steps.clear()
        found = values(call, results, labels)
        seen.append(list(steps))
        return found

    monkeypatch.setattr(row_calls, "values", kept)
    with np.errstate(all="ignore"):
        for name in fuzzer.names:
            seen.clear()
            if fuzzer.try_one(name):
                assert all(x == seen[0] for x in seen), name
                compared += bool(seen)
    assert compared > 200


def test_orders_follow_rows_through_moves():
    """After random moves, the recorded order and the numbers in the rows agree."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        n = int(rng.integers(2, 9))
        x = RowArray(np.repeat(np.arange(n)[:, None], 2, 1), 0)
        for _ in range(4):
            length = x.shape[x.axis]
            if not length:
                break
            places = rng.permutation(length)[: rng.integers(1, length + 1)]
            moves = [
                lambda x: x[(slice(None),) * x.axis + (slice(1, None),)],
                lambda x: x[(slice(None),) * x.axis + (slice(None, None, -2),)],
                lambda x: row_array.flip(x, None), lambda x: row_array.roll(x, (2, 1), (0, 1)),
                lambda x: row_array.permute_dims(x, (1, 0)), lambda x, p=places: row_array.take(x, p, x.axis),
                lambda x: row_array.concat([np.full(x.shape, -1), x], x.axis),
                lambda x, p=places: row_array.index(x, (slice(None),) * x.axis + (p,)),
            ]  # fmt: skip
            x = moves[rng.integers(len(moves))](x)
        numbers = values_of(x) if x.axis == 0 else values_of(x).T
        if numbers.size:
            assert (numbers == row_array.rows_of(x)[:, None]).all()
