"""Ops without a CPU kernel in torch: their values equal those of the torch functions that they stand for."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import torchnp
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


# ---------------------------------------------------------------- attention

NEAR = {torch.float32: 2e-5, torch.float64: 1e-10, torch.bfloat16: 3e-2, torch.float16: 5e-3}


def near(found, wanted, dtype=None):
    """Assert that a result is close to torch's and has its dtype, or that both are None."""
    assert (found is None) == (wanted is None)
    if found is not None:
        tolerance = NEAR[dtype or wanted.dtype]
        torch.testing.assert_close(to_torch(found), wanted.detach(), rtol=tolerance, atol=tolerance)


def attention(query, key, value, added, causal, scale):
    """Return the attention and the logarithm of each row's sum; half types are computed in float32."""
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = query @ key.mT * scale
    scores = scores if added is None else scores + added
    if causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    return scores.softmax(-1) @ value, scores.logsumexp(-1)


def wide(y):
    return None if y is None else y.to(torch.float64 if y.dtype == torch.float64 else torch.float32)


# Rows and columns, the shape of the bias, whether causal, the scale.
ATTENDED = [
    (5, 5, None, False, None), (5, 7, None, False, 0.3), (6, 6, None, True, None), (33, 4, (2, 3, 33, 4), False, None),
    (5, 7, (5, 7), False, None), (5, 7, (2, 1, 1, 7), False, 1.5), (4, 4, (1, 3, 4, 4), True, None),
]  # fmt: skip


def given(rows, columns, added, dtype):
    """Return query, key, value, bias and the result's gradient."""
    made = torch.Generator().manual_seed(rows * columns)
    shapes = [(2, 3, rows, 8), (2, 3, columns, 8), (2, 3, columns, 8), added, (2, 3, rows, 8)]
    return [None if s is None else torch.randn(s, generator=made).to(dtype) for s in shapes]


