"""`TorchFunctionMode`: every call of torch's public functions within a block, of any tensors, factories too.

Here it answers a question of people who port code: which of the functions that this model calls has a counterpart in
NumPy that gives something else, and where?
"""

from collections import Counter

import torch
from torch.overrides import TorchFunctionMode, resolve_name

import torchnp


class Asks(TorchFunctionMode):
    """Notes the differences from NumPy of each function that is called."""

    def __init__(self):
        super().__init__()
        self.found = Counter()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        for name in torchnp.table.find(resolve_name(func) or "")[:1]:
            if name in torchnp.table:
                self.found.update((name.partition(".")[0], d.id) for d in torchnp.table[name].differences[:3])
        return func(*args, **(kwargs or {}))


with Asks() as asks:
    x = torch.arange(6.0).reshape(2, 3)
    torch.var(x, 1)
    torch.median(x)
    torch.round(x.sum())
for (op, difference), times in asks.found.most_common():
    print(f"{op:16} {difference}  ({times})")
assert ("aten::var", "correction") in asks.found and ("aten::median", "lower-median") in asks.found
