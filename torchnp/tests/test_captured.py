"""Ops that torch's CPU has no code for: their values are those of the torch functions that they stand for."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from torchnp import aten, table
from torchnp.interop import to_numpy, to_torch

x, w = torch.randn(2, 4, 6, 5), torch.randn(6, 2, 3, 2)
t, b, z = torch.randn(4, 2, 3, 2), torch.randn(6), torch.randn(2, 6, 4, 4)
q, k, v = (torch.randn(2, 3, 5, 8) for _ in "qkv")
bias, grad = torch.randn(2, 3, 5, 5), torch.randn(2, 3, 5, 8)
half, other = torch.randn(5, 7).bfloat16(), torch.randn(7, 3).bfloat16()
probs = torch.log_softmax(torch.randn(5, 2, 4), 2)


def n(*tensors):
    return tuple(to_numpy(y.detach()) if isinstance(y, torch.Tensor) else y for y in tensors)


def grads(function, *inputs, by=None):
    leaves = [y.detach().clone().requires_grad_() for y in inputs]
    out = function(*leaves)
    return torch.autograd.grad(out, leaves, torch.ones_like(out) if by is None else by)


CONV = ([1, 0], [2, 1], [1, 1], 2)  # padding, stride, dilation, groups
FORM = ([2, 1], [1, 0], [1, 1], 2)  # stride, padding, dilation, groups
Y = F.conv2d(x, w, b, *FORM)
g = torch.randn(Y.shape)
Z = torch.randn(Y.shape)
T = F.conv_transpose2d(x, t, None, [2, 1], [1, 0], [1, 0], 2)
LENGTHS, TARGETS = ([5, 4], [2, 1]), torch.tensor([[1, 2], [2, 3]])

CASES = {
    "mm.dtype": (aten.mm.dtype(*n(half, other), "float32"), half.float() @ other.float()),
    "bmm.dtype": (aten.bmm.dtype(*n(half[None], other[None]), "float32"), (half.float() @ other.float())[None]),
    "addmm.dtype": (
        aten.addmm.dtype(*n(other[0], half, other), "float32", beta=2),
        2 * other[0].float() + half.float() @ other.float(),
    ),
    "baddbmm.dtype": (
        aten.baddbmm.dtype(*n(other[0].float(), half[None], other[None]), "float32", alpha=3),
        other[0].float() + 3 * (half.float() @ other.float())[None],
    ),
    "cudnn_convolution": (aten.cudnn_convolution(*n(x, w), *CONV, False, True, False), F.conv2d(x, w, None, *FORM)),
    "cudnn_convolution_transpose": (
        aten.cudnn_convolution_transpose(*n(x, t), [1, 0], [1, 0], [2, 1], [1, 1], 2, False, True, False), T,
    ),
    "miopen_convolution": (aten.miopen_convolution(*n(x, w, b), *CONV, False, True), Y),
    "miopen_convolution_transpose": (
        aten.miopen_convolution_transpose(*n(x, t), None, [1, 0], [1, 0], [2, 1], [1, 1], 2, False, True), T,
    ),
    "_mps_convolution": (aten._mps_convolution(*n(x, w, b), *CONV), Y),
    "_mps_convolution_transpose": (aten._mps_convolution_transpose(*n(x, t), [1, 0], [1, 0], [2, 1], [1, 1], 2), T),
    "mps_convolution_backward": (
        aten.mps_convolution_backward(*n(x, g, w), *CONV, [True, True, True]),
        grads(lambda x, w, b: F.conv2d(x, w, b, *FORM), x, w, b, by=g),
    ),
    "mps_convolution_transpose_backward": (
        aten.mps_convolution_transpose_backward(*n(x, T, t), [1, 0], [1, 0], [2, 1], [1, 1], 2, [True, True]),
        grads(lambda x, t: F.conv_transpose2d(x, t, None, [2, 1], [1, 0], [1, 0], 2), x, t, by=T),
    ),
    "cudnn_convolution_relu": (aten.cudnn_convolution_relu(*n(x, w, b), *FORM), Y.relu()),
    "cudnn_convolution_add_relu": (
        aten.cudnn_convolution_add_relu(*n(x, w, Z), 0.5, *n(b), *FORM), (Y + 0.5 * Z).relu(),
    ),
    "convolution_overrideable": (aten.convolution_overrideable(*n(x, w, b), *FORM[:3], False, [0, 0], 2), Y),
    "convolution_backward_overrideable": (
        aten.convolution_backward_overrideable(*n(g, x, w), *FORM[:3], False, [0, 0], 2, [True, True, True]),
        grads(lambda x, w, b: F.conv2d(x, w, b, *FORM), x, w, b, by=g),
    ),
    "cudnn_batch_norm": (
        aten.cudnn_batch_norm(*n(x), *n(b[:4], b[2:]), None, None, True, 0.1, 1e-5)[:3],
        torch.native_batch_norm(x, b[:4], b[2:], None, None, True, 0.1, 1e-5),
    ),
    "cudnn_grid_sampler": (
        aten.cudnn_grid_sampler(*n(x, q[:, 0, :, :2].reshape(2, 5, 1, 2))),
        F.grid_sample(x, q[:, 0, :, :2].reshape(2, 5, 1, 2), align_corners=True),
    ),
    "cudnn_affine_grid_generator": (
        aten.cudnn_affine_grid_generator(*n(q[:, 0, :2, :3]), 2, 1, 4, 5),
        F.affine_grid(q[:, 0, :2, :3], [2, 1, 4, 5], align_corners=True),
    ),
    "mkldnn_linear": (aten.mkldnn_linear(*n(q, v[0, 0], v[0, 0, :, 0])), F.linear(q, v[0, 0], v[0, 0, :, 0])),
    "mkldnn_linear_backward": (
        aten.mkldnn_linear_backward(*n(q, bias, v[0, 0]), [True, True, True]),
        grads(F.linear, q, v[0, 0], v[0, 0, :, 0], by=bias),
    ),
    "mkldnn_max_pool2d": (aten.mkldnn_max_pool2d(*n(x), [2, 2]), F.max_pool2d(x, 2)),
    "mkldnn_max_pool2d_backward": (
        aten.mkldnn_max_pool2d_backward(np.ones((2, 4, 3, 2), np.float32), *n(x, x), [2, 2]),
        grads(lambda x: F.max_pool2d(x, 2), x)[0],
    ),
    "mkldnn_max_pool3d": (aten.mkldnn_max_pool3d(*n(x), [2, 2, 2]), F.max_pool3d(x, 2)),
    "mkldnn_adaptive_avg_pool2d": (aten.mkldnn_adaptive_avg_pool2d(*n(x), [2, 3]), F.adaptive_avg_pool2d(x, [2, 3])),
    "_cudnn_ctc_loss": (
        aten._cudnn_ctc_loss(*n(probs, TARGETS), *LENGTHS, 0, False, False),
        (
            F.ctc_loss(probs, TARGETS, *LENGTHS, reduction="none"),
            grads(lambda p: F.ctc_loss(p, TARGETS, *LENGTHS, reduction="none"), probs)[0],
        ),
    ),
    "_masked_scale": (aten._masked_scale(*n(half, half > 0), 2.0), half * (half > 0) * 2),
    "native_norm": (aten.native_norm(*n(x), 3), x.norm(3)),
    "_scaled_dot_product_flash_attention": (
        aten._scaled_dot_product_flash_attention(*n(q, k, v), 0.0, True)[0],
        F.scaled_dot_product_attention(q, k, v, is_causal=True),
    ),
    "_scaled_dot_product_cudnn_attention": (
        aten._scaled_dot_product_cudnn_attention(*n(q, k, v, bias), True)[0],
        F.scaled_dot_product_attention(q, k, v, bias),
    ),
    "_triton_scaled_dot_attention": (
        aten._triton_scaled_dot_attention(*n(q, k, v)), F.scaled_dot_product_attention(q, k, v),
    ),
}  # fmt: skip


def same(found, wanted):
    if isinstance(wanted, (tuple, list)):
        assert len(found) == len(wanted)
        for a, c in zip(found, wanted, strict=True):
            same(a, c)
    else:
        torch.testing.assert_close(to_torch(found), wanted.detach(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("op", CASES)
def test_value_is_that_of_the_function(op):
    assert op.partition(".")[0] in {name.partition("::")[2].partition(".")[0] for name in table}
    same(*CASES[op])


def test_efficient_attention_and_its_gradients():
    ours = aten._scaled_dot_product_efficient_attention(*n(q, k, v, bias), True)
    same(ours[0], F.scaled_dot_product_attention(q, k, v, bias))
    assert ours[1].shape == (2, 3, 32)
    saved = (ours[0], *ours[1:])
    found = aten._scaled_dot_product_efficient_attention_backward(*n(grad, q, k, v, bias), *saved, 0.0, [True] * 4)
    same(found, grads(F.scaled_dot_product_attention, q, k, v, bias, by=grad))


def test_attention_of_other_devices_says_its_sizes_and_refuses_dropout():
    found = aten._scaled_dot_product_flash_attention(*n(q, k, v))
    same(found[:1], [F.scaled_dot_product_attention(q, k, v)])
    assert found[2:6] == (None, None, q.shape[2], k.shape[2])
    with pytest.raises(RuntimeError, match="without dropout"):
        aten._scaled_dot_product_flash_attention(*n(q, k, v), 0.5)


@pytest.mark.parametrize("groups", ([4, 8], [0, 8]))
def test_scaled_groups_are_scaled_products(groups):
    offs = torch.tensor(groups, dtype=torch.int32)
    a, m = torch.randn(8, 16).to(torch.float8_e4m3fn), torch.randn(2, 16, 32).to(torch.float8_e4m3fn)
    sa, sb = torch.rand(8), torch.rand(2, 32)
    found = aten._scaled_grouped_mm(*n(a, m, sa, sb, offs))
    wide = a.float() * sa[:, None]
    parts = [wide[: groups[0]] @ (m[0].float() * sb[0]), wide[groups[0] :] @ (m[1].float() * sb[1])]
    torch.testing.assert_close(to_torch(found), torch.cat(parts).bfloat16(), rtol=2e-2, atol=2e-2)
    again = aten._scaled_grouped_mm(*n(a, m, sa, sb, offs), out_dtype="bfloat16")
    np.testing.assert_array_equal(again.view(np.uint16), found.view(np.uint16))
    with pytest.raises(RuntimeError, match="Only bf16"):
        aten._scaled_grouped_mm(*n(a, m, sa, sb, offs), out_dtype="float32")


def test_fused_dropout_keeps_a_share_and_scales_it():
    out, kept = aten._fused_dropout(np.ones(1000, np.float32), 0.75)
    assert 650 < kept.sum() < 850
    np.testing.assert_array_equal(out, kept.astype(np.float32) / np.float32(0.75))


def test_pinned_memory_is_the_memory():
    array = np.ones(3)
    assert aten.pin_memory(array) is array
