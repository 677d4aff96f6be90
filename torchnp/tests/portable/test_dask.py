"""Programs on Dask: chunked along the batch, and nothing computed until it is asked for."""

import numpy as np
import pytest
import torch
from torch import nn

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")

from torchnp.portable.library import ValueNeeded  # noqa: E402
from torchnp.tests.portable.exported import check, example, export, load  # noqa: E402


def forbidden(*args, **kwargs):
    raise AssertionError("a row computes a Dask array")


def run(exported, rows=2):
    """Call a program with its arguments in chunks of two rows; nothing may be computed meanwhile."""
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


class Correlates(nn.Module):
    """Standardizes columns, and correlates them: not separable by batch."""

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
