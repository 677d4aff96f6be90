"""``torch.autocast("np")``: lists of the operators that run in the lower dtype and in float32, as on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torchnp.device._private import is_overload, overload, without

KEY = "AutocastPrivateUse1"
DEVICE = "np"

LOWER = (
    "conv1d", "conv1d.padding", "conv2d", "conv2d.padding", "conv3d", "conv3d.padding", "conv_transpose1d",
    "conv_transpose2d.input", "conv_transpose3d.input", "convolution", "matmul", "mm", "bmm", "addmm", "addmv", "addr",
    "addbmm", "baddbmm", "mv", "linear", "chain_matmul", "linalg_multi_dot", "scaled_dot_product_attention", "_thnn_fused_lstm_cell",
    "_thnn_fused_gru_cell", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell", "einsum", "prelu",
)  # fmt: skip
FLOAT32 = (
    "softmax.int", "log_softmax.int", "layer_norm", "group_norm", "norm.Scalar", "norm.ScalarOpt_dim", "nll_loss", "nll_loss2d",
    "nll_loss_nd", "cross_entropy_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "soft_margin_loss",
    "binary_cross_entropy_with_logits", "poisson_nll_loss", "cosine_embedding_loss", "hinge_embedding_loss",
    "margin_ranking_loss", "multi_margin_loss", "multilabel_margin_loss", "triplet_margin_loss", "cosine_similarity",
    "ctc_loss.IntList", "ctc_loss.Tensor", "exp", "expm1", "log", "log10", "log1p", "log2", "pow.Tensor_Scalar",
    "pow.Tensor_Tensor", "pow.Scalar", "reciprocal", "rsqrt", "acos", "asin", "cosh", "sinh", "tan", "erfinv", "softplus",
    "cumprod", "cumsum", "prod", "prod.dim_int", "sum", "sum.dim_IntList", "cdist", "dist", "renorm", "logsumexp", "pdist",
    "linalg_vector_norm", "linalg_matrix_norm", "upsample_nearest1d", "upsample_nearest2d", "upsample_bilinear2d",
)  # fmt: skip
WIDEST = (
    "addcdiv",
    "addcmul",
    "atan2",
    "bilinear",
    "cross",
    "dot",
    "vdot",
    "grid_sampler",
    "index_put",
    "scatter_add",
    "tensordot",
    "cat",
    "stack",
)
"""Operators whose floating-point arguments are cast to the widest dtype among them."""


def _cast(x: Any, dtype: torch.dtype) -> Any:
    if isinstance(x, torch.Tensor):
        plain = x.is_floating_point() and x.device.type == DEVICE and x.dtype != torch.float64
        return x.to(dtype) if plain else x
    if isinstance(x, (list, tuple)):
        return [_cast(v, dtype) for v in x]
    return x


def _dtypes(x: Any) -> set[torch.dtype]:
    if isinstance(x, torch.Tensor):
        return {x.dtype} if x.is_floating_point() else set()
    return set().union(*map(_dtypes, x)) if isinstance(x, (list, tuple)) else set()


def _in(func: Any, choose: Callable[[tuple], torch.dtype | None]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        with without(KEY):
            dtype = choose(args)
            if dtype is not None:
                args = tuple(_cast(x, dtype) for x in args)
                kwargs = {k: _cast(v, dtype) for k, v in kwargs.items()}
            return func(*args, **kwargs)

    return run


def _widest(args: tuple) -> torch.dtype | None:
    return torch.float32 if torch.float32 in _dtypes(args) else None


def register() -> list[torch.library.Library]:
    """Register autocast kernels for the listed operators; all other operators are left unchanged."""
    library = torch.library.Library("aten", "IMPL")
    rules: list[tuple[tuple[str, ...], Callable[[tuple], torch.dtype | None]]] = [
        (LOWER, lambda args: torch.get_autocast_dtype(DEVICE)),
        (FLOAT32, lambda args: torch.float32),
        (WIDEST, _widest),
    ]
    for names, choose in rules:
        for name in names:
            if is_overload(f"aten::{name}"):
                library.impl(name, _in(overload(f"aten::{name}"), choose), KEY)
    everything = torch.library.Library("_", "IMPL")
    everything.fallback(torch.library.fallthrough_kernel, KEY)
    return [library, everything]
