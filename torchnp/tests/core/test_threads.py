"""Large arrays computed in parts by several threads: the results are the same, errors are complete, and forks lose no
thread."""

import multiprocessing
import threading

import numpy as np
import pytest

import torchnp
from torchnp import threads
from torchnp.core import target
from torchnp.dtypes import bfloat16
from torchnp.kernels.numerics.blocks import MANY, STRIP, choose
from torchnp.parallel_elementwise import by_parts
from torchnp.threads import LARGE, blocks, share

SHAPE = (1030, 1024)  # above LARGE, and no multiple of a part


@pytest.fixture(autouse=True)
def number():
    before = torchnp.get_num_threads()
    yield
    torchnp.set_num_threads(before)


def inputs():
    rng = np.random.default_rng(0)
    a = (rng.standard_normal(SHAPE) * 10.0 ** rng.integers(-6, 6, SHAPE)).astype(np.float32)
    a.flat[::101] = np.resize([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40], a.flat[::101].size)
    return a, rng.permutation(a.reshape(-1)).reshape(SHAPE)


CALLS = {
    "two": lambda aten, a, b: aten.add.Tensor(a, b),
    "turned": lambda aten, a, b: aten.mul.Tensor(a.T, b.T),
    "images": lambda aten, a, b: aten.mul.Tensor(*(x.reshape(5, 206, 16, 64).transpose(0, 3, 1, 2) for x in (a, b))),
    "orders": lambda aten, a, b: aten.mul.Tensor(a, b.reshape(1024, 1030).T),
    "row": lambda aten, a, b: aten.sub.Tensor(a, b[0]),
    "column": lambda aten, a, b: aten.div.Tensor(a, b[:, :1]),
    "larger": lambda aten, a, b: aten.add.Tensor(b[:1], a),
    "number": lambda aten, a, b: aten.mul.Tensor(a, 3),
    "no dimension": lambda aten, a, b: aten.maximum(np.array(1.5, np.float32), a),
    "every second": lambda aten, a, b: aten.exp(np.concatenate([a, a])[::2]),
    "one": lambda aten, a, b: aten.exp(a),
    "predicate": lambda aten, a, b: aten.lt.Tensor(a, b),
    "half": lambda aten, a, b: aten.mul.Tensor(a.astype(bfloat16), b.astype(bfloat16)),
    "half number": lambda aten, a, b: aten.add.Tensor(a.astype(bfloat16), 2.5),
    "half, one": lambda aten, a, b: aten.tanh(np.clip(np.nan_to_num(a), -6e4, 6e4).astype(np.float16)),
    "of integers": lambda aten, a, b: aten.sigmoid((np.nan_to_num(a) % 100).astype(np.int64)),
    "mixed": lambda aten, a, b: aten.add.Tensor(a, (np.nan_to_num(b) % 100).astype(np.int32)),
    "fused": lambda aten, a, b: aten.add.Tensor(a, b, alpha=3),
    "half, converted": lambda aten, a, b: aten.maximum(a.astype(bfloat16), b.astype(bfloat16)),
    "half, exact number": lambda aten, a, b: aten.mul.Tensor(a.astype(bfloat16), 0.3),
    "limits": lambda aten, a, b: aten.clamp(a, -1.5, 2.5),
    "gelu": lambda aten, a, b: aten.gelu(a),
    "erf": lambda aten, a, b: aten.erf(a),
    "sums so far": lambda aten, a, b: aten.cumsum(np.nan_to_num(a, posinf=0, neginf=0), 1),
    "layer_norm back": lambda aten, a, b: aten.native_layer_norm_backward(
        np.nan_to_num(b, posinf=0, neginf=0),
        np.nan_to_num(a, posinf=0, neginf=0),
        [1024],
        np.zeros((len(a), 1), "f4"),
        np.ones((len(a), 1), "f4"),
        b[0],
        b[1],
        [True] * 3,
    )[0],
    "where": lambda aten, a, b: aten.where.self(a > 0, a, b),
    "softmax": lambda aten, a, b: aten._softmax(np.nan_to_num(a), 1, False),
    "log_softmax": lambda aten, a, b: aten._log_softmax(np.nan_to_num(a), 1, False),
    "layer_norm": lambda aten, a, b: aten.native_layer_norm(np.nan_to_num(a), [1024], b[0], b[1], 1e-5)[0],
    "in place": lambda aten, a, b: aten.add_.Tensor(a.copy(), b),
    "in place, row": lambda aten, a, b: aten.mul_.Tensor(a.copy(), b[0].copy()),
    "in place, number": lambda aten, a, b: aten.mul_.Tensor(a.copy(), 3),
    "in place, one": lambda aten, a, b: aten.neg_(a.copy().T),
    "in place, apart": lambda aten, a, b: aten.exp_(np.concatenate([a, a])[::2]),
    "nothing": lambda aten, a, b: aten.add.Tensor(np.empty((0, a.size), np.float32), a.reshape(-1)),
    "onto itself": lambda aten, a, b: (lambda x: aten.mul_.Tensor(x, x))(a.copy()),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_threads_change_nothing(call):
    a, b = inputs()
    torchnp.set_num_threads(1)
    expected = call(torchnp.aten, a, b)
    torchnp.set_num_threads(3)
    found = call(torchnp.aten, a, b)
    assert found.strides == expected.strides and found.dtype == expected.dtype
    np.testing.assert_array_equal(found.view(f"u{found.itemsize}"), expected.view(f"u{found.itemsize}"))


def test_parts_are_the_whole():
    """`by_parts` gives the same values and strides as the function itself, whose results have the layout of its
    operands."""
    a, b = (np.clip(np.nan_to_num(x), -1e6, 1e6) for x in inputs())
    turned = a.reshape(5, 206, 16, 64).transpose(2, 0, 3, 1)
    for operands in [(a, b), (a, b[0]), (a[:1], b), (a.T, b.T), (a, np.array(2, np.float32)), (turned, turned)]:
        for function in (np.add, lambda x, y: np.abs(x) - y, np.less):
            found, expected = by_parts(function, *operands), function(*operands)
            np.testing.assert_array_equal(found, expected)
            assert (found.strides, found.dtype) == (expected.strides, expected.dtype)


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), bfloat16])
@pytest.mark.parametrize("name", ["exp", "tanh", "neg", "isfinite", "digamma", "relu"])
def test_all_numbers_of_a_half_type(name, dtype):
    """Large tensors use a lookup table, and give the same results as small ones, which are computed."""
    kernel = getattr(torchnp.aten, name)
    numbers = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    large = np.resize(numbers, LARGE).reshape(16, -1)
    doubles = np.errstate(invalid="ignore")(lambda x: x.astype(np.float64))  # some of the numbers are signalling nans
    expected = doubles(np.concatenate([kernel(part) for part in np.split(numbers, 4)]))
    for found in (kernel(large), kernel(large.T).T):
        assert found.dtype == kernel(numbers).dtype
        np.testing.assert_array_equal(doubles(found.reshape(-1, 1 << 16)), np.stack([expected] * 16))


