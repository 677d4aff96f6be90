"""Arrays that extend beyond a tensor: to all of its storage, or to memory that a resize adds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from torchnp.interop.ops_left_to_torch import resize

ndarray = np.ndarray
Tensor = torch.Tensor


def counts_from_storage(schema: Any) -> bool:
    """Return whether an operator counts from the start of a storage, by its schema (torch's or the table's)."""
    return any(a.name == "storage_offset" for a in getattr(schema, "arguments", None) or schema.args)


def on_storage(tensor: Tensor, share: Callable[[Tensor], ndarray]) -> ndarray:
    """Return the tensor's memory as a view of an array that covers the whole storage.

    Parameters
    ----------
    tensor : torch.Tensor
        A strided tensor.
    share : callable
        Maps a tensor to an array on its memory.
    """
    whole = storage_of(tensor.detach(), share)
    if not whole.size:
        return share(tensor)
    strides = [s * whole.itemsize for s in tensor.stride()]
    return np.ndarray(tuple(tensor.shape), whole.dtype, whole, tensor.storage_offset() * whole.itemsize, strides)


def storage_of(tensor: Tensor, share: Callable[[Tensor], ndarray]) -> ndarray:
    """Return all elements of a strided tensor's storage, conjugated or negated according to the tensor's bits."""
    length = tensor.untyped_storage().nbytes() // tensor.element_size()
    whole = torch.as_strided(physical(tensor), (length,), (1,), 0)
    if tensor.is_conj():
        whole = whole.conj()
    return share(torch.ops.aten._neg_view.default(whole) if tensor.is_neg() else whole)


def physical(tensor: Tensor) -> Tensor:
    """Return the tensor without its conjugate and negative bits, on the same memory."""
    if tensor.is_neg():
        tensor = torch.ops.aten._neg_view.default(tensor)
    return tensor.conj() if tensor.is_conj() else tensor


class OutArray(ndarray):
    """The array of an ``out=`` tensor. Resizing it resizes the tensor; later writes go to the new memory."""

    tensor: Tensor
    again: Callable[[Tensor], ndarray]  # returns a tensor's memory
    target: ndarray | None = None

    def resize_strided(self, shape: Any, strides: Any) -> ndarray:
        """Resize to strides given in elements, which a plain array cannot do."""
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