@pytest.mark.parametrize("dtype", NEAR)
@pytest.mark.parametrize(("rows", "columns", "added", "causal", "scale"), ATTENDED)
def test_attention_of_other_devices_and_its_gradients(rows, columns, added, causal, scale, dtype):
    *inputs, g = given(rows, columns, added, dtype)
    leaves = [None if y is None else wide(y).requires_grad_() for y in inputs]
    out, logs = attention(*leaves, causal, scale)
    there = [y for y in leaves if y is not None]
    want = [y.to(dtype) for y in torch.autograd.grad(out, there, wide(g))]
    if not added:  # the gradient takes a bias, even if there is none
        inputs[3] = torch.zeros(1, 1, dtype=dtype)
    arrays, options = n(*inputs), {} if scale is None else {"scale": scale}

    found = aten._scaled_dot_product_efficient_attention(*arrays, True, 0.0, causal, **options)
    near(found[0], out.to(dtype))
    height = -(-rows // 32) * 32
    near(found[1][..., :rows], logs)
    assert found[1].shape == (2, 3, height) and np.isposinf(found[1][..., rows:]).all()
    state(found[2:], ((), np.int64), ((), np.int64))
    unsaved = aten._scaled_dot_product_efficient_attention(*arrays, False, 0.0, causal, **options)
    near(unsaved[0], out.to(dtype))
    assert unsaved[1].shape == (2, 3, 0)
    for mask in ([True] * 4, [True, False, True, False], [False, True, False, True]):
        back = aten._scaled_dot_product_efficient_attention_backward(
            *n(g), *arrays, *found, 0.0, mask, causal, **options
        )
        assert [y is not None for y in back] == mask
        for mine, theirs, asked in zip(back, want, mask, strict=False):
            near(mine, theirs if asked else None)

    whole = aten._scaled_dot_product_fused_attention_overrideable(*arrays, 0.0, causal, **options)
    near(whole[0], out.to(dtype))
    near(whole[1], logs)
    assert whole[2:6] == (None, None, rows, columns)
    state(whole[6:8], ((), np.int64), ((), np.int64))
    assert whole[8].shape == (0,) and whole[8].dtype == arrays[0].dtype
    ends = np.zeros(2, np.int32)
    sizes = (None, None, rows, columns)
    back = aten._scaled_dot_product_fused_attention_overrideable_backward(
        *n(g), *arrays, [True] * 4, *whole[:2], ends, ends, *sizes[2:], 0.0, causal, *whole[6:8], **options
    )
    for mine, theirs in zip(back, want, strict=False):
        near(mine, theirs)

    cudnn = aten._scaled_dot_product_cudnn_attention(*arrays, True, 0.0, causal, **options)
    near(cudnn[0], out.to(dtype))
    near(cudnn[1], logs[..., None])
    assert cudnn[2:6] == sizes
    state(cudnn[6:8], ((), np.int64), ((), np.int64))
    back = aten._scaled_dot_product_cudnn_attention_backward(
        *n(g), *arrays[:3], *cudnn[:2], *cudnn[6:8], arrays[3], ends, ends, *sizes[2:], 0.0, causal, **options
    )
    for mine, theirs in zip(back, want[:3], strict=True):
        near(mine, theirs)
    if not added:
        flash = aten._scaled_dot_product_flash_attention(*arrays[:3], 0.0, causal, **options)
        near(flash[0], out.to(dtype))
        near(flash[1], logs)
        assert flash[2:6] == sizes
        state(flash[6:8], ((2,), np.uint64), ((), np.uint64))
        back = aten._scaled_dot_product_flash_attention_backward(
            *n(g), *arrays[:3], *flash[:2], ends, ends, *sizes[2:], 0.0, causal, *flash[6:8], **options
        )
        for mine, theirs in zip(back, want[:3], strict=True):
            near(mine, theirs)


def state(found, *wanted):
    """Assert that results belonging to a random stream are zero."""
    for array, (shape, dtype) in zip(found, wanted, strict=True):
        assert array.shape == shape and array.dtype == dtype and not array.any()


def test_dropout_of_other_devices_is_refused():
    for call, more in (
        (aten._scaled_dot_product_flash_attention, (0.5,)), (aten._scaled_dot_product_cudnn_attention, (None, True, 0.1)),
        (aten._scaled_dot_product_efficient_attention, (None, True, 1.0)),
    ):  # fmt: skip
        with pytest.raises(RuntimeError) as error:
            call(*n(q, k, v), *more)
        assert str(error.value) == "torchnp attends without dropout: a GPU's random stream is its own"


def test_attention_of_packed_weights():
    y, packed, inner = torch.randn(2, 5, 8), torch.randn(24, 8), torch.randn(8, 8)
    shifts = torch.randn(24), torch.randn(8)
    given = y, torch.randn(2, 5, 8), torch.randn(2, 5, 8)
    for query, key, value in ((y, y, y), (y, given[1], given[1]), given):
        want = torch._native_multi_head_attention(query, key, value, 8, 2, packed, shifts[0], inner, shifts[1])[0]
        found = aten._triton_multi_head_attention(*n(query, key, value), 8, 2, *n(packed, shifts[0], inner, shifts[1]))
        near(found, want)


# ---------------------------------------------------------------- products of groups


def eights(*shape):
    return torch.randn(shape).to(torch.float8_e4m3fn)


def scaled_groups(a, b, ends, rows, columns):
    """Return each group's product, computed separately in float32."""
    parts, start = [], 0
    if ends is None:
        return (a.float() * rows[..., None]) @ (b.float() * columns[..., None, :])
    for i, end in enumerate(ends):
        if a.ndim == b.ndim:
            one, other = a[:, start:end].float(), b[start:end].float()
            scales = rows.view(len(ends), -1)[i], columns.view(len(ends), -1)[i]
        elif a.ndim == 2:
            one, other, scales = a[start:end].float(), b[i].float(), (rows[start:end], columns[i])
        else:
            one, other, scales = a[i].float(), b[:, start:end].float(), (rows[i], columns[start:end])
        parts.append(one @ other * scales[0][:, None] * scales[1])
        start = end
    return torch.stack(parts) if a.ndim == b.ndim else torch.cat(parts, 0 if a.ndim == 2 else 1)


GROUPS = [
    ((8, 16), (2, 16, 32), [4, 8], (8,), (2, 32)), ((8, 16), (2, 16, 32), [0, 8], (8,), (2, 32)),
    ((2, 8, 16), (16, 32), [16, 32], (2, 8), (32,)), ((4, 32), (32, 16), [16, 32], (8,), (32,)),
    ((2, 8, 16), (2, 16, 32), None, (2, 8), (2, 32)), ((3, 4, 16), (3, 16, 16), None, (3, 4), (3, 16)),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b", "ends", "rows", "columns"), GROUPS)
def test_scaled_groups_are_scaled_products(a, b, ends, rows, columns):
    x, y, one, other = eights(*a), eights(*b), torch.rand(rows) + 0.5, torch.rand(columns) + 0.5
    offs = None if ends is None else torch.tensor(ends, dtype=torch.int32)
    given, want = n(x, y, one, other, offs), scaled_groups(x, y, ends, one, other).bfloat16()
    second = n(x, y), [n(one)[0]], [1], [0], [n(other)[0]], [1], [0], n(offs)[0]
    found = aten._scaled_grouped_mm(*given)
    torch.testing.assert_close(to_torch(found), want, rtol=1e-2, atol=1e-2)
    for again in (
        aten._scaled_grouped_mm(*given, out_dtype="bfloat16"),
        aten._scaled_grouped_mm(*given, use_fast_accum=True),
        aten._scaled_grouped_mm_v2(*second[0], *second[1:]),
        aten._scaled_grouped_mm_v2(*second[0], *second[1:], None, "bfloat16", [], True),
        aten._scaled_grouped_mm_v2(*second[0], *second[1:6], [], *second[7:]),
    ):
        assert again.strides == found.strides
        np.testing.assert_array_equal(again.view(np.uint16), found.view(np.uint16))


def test_rows_of_scaled_groups_start_at_sixteen_bytes():
    found = aten._scaled_grouped_mm(*n(eights(2, 4, 16), eights(2, 12, 16).mT, torch.ones(2, 4), torch.ones(2, 12)))
    assert found.shape == (2, 4, 12) and found.strides == (2 * 64, 32, 2)


def test_scaled_groups_that_are_refused():
    x, y, one, other = n(eights(8, 16), eights(2, 16, 32), torch.rand(8), torch.rand(2, 32))
    offs, float32 = np.array([4, 8], np.int32), n(torch.rand(8, 16))[0]
    only = "Only bf16 high precision output types are supported for grouped gemm"
    scales = "Both scale_a and scale_b must be float (fp32) tensors."
    flat = "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d"
    config = "Invalid scaling configuration: torchnp has one scale for each row and column"
    first, second = aten._scaled_grouped_mm, aten._scaled_grouped_mm_v2
    rows = [
        (first, (x, y, one, other, offs, None, None, "float32"), RuntimeError, only),
        (first, (float32, y, one, other, offs), ValueError, "Expected mat_a to be Float8_e4m3 matrix got Float"),
        (first, (x, float32, one, other, offs), ValueError, "Expected mat_b to be Float8_e4m3 matrix got Float"),
        (first, (x, y, one, other, offs, None, one), ValueError, "Scale result not supported yet"),
        (first, (x, y, one, other, offs, one), RuntimeError, "Bias not supported yet"),
        (first, (x, y, one, other), RuntimeError, flat),
        (first, (x, y, one.astype(np.float64), other, offs), RuntimeError, scales),
        (first, (x, y, one, other.astype(np.float64), offs), RuntimeError, scales),
        (second, (x, y, [one], [0], [0], [other], [1], [0], offs), ValueError, config),
        (second, (x, y, [one], [1], [0], [other], [2], [0], offs), ValueError, config),
        (second, (x, y, [one], [1], [1], [other], [1], [0], offs), ValueError, config),
        (second, (x, y, [one], [1], [0], [other], [1], [1], offs), ValueError, config),
        (second, (x, y, [one], [1], [0], [other], [1], [0], offs, one), RuntimeError, "Bias not supported yet"),
        (second, (x, y, [one], [1], [0], [other], [1], [0], offs, None, "float16"), RuntimeError, only),
    ]
    for call, arguments, kind, said in rows:
        with pytest.raises(kind) as error:
            call(*arguments)
        assert type(error.value) is kind and str(error.value) == said


# ---------------------------------------------------------------- products in another dtype


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("out", [torch.float32, None])
def test_products_in_the_dtype_of_the_result(dtype, out):
    if out is not None and dtype == torch.float64:
        return
    out = out or dtype
    a, m = torch.randn(5, 7).to(dtype), torch.randn(7, 3).to(dtype)
    base, name = torch.randn(3), str(out).removeprefix("torch.")
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    product = a.to(wide) @ m.to(wide)
    near(aten.mm.dtype(*n(a, m), name), product.to(out))
    near(aten.bmm.dtype(*n(a[None], m[None]), name), product[None].to(out))
    for kind in {dtype, out}:
        add = base.to(kind)
        want = (0.5 * add.to(wide) + 3 * product).to(out)
        near(aten.addmm.dtype(*n(add, a, m), name, beta=0.5, alpha=3), want)
        near(aten.baddbmm.dtype(*n(add, a[None], m[None]), name, beta=0.5, alpha=3), want[None])


def test_products_in_a_dtype_that_are_refused():
    a, m, base = n(torch.randn(2, 2).half(), torch.randn(2, 2).half(), torch.randn(2))
    beside = "out_dtype must be the same as input dtype or fp32 for fp16/bf16 inputs"
    double = base.astype(np.float64)
    rows = [
        (aten.mm.dtype, (a, m, "float64"), beside), (aten.mm.dtype, (a, m, "bfloat16"), beside),
        (aten.bmm.dtype, (double.repeat(2).reshape(1, 2, 2), m[None], "float32"), beside),
        (aten.addmm.dtype, (double, a, m, "float32"), "self dtype must match either out_dtype or mat1 dtype"),
        (aten.addmm.dtype, (base, a, m, "float16"), "self dtype must match either out_dtype or mat1 dtype"),
        (aten.baddbmm.dtype, (double, a[None], m[None], "float32"), "self dtype must match either out_dtype or batch1 dtype"),
        (aten.mm.dtype, (a, m.astype(np.float32), "float16"), "expected m1 and m2 to have the same dtype, but got: c10::Half != float"),
        (aten.mm.dtype, (a, m.astype(np.float64), "float32"), "expected m1 and m2 to have the same dtype, but got: float != double"),
    ]  # fmt: skip
    for call, arguments, said in rows:
        with pytest.raises(RuntimeError) as error:
            call(*arguments)
        assert str(error.value) == said


# ---------------------------------------------------------------- dropout, batch norm, pools, linear layers


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_fused_dropout_keeps_a_share_and_scales_it(dtype):
    y = torch.randn(3, 400).to(dtype)
    out, kept = aten._fused_dropout(*n(y), 0.75, generator=torchnp.Generator(5))
    assert kept.shape == y.shape and kept.dtype == np.uint8 and 840 < kept.sum() < 960
    want = torch.empty(y.shape, dtype=torch.uint8).bernoulli_(0.75, generator=torch.Generator().manual_seed(5))
    assert torch.equal(to_torch(kept), want)
    inner = y if dtype == torch.float64 else y.float()
    torch.testing.assert_close(
        to_torch(out), (inner * want * torch.tensor(1 / 0.75, dtype=inner.dtype)).to(dtype), rtol=0, atol=0
    )
    out, kept = aten._fused_dropout(*n(y), 0.0)
    assert not kept.any() and not np.any(out.astype(np.float64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_masked_values_are_scaled_in_the_wide_dtype(dtype):
    y, mask = torch.randn(5, 7).to(dtype), torch.rand(5, 7) > 0.5
    inner = y if dtype == torch.float64 else y.float()
    want = (inner * mask * torch.tensor(1.3, dtype=inner.dtype)).to(dtype)
    for m in (mask, mask.byte()):
        torch.testing.assert_close(to_torch(aten._masked_scale(*n(y, m), 1.3)), want, rtol=0, atol=0)


@pytest.mark.parametrize("mask", [[True, True, True], [True, False, False], [False, True, True]])
def test_convolutions_of_other_libraries_and_their_gradients(mask):
    def those(found, wanted):
        assert [y is not None for y in found] == mask[: len(found)]
        for mine, theirs in zip(found, wanted, strict=True):
            if mine is not None:
                same(mine, theirs)

    want = grads(lambda x, w, b: F.conv2d(x, w, b, *FORM), x, w, b, by=g)
    those(aten.mps_convolution_backward(*n(x, g, w), *CONV, mask), want)
    those(aten.convolution_backward_overrideable(*n(g, x, w), *FORM[:3], False, [0, 0], 2, mask), want)
    turned = lambda x, t, o: F.conv_transpose2d(x, t, o, [2, 1], [1, 0], [1, 0], 2)
    want = grads(turned, x, t, b[:4], by=T)
    two = aten.mps_convolution_transpose_backward(*n(x, T, t), [1, 0], [1, 0], [2, 1], [1, 1], 2, mask[:2])
    assert len(two) == 2
    those(two, want[:2])
    those(aten.convolution_backward_overrideable(*n(T, x, t), *FORM[:3], True, [1, 0], 2, mask), want)


def test_rectified_convolutions_without_a_bias_or_a_factor():
    for library in ("cudnn", "miopen"):
        plain, adding = (getattr(aten, f"{library}_convolution_{what}relu") for what in ("", "add_"))
        same(plain(*n(x, w), None, *FORM), F.conv2d(x, w, None, *FORM).relu())
        for alpha, factor in ((None, 1), (0.0, 0), (2.5, 2.5)):
            same(adding(*n(x, w, Z), alpha, *n(b), *FORM), (Y + factor * Z).relu())


@pytest.mark.parametrize("library", ["miopen", "cudnn"])
def test_gradients_of_batch_norm_in_training(library):
    weight, shift = b[:4], b[2:]
    running = torch.randn(4), torch.rand(4) + 1
    whole = [y.clone().requires_grad_() for y in (x, weight, shift)]
    out, mean, invstd = torch.native_batch_norm(*whole, None, None, True, 0.1, 1e-2)
    by = torch.randn(out.shape)
    reserve = n(torch.empty(0, dtype=torch.uint8)) if library == "cudnn" else ()
    found = getattr(aten, f"{library}_batch_norm_backward")(*n(x, by, weight, *running, mean, invstd), 1e-2, *reserve)
    same(found, torch.autograd.grad(out, whole, by))


@pytest.mark.parametrize(
    "window",
    [
        ([2, 2],),
        ([3, 2], [2, 1]),
        ([3, 2], [2, 1], [1, 0]),
        ([3, 2], [2, 1], [1, 0], [1, 2]),
        ([3, 3], [2, 2], [1, 1], [1, 1], True),
    ],
)
def test_gradients_of_the_pools_of_onednn(window):
    y = torch.randn(2, 4, 8, 7)
    out = torch.max_pool2d(y, *window)
    by = torch.randn(out.shape)
    same(
        aten.mkldnn_max_pool2d_backward(*n(by, out, y), *window),
        grads(lambda y: torch.max_pool2d(y, *window), y, by=by)[0],
    )
    cube = [
        [3, *part] if isinstance(part, list) and i == 0 else [1, *part] if isinstance(part, list) else part
        for i, part in enumerate(window)
    ]
    y = torch.randn(2, 2, 5, 6, 7)
    out = torch.max_pool3d(y, *cube)
    by = torch.randn(out.shape)
    same(
        aten.mkldnn_max_pool3d_backward(*n(by, out, y), *cube), grads(lambda y: torch.max_pool3d(y, *cube), y, by=by)[0]
    )


@pytest.mark.parametrize("blank", [0, 3])
@pytest.mark.parametrize("name", ["_cudnn_ctc_loss", "miopen_ctc_loss"])
def test_losses_of_sequences_and_their_gradients(name, blank):
    short, targets = ([5, 1], [2, 2]), torch.tensor([[1, 2], [2, 2]])  # the second sequence is too short for its target
    for lengths, zero in ((LENGTHS, False), (LENGTHS, True), (short, True)):
        loss = lambda p: F.ctc_loss(p, targets, *lengths, blank, "none", zero)
        found = getattr(aten, name)(*n(probs, targets), *lengths, blank, False, zero)
        same(
            found, (F.ctc_loss(probs, targets, *lengths, blank, "none"), grads(loss, probs)[0])
        )  # zero_infinity applies only to the gradient


def test_pinned_memory_is_the_memory():
    array = np.ones(3)
    assert aten.pin_memory(array) is array
