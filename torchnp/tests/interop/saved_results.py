"""Operators that save results for the gradient: each library's backward accepts what the other's forward has saved.

``python -m torchnp.tests.interop.saved_results`` computes each case with torch, once with the forward pass under
`NumpyMode` and the backward pass outside, and once the other way round, each in its own process. It prints the outcomes
as JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from torchnp.interop import NumpyMode

aten = torch.ops.aten
X, IMAGE, VOLUME = (3, 4), (2, 4, 6, 6), (1, 2, 4, 4, 4)
SQUARE, QUERY = (3, 3), (2, 2, 5, 8)
TARGETS = torch.tensor([[1, 2, 1], [2, 1, 0]])
BAG, OFFSETS = torch.tensor([0, 2, 1, 1, 3, 0]), torch.tensor([0, 2, 2])


def flash(x: Any, causal: bool = False, mask: Any = None, dropout: float = 0.0) -> Any:
    return aten._scaled_dot_product_flash_attention_for_cpu(x, x * 2, x * 3, dropout, causal, attn_mask=mask)[0]


def bag(mode: str, **options: Any) -> Callable[[Any], Any]:
    return lambda w: F.embedding_bag(BAG, w, OFFSETS, mode=mode, **options)


def ctc(**options: Any) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        return F.ctc_loss(x.log_softmax(2), TARGETS, (5, 5), (3, 2), **options)

    return run


# By name: the function, and the shape of the leaf.
CASES: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    # attention: logsumexp
    "flash": (flash, QUERY),
    "flash causal": (lambda x: flash(x, True), QUERY),
    "flash masked": (lambda x: flash(x, mask=torch.ones(5, 5).tril().log()), QUERY),
    "flash of other sizes": (lambda x: flash(x[:, :, :3].transpose(1, 2).contiguous().transpose(1, 2)), QUERY),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), QUERY),
    # norms: means, inverse deviations, reserve
    "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), IMAGE),
    "batch_norm evaluated": (lambda x: F.batch_norm(x, torch.zeros(4), torch.ones(4)), IMAGE),
    "batch_norm with statistics": (lambda x: F.batch_norm(x, torch.zeros(4), torch.ones(4), training=True), IMAGE),
    "_batch_norm_impl_index": (
        lambda x: torch._batch_norm_impl_index(x, None, None, None, None, True, 0.1, 1e-5, True)[0],
        IMAGE,
    ),
    "native_batch_norm": (lambda x: torch.native_batch_norm(x, x[0, :, 0, 0], None, None, None, True, 0.1, 1e-5)[0], IMAGE),
    "_batch_norm_with_update": (
        lambda x: aten._batch_norm_with_update(x, x[0, :, 0, 0], None, torch.zeros(4), torch.ones(4), 0.1, 1e-5)[0],
        IMAGE,
    ),
    "layer_norm": (lambda x: F.layer_norm(x, (6,), x[0, 0, 0]), IMAGE),
    "group_norm": (lambda x: F.group_norm(x, 2, x[0, :, 0, 0]), IMAGE),
    "instance_norm": (F.instance_norm, IMAGE),
    "weight_norm": (lambda x: torch._weight_norm(x, x.norm(dim=1, keepdim=True), 0), X),
    "rms_norm": (lambda x: F.rms_norm(x, (4,)), X),
    # pooling: indices
    "max_pool1d": (lambda x: F.max_pool1d(x[0], 2, ceil_mode=True), IMAGE),
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), IMAGE),
    "max_pool2d channels last": (lambda x: F.max_pool2d(x.to(memory_format=torch.channels_last), 2), IMAGE),
    "max_pool3d": (lambda x: F.max_pool3d(x, 2), VOLUME),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, (2, 4)), IMAGE),
    "adaptive_max_pool3d": (lambda x: F.adaptive_max_pool3d(x, 3), VOLUME),
    "fractional_max_pool2d": (lambda x: F.fractional_max_pool2d(x, 2, output_size=3), IMAGE),
    "fractional_max_pool3d": (lambda x: F.fractional_max_pool3d(x, 2, output_size=2), VOLUME),
    "max_unpool2d": (lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), IMAGE),
    "max_unpool3d": (lambda x: F.max_unpool3d(*F.max_pool3d(x, 2, return_indices=True), 2), VOLUME),
    # noise and masks
    "native_dropout": (lambda x: torch.native_dropout(x, 0.5, True)[0], X),
    "native_dropout evaluated": (lambda x: torch.native_dropout(x, 0.5, False)[0], X),
    "dropout": (lambda x: F.dropout(x, 0.3), X),
    "alpha_dropout": (lambda x: F.alpha_dropout(x, 0.3, training=True), X),
    "feature_dropout": (lambda x: F.dropout2d(x, 0.5), IMAGE),
    "rrelu": (lambda x: F.rrelu(x, training=True), X),
    "fake_quantize": (lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -8, 7), X),
    "fake_quantize by tensors": (
        lambda x: torch.fake_quantize_per_tensor_affine(x, torch.tensor(0.1), torch.tensor(0, dtype=torch.int32), -8, 7),
        X,
    ),
    "fake_quantize per channel": (
        lambda x: torch.fake_quantize_per_channel_affine(x, torch.full((3,), 0.1), torch.zeros(3, dtype=torch.int32), 0, -8, 7),
        X,
    ),
    # losses: alphas, total weights, targets
    "ctc_loss": (ctc(), (5, 2, 4)),
    "ctc_loss of each": (ctc(reduction="none", zero_infinity=True), (5, 2, 4)),
    "ctc_loss of tensors": (
        lambda x: F.ctc_loss(x.log_softmax(2), TARGETS, torch.tensor([5, 4]), torch.tensor([2, 3])),
        (5, 2, 4),
    ),
    "nll_loss": (lambda x: F.nll_loss(x, torch.tensor([0, 3, 1]), torch.arange(4.0)), X),
    "nll_loss2d": (lambda x: F.nll_loss(x, torch.ones(2, 6, 6, dtype=torch.long), ignore_index=2), IMAGE),
    "multilabel_margin_loss": (lambda x: F.multilabel_margin_loss(x, torch.tensor([[1, 0, -1, 2]] * 3)), X),
    "multi_margin_loss": (lambda x: F.multi_margin_loss(x, torch.tensor([0, 3, 1])), X),
    "logsigmoid": (F.logsigmoid, X),
    # embeddings: offset2bag, sizes of bags, largest indices
    **{f"embedding_bag {mode}": (bag(mode), X[::-1]) for mode in ("sum", "mean", "max")},
    **{f"embedding_bag {mode} padded": (bag(mode, padding_idx=1), X[::-1]) for mode in ("sum", "mean", "max")},
    **{
        f"embedding_bag {mode} to the end": (
            lambda w, mode=mode: F.embedding_bag(BAG, w, torch.tensor([0, 2, 6]), mode=mode, include_last_offset=True),
            X[::-1],
        )
        for mode in ("sum", "mean", "max")
    },
    "embedding_bag weighted": (lambda w: F.embedding_bag(BAG, w, OFFSETS, mode="sum", per_sample_weights=w.flatten()[:6]), X[::-1]),
    "embedding_bag by frequency": (bag("mean", scale_grad_by_freq=True), X[::-1]),
    "embedding": (lambda w: F.embedding(BAG, w, padding_idx=0), X[::-1]),
    # orders: positions
    "sort": (lambda x: x.sort(0)[0], X),
    "topk": (lambda x: x.topk(2)[0], X),
    "kthvalue": (lambda x: x.kthvalue(2)[0], X),
    "median": (lambda x: x.median(1)[0], X),
    "mode": (lambda x: x.mode(1)[0], X),
    "max": (lambda x: x.max(1)[0], X),
    "cummax": (lambda x: x.cummax(1)[0], X),
    "aminmax": (lambda x: x.aminmax(dim=1), X),
    "unfold": (lambda x: x.unfold(1, 2, 1), X),
    # factors: pivots, reflectors
    "lu_factor": (lambda x: torch.linalg.lu_factor(x)[0], SQUARE),
    "lu_solve": (lambda x: torch.linalg.lu_solve(*torch.linalg.lu_factor(x), x), SQUARE),
    "lu": (lambda x: torch.linalg.lu(x)[1:], SQUARE),
    "solve": (lambda x: torch.linalg.solve(x, x[0]), SQUARE),
    "solve_ex": (lambda x: torch.linalg.solve_ex(x, x.T)[0], SQUARE),
    "inv": (torch.linalg.inv, SQUARE),
    "det": (torch.linalg.det, SQUARE),
    "slogdet": (lambda x: torch.linalg.slogdet(x)[1], SQUARE),
    "cholesky": (lambda x: torch.linalg.cholesky(x @ x.T), SQUARE),
    "qr": (lambda x: torch.linalg.qr(x)[1], SQUARE),
    "householder_product": (lambda x: torch.linalg.householder_product(x, x[0]), SQUARE),
    "svd": (torch.linalg.svdvals, SQUARE),
    "eigh": (lambda x: torch.linalg.eigvalsh(x + x.T), SQUARE),
    # segments, distances, windows, convolutions
    "segment_reduce": (lambda x: torch.segment_reduce(x, "max", lengths=torch.tensor([1, 2])), X),
    "cdist": (lambda x: torch.cdist(x, 2 * x[:2]), X),
    "pdist": (F.pdist, X),
    "grid_sample": (lambda x: F.grid_sample(x, x[:, :2].permute(0, 2, 3, 1)), IMAGE),
    "upsample": (lambda x: F.interpolate(x, scale_factor=2.05), IMAGE),
    "prelu": (lambda x: F.prelu(x, x[0, :, 0, 0]), IMAGE),
    "conv2d": (lambda x: F.conv2d(x, x[:, :, :3, :3], padding=1), IMAGE),
    "conv_transpose2d": (lambda x: F.conv_transpose2d(x, x[0, :, None, :2, :2], stride=2), IMAGE),
    "mkldnn_convolution": (lambda x: F.conv2d(x.expand(2, 4, 6, 6), x[:, :, :1, :1]), IMAGE),
    "softmax": (lambda x: x.softmax(1), X),
    "logsumexp": (lambda x: x.logsumexp(1), X),
    "gru cell": (lambda x: torch.gru_cell(x, x[:, :2], torch.ones(6, 4), torch.ones(6, 2)), X),
    "lstm cell": (lambda x: torch.lstm_cell(x, (x[:, :2], x[:, 2:]), torch.ones(8, 4), torch.ones(8, 2)), X),
}  # fmt: skip

ROUTES = {"forward inside": (True, False), "backward inside": (False, True), "both": (True, True)}


def run(name: str, forward: bool, backward: bool) -> list[torch.Tensor]:
    """Return the gradient of a case, and the tensor to which it belongs."""
    function, shape = CASES[name]
    leaf = torch.randn(shape, generator=torch.Generator().manual_seed(2)).requires_grad_()
    torch.manual_seed(3)
    with NumpyMode() if forward else contextlib.nullcontext():
        out = function(leaf)
    outs = [x for x in (out if isinstance(out, tuple) else (out,)) if x.requires_grad]
    grads = [torch.linspace(-1, 2, x.numel()).reshape(x.shape) for x in outs]
    with NumpyMode() if backward else contextlib.nullcontext():
        return [*torch.autograd.grad(outs, leaf, grads), *outs]


def outcome(name: str, route: str) -> str:
    """Return the outcome of a case: an empty string if it agrees with torch."""
    want = run(name, False, False)
    found = run(name, *ROUTES[route])
    try:
        torch.testing.assert_close([x.detach() for x in found], [x.detach() for x in want], rtol=1e-4, atol=1e-5)
    except AssertionError as error:
        return str(error)
    return ""


def _in_a_process(name: str, route: str) -> str:
    """Return the outcome of a case, computed in a forked process, which need not import everything again."""
    with tempfile.TemporaryFile("w+") as said:
        child = os.fork()
        if not child:
            try:
                said.write(outcome(name, route))
            except Exception as error:
                said.write(f"{type(error).__name__}: {error}")
            said.flush()
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        said.seek(0)
        return f"the process ended by {status}" if status else said.read()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)  # at a fork there must be no other threads
    outcome("softmax", "both")  # imports lazily imported modules before the forks
    json.dump({f"{name}/{route}": _in_a_process(name, route) for name in CASES for route in ROUTES}, sys.stdout)