def test_which_threads():
    seen = set()

    def work(part):
        seen.add(threading.current_thread().name)
        with waiting:
            waiting.wait_for(lambda: len(seen) > 1, 20)
            waiting.notify_all()

    waiting = threading.Condition()
    torchnp.set_num_threads(2)
    share(work, range(4))
    assert len(seen) == 2 and any(name.startswith("torchnp") for name in seen)
    seen.clear()
    torchnp.set_num_threads(1)
    share(lambda part: seen.add(threading.current_thread().name), range(4))
    assert seen == {threading.current_thread().name}


def test_each_part_once_and_nested():
    torchnp.set_num_threads(4)
    done = []
    share(lambda part: share(lambda n: done.append((part, n)), range(5)), range(40))
    assert sorted(done) == [(p, n) for p in range(40) for n in range(5)]


def test_an_error_is_raised_when_all_is_quiet():
    torchnp.set_num_threads(3)
    at_work = []

    def work(part):
        at_work.append(part)
        if part == 2:
            raise ValueError("of part 2")
        at_work.remove(part)

    with pytest.raises(ValueError, match="of part 2"):
        share(work, range(50))
    assert at_work == [2]
    share(at_work.append, [7])  # the threads still work
    assert at_work == [2, 7]
    zero = np.ones(SHAPE, np.int64)
    zero[-1, -1] = 0
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        torchnp.aten.floor_divide(np.ones(SHAPE, np.int64), zero)
    with pytest.raises(RuntimeError, match="The size of tensor a"):
        torchnp.aten.add.Tensor(np.ones(SHAPE, np.float32), np.ones((1030, 1023), np.float32))


