"""`__torch_dispatch__` on a wrapper subclass: shape and dtype for torch, an ndarray for the values.

torch knows how the tensor is laid out and nothing else; autograd runs above. This is what remote tensors are made of:
`torchnp.rpc` holds a handle where this holds the array.
"""

import numpy as np
import torch
from torch.utils._pytree import tree_map

import torchnp


class Held(torch.Tensor):
    """A tensor without storage, whose values are an ndarray."""

    @staticmethod
    def __new__(cls, array):
        dtype = getattr(torch, torchnp.dtypes.dtype_name(array.dtype))
        strides = [s // array.itemsize for s in array.strides]
        return torch.Tensor._make_wrapper_subclass(cls, array.shape, strides=strides, dtype=dtype)

    def __init__(self, array):
        self.array = array

    def __repr__(self):
        return f"Held({self.array})"

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        inside = lambda x: x.array if isinstance(x, Held) else x
        result = torchnp.table[func](*tree_map(inside, args), **tree_map(inside, kwargs or {}))
        return tree_map(lambda x: Held(x) if isinstance(x, np.ndarray) else x, result)


rng = np.random.default_rng(0)
values = [rng.standard_normal(size).astype(np.float32) for size in ((5, 4), (4, 3), (3,))]
x, w, b = (Held(v).requires_grad_() for v in values)
loss = torch.nn.functional.gelu(x @ w + b).sum()
loss.backward()

tx, tw, tb = (torch.tensor(v, requires_grad=True) for v in values)
torch.nn.functional.gelu(tx @ tw + tb).sum().backward()
for mine, torchs in ((x, tx), (w, tw), (b, tb)):
    np.testing.assert_allclose(mine.grad.array, torchs.grad.numpy(), rtol=1.3e-6, atol=1e-5)
print("gradients of x, w and b are torch's; the values never were torch's:", w.grad)
