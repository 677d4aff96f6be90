"""The checks of a foreach call that torch makes before it processes the lists tensor by tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp.core.checks import check, refuse
from torchnp.core.errors import empty_list
from torchnp.core.inplace_out_spec import WriteSpec
from torchnp.core.schema import Schema
from torchnp.dtypes import BARE_UNSIGNED, FLOAT8S


def check_lists(schema: Schema, bound: dict[str, Any], writes: WriteSpec) -> None:
    """Raise torch's error for lists of different lengths and for empty lists."""
    first, *others = (bound[a.name] for a in schema.args if a.type == "Tensor[]")
    scalars, lone = bound.get("scalars"), bound.get("other")
    if isinstance(lone, np.ndarray) and lone.ndim:
        words = f"scalar tensor expected to be 0 dim but it has {lone.ndim} dimensions and {lone.size} elements."
        raise RuntimeError(words)
    if isinstance(scalars, np.ndarray):
        _check_scalars(scalars, len(first))
    if writes.lists is not None:
        writes.lists(first, others)
    for x in others:
        check((len(first) and len(x)) or not isinstance(scalars, np.ndarray), empty_list())
        if len(x) != len(first):
            raise RuntimeError(f"Tensor lists must have the same number of tensors, got {len(first)} and {len(x)}")
    check(len(first), empty_list())
    numbers = next((bound[a.name] for a in schema.args if a.type == "Scalar[]"), first)
    check(len(numbers) == len(first), "Tensor list must have same number of elements as scalar list.")


def _check_scalars(scalars: np.ndarray, length: int) -> None:
    """Raise torch's error unless the tensor ``scalars`` is valid: 1-d, with one number for each tensor of the lists."""
    check(scalars.flags.c_contiguous, "Expected scalars to be contiguous.")
    check(scalars.ndim == 1, f"Expected packed scalar Tensor to be of dimension 1. Got {scalars.ndim} instead.")
    refuse("convert_tensor_to_scalar_list", scalars.dtype, (*BARE_UNSIGNED, *FLOAT8S))
    if scalars.size != length:
        raise RuntimeError(
            f"Expected length of scalars to match input of length {length} but got {scalars.size} instead."
        )
