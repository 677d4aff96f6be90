"""Overriding autograd for one operator, by `__torch_function__`, on handles of any engine.

`torch.sign` has a gradient of zero. Networks with binary weights train with a straight-through gradient instead: that
of the identity where the input is within [-1, 1], else zero. On handles of the class below, `torch.sign` has this
gradient; all other functions are unchanged.
"""

import numpy as np
import torch

import torchnp
from torchnp.engine import BaseHandleTensor, Engine
from torchnp.interop import to_numpy, to_torch


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.sign(x.detach())

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return torch.where(x.abs() <= 1, grad, torch.zeros_like(grad))


MINE = {torch.sign: StraightThrough.apply, torch.Tensor.sign: StraightThrough.apply}


class Binary(BaseHandleTensor):
    """A handle on which the functions in MINE replace torch's. They run above autograd, and define their own gradients."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            return MINE.get(func, func)(*args, **(kwargs or {}))


class Arrays(Engine):
    """A few of torchnp's kernels, on arrays."""

    name, kind = "arrays", Binary
    ops = {
        f"aten::{name}": torchnp.table[f"aten::{name}"]
        for name in (
            "sign",
            "abs",
            "mul.Tensor",
            "add.Tensor",
            "le.Tensor",
            "where.self",
            "sum.dim_IntList",
            "expand_copy",
        )
    }

    def upload(self, tensor):
        return to_numpy(tensor).copy()

    def download(self, payload, spec):
        return to_torch(payload.copy())


engine = Arrays()
values = torch.tensor([-2.0, -0.5, 0.25, 3.0])
x = engine.send(values, requires_grad=True)
torch.sign(x).mul(torch.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
np.testing.assert_array_equal(x.grad.publish(), [0, 2, 3, 0])
plain = values.clone().requires_grad_()
torch.sign(plain).sum().backward()
assert not plain.grad.any()
print(f"the gradient of sign: torch has {plain.grad.tolist()}, this engine {x.grad.publish().tolist()}")
