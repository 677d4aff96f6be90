"""`TorchDispatchMode`: every aten call within a block, below autograd, of plain tensors.

`torchnp.interop.NumpyMode` is this with everything that a real one needs (views, in-place calls, random streams, a check
against torch). The idea fits on a screen.
"""

from collections import Counter

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

import torchnp
from torchnp.interop import to_numpy, to_torch


class ByTheTable(TorchDispatchMode):
    """Computes what is functional by the table, and leaves views and what writes to torch."""

    def __init__(self):
        super().__init__()
        self.calls = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        aliases = any(r.alias_info for r in func._schema.returns) or func._schema.is_mutable
        name = func.name()
        random = torch.Tag.nondeterministic_seeded in func.tags  # draws from torch's generator
        if aliases or random or name not in torchnp.table:
            return func(*args, **kwargs)
        self.calls[name] += 1
        inside = lambda x: to_numpy(x) if isinstance(x, torch.Tensor) else x
        result = torchnp.table[name](*tree_map(inside, args), **tree_map(inside, kwargs))
        return tree_map(lambda x: to_torch(x) if hasattr(x, "dtype") else x, result)


def losses():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.SiLU(), torch.nn.Linear(8, 1))
    data, step = torch.randn(16, 4), torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(5):
        loss = model(data).square().mean()
        loss.backward()
        step.step()
        step.zero_grad()
        yield loss.item()


with ByTheTable() as mode:
    mine = list(losses())
torch.testing.assert_close(torch.tensor(mine), torch.tensor(list(losses())))
print("five losses as torch's:", *(f"{loss:.4f}" for loss in mine))
print("computed by the table:", ", ".join(f"{n} {name}" for name, n in mode.calls.most_common(4)))
