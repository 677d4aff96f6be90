"""A replacement for nested tensors, which the device lacks: torch's transformer encoder computes on padded tensors."""

from __future__ import annotations

import copy
from functools import wraps
from typing import Any, NoReturn

import torch

from torchnp.interop.mode import MissingKernelError


class NestedTensorError(MissingKernelError):
    """Raised when an operator would make a nested tensor on the device."""


def nested_tensor_from_mask(tensor: torch.Tensor, mask: torch.Tensor, mask_check: bool = True) -> NoReturn:
    """Refuse ``_nested_tensor_from_mask``."""
    raise NestedTensorError("aten::_nested_tensor_from_mask: the device np has no nested tensors")


def encode_without() -> None:
    """Make ``nn.TransformerEncoder`` compute on padded tensors when it would make a nested tensor."""
    forward = torch.nn.TransformerEncoder.forward

    @wraps(forward)
    def encode(
        self: torch.nn.TransformerEncoder,
        src: torch.Tensor,
        mask: torch.Tensor | None = None,
        src_key_padding_mask: torch.Tensor | None = None,
        is_causal: bool | None = None,
    ) -> torch.Tensor:
        try:
            return forward(self, src, mask, src_key_padding_mask, is_causal)
        except NestedTensorError:
            assert src_key_padding_mask is not None
            lengths = src_key_padding_mask.logical_not().sum(-1, keepdim=True)
            padding = (
                torch.arange(src.shape[1], device=src.device) >= lengths
            )  # a nested tensor keeps the first entries of each sequence
            padded: Any = copy.copy(self)
            padded.use_nested_tensor = False
            padded._modules = self._modules | {"norm": None}
            found = forward(padded, src, mask, padding, is_causal).masked_fill(padding[..., None], 0.0)
            return found if self.norm is None else self.norm(found)

    torch.nn.TransformerEncoder.forward = encode  # type: ignore[method-assign]
