"""Lookup tables: embedding, and embedding_bag, which sums, averages or maximises over bags of rows."""

from __future__ import annotations

import numpy as np

from torchnp.checks import check
from torchnp.dtypes import cast, float64, opmath, scalar_name
from torchnp.errors import index_out_of_range, shape_text
from torchnp.kernels._memory import bits
from torchnp.kernels.numerics.accumulate import INDEX_DTYPES, out_of_bounds
from torchnp.registry import kernel

ndarray = np.ndarray


def check_indices(indices: ndarray, where: str, position: int = 1, name_of: str = "indices") -> None:
    if indices.dtype not in INDEX_DTYPES:
        words = f"Expected tensor for argument #{position} '{name_of}' to have one of the following scalar types:"
        found = f"torch.{scalar_name(indices.dtype)}Tensor instead (while checking arguments for {where})"
        raise RuntimeError(f"{words} Long, Int; but got {found}")


@kernel("embedding", like=np.take, differs=["gather-negative"])
def embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    """The rows of a matrix that the indices name."""
    check(weight.ndim == 2, "'weight' must be 2-D")
    check_indices(indices, "embedding")
    check(out_of_bounds(indices, len(weight)) is None, index_out_of_range())
    out = bits(weight).take(indices, 0)
    return out if out.dtype is weight.dtype else out.view(weight.dtype)


@kernel("embedding_renorm_")
def embedding_renorm_(self, indices, max_norm, norm_type):
    """Scale the rows that the indices name down to a largest norm, in place."""
    from torchnp.kernels.vectornorm import linalg_vector_norm

    rank = f"Expected 2-dimensional tensor, but got {self.ndim}-dimensional tensor for argument #1 'self'"
    check(self.ndim == 2, f"{rank} (while checking arguments for embedding_renorm_)")
    check_indices(indices, "embedding_renorm_", 2)
    n = len(self)
    places = np.unique(indices)
    wrong = places[(places < -n) | (places >= n)]
    if wrong.size:
        words = f"index {wrong[0]} out of range for tensor of size {shape_text(self.shape)} at dimension 0"
        raise IndexError(f"select(): {words}")
    places = np.unique(places % max(n, 1))
    rows = self[places]
    norms = cast(linalg_vector_norm(rows, norm_type, [1]), float64)
    large = norms > max_norm
    wide = opmath(self.dtype)
    scale = cast(max_norm / (norms[large] + 1e-7), self.dtype)
    self[places[large]] = cast(cast(rows[large], wide) * cast(scale, wide)[:, None], self.dtype)
    return self
