"""Which dimension of a private tensor indexes an owner's rows.

A tensor is labelled ``Rows(dataset, dim)`` if the bits at place i along ``dim`` depend on public values and on one row of
the dataset, and no two places depend on the same row. Then one row of the dataset changes one row of the tensor, and a
noised sum of clipped rows can be published. All other private tensors are `Mixed`.

Labels follow from the operators, the shapes and the public values, and so are public themselves. An operator keeps a label
if it is on one of two lists, and everything else mixes:

- `torchnp.rpc.server.privacy.row_kernels`: kernels that run on arrays which cannot be asked for a value.
- `torchnp.rpc.server.privacy.row_moves`: what moves elements and computes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Rows:
    """The label of a tensor whose dimension ``dim`` indexes rows of a dataset.

    Attributes
    ----------
    dataset : str
        Whose budget pays.
    dim : int
        From 0 on.
    order : bytes
        The row that each place depends on, as int64, -1 for none; empty if place i depends on row i.
    """

    dataset: str
    dim: int
    order: bytes = b""


@dataclass(frozen=True, slots=True)
class Mixed:
    """The label of a tensor whose values may depend on all rows; ``by`` is the operator that brought it about."""

    by: str


Label = Rows | Mixed | None  # None is public


def dataset_of(name: str) -> str:
    """Whose rows an owner's array has, and whose budget pays: ``digits`` for ``digits.x`` and ``digits.y``."""
    return name.partition(".")[0]


def of_dataset(name: str, array: np.ndarray) -> Label:
    """The label of an owner's array: its first dimension indexes rows."""
    return Rows(dataset_of(name), 0) if array.ndim else Mixed("open")


def common(labels: Iterable[Label]) -> Rows | None:
    """The dataset and the order of the rows that all labels have in common; None if there is no such, or one is mixed."""
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
