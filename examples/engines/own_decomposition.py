"""A decomposition of one's own: an engine that can add, multiply and compare, and has no exponential.

`Engine.decompositions` comes before torchnp's and torch's. Here exp(x) is (1 + x / 2**8) ** (2**8), by eight squarings,
as secret-shared and encrypted numbers have it; sigmoid, softmax and their gradients follow.
"""

import torch

import torchnp
from torchnp.engine import Engine
from torchnp.interop import to_numpy, to_torch

aten = torch.ops.aten


def exp(x):
    y = aten.add.Tensor(aten.mul.Tensor(x, 2.0**-8), 1)
    for _ in range(8):
        y = aten.mul.Tensor(y, y)
    return y


class AddsAndMultiplies(Engine):
    name = "adds and multiplies"
    ops = {
        f"aten::{name}": torchnp.table[f"aten::{name}"]
        for name in [
            "add.Tensor",
            "mul.Tensor",
            "div.Tensor",
            "sum.dim_IntList",
            "amax",
            "gt.Tensor",
            "where.self",
            "expand_copy",
            "view_copy",
        ]
    }
    decompositions = {"aten::exp": exp}
    tolerances = {"float32": (0.02, 1e-4)}  # of the exponential, for x in [-3, 3]

    def upload(self, tensor):
        return to_numpy(tensor).copy()

    def download(self, payload, spec):
        return to_torch(payload.copy())


engine = AddsAndMultiplies()
values = torch.linspace(-3, 3, 12).reshape(3, 4)
weights = torch.linspace(0, 1, 12).reshape(3, 4)
results = []
for x, w in (
    (values.clone().requires_grad_(), weights),
    (engine.send(values, requires_grad=True), engine.send(weights)),
):
    y = torch.softmax(x, 1) * w
    y.sum().backward()
    results.append((y, x.grad))
rtol, atol = engine.tolerances["float32"]
for want, got in zip(*results, strict=True):
    torch.testing.assert_close(got.publish(), want.detach(), rtol=rtol, atol=10 * atol)
print("softmax and its gradient without an exponential:", [round(v, 3) for v in results[1][0].publish()[0].tolist()])
