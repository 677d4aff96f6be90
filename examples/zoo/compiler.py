"""A backend of `torch.compile`: graphs of aten calls, forward and backward, run by the table.

Dynamo captures the Python code, AOTAutograd makes the two graphs without writes, and the function below gets each. `torchnp`
has one with a real executor: `torch.compile(model, backend="torchnp")`.
"""

import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch.utils._pytree import tree_map

import torchnp
from torchnp.interop import to_numpy, to_torch

graphs = []


class Engine(torch.fx.Interpreter):
    """Runs a graph on tensors, each call by the table."""

    def call_function(self, target, args, kwargs):
        if not hasattr(target, "_schema"):
            return target(*args, **kwargs)
        inside = lambda x: to_numpy(x) if isinstance(x, torch.Tensor) else x
        result = torchnp.table[target](*tree_map(inside, args), **tree_map(inside, kwargs))
        return tree_map(lambda x: to_torch(x) if hasattr(x, "dtype") else x, result)


def compiler(graph, inputs):
    graphs.append(graph)
    return make_boxed_func(Engine(graph).run)


torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
x = torch.randn(5, 6)
model(x).square().sum().backward()
want = [p.grad.clone() for p in model.parameters()]
model.zero_grad()
compiled = torch.compile(model, backend=aot_autograd(fw_compiler=compiler, bw_compiler=compiler))
compiled(x).square().sum().backward()
for p, grad in zip(model.parameters(), want, strict=True):
    torch.testing.assert_close(p.grad, grad)
calls = [sum(n.op == "call_function" for n in g.graph.nodes) for g in graphs]
print(f"{len(graphs)} graphs, of {calls} calls, forward and backward; all gradients are torch's")
