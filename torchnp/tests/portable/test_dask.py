"""Programs on Dask: chunked along the batch, and computed only on demand."""

import numpy as np
import pytest
import torch
from torch import nn

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")

import torchnp  # noqa: E402
from torchnp.interop import to_numpy  # noqa: E402
from torchnp.portable.libraries import library_for  # noqa: E402
from torchnp.portable.library import LacksFunction, ValueNeeded  # noqa: E402
from torchnp.tests.portable.exported import check, example, export, load, near  # noqa: E402
from torchnp.tests.portable.models import EXAMPLES  # noqa: E402

NOT_LAZY = ("datadep", "cond")  # these models need values


def forbidden(*args, **kwargs):
    raise AssertionError("a row computes a Dask array")


def run(exported, rows=2):
    """Call a program with its arguments in chunks of two rows, and check that nothing is computed meanwhile."""
    program = load(exported, "dask")
    given = [da.from_array(x, chunks=(rows, *x.shape[1:])) for x in exported.inputs]
    with dask.config.set(scheduler=forbidden):
        found = program(*given)
    return program, given, found


@pytest.mark.parametrize("name", ("mlp", "resnet", "gpt", "conv1d"))
def test_a_model(name):
    exported = example(name)
    program, _, found = run(exported)
    with dask.config.set(scheduler="synchronous"):
        check(program, found, exported)
    assert isinstance(found, da.Array) and found.chunks[0] == (2, 2)


@pytest.mark.weekly
@pytest.mark.parametrize("core", (False, True))
@pytest.mark.parametrize("name", [n for n in EXAMPLES if n not in NOT_LAZY])
def test_every_model(name, core):
    exported = example(name, core)
    torchnp.manual_seed(0)
    program, _, found = run(exported)
    with dask.config.set(scheduler="synchronous"):
        check(program, found, exported)


SIZES = [(24, 5), (3, 8, 5), (2, 60), (120,), (40, 3), (5, 24), (6, 4, 5, 1)]


@pytest.mark.parametrize("size", SIZES)
def test_reshapes_by_block(size):
    x = np.arange(120).reshape(6, 4, 5)
    lib = library_for("dask")
    with dask.config.set(scheduler=forbidden):
        found = lib.call("aten::view", da.from_array(x, chunks=(2, 2, 5)), size)
    with dask.config.set(scheduler="synchronous"):
        near(found.compute(), x.reshape(size))
    fit = 40 % np.prod(size[1:], dtype=int) == 0  # a chunk has 40 numbers
    assert len(found.chunks[0]) == (3 if fit else {(2, 60): 2, (40, 3): 2, (5, 24): 1}[size])


@pytest.mark.parametrize("whole", (False, True))
def test_gather_by_block(whole):
    lib = library_for("dask")
    x = np.random.randn(6, 5, 3)
    at = np.random.randint(0, 5, (4, 2, 3))
    lazy = x if whole else da.from_array(x, chunks=(2, 3, 3))
    with dask.config.set(scheduler=forbidden):
        found = lib.call("aten::gather", lazy, 1, da.from_array(at, chunks=(3, 2, 1)))
    with dask.config.set(scheduler="synchronous"):
        near(found.compute(), torchnp.table["aten::gather"](x, 1, at))


def test_functions_that_dask_lacks_compute_nothing():
    with pytest.raises(LacksFunction, match="has no take_along_axis"):
        library_for("dask").xp.take_along_axis(da.ones((2, 2)), da.zeros((2, 2), dtype=int), axis=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32, torch.bool])
def test_products_over_chunked_sums(dtype):
    lib = library_for("dask")
    a = to_numpy((torch.arange(24).reshape(6, 4) % 5).to(dtype))
    x = da.from_array(a, chunks=(2, 4))
    if dtype == torch.bool:
        assert lib.call("aten::mm", x.T, x) is NotImplemented
        return
    found = lib.call("aten::mm", x.T, x)
    with dask.config.set(scheduler="synchronous"):
        near(found.compute(), torchnp.table["aten::mm"](np.ascontiguousarray(a.T), a))
    if dtype.is_floating_point:
        assert not any(name.startswith("rechunk") for name in found.dask.layers)


class Correlates(nn.Module):
    """Standardizes columns and correlates them, so it cannot be computed block by block."""

    def forward(self, x):
        z = (x - x.mean(0)) / x.std(0)
        return z.T @ z / (x.shape[0] - 1)


def test_a_program_that_is_not_separable_by_batch():
    exported = export(Correlates(), (torch.randn(12, 4, dtype=torch.float64),))
    program, _, found = run(exported, 3)
    with dask.config.set(scheduler="synchronous"):
        check(program, found, exported)
        np.testing.assert_allclose(found, np.corrcoef(exported.inputs[0].T), atol=1e-12)


def test_values_are_refused():
    with pytest.raises(ValueNeeded, match=r"aten::index.Tensor gives a size that depends on values"):
        run(example("datadep"))


# ---------------------------------------------------------------- arrays larger than memory

ROWS, COLUMNS, CHUNK = 4_000_000, 64, 20_000  # 977 MiB of float32, through two workers of 400 MiB


def functions_of_workers():
    """Return functions that are pickled by value, so that workers import neither this module nor torch."""

    def drawn(block_info):
        """Return a chunk of numbers that depends on its position."""
        place = block_info[None]["chunk-location"][0]
        return np.random.default_rng(place).random((CHUNK, COLUMNS), np.float32)

    def peak():
        """Return a process's peak memory so far, in MiB."""
        with open("/proc/self/status") as lines:
            return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))

    return drawn, peak


drawn, peak = functions_of_workers()


@pytest.fixture
def small_workers():
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": "400MiB", "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client
        assert max(client.run(peak).values()) < 400


def larger_than_memory():
    chunks = ((CHUNK,) * (ROWS // CHUNK), (COLUMNS,))
    return da.map_blocks(drawn, chunks=chunks, dtype=np.float32, meta=np.empty((0, 0), np.float32))


@pytest.mark.weekly
def test_rows_of_an_array_larger_than_the_workers_memory(small_workers, tmp_path):
    path = tmp_path / "m.pt2"
    path.write_bytes(example("mlp").archive)
    program = torchnp.load(path)
    pieces = [program(drawn({None: {"chunk-location": (i,)}})).sum(0, np.float64) for i in range(ROWS // CHUNK)]
    for y in (torchnp.map_batches(path, larger_than_memory()), torchnp.load(path, xp="dask")(larger_than_memory())):
        assert y.shape == (ROWS, 10)
        np.testing.assert_allclose(y.sum(0, dtype=np.float64).compute(), sum(pieces), rtol=1e-5)


@pytest.mark.weekly
def test_correlations_of_an_array_larger_than_the_workers_memory(small_workers):
    exported = export(Correlates(), (torch.randn(12, COLUMNS),), batched=True)
    found = load(exported, "dask")(larger_than_memory()).compute()
    total, products = np.zeros(COLUMNS), np.zeros((COLUMNS, COLUMNS))
    for i in range(ROWS // CHUNK):
        x = drawn({None: {"chunk-location": (i,)}}).astype(np.float64) - 0.5
        total, products = total + x.sum(0), products + x.T @ x
    covariance = products / ROWS - np.outer(total, total) / ROWS**2
    scale = np.sqrt(np.diag(covariance))
    # Sums of 4,000,000 terms in float32.
    np.testing.assert_allclose(found, covariance / np.outer(scale, scale), atol=1e-4)
