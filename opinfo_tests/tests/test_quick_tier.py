"""Every fast path equals the full kernel on drawn arguments, exactly or within its tolerance.

A twin without draws here fails, and so does one that hardly ever accepts its draws.
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import torchnp
from torchnp import dtypes as dt
from torchnp.core.registry import REGISTERED
from torchnp.layout.apply import settler

TWINS = {}
for _name in sorted(torchnp.table):
    _row = REGISTERED.get(_name)
    if _row is not None and _row.quick is not None and _row not in TWINS.values():  # a row's other names are left out
        TWINS[_name] = _row
FLOATS = (dt.float32, dt.float64)
MORE = (
    dt.float32,
    dt.float64,
    dt.float32,
    dt.float64,
    dt.int64,
    dt.bool_,
    dt.float16,
    dt.complex64,
    dt.bfloat16,
    dt.uint8,
)
SPECIAL = (0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 3e38, 1e-40, 1e18)
shapes = st.lists(st.integers(0, 6), max_size=3).map(tuple)


@st.composite
def arrays(draw, shape=shapes, dtypes=MORE):
    """Arrays of a dtype and layout: dense, transposed, every second element, expanded, or a view with an offset."""
    shape = draw(shape) if not isinstance(shape, tuple) else shape
    dtype = draw(st.sampled_from(dtypes))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    layout = draw(st.sampled_from(["dense", "dense", "dense", "transposed", "strided", "expanded", "offset"]))
    full = {"strided": (*(2 * n for n in shape[-1:]), *shape[:-1][::-1])[::-1], "transposed": shape[::-1]}.get(
        layout, shape
    )
    full = (*shape[:-1], 2 * shape[-1]) if layout == "strided" and shape else full
    values = rng.standard_normal(full) * 10.0 ** rng.integers(-2, 3)
    if draw(st.booleans()):
        values = np.where(rng.random(full) < 0.2, rng.choice(SPECIAL, full), values)
    if dtype.kind in "iub":
        values = (
            np.nan_to_num(values, posinf=3, neginf=-3).clip(-100, 100)
            if dtype != dt.uint8
            else np.abs(np.nan_to_num(values)).clip(0, 9)
        )
    with np.errstate(all="ignore"):
        x = np.asarray(dt.cast(np.asarray(values), dtype))
    if layout == "transposed":
        return x.T
    if layout == "strided" and shape:
        return x[..., ::2]
    if layout == "expanded" and shape and shape[0]:
        return np.broadcast_to(x[:1], shape)
    if layout == "offset" and x.ndim and x.size:
        return np.concatenate([x.reshape(-1)[:1], x.reshape(-1)])[1:].reshape(shape)
    return x


masks = st.sampled_from([[True] * 3, [True] * 3, (True, True, True), [True, False, True]])
axis = st.integers(-3, 2)
axes = st.lists(axis, max_size=2) | st.lists(axis, min_size=1, max_size=1)
numbers = st.sampled_from([0, 1, -1, 2.5, -0.5, 0.3, -0.0, np.inf, np.nan, 1e30, 1j, True, None])
flag = st.booleans()


@st.composite
def alike(draw, n, dtypes=MORE, shape=shapes):
    """Several arrays, mostly of one shape and dtype."""
    first = draw(arrays(shape, dtypes))
    same = draw(st.integers(0, 3))
    others = [draw(arrays(first.shape, (first.dtype,)) if same else arrays(shape, dtypes)) for _ in range(n - 1)]
    return [first, *others]


@st.composite
def rows(draw):
    """Operands of mm."""
    m, k, n = (draw(st.integers(0, 6)) for _ in range(3))
    kind = draw(st.sampled_from(FLOATS))
    return [draw(arrays((m, k), (kind,))), draw(arrays((k if draw(st.integers(0, 9)) else k + 1, n), (kind,)))]


@st.composite
def added(draw):
    """Operands of index_add, mostly of one dtype and of shapes that fit."""
    m, n, k = draw(st.integers(0, 6)), draw(st.integers(0, 6)), draw(st.integers(0, 4))
    kind = draw(st.sampled_from(FLOATS))
    index = draw(arrays((k,), (dt.int64,)))
    tensor, source = draw(arrays((m, n), (kind,))), draw(arrays((k, n if draw(st.integers(0, 9)) else n + 1), (kind,)))
    return [tensor, draw(st.sampled_from([0, 0, 0, -2, 1])), np.abs(index) % max(m, 1), source]


@st.composite
def rows_to_normalise(draw):
    """Arguments of a layer norm: a tensor, the shape of its rows, weight and bias, mostly of one dtype."""
    shape, kind = draw(st.lists(st.integers(2, 6), min_size=1, max_size=3).map(tuple)), draw(st.sampled_from(FLOATS))
    row = shape[draw(st.integers(0, len(shape) - 1)) :]
    other = draw(st.sampled_from([kind, kind, kind, *FLOATS]))
    given = [draw(arrays(row, (d,))) if draw(st.integers(0, 9)) else None for d in (kind, other)]
    return [draw(arrays(shape, (kind,))), list(row), *given]


@st.composite
def rows_to_go_back(draw):
    """Arguments of the gradient of a layer norm: of one dtype and of shapes that fit."""
    x, row, *given = draw(rows_to_normalise())
    kept = (*x.shape[: x.ndim - len(row)], *(1 for _ in row))
    statistics = [draw(arrays(kept, (x.dtype,))) for _ in range(2)]
    grad = draw(arrays(x.shape if draw(st.integers(0, 9)) else shapes, (x.dtype,)))
    return [grad, x, row, *statistics, *given, draw(masks)]


@st.composite
def channels(draw, backward=False):
    """The arguments of a batch norm, or of its gradient."""
    shape, kind = (
        draw(st.lists(st.integers(1, 4), min_size=2, max_size=4).map(tuple)),
        draw(st.sampled_from([dt.float32, *FLOATS])),
    )
    other = draw(st.sampled_from([kind, kind, kind, *FLOATS]))
    x, weight, *others = draw(arrays(shape, (kind,))), *(draw(arrays(shape[1:2], (d,))) for d in (kind, other, kind))
    train, eps = draw(st.sampled_from([True, True, True, False, 1])), draw(st.sampled_from([1e-5, 1e-5, 0.1, 0.0, 1]))
    running = [None, None] if draw(st.integers(0, 5)) else [draw(arrays(shape[1:2], (kind,))) for _ in range(2)]
    if not backward:
        return [x, weight, others[0], *running, train, 0.1, eps]
    grad = draw(arrays(shape if draw(st.integers(0, 9)) else shapes, (kind,)))
    return [grad, x, weight, *running, *others, train, eps, draw(masks)]


@st.composite
def scores(draw, backward=False):
    """Arguments of nll_loss: scores (N, C), a class for each row, weights or none, a reduction and the ignored
    class."""
    n, classes, kind = draw(st.integers(0, 6)), draw(st.integers(1, 5)), draw(st.sampled_from(FLOATS))
    target = np.abs(draw(arrays((n,), (dt.int64,)))) % (classes if draw(st.integers(0, 9)) else classes + 1)
    weight = None if draw(st.integers(0, 5)) else draw(arrays((classes,), (kind,)))
    rest = [weight, draw(st.sampled_from([0, 1, 1, 2])), draw(st.sampled_from([-100, -100, -100, 1, classes]))]
    given = [draw(arrays((n, classes), (kind,))), target, *rest]
    if not backward:
        return given
    other = draw(st.sampled_from([kind, kind, kind, *FLOATS]))
    grad = draw(arrays((n,) if rest[1] == 0 else (), (kind,)))
    return [grad, *given, draw(arrays((), (other,)))]


def call(*positional, **named):
    """Return the arguments of a call as a strategy."""
    return st.tuples(st.tuples(*positional), st.fixed_dictionaries(named))


def spread(strategy, *more, **named):
    """Return the arguments of a call, given a strategy that draws them as a list."""
    return st.tuples(st.tuples(strategy, st.tuples(*more)).map(lambda p: (*p[0], *p[1])), st.fixed_dictionaries(named))


matrices = st.tuples(st.integers(0, 6), st.integers(0, 6))
CORRECTION = {"correction": st.sampled_from([None, 0, 1, 2.5, -1])}
CALLS = {
    "clamp": call(arrays(), numbers, numbers),
    "add.Tensor": spread(alike(2) | alike(2, FLOATS) | alike(2, (dt.float32,)),
      alpha=st.sampled_from([2, -1, 0, 0.5, -0.3, 1e-3, 1, 1.0, True, 1e31, float("nan")])),
    "addcmul": spread(alike(3) | alike(3, FLOATS), value=st.sampled_from([1, 1, 1, 1.0, 2, True])),
    "lerp": spread(alike(2) | alike(2, FLOATS), st.sampled_from([0.3, -0.4, 0.49999999999, 0.5, 0.9, 1, np.nan])),
    "where": st.tuples(st.tuples(alike(2), st.booleans()).flatmap(
        lambda p: arrays(p[0][0].shape if p[1] else shapes, (dt.bool_,)).map(lambda c: (c, *p[0]))), st.just({})),
    "_softmax": call(arrays(dtypes=FLOATS), axis, st.just(False)),
    "_softmax_backward_data": spread(alike(2) | alike(2, FLOATS), axis, st.sampled_from([np.float32, dt.float32, dt.float64, dt.float16])),
    "_log_softmax": call(arrays(dtypes=FLOATS), axis, st.just(False)),
    "nll_loss_forward": spread(scores()),
    "nll_loss_backward": spread(scores(backward=True)),
    "threshold_backward": spread(alike(2) | alike(2, FLOATS), st.sampled_from([0, 0, 0, 0.0, 0.5, False])),
    "mm": spread(rows()),
    "max": call(arrays()),
    "min": call(arrays()),
    "amax": call(arrays(), axes, flag),
    "amin": call(arrays(), axes, flag),
    "argmax": call(arrays(), axis | st.none(), st.sampled_from([False, False, True])),
    "argmin": call(arrays(), axis | st.none(), st.sampled_from([False, False, True])),
    "sum.dim_IntList": call(arrays(), axes, flag),
    "sum": call(arrays()),
    "mean.dim": call(arrays(), axes, flag),
    "mean": call(arrays()),
    "index_select": call(arrays(), axis, arrays(st.tuples(st.integers(0, 4)), (dt.int64,)).map(lambda i: np.abs(i) % 4)),
    "native_layer_norm_backward": spread(rows_to_go_back()),
    "native_batch_norm": spread(channels()),
    "native_batch_norm_backward": spread(channels(backward=True)),
    "native_layer_norm": spread(rows_to_normalise(), st.sampled_from([1e-5, 1e-5, 0.1, 0.0, 1])),
    "index_add": spread(added()),
    "sort.stable": call(arrays(), stable=flag, dim=axis, descending=st.sampled_from([False, False, True])),
    "sort": call(arrays(), axis, st.sampled_from([False, False, True])),
    "cat": st.tuples(st.tuples(alike(2) | alike(3), axis), st.just({})),
    "cumsum": call(arrays(), axis),
    "clone": call(arrays()),
    "var.correction": call(arrays(matrices, (dt.float32,)), st.sampled_from([[1], [-1], [1], [0], [], None]), **CORRECTION),
    "std.correction": call(arrays(matrices, (dt.float32,)), st.sampled_from([[1], [-1], [1], [0], [], None]), **CORRECTION),
}  # fmt: skip
SAME = {"clip": "clamp", "where.self": "where", "where.ScalarOther": "where", "where.ScalarSelf": "where",
        "where.Scalar": "where", "lerp.Scalar": "lerp", "_native_batch_norm_legit": "native_batch_norm"}  # fmt: skip


def calls_of(name):
    short = name.removeprefix("aten::")
    return CALLS[SAME.get(short, short)]


def as_tuple(out):
    return out if isinstance(out, tuple) else (out,)


def spacing(scale, dtype):
    """Return a unit in the last place of each magnitude, at least that of the smallest normal number."""
    tiny = float(np.finfo(dtype).tiny)
    with np.errstate(all="ignore"):
        return np.spacing(np.maximum(np.abs(scale), tiny).astype(dtype)).astype(np.float64)


def equal(mine, theirs):
    """Return whether values are equal, with nan equal to nan; NumPy's own comparison does not recognize ml_dtypes'
    nan."""
    return bool(((mine == theirs) | ((mine != mine) & (theirs != theirs))).all())


def check(quick, args, named, mine, theirs):
    assert (mine.dtype, mine.shape, mine.strides) == (theirs.dtype, theirs.shape, theirs.strides)
    if not quick.ulp:
        assert equal(mine, theirs), (mine, theirs)
        if dt.is_floating(mine.dtype):
            sure = ~np.isnan(mine)
            assert np.array_equal(np.signbit(mine)[sure], np.signbit(theirs)[sure])
        return
    with np.errstate(all="ignore"):
        scale = np.broadcast_to(theirs if quick.scale is None else quick.scale(*args, **named), theirs.shape)
        finite = np.isfinite(scale)  # if magnitudes overflow or are nan, the result depends on the order of operations
        distance = np.abs(mine.astype(np.float64) - theirs.astype(np.float64)) / spacing(scale, theirs.dtype)
        assert (distance[finite] <= quick.ulp).all(), distance.max()
    if quick.scale is None:
        np.testing.assert_array_equal(np.isnan(mine), np.isnan(theirs))


def holds(name, args, named):
    """Return whether a fast path accepts a call; if so, assert that its result equals the full kernel's, in the same
    layout."""
    row, settle = TWINS[name], settler(torchnp.table[name].schema) or (lambda out, *_: out)
    before = [x.tobytes() for x in args if isinstance(x, np.ndarray)]
    with np.errstate(all="ignore"):
        mine = row.quick.function(*args, **named)  # a fast path never raises
        if mine is None:
            return False
        theirs = row.body(*args, **named)  # a fast path accepts nothing that the full kernel refuses
    mine, theirs = mine if row.quick.placed else settle(mine, args, named), settle(theirs, args, named)
    assert before == [x.tobytes() for x in args if isinstance(x, np.ndarray)]
    for m, t in zip(as_tuple(mine), as_tuple(theirs), strict=True):
        assert type(m) is np.ndarray
        assert not any(isinstance(x, np.ndarray) and np.shares_memory(m, x) for x in args)
        check(row.quick, args, named, m, np.asarray(t))
    return True


@pytest.mark.parametrize("examples", [200, pytest.param(5000, marks=pytest.mark.weekly)])
@pytest.mark.parametrize("name", TWINS)
def test_a_twin_gives_what_its_body_gives(name, examples):
    taken = []

    @settings(max_examples=examples, deadline=None, database=None, derandomize=True,
              suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much])  # fmt: skip
    @given(calls_of(name))
    def judged(drawn):
        taken.extend([1] * holds(name, *drawn))

    judged()
    assert len(taken) >= (1 if examples == 200 else 60), f"of {examples} calls it took {len(taken)}"


@pytest.mark.parametrize("name", TWINS)
@settings(max_examples=40, deadline=None, database=None, derandomize=True)
@given(st.lists(st.sampled_from([None, 1, 2.5, "no", [], [1], np.ones((2, 2), np.float32), np.ones(3), np.ones((2, 2), object),
                                 np.ones((2, 2), ">f4"), np.ma.ones((2, 2))]), max_size=5),
       st.dictionaries(st.sampled_from(["dim", "keepdim", "dtype", "self", "other", "value", "no"]),
         st.sampled_from([0, [0], None, "no"]), max_size=2))  # fmt: skip
@example([np.ones((2, 2), np.float32), [0], False, None, None], {})
def test_what_does_not_fit_is_refused_as_by_the_body(name, args, named):
    """For any arguments, the kernel has the same result or error with and without its fast path."""
    kernel, plain = torchnp.table[name], without(name)

    def outcome(f):
        try:
            return "value", [x.tolist() for x in as_tuple(f(*args, **named))]
        except Exception as error:  # any exception is compared
            return type(error), str(error)

    found, expected = outcome(kernel), outcome(plain)
    assert found[0] == expected[0]
    assert found[0] == "value" or found == expected


def without(name):
    row = TWINS[name]
    return type(row)(row.body, row.like, row.differs, row.make, None, row.writes).build(torchnp.table[name].schema)


def test_a_twin_takes_no_argument_that_its_overload_lacks():
    """One fast path serves overloads with several schemas: ``max`` has no ``dim``, ``amax`` has."""
    x = np.ones((2, 2), np.float32)
    for name, row in REGISTERED.items():
        if row.quick is not None and name in torchnp.table:
            have = {a.name for a in torchnp.table[name].schema.args}
            for argument in {"dim", "keepdim", "dtype", "other", "alpha", "correction"} - have:
                for given in ((x,), (x, x), (x, 0)):
                    with pytest.raises((RuntimeError, TypeError)):
                        torchnp.table[name](*given, **{argument: [0]})


def test_why():
    """A fast path that rounds differently gives a reason why its result is also torch's."""
    assert all(row.quick.why for row in TWINS.values() if row.quick.ulp)
