"""Decompositions: a program in few operators, so that an engine needs few kernels.

torch rewrites operators in terms of others: to the core set, which `torch.export` promises, or on to what a backend
asks for. The table has them all, so each form of the program can be run and compared.
"""

import numpy as np
import torch
from torch._decomp import core_aten_decompositions, get_decompositions
from torch.fx.experimental.proxy_tensor import make_fx

import torchnp


class Engine(torch.fx.Interpreter):
    """Runs a graph of aten calls by the table."""

    def call_function(self, target, args, kwargs):
        if not hasattr(target, "_schema"):
            return target(*args, **kwargs)
        return torchnp.table[target](*args, **kwargs)


def program(x, w):
    h = torch.nn.functional.layer_norm(x, [4])
    h = torch.nn.functional.hardswish(h @ w)
    return torch.nn.functional.huber_loss(h, torch.zeros_like(h))


rng = np.random.default_rng(0)
arrays = [rng.standard_normal(size).astype(np.float32) for size in ((3, 4), (4, 4))]
tensors = [torch.tensor(a) for a in arrays]
want = program(*tensors).numpy()
aten = torch.ops.aten
smaller = get_decompositions([aten.mean, aten.mean.dim, aten.mean.default, aten.addmm, aten.rsqrt, aten.hardtanh])
forms = {"as it comes": {}, "to core": core_aten_decompositions(), "further": {**core_aten_decompositions(), **smaller}}
for form, table in forms.items():
    graph = make_fx(program, decomposition_table=table)(*tensors)
    used = sorted({n.target.name() for n in graph.graph.nodes if n.op == "call_function" and hasattr(n.target, "name")})
    result = Engine(graph).run(*arrays)
    np.testing.assert_allclose(result, want, rtol=1.3e-6, atol=1e-6)
    print(f"{form:12} {len(used):2} operators, the same loss: {', '.join(u.removeprefix('aten::') for u in used)}")