def test_no_warnings_from_any_thread(recwarn):
    torchnp.set_num_threads(3)
    torchnp.aten.log(np.full(SHAPE, -1, np.float32))
    assert not recwarn.list


def _child(queue):
    a = np.ones(SHAPE, np.float32)
    queue.put(float(torchnp.aten.add.Tensor(a, a)[-1, -1]))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forked():
    torchnp.set_num_threads(3)
    torchnp.aten.exp(np.ones(SHAPE, np.float32))  # starts the threads
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_child, args=(queue,))
    child.start()
    assert queue.get(timeout=60) == 2
    child.join()


def test_from_many_threads_while_the_number_changes():
    a = np.random.default_rng(0).random(SHAPE, np.float32)
    expected, wrong = np.exp(a), []

    def compute():
        for _ in range(5):
            if not np.array_equal(torchnp.aten.exp(a), expected):
                wrong.append(1)

    callers = [threading.Thread(target=compute) for _ in range(4)]
    for thread in callers:
        thread.start()
    for n in (1, 2, 3, 4):
        torchnp.set_num_threads(n)
    for thread in callers:
        thread.join()
    assert not wrong


@pytest.mark.parametrize(("n", "words"), [(0, "positive"), (-1, "positive"), (1.5, "got float"), (True, "got bool")])
def test_refused(n, words):
    with pytest.raises(RuntimeError, match=words):
        torchnp.set_num_threads(n)


def test_number():
    torchnp.set_num_threads(5)
    assert torchnp.get_num_threads() == threads.get_num_threads() == 5


def test_sizes():
    assert np.prod(SHAPE) > LARGE
    assert [b.stop for b in blocks(5, 2)] == [2, 4, 5]


@pytest.mark.skipif(not hasattr(threads.os, "sched_getaffinity"), reason="processors are told apart on Linux alone")
def test_a_few_threads_leave_the_caller_its_processor():
    allowed, done = threads.os.sched_getaffinity(0), threading.Event()
    waiting = threading.Thread(target=done.wait)
    waiting.start()
    try:
        pool = threads._Threads()
        pool.number, pool.members = 2, [waiting.native_id]
        pool.make_room()
        given = threads.os.sched_getaffinity(waiting.native_id)
    finally:
        done.set()
    assert given == (allowed - {pool.room} or allowed)
    assert threads.os.sched_getaffinity(0) == allowed


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8, np.bool_, bfloat16, np.complex64])
@pytest.mark.parametrize("size", [10, MANY, 3 * STRIP + 5])
def test_selections_by_bits_are_wheres(dtype, size):
    rng = np.random.default_rng(1)
    condition, (a, b) = rng.random(size) < 0.5, rng.standard_normal((2, size)).astype(dtype)
    number = b[3]
    zero = np.zeros((), dtype)
    pairs = [
        (a, b),
        (a, number),
        (np.array(number), b),
        (a[::-1], b),
        (a, zero),
        (zero, b),
        (a, np.copysign(zero, -1) if zero.dtype.kind == "f" else zero),
        (zero, zero),
    ]
    for args in ((condition, *pair) for pair in pairs):
        mine, theirs = choose(*args), np.where(*args)
        assert (mine.dtype, mine.tobytes()) == (theirs.dtype, theirs.tobytes())
    for args in ((condition, a, 0), (condition, 1.5, b), (condition[::-1], a, b), (condition, a, b[:1]), (a, a, b)):
        mine, theirs = choose(*args), np.where(*args)
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs)


def test_threads_follow_the_version_of_their_caller():
    """`table_for` stores the version that its kernels follow in a context variable."""
    torchnp.set_num_threads(4)
    seen, waiting = set(), threading.Barrier(4)

    def work(part):
        waiting.wait(timeout=60)  # each part runs on another thread
        seen.add((threading.get_ident(), target.current()))

    token = target._within.set((2, 12))
    try:
        share(work, range(4))
    finally:
        target._within.reset(token)
    assert len(seen) == 4 and {version for _, version in seen} == {(2, 12)}
