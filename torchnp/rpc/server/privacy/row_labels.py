"""Row labels, which say which dimension of a private tensor indexes an owner's rows.

A tensor has the label ``Rows(dataset, dim)`` under two conditions. The bits at index i along ``dim`` depend only on
public values and on one row of the dataset, and no two indices depend on the same row. Then changing one row of the
dataset changes only one row of the tensor, and a noised sum of clipped rows can be published. All other private tensors
are `Mixed`.

Labels depend only on operators, shapes and public values, so they are public. An operator keeps a label if its portable
kernel runs on arrays whose values it cannot read (`torchnp.rpc.server.privacy.row_library`); all other operators
produce `Mixed`.
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
        The dataset whose budget pays.
    dim : int
        The dimension, not negative.
    order : bytes
        The row on which each index depends, as int64, or -1 for none; empty if index i depends on row i.
    """

    dataset: str
    dim: int
    order: bytes = b""


@dataclass(frozen=True, slots=True)
class Mixed:
    """Label of a tensor whose values may depend on all rows; ``by`` is the operator that mixed the rows."""

    by: str


Label = Rows | Mixed | None  # None means public


def dataset_of(name: str) -> str:
    """Return the dataset to which an owner's array belongs: ``digits`` for ``digits.x`` and ``digits.y``."""
    return name.partition(".")[0]


def of_dataset(name: str, array: np.ndarray) -> Label:
    """Return the label of an owner's array, whose first dimension indexes the rows."""
    return Rows(dataset_of(name), 0) if array.ndim else Mixed("open")


def common(labels: Iterable[Label]) -> Rows | None:
    """Return the dataset and row order that all private labels share.

    Return None if they differ, if one is mixed, or if all labels are public.
    """
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
