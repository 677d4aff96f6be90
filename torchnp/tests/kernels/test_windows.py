"""In-place writes to arrays whose elements overlap, such as sliding windows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.lib.stride_tricks import as_strided

import torchnp

MASK = np.array([[0, 0, 1, 1], [0] * 4, [0] * 4], bool)
CALLS = {
    "masked_fill_.Scalar": (MASK, -1.0),
    "masked_scatter_": (MASK, np.array([50, 60, 70])),
    "index_put_": ([np.array([0])], np.ones((1, 4)), True),
    "scatter_reduce_.two": (0, np.zeros((1, 4), np.int64), np.full((1, 4), 50), "amax"),
    "index_add_": (0, np.array([0]), np.ones((1, 4))),
    "index_fill_.int_Scalar": (0, np.array([0]), 9.0),
    "put_": (np.array([3]), np.array([70])),
}
INDICES = {
    "index_put_": (0,),
    "scatter_reduce_.two": (1,),
    "index_add_": (1,),
    "index_fill_.int_Scalar": (1,),
    "put_": (0,),
}


@pytest.mark.parametrize("dtype", ["float32", "int32", "float64"])
@pytest.mark.parametrize("name", CALLS)
def test_what_is_not_selected_stays(name, dtype):
    def typed(place, x):
        kept = place in INDICES.get(name, ()) or not isinstance(x, np.ndarray) or x.dtype == bool
        return x if kept else x.astype(dtype)

    args = [typed(i, x) for i, x in enumerate(CALLS[name])]
    memory = np.arange(8).astype(dtype)
    theirs = torch.from_numpy(memory.copy())
    packet, _, overload = name.partition(".")
    given = [
        [torch.from_numpy(i) for i in x]
        if isinstance(x, list)
        else torch.from_numpy(x)
        if isinstance(x, np.ndarray)
        else x
        for x in args
    ]
    getattr(getattr(torch.ops.aten, packet), overload or "default")(theirs.as_strided((3, 4), (2, 1)), *given)
    torchnp.table[f"aten::{name}"](as_strided(memory, (3, 4), (2 * memory.itemsize, memory.itemsize)), *args)
    assert memory.tolist() == theirs.tolist()
