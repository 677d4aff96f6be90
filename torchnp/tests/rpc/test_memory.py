"""Memory of a session's process besides tensors is counted or bounded: orders of rows, caches, texts of failures."""

from __future__ import annotations

import gc
import itertools
import tracemalloc
import weakref

import numpy as np
import pytest
import torch

from torchnp import rpc
from torchnp.core.schema import load
from torchnp.rpc import wire
from torchnp.rpc.server.config.limits import Limits
from torchnp.rpc.server.privacy import disclosure
from torchnp.rpc.server.privacy.row_labels import Rows
from torchnp.rpc.server.session import check_arguments, object_store
from torchnp.rpc.server.session.bounded_cache import BoundedCache, Room, size_of
from torchnp.rpc.server.session.check_arguments import checker
from torchnp.rpc.server.session.object_store import Failure, ObjectStore

N = 100_000


def server_of(session):
    """Return the server's side of a session in this process."""
    return session.channel.transport._connection


def test_orders_of_rows_are_counted_and_freed():
    data = np.ones((N, 1), np.float32)
    with rpc.local(datasets={"d": data}) as session:
        x = session.dataset("d")
        before = session.sync().object_bytes
        moved = x.index_select(0, session.send(torch.randperm(N)))
        assert session.sync().object_bytes == before + 4 * N + 8 * N  # the rows, and their order
        views = [moved + i for i in range(3)]  # all three have the same order
        assert session.sync().object_bytes == before + 4 * 4 * N + 8 * N
        store = server_of(session).store
        assert len(store._orders) == 1
        assert len({id(e.rows.order) for e in store.entries.values() if e.rows is not None and e.rows.order}) == 1
        del moved, views
        gc.collect()
        assert session.sync().object_bytes == before and not store._orders


def test_orders_of_rows_are_within_the_quota():
    limits = rpc.Limits(max_bytes=8 << 20)
    with rpc.local(datasets={"d": np.ones((N, 1), np.uint8)}, limits=limits) as session:
        x, kept = session.dataset("d"), []
        with pytest.raises(rpc.QuotaError):
            for i in range(40):
                kept.append(torch.roll(x, i + 1, 0))
                session.sync()
        assert 5 < len(kept) < 12
        kept.clear()
        gc.collect()
        assert session.sync().object_bytes == 0


def test_a_label_that_there_is_no_room_for_leaves_the_books_as_they_were():
    store = ObjectStore(Limits(max_bytes=1000))
    store.claim(0, 3)
    order = np.arange(100).tobytes()
    for array in (np.ones(10), np.ones(50)):
        with pytest.raises(rpc.QuotaError):
            store.put(0, array, False, rows=Rows("d", 0, order + bytes(200)))
        assert (store.nbytes, len(store.buffers), len(store._orders), len(store)) == (0, 0, 0, 0)
    store.put(1, np.ones(10), False, rows=Rows("d", 0, order))
    store.put(2, np.ones(10), False, rows=Rows("d", 0, bytes(bytearray(order))))
    assert store.nbytes == 160 + 800
    store.delete(0, 5)
    assert store.nbytes == 0


def test_what_is_remembered_of_labels_is_bounded():
    """Create orders, one after the other, and drop each."""
    with rpc.local(datasets={"d": np.ones((N, 1), np.uint8)}) as session:
        x = session.dataset("d")
        server = server_of(session)
        for i in range(60):
            moved = torch.roll(x, i + 1, 0)
            ((moved + 1) * 2).abs()
            del moved
        session.sync()
        assert 0 < server.executor._labels.nbytes <= server.executor._labels.most
        assert len(server.executor._labels) < 60
        assert sum(len(k.order) for key in server.executor._labels._values for k in key if type(k) is Rows) < 10 << 20


def test_a_cache_holds_what_it_says():
    cache = BoundedCache(1 << 20)
    tracemalloc.start()
    for i in range(3000):
        cache.keep((i, tuple(range(i, i + 1000)), "x" * 1000), [Rows("d", 0, bytes(1000))])
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert cache.nbytes <= 1 << 20 and len(cache)
    assert held < 2 << 20
    cache.keep("large", bytes(1 << 19))
    assert cache.get("large") is None
    assert size_of(Rows("d", 0, bytes(5000))) > 5000 < size_of((1, (ValueError("x" * 5000),)))


def test_patterns_of_arguments_are_bounded():
    room = Room(20_000)
    problem, good = checker(load()["aten::cat"], room)
    kinds = (wire.Handle(0), 1, True, 1.0, wire.Complex(0.0, 0.0), "x", None)
    for n in range(200):
        problem([wire.Items([wire.Handle(0)]), n], {})
    left = room.left
    assert left < 20_000  # the order of an honest client is cached
    for some in itertools.product(kinds, repeat=4):
        problem([wire.Items(list(some)), 0], {})
    other, paths = checker(load()["aten::add.Tensor"], room)
    for name in itertools.product(kinds, repeat=2):
        assert (other([wire.Handle(0), *name], {}) is None) in (True, False)
    assert 0 <= room.left <= left
    del good, paths
    assert check_arguments.REMEMBERED <= 32 << 20


def test_an_error_that_is_remembered_holds_no_arrays():
    held = []

    def run(arrays):
        held.append(weakref.ref(arrays[0]))
        try:
            raise ValueError("first")
        except ValueError:
            raise RuntimeError("second")  # noqa: B904  (as kernels do)

    entry = ObjectStore(Limits()).put(0, np.ones((5, 3)), public=False, rows=Rows("d", 0))
    outcome = disclosure.predict_outcome([entry], False, run)
    gc.collect()
    assert str(outcome.problem) == "second" and held and not any(ref() is not None for ref in held)


def test_texts_of_failures_are_bounded(monkeypatch):
    monkeypatch.setattr(object_store, "FAILURE_BYTES", 10_000)
    store = ObjectStore(Limits())
    kept = [store.remembered(Failure(i, "op", "ValueError", "y" * 1000, "op")) for i in range(100)]
    assert len(kept[0].text) == 1000 and sum(len(f.text) for f in kept) < 25_000
