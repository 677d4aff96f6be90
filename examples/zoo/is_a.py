"""`__torch_dispatch__` on a subclass that is a tensor: its own memory is read and written by kernels of NumPy.

The subclass has storage like any other tensor, so its methods, printing and `numpy()` work. Below autograd each call comes
here as an aten overload, views and in-place calls too.
"""

import torch
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_map

import torchnp
from torchnp.interop import to_numpy, to_torch


class ByNumpy(torch.Tensor):
    """A tensor whose operators are computed by the table."""

    calls = 0

    @staticmethod
    def __new__(cls, tensor):
        return torch.Tensor._make_subclass(cls, tensor.detach(), tensor.requires_grad)

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.calls += 1
        kwargs = kwargs or {}
        with no_dispatch():  # operators called here are not dispatched to this class again
            if func._schema.is_mutable or any(r.alias_info for r in func._schema.returns):
                return tree_map(lambda x: ByNumpy(x) if isinstance(x, torch.Tensor) else x, func(*args, **kwargs))
            inside = lambda x: to_numpy(x.as_subclass(torch.Tensor)) if isinstance(x, torch.Tensor) else x
            result = torchnp.table[func](*tree_map(inside, args), **tree_map(inside, kwargs))
            return tree_map(lambda x: ByNumpy(to_torch(x)) if hasattr(x, "dtype") else x, result)


torch.manual_seed(0)
start, weight = torch.randn(4, 3), torch.randn(3, 2)
w = ByNumpy(weight).requires_grad_()
loss = (ByNumpy(start) @ w).tanh().square().mean()
loss.backward()

v = weight.clone().requires_grad_()
(start @ v).tanh().square().mean().backward()
torch.testing.assert_close(w.grad.as_subclass(torch.Tensor), v.grad)
print(f"the gradient is torch's, by {ByNumpy.calls} calls on {type(w).__name__}")
