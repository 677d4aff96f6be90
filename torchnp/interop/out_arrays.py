"""What of a tensor's memory a kernel reaches beyond the tensor: all of its storage, or more than there was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from torchnp.interop.storage_ops import resize

ndarray = np.ndarray
Tensor = torch.Tensor


def counts_from_storage(schema: Any) -> bool:
    """Whether an operator of this schema, torch's or the table's, counts from the start of a tensor's storage."""
    return any(a.name == "storage_offset" for a in getattr(schema, "arguments", None) or schema.args)


def on_storage(tensor: Tensor, share: Callable[[Tensor], ndarray]) -> ndarray:
    """The tensor's memory as an array that is a view on all of its storage, as torch's tensors are.

    Parameters
    ----------
    tensor : torch.Tensor
        A dense one.
    share : callable
        From a tensor to an array on its memory.
    """
    whole = storage_of(tensor.detach(), share)
    if not whole.size:
        return share(tensor)
    strides = [s * whole.itemsize for s in tensor.stride()]
    return np.ndarray(tuple(tensor.shape), whole.dtype, whole, tensor.storage_offset() * whole.itemsize, strides)


def storage_of(tensor: Tensor, share: Callable[[Tensor], ndarray]) -> ndarray:
    """All elements of the storage that a dense tensor lies in, conjugated or negated as the tensor's bits say."""
    length = tensor.untyped_storage().nbytes() // tensor.element_size()
    whole = torch.as_strided(physical(tensor), (length,), (1,), 0)
    if tensor.is_conj():
        whole = whole.conj()
    return share(torch.ops.aten._neg_view.default(whole) if tensor.is_neg() else whole)


def physical(tensor: Tensor) -> Tensor:
    """The same memory without the conjugate and negative bits."""
    if tensor.is_neg():
        tensor = torch.ops.aten._neg_view.default(tensor)
    return tensor.conj() if tensor.is_conj() else tensor


class OutArray(ndarray):
    """The array of an ``out=`` tensor: when a kernel resizes it, the tensor is resized, and later writes go there."""

    tensor: Tensor
    again: Callable[[Tensor], ndarray]  # the tensor's memory
    target: ndarray | None = None

    def resize_strided(self, shape: Any, strides: Any) -> ndarray:
        """As `resize`, to strides in elements, which an array of its own memory cannot get."""
        resize(self.tensor, shape)
        self.tensor.as_strided_(shape, strides)
        self.target = self.again(physical(self.tensor))
        return self.target

    def resize(self, shape: Any, refcheck: bool = True) -> ndarray:  # type: ignore[override]
        resize(self.tensor, shape)
        self.target = self.again(physical(self.tensor))
        return self.target

    def __setitem__(self, key: Any, value: Any) -> None:
        if self.target is None:
            super().__setitem__(key, value)
        else:
            self.target[key] = value
