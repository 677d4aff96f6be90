"""Samples that other libraries provide for their operators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from torch.utils._pytree import tree_map

from ... import namespaces
from ...schema_facts import siblings
from ..task import GIVEN, Task, reseed


def plan(ops: Iterable[str], dtypes: list[str]) -> list[Task]:
    """Return the tasks with libraries' samples for some overloads and their in-place and ``out=`` forms."""
    others = [op for op in ops if namespaces.is_other(op) and namespaces.of(op).samples]
    sources = sorted({n for op in others for n in (op, *siblings()[op])})
    return [Task(GIVEN + op, dtype) for op in sources for dtype in dtypes]


def run_given(source: str, dtype: str, recorder: Any) -> Iterator[None]:
    """Record the samples of an overload in a dtype; yield after each."""
    from torchnp.interop import to_torch

    op = source.removeprefix(GIVEN)
    samples = namespaces.of(op).samples
    recorder.source, recorder.sample_dtype = source, dtype
    reseed(source + dtype)
    for args, kwargs in samples(op, dtype) if samples else ():
        args, kwargs = tree_map(lambda x: to_torch(x.copy()) if isinstance(x, np.ndarray) else x, (args, kwargs))
        recorder.see(op, args, kwargs)
        yield
