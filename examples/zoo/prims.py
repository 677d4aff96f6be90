"""Prims: the smallest set that torch itself has, in which broadcasting and promotion are written out.

`TorchRefsMode` replaces functions by torch's own references in Python; what these call below is `prims::`. An engine
that has the prims has, in principle, everything.
"""

import numpy as np
import torch
from torch._prims.context import TorchRefsMode
from torch.fx.experimental.proxy_tensor import make_fx

import torchnp


class Engine(torch.fx.Interpreter):
    """Runs a graph of prims by the table."""

    def call_function(self, target, args, kwargs):
        if not hasattr(target, "_schema"):
            return target(*args, **kwargs)
        return torchnp.table[target](*args, **kwargs)


def program(x, scale):
    shifted = x - torch.amax(x, 1, keepdim=True)
    e = torch.exp(shifted * scale)  # scale is of integers: promoted
    return e / torch.sum(e, 1, keepdim=True)


def traced(*args):
    with TorchRefsMode():
        return program(*args)


x, scale = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3), np.array([1, 2, 3])
graph = make_fx(traced)(torch.tensor(x), torch.tensor(scale))
used = [n.target.name() for n in graph.graph.nodes if n.op == "call_function" and hasattr(n.target, "name")]
assert any(name == "prims::convert_element_type" for name in used)  # promotion is a call of its own
result = Engine(graph).run(x, scale)
np.testing.assert_allclose(result, program(torch.tensor(x), torch.tensor(scale)).numpy(), rtol=1.3e-6)
print(f"{len(used)} calls, {len(set(used))} operators: {', '.join(sorted(set(used)))}")
