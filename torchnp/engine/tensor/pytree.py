"""Nested dicts, lists, tuples and dataclasses with tensors in them."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import torch


def is_tree(x: Any) -> bool:
    """Return whether a value is a nest of tensors, rather than nested lists of numbers."""
    if isinstance(x, dict) or (dataclasses.is_dataclass(x) and not isinstance(x, type)):
        return True
    return isinstance(x, (list, tuple)) and any(isinstance(y, torch.Tensor) or is_tree(y) for y in x)


def mapped(change: Callable[[Any], Any], x: Any) -> Any:
    """Map the tensors and arrays of a tree; everything else stays as it is.

    Plain 0-d tensors in a dict with a ``step`` also stay, because they are counters that an optimizer reads on the
    client.
    """
    if isinstance(x, (torch.Tensor, np.ndarray)):
        return change(x)
    if isinstance(x, dict):
        changed = copy.copy(x)  # keeps its class and attributes, such as a state_dict's versions
        for key, value in x.items():
            counts = "step" in x and type(value) is torch.Tensor and not value.dim()
            changed[key] = value if counts else mapped(change, value)
        return changed
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*(mapped(change, y) for y in x))
    if isinstance(x, (list, tuple)):
        return type(x)(mapped(change, y) for y in x)
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        made = copy.copy(x)
        for field in dataclasses.fields(x):
            object.__setattr__(made, field.name, mapped(change, getattr(x, field.name)))
        return made
    return x
