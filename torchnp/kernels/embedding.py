"""Lookup tables: embedding, and embedding_bag, which sums, averages or maximises over bags of rows."""

from __future__ import annotations

import numpy as np

from torchnp.checks import check
from torchnp.dtypes import scalar_name
from torchnp.kernels._accumulate import INDEX_DTYPES
from torchnp.kernels._memory import bits
from torchnp.registry import kernel

ndarray = np.ndarray
TYPE_NAMES = {
    "Bool": "torch.BoolTensor", "Byte": "torch.ByteTensor", "Char": "torch.CharTensor", "Short": "torch.ShortTensor",
    "Float": "torch.FloatTensor", "Double": "torch.DoubleTensor", "Half": "torch.HalfTensor",
    "BFloat16": "torch.BFloat16Tensor",
}  # fmt: skip


def check_indices(indices: ndarray, where: str, position: int = 1) -> None:
    if indices.dtype not in INDEX_DTYPES:
        name = scalar_name(indices.dtype)
        raise RuntimeError(
            f"Expected tensor for argument #{position} 'indices' to have one of the following scalar types: Long, Int; "
            f"but got {TYPE_NAMES.get(name, f'torch.{name}Tensor')} instead (while checking arguments for {where})"
        )


@kernel("embedding", like=np.take, differs=["negative-index"])
def embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    """The rows of a matrix that the indices name."""
    check(weight.ndim == 2, "'weight' must be 2-D")
    check_indices(indices, "embedding")
    # Negative indices are large ones when read as unsigned.
    unsigned = indices.view(np.uint64 if indices.itemsize == 8 else np.uint32)
    check(not indices.size or int(unsigned.max()) < len(weight), "index out of range in self", IndexError)
    return bits(weight).take(indices, 0).view(weight.dtype)
