"""Rows of torchnp for transformers' own operators: importing this package declares them.

transformers multiplies tokens that are sorted by expert with each expert's matrix in one operator, where torch's `grouped_mm`
cannot: exported mixtures of experts hold it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import torchnp

mm, zeros_like = torchnp.aten.mm, torchnp.aten.zeros_like


@torchnp.kernel(
    "transformers::grouped_mm_fallback",
    schema="grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor",
)
def grouped_mm_fallback(input: np.ndarray, weight: np.ndarray, offs: np.ndarray) -> np.ndarray:
    """Products of each group's rows with the group's matrix; rows of no group become zero.

    ``input`` (rows, k) is sorted by group, ``weight`` is (groups, k, n), and ``offs`` (groups,) says where each group ends.
    """
    out = np.zeros((input.shape[0], weight.shape[2]), input.dtype)
    for i, rows in _groups(offs):
        out[rows] = mm(input[rows], weight[i])
    return out


@torchnp.kernel(
    "transformers::grouped_mm_fallback_backward",
    schema="grouped_mm_fallback_backward(Tensor input, Tensor weight, Tensor offs, Tensor grad_output) -> (Tensor, Tensor)",
)
def grouped_mm_fallback_backward(
    input: np.ndarray, weight: np.ndarray, offs: np.ndarray, grad_output: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Gradients of `grouped_mm_fallback` with respect to ``input`` and ``weight``.

    Rows of no group and groups without rows have zeros.
    """
    grad_input, grad_weight = zeros_like(input), zeros_like(weight)
    for i, rows in _groups(offs):
        grad_input[rows] = mm(grad_output[rows], weight[i].T)
        grad_weight[i] = mm(input[rows].T, grad_output[rows])
    return grad_input, grad_weight


def _groups(offs: np.ndarray) -> Iterator[tuple[int, slice]]:
    start = 0
    for i, end in enumerate(offs.tolist()):
        if start != end:
            yield i, slice(start, end)
            start = end
