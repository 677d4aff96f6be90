"""`torchnp.map_batches` on Dask's arrays, bags and dataframes, in one process and on two workers."""

import io

import numpy as np
import pytest
import torch
from torch import nn

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")
bags = pytest.importorskip("dask.bag")

import torchnp  # noqa: E402
from torchnp.portable.dask import map_batches as batches  # noqa: E402
from torchnp.tests.portable.exported import example, export, near, save  # noqa: E402


def forbidden(*args, **kwargs):
    raise AssertionError("map_batches computes a collection")


@pytest.fixture
def saved(tmp_path):
    def write(exported):
        (tmp_path / "m.pt2").write_bytes(exported if isinstance(exported, bytes) else exported.archive)
        return tmp_path / "m.pt2"

    return write


@pytest.fixture(autouse=True)
def synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


def wanted(path, *given):
    return torchnp.load(io.BytesIO(path.read_bytes()))(*given)


@pytest.mark.parametrize("name", ("mlp", "resnet", "diffusion"))
def test_arrays(name, saved):
    exported = example(name)
    path = saved(exported)
    given = [np.concatenate([x, x[:3]]) for x in exported.inputs]
    lazy = [da.from_array(x, chunks=(3, *x.shape[1:])) for x in given]
    lazy[1:] = [x.rechunk({0: 5}) for x in lazy[1:]]
    with dask.config.set(scheduler=forbidden):
        found = torchnp.map_batches(path, *lazy)
    assert found.chunks[0] == (3, 3, 1)
    near(found.compute(), wanted(path, *given))


class TwoResults(nn.Module):
    """Results of several kinds, in a dict."""

    def forward(self, x, i):
        return {"sum": x.sum((1, 2)) + i, "pair": (x > 0, torch.outer(i.float(), torch.arange(3.0)))}


def dynamic(module, *args):
    sizes = tuple({0: torch.export.Dim("batch")} for _ in args)
    return save(torch.export.export(module, args, dynamic_shapes=sizes))


def test_the_structure_of_results(saved):
    path = saved(dynamic(TwoResults(), torch.randn(4, 2, 2), torch.arange(4)))
    x, i = np.random.randn(7, 2, 2).astype(np.float32), np.arange(7)
    found = torchnp.map_batches(path, da.from_array(x, chunks=(2, 1, 1)), da.from_array(i, chunks=3))
    assert list(found) == ["sum", "pair"] and found["pair"][1].shape == (7, 3)
    again = wanted(path, x, i)
    for a, b in zip((found["sum"], *found["pair"]), (again["sum"], *again["pair"])):
        near(a.compute(), b)


def test_a_bag(saved):
    path = saved(dynamic(TwoResults(), torch.randn(4, 2, 2), torch.arange(4)))
    x, i = np.random.randn(7, 2, 2).astype(np.float32), np.arange(7)
    rows = bags.from_sequence([(a.tolist(), b) for a, b in zip(x, i)], npartitions=3)
    found = torchnp.map_batches(path, rows).compute()
    again = wanted(path, x, i)
    for j, row in enumerate(found):
        near(row["sum"], again["sum"][j])
        near(row["pair"][1], again["pair"][1][j])
    assert len(found) == 7


def test_an_empty_partition(saved):
    path = saved(example("mlp"))
    rows = bags.from_sequence(list(np.ones((4, 64))), npartitions=2).filter(lambda row: False)
    assert torchnp.map_batches(path, rows).compute() == []


def test_a_dataframe(saved):
    dd = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    path = saved(dynamic(nn.Linear(3, 2), torch.randn(4, 3)))
    frame = pd.DataFrame(np.random.randn(8, 4), columns=list("abcd"), index=np.arange(8) * 10)
    lazy = dd.from_pandas(frame, npartitions=3)
    with dask.config.set(scheduler=forbidden):
        found = torchnp.map_batches(path, lazy, columns=["c", "a", "d"])
    computed = found.compute()
    assert list(computed.index) == list(frame.index) and computed.dtypes.tolist() == [np.float32] * 2
    near(computed.to_numpy(), wanted(path, frame[["c", "a", "d"]].to_numpy(np.float32)))
    empty = torchnp.map_batches(path, lazy[lazy.a > 100], columns=["c", "a", "d"]).compute()
    assert empty.shape == (0, 2)


class Sums(nn.Module):
    def forward(self, x):
        return x.sum(1)


def test_a_series(saved):
    dd = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    path = saved(dynamic(Sums(), torch.randn(4, 3)))
    frame = pd.DataFrame(np.ones((8, 3)))
    assert torchnp.map_batches(path, dd.from_pandas(frame, npartitions=3)).compute().tolist() == [3.0] * 8


def test_a_process_loads_a_file_once(saved, monkeypatch):
    calls = []
    real = batches.load
    monkeypatch.setattr(batches, "load", lambda *given: calls.append(given) or real(*given))
    path = saved(example("mlp"))
    y = torchnp.map_batches(path, da.ones((100, 64), chunks=(10, 64), dtype="float32"))
    with dask.config.set(scheduler="threads"):
        y.compute()
    assert len(calls) == 1
    path.write_bytes(dynamic(nn.Linear(64, 1), torch.randn(4, 64)))
    assert torchnp.map_batches(path, da.ones((8, 64), dtype="float32")).compute().shape == (8, 1)
    assert len(calls) == 2


class Moves(nn.Module):
    def forward(self, x):
        return x - x.mean(0)


class Whole(nn.Module):
    def forward(self, x):
        return x.sum(0)


class Draws(nn.Module):
    def forward(self, x):
        return x + torch.randn_like(x)


X = da.ones((8, 4), chunks=(4, 4), dtype="float32")


@pytest.mark.parametrize(
    ("module", "batched", "message"),
    [
        (Moves(), False, "no batch of dynamic size in front"),
        (Whole(), True, "a result of the program has no batch"),
        (Draws(), True, "draws random numbers"),
        (nn.BatchNorm1d(4), True, "the program writes to 'running_mean'"),
    ],
)
def test_programs_without_independent_rows(module, batched, message, saved):
    path = saved(export(module, (torch.randn(6, 4),), batched=batched))
    with pytest.raises(ValueError, match=message):
        torchnp.map_batches(path, X)


def test_arguments_are_checked_before_anything_runs(saved):
    path = saved(example("mlp"))
    with pytest.raises(RuntimeError, match="to be equal to 64, but got 4"):
        torchnp.map_batches(path, X)
    with pytest.raises(RuntimeError, match="to be of dtype float32"):
        torchnp.map_batches(path, da.ones((8, 64)))
    with pytest.raises(TypeError, match=r"takes 1 arrays, and 2 are given"):
        torchnp.map_batches(path, X, X)
    with pytest.raises(TypeError, match=r"not ndarray; on one machine, call torchnp.load\(file\)\(x\)"):
        torchnp.map_batches(path, np.ones((8, 64)))
    with pytest.raises(TypeError, match="takes the path of a program"):
        torchnp.map_batches(io.BytesIO(), X)
    with pytest.raises(FileNotFoundError):
        torchnp.map_batches("no_such_file.pt2", X)
