"""Row labels: which dimension of a private tensor indexes an owner's rows.

A tensor is labelled ``Rows(dataset, dim)`` if the bits at index i along ``dim`` depend only on public values and on one
row of the dataset, and no two indices depend on the same row. Then one row of the dataset changes only one row of the
tensor, and a noised sum of clipped rows can be published. All other private tensors are `Mixed`.

Labels follow from operators, shapes and public values, so they are public themselves. An operator keeps a label if it
is on one of two lists; all other operators produce `Mixed`:

- `torchnp.rpc.server.privacy.row_kernels`: kernels that run on arrays whose values they cannot query.
- `torchnp.rpc.server.privacy.row_moves`: operators that move elements and compute nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Rows:
    """Label of a tensor whose dimension ``dim`` indexes rows of a dataset.

    Attributes
    ----------
    dataset : str
        Dataset whose budget pays.
    dim : int
        Non-negative dimension.
    order : bytes
        The row that each index depends on, as int64, -1 for none; empty if index i depends on row i.
    """

    dataset: str
    dim: int
    order: bytes = b""


@dataclass(frozen=True, slots=True)
class Mixed:
    """Label of a tensor whose values may depend on all rows; ``by`` is the operator that mixed them."""

    by: str


Label = Rows | Mixed | None  # None is public


def dataset_of(name: str) -> str:
    """Dataset that an owner's array belongs to, whose budget pays: ``digits`` for ``digits.x`` and ``digits.y``."""
    return name.partition(".")[0]


def of_dataset(name: str, array: np.ndarray) -> Label:
    """Label of an owner's array: its first dimension indexes rows."""
    return Rows(dataset_of(name), 0) if array.ndim else Mixed("open")


def common(labels: Iterable[Label]) -> Rows | None:
    """Dataset and row order shared by all private labels; None if they differ, one is mixed, or all are public."""
    found: set[tuple[str, bytes]] = set()
    for label in labels:
        if isinstance(label, Mixed):
            return None
        if label is not None:
            found.add((label.dataset, label.order))
    if len(found) != 1:
        return None
    ((dataset, order),) = found
    return Rows(dataset, 0, order)
