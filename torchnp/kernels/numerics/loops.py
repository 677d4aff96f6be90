"""The loops over elements that torch's kernels run in, where their results show which it was."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Loop:
    """How a loop of torch is built: a vector of ``lanes`` bytes at a time (0: element after element), and what for."""

    lanes: int
    gradient: bool = False

    @property
    def vector(self) -> bool:
        """Whether it computes with vectors."""
        return self.lanes > 0

    @property
    def backward(self) -> Loop:
        """The loop that computes the gradient."""
        return replace(self, gradient=True)

    def elements(self, dtype: np.dtype) -> int:
        """How many elements of a dtype a step takes."""
        return self.lanes // dtype.itemsize or 1


SCALAR, VECTOR = Loop(0), Loop(32)
