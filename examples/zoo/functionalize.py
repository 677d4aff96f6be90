"""Functionalization: a program that writes in place, on an engine whose arrays cannot be written.

`torch.func.functionalize` turns writes into new values and views into copies of them; `make_fx` writes down what is left.
The engine below runs that graph with kernels from the table and freezes every array it makes.
"""

import numpy as np
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_map

import torchnp


def frozen(x):
    if isinstance(x, np.ndarray):
        x.setflags(write=False)
    return x


class Engine(torch.fx.Interpreter):
    """Runs a graph of aten calls on arrays that are never written."""

    def get_attr(self, target, args, kwargs):
        return frozen(super().get_attr(target, args, kwargs).numpy())

    def call_function(self, target, args, kwargs):
        if not hasattr(target, "_schema"):
            return target(*args, **kwargs)
        return tree_map(frozen, torchnp.table[target](*args, **kwargs))


def program(x):
    y = x * 2
    y[0] = 0  # a write through a view
    y.add_(1)
    row = y[1]
    row.mul_(10)  # another write, which y sees
    return y.cumsum(0)


values = np.arange(6, dtype=np.float32).reshape(3, 2)
graph = make_fx(torch.func.functionalize(program, remove="mutations_and_views"))(torch.tensor(values))
print("calls:", ", ".join(n.target.name() for n in graph.graph.nodes if n.op == "call_function"))
assert not any(n.target._schema.is_mutable for n in graph.graph.nodes if hasattr(n.target, "_schema"))
result = Engine(graph).run(frozen(values))
np.testing.assert_array_equal(result, program(torch.tensor(values)).numpy())
print("the same as in place:", result.tolist())
