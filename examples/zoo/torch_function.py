"""`__torch_function__`: a class that is no tensor takes part in torch's functions.

torch hands over each function that meets one of these before it does anything with it: the arguments are as the user
wrote them. What is missing here is all that comes below, autograd first of all.
"""

import numpy as np
import torch

import torchnp


class Array:
    """An ndarray that torch's functions take."""

    def __init__(self, values):
        self.values = np.asarray(values)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kernel = getattr(torchnp.aten, func.__name__)  # torch.softmax is aten::softmax: the overload is found by schema
        inside = lambda tree: torch.utils._pytree.tree_map(lambda x: x.values if isinstance(x, Array) else x, tree)
        result = kernel(*inside(args), **inside(kwargs or {}))
        return torch.utils._pytree.tree_map(lambda x: Array(x) if isinstance(x, np.ndarray) else x, result)


values = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
x, t = Array(values), torch.tensor(values)
for name, mine, torchs in (
    ("softmax", torch.softmax(x, 1), torch.softmax(t, 1)),
    ("logsumexp", torch.logsumexp(x, 0), torch.logsumexp(t, 0)),
    ("cat", torch.cat([x, x], 1), torch.cat([t, t], 1)),
    ("max", torch.max(x, 1)[0], torch.max(t, 1)[0]),
):
    np.testing.assert_allclose(mine.values, torchs.numpy(), rtol=1.3e-6)
    print(f"torch.{name} of arrays: as torch has it, {mine.values.shape}")
