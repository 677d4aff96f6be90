"""Every operator of one tensor on 0-d tensors: NumPy returns scalars for them, which cannot be written to."""

import numpy as np
import pytest
import torch

from torchnp import table
from torchnp.interop import to_numpy

# The harness compares values and refusals; here each operator runs on each value as a 0-d tensor.
OF_ONE = [name for name in table if str(table[name].schema).endswith("(Tensor self) -> Tensor")]
VALUES = (float("nan"), float("inf"), -0.0, -1.5, 2.0)


def result(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return error


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_of_no_dimensions(dtype):
    compared = 0
    for name in OF_ONE:
        namespace, _, rest = name.partition("::")
        op, _, overload = rest.partition(".")
        reference = getattr(getattr(getattr(torch.ops, namespace), op), overload or "default")
        for value in VALUES:
            x = torch.tensor(value, dtype=dtype)
            want, got = result(reference, x), result(table[name], to_numpy(x))
            if not isinstance(want, torch.Tensor):
                continue
            assert isinstance(got, np.ndarray) and got.shape == tuple(want.shape), (name, value, got)
            compared += 1
    assert compared > 300
