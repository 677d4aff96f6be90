"""Kernels that torch has only on other devices, compared with torch's public operators."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from torchnp import aten, table
from torchnp.interop import to_numpy, to_torch

EPS = 1e-3


def n(*tensors):
    return tuple(to_numpy(y.detach()) if isinstance(y, torch.Tensor) else y for y in tensors)


def same(found, wanted):
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(to_torch(ours), theirs.detach(), rtol=1e-5, atol=1e-6)


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


# Largest difference for each dtype from the results in a wide dtype; halves are computed in float32, too.
NEAR = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 1e-2, torch.float16: 2e-3,
        torch.complex64: 1e-5, torch.complex128: 1e-12}  # fmt: skip
DTYPES = list(NEAR)[:4]


def wide(dtype):
    return dtype if dtype.itemsize > 2 else torch.float32


def close(found, wanted):
    """Assert that each result is None or not as wanted, has the wanted dtype, and is as close as that dtype allows."""
    assert len(found) == len(wanted)
    for ours, theirs in zip(found, wanted, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            near = NEAR[theirs.dtype]
            torch.testing.assert_close(to_torch(ours), theirs.detach(), rtol=near, atol=near)


# ---------------------------------------------------------------- batch norm in parts


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(7, 3), (3, 3, 5), (3, 3, 4, 5)])
@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm_in_parts_is_batch_norm_of_the_whole(shape, affine, dtype):
    """Two processes, one with more rows: statistics, values, running statistics and gradients equal those of one
    process."""
    real = wide(dtype)
    x, grad = normal(*shape).to(dtype), normal(*shape, seed=1).to(dtype)
    weight, bias = (normal(3, seed=2).to(real), normal(3, seed=3).to(real)) if affine else (None, None)
    sizes = [shape[0] - 1, 1] if shape[1:] != (3,) else [5, 2]
    parts, grads = x.split(sizes), grad.split(sizes)
    stats = [aten.batch_norm_stats(*n(part), EPS) for part in parts]
    means, invstds = (np.stack(part) for part in zip(*stats, strict=True))
    counts = np.array([part.numel() // 3 for part in parts], np.float32)
    given = normal(3, seed=4).to(real), normal(3, seed=5).abs().to(real)
    running, theirs = n(*(t.clone() for t in given)), tuple(t.clone() for t in given)
    mean, invstd = aten.batch_norm_gather_stats_with_counts(*n(parts[0]), means, invstds, *running, 0.3, EPS, counts)

    whole = x.to(real).requires_grad_()
    leaves = [whole] + ([p.requires_grad_() for p in (weight, bias)] if affine else [])
    out, saved_mean, saved_invstd = torch.native_batch_norm(whole, weight, bias, *theirs, True, 0.3, EPS)
    close((mean, invstd, *running), (saved_mean, saved_invstd, *theirs))
    one, none = n(given[0].clone())[0], aten.batch_norm_gather_stats_with_counts
    close(none(*n(parts[0]), means, invstds, one, None, 0.3, EPS, counts), (saved_mean, saved_invstd))
    close((one,), theirs[:1])
    for dtype_of_counts in (np.int32, "bfloat16"):
        again = none(*n(parts[0]), means, invstds, None, None, 0.3, EPS, counts.astype(dtype_of_counts))
        close(again, (saved_mean, saved_invstd))
    values = [aten.batch_norm_elemt(*n(part, weight, bias), mean, invstd, EPS) for part in parts]
    close([np.concatenate(values)], [out.to(dtype)])

    wanted = torch.autograd.grad(out, leaves, grad.to(real))
    sums = [
        aten.batch_norm_backward_reduce(*n(g, part), mean, invstd, *n(weight), True, affine, affine)
        for g, part in zip(grads, parts, strict=True)
    ]
    total, along = (sum(s[i] for s in sums) for i in (0, 1))
    found = [
        aten.batch_norm_backward_elemt(*n(g, part), mean, invstd, *n(weight), total, along, counts.astype(np.int32))
        for g, part in zip(grads, parts, strict=True)
    ]
    close([np.concatenate(found)], [wanted[0].to(dtype)])
    if affine:
        close([sum(s[i] for s in sums) for i in (2, 3)], wanted[1:])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_batch_norm_of_equal_parts(dtype):
    x = normal(4, 3, 5).to(dtype)
    stats = [aten.batch_norm_stats(*n(part), EPS) for part in x.chunk(2)]
    means, invstds = (np.stack(part) for part in zip(*stats, strict=True))
    running, theirs = (
        n(torch.zeros(3, dtype=dtype), torch.ones(3, dtype=dtype)),
        (torch.zeros(3, dtype=dtype), torch.ones(3, dtype=dtype)),
    )
    found = aten.batch_norm_gather_stats(*n(x), means, invstds, *running, 0.1, EPS, 10)
    close((*found, *running), (*torch.native_batch_norm(x, None, None, *theirs, True, 0.1, EPS)[1:], *theirs))


@pytest.mark.parametrize("asked", [(True, False, False), (False, True, False), (False, False, True)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_of_the_gradient_of_batch_norm_are_those_that_are_asked_for(dtype, asked):
    x, grad, weight = normal(4, 3, 5).to(dtype), normal(4, 3, 5, seed=1).to(dtype), normal(3).to(dtype)
    mean, invstd = normal(3, seed=2).to(wide(dtype)), normal(3, seed=3).abs().to(wide(dtype))
    g, along = grad.to(wide(dtype)), (grad.to(wide(dtype)) * (x.to(wide(dtype)) - mean.view(-1, 1))).sum((0, 2))
    every = g.sum((0, 2)), along, (along * invstd).to(dtype), g.sum((0, 2)).to(dtype)
    there = asked[0], *asked
    for w in (weight, None):
        found = aten.batch_norm_backward_reduce(*n(grad, x, mean, invstd, w), *asked)
        close(found, [y if yes else None for y, yes in zip(every, there, strict=True)])


# ---------------------------------------------------------------- cells


def gates_of(count, biased, dtype=torch.float32):
    """Return a cell's input, weights and biases, and the fused cell's arguments in place of input and state."""
    x, hx, w, u = (t.to(dtype) for t in (normal(2, 5), normal(2, 3), normal(3 * count, 5), normal(3 * count, 3)))
    biases = [normal(3 * count, seed=s).to(dtype).requires_grad_() for s in (0, 1)] if biased else [None, None]
    gates = [(x @ w.T).requires_grad_(), (hx @ u.T).requires_grad_()]
    return (x, hx, w, u), gates, biases


def widened(*tensors):
    """Return leaves with the same values, in the dtype in which cells compute."""
    return [None if t is None else t.detach().to(wide(t.dtype)).requires_grad_() for t in tensors]


def rounded(tensors, dtype):
    return [None if t is None else t.detach().to(dtype) for t in tensors]


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_fused_lstm_cell_is_the_cell(dtype, biased):
    (x, hx, w, u), gates, biases = gates_of(4, biased, dtype)
    cx = normal(2, 3, seed=1).to(dtype)
    if dtype == torch.float32:
        close(n(*by_gates_lstm(*gates, cx, biases)), torch.lstm_cell(x, (hx, cx), w, u, *biases))
    *leaves, one, two = widened(*gates, cx, *biases)
    hy, cy, gated = by_gates_lstm(*leaves, (one, two), gated=True)
    ours = aten._thnn_fused_lstm_cell(*n(*gates, cx, *biases))
    close(ours, rounded((hy, cy, gated), dtype))
    grads = normal(2, 3, seed=5).to(dtype), normal(2, 3, seed=6).to(dtype)
    inputs = [*leaves, one, two] if biased else leaves
    want = torch.autograd.grad((hy, cy), inputs, [g.to(hy.dtype) for g in grads])
    want = rounded([*want, None, None][:5], dtype)
    saved = *n(*grads, cx), *ours[1:], biased
    close(aten._thnn_fused_lstm_cell_backward(*saved), want)
    close(aten._thnn_fused_lstm_cell_backward_impl(*saved), (want[0], want[2], want[3]))


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("given", [(True, False), (False, True)])
def test_a_gradient_of_the_lstm_cell_may_be_missing(given, dtype, biased):
    _, gates, _ = gates_of(4, False, dtype)
    cx = normal(2, 3, seed=1).to(dtype)
    leaves = widened(*gates, cx)
    wanted = by_gates_lstm(*leaves, (None, None))
    grads = [normal(2, 3, seed=5 + i).to(dtype) if there else None for i, there in enumerate(given)]
    zeros = [torch.zeros(2, 3) if g is None else g for g in grads]
    of_gates, _, of_cx = torch.autograd.grad(wanted, leaves, [z.to(leaves[0].dtype) for z in zeros])
    _, cy, workspace = aten._thnn_fused_lstm_cell(*n(*gates, cx))
    saved = *n(*grads, cx), cy, workspace, biased
    of_bias = of_gates.to(dtype).to(of_gates.dtype).sum(0) if biased else None
    close(aten._thnn_fused_lstm_cell_backward_impl(*saved), rounded((of_gates, of_cx, of_bias), dtype))
    assert aten._thnn_fused_lstm_cell_backward_impl(None, None, *saved[2:]) == (None, None, None)


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_fused_gru_cell_is_the_cell(dtype, biased):
    (x, hx, w, u), gates, biases = gates_of(3, biased, dtype)
    if dtype == torch.float32:
        close(n(by_gates_gru(*gates, hx, biases)), [torch.gru_cell(x, hx, w, u, *biases)])
    *leaves, one, two = widened(*gates, hx, *biases)
    wanted = by_gates_gru(*leaves, (one, two))
    hy, workspace = aten._thnn_fused_gru_cell(*n(*gates, hx, *biases))
    close([hy], rounded([wanted], dtype))
    grad = normal(2, 3, seed=5).to(dtype)
    want = torch.autograd.grad(wanted, [*leaves, one, two] if biased else leaves, grad.to(wanted.dtype))
    close(aten._thnn_fused_gru_cell_backward(*n(grad), workspace, biased), rounded([*want, None, None][:5], dtype))


LAYER_GRADS = [
    (True, True, True),
    (True, False, False),
    (False, True, False),
    (False, False, True),
    (True, False, True),
]


@pytest.mark.parametrize("reverse", [True, False])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("given", LAYER_GRADS)
def test_the_gradients_of_a_layer_are_those_of_onednn(given, biased, reverse):
    """oneDNN keeps a workspace in its own format; our gradient runs the layer again."""
    x, w, u = normal(5, 2, 4), normal(12, 4), normal(12, 3)
    biases = (normal(12), normal(12, seed=1)) if biased else (torch.zeros(12), torch.zeros(12))
    h, c = normal(1, 2, 3, seed=3), normal(1, 2, 3, seed=4)
    layer, back = torch.ops.aten.mkldnn_rnn_layer, torch.ops.aten.mkldnn_rnn_layer_backward
    y, hy, cy, kept = layer(x, w, u, *biases, h, c, reverse, [], 2, 3, 1, biased, False, False, True)
    grads = [
        normal(*s.shape, seed=6 + i) if there else None
        for i, (s, there) in enumerate(zip((y, hy, cy), given, strict=True))
    ]
    whole = [torch.zeros_like(s) if g is None else g for s, g in zip((y, hy, cy), grads, strict=True)]
    options = reverse, 2, 3, 1, biased, True, False, [], False
    want = back(x, w, u, *biases, h, c, y, hy, cy, *whole, *options, kept)
    arrays = n(x, w, u, *biases, h, c, y, hy, cy, *grads)
    close(aten.mkldnn_rnn_layer_backward(*arrays, *options, np.empty(0, np.uint8)), want)
    flat = n(x, w, u, *biases, h[0], c[0], y, hy[0], cy[0], *grads)
    close(aten.mkldnn_rnn_layer_backward(*flat, *options, np.empty(0, np.uint8)), [*want[:5], want[5][0], want[6][0]])


def test_the_gradients_of_a_layer_in_other_dtypes_and_of_nothing():
    for dtype in DTYPES:
        x, w, u, h = (t.to(dtype) for t in (normal(4, 2, 3), normal(8, 3), normal(8, 2), normal(1, 2, 2)))
        b, grads = normal(8).to(dtype), [normal(*s).to(dtype) for s in ((4, 2, 2), (1, 2, 2), (1, 2, 2))]
        leaves = widened(x, w, u, b, b, h, h)
        y, hy, cy = torch.lstm(leaves[0], leaves[5:], leaves[1:5], True, 1, 0.0, True, False, False)
        want = torch.autograd.grad((y, hy, cy), leaves, [g.to(y.dtype) for g in grads])
        given, options = n(x, w, u, b, b, h, h, y, hy, cy), (False, 2, 2, 1, True, True, False, [], False)
        found = aten.mkldnn_rnn_layer_backward(*given, *n(*grads), *options, np.empty(0, np.uint8))
        close(found, rounded(want, dtype))
        none = aten.mkldnn_rnn_layer_backward(*given, None, None, None, *options, np.empty(0, np.uint8))
        assert none == (None,) * 7
    with pytest.raises(RuntimeError) as error:
        aten.mkldnn_rnn_layer_backward(*given, *n(*grads), False, 3, *options[2:], np.empty(0, np.uint8))
    assert str(error.value) == "wrong cell type"


def with_bias(gates, bias):
    return gates if bias is None else gates + bias


def by_gates_lstm(of_input, of_state, cx, biases, gated=False):
    i, f, g, o = (with_bias(of_input, biases[0]) + with_bias(of_state, biases[1])).chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return (o * cy.tanh(), cy, torch.cat([i, f, g, o], 1))[: 3 if gated else 2]


def by_gates_gru(of_input, of_state, hx, biases):
    (ir, iz, i_n), (hr, hz, hn) = with_bias(of_input, biases[0]).chunk(3, 1), with_bias(of_state, biases[1]).chunk(3, 1)
    r, z = (ir + hr).sigmoid(), (iz + hz).sigmoid()
    new = (i_n + r * hn).tanh()
    return new + z * (hx - new)


# ---------------------------------------------------------------- gradients by name


OPERANDS = [
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (6, 3, 4)), ((5, 2, 3), (3,)), ((3,), (5, 3, 4)),
]  # fmt: skip


MASKS = [(True, True), (True, False), (False, True)]


def only(wanted, mask):
    return [y if there else None for y, there in zip(wanted, mask, strict=True)]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize(("a", "b"), OPERANDS)
def test_matmul_backward_is_the_gradient_of_matmul(a, b, dtype, mask):
    x, y = (torch.complex(normal(*s), normal(*s, seed=1)).to(dtype).requires_grad_() for s in (a, b))
    out = x @ y
    grad = torch.complex(normal(*out.shape, seed=2), normal(*out.shape, seed=3)).to(dtype)
    want = only(torch.autograd.grad(out, (x, y), grad), mask)
    close(aten.matmul_backward(*n(grad, x, y), list(mask)), want)
    if dtype == torch.complex64:
        strided = [t.detach().mT.contiguous().mT if t.ndim > 1 else t.detach() for t in (x, y)]
        close(aten.matmul_backward(*n(grad, *strided), list(mask)), want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mask", [(True, True, True), (True, False, False), (False, True, False), (False, False, True)])
@pytest.mark.parametrize("shape", [(4, 3), (2, 4, 3), (3,), (2, 3, 4, 3)])
def test_linear_backward_is_the_gradient_of_linear(shape, mask, dtype):
    given = [normal(*s, seed=7).to(dtype) for s in (shape, (5, 3), (5,))]
    leaves = widened(*given)
    out = F.linear(*leaves)
    grad = normal(*out.shape, seed=2).to(dtype)
    want = rounded(only(torch.autograd.grad(out, leaves, grad.to(out.dtype)), mask), dtype)
    close(aten.linear_backward(*n(given[0], grad, given[1]), list(mask)), want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize(("shape", "over"), [((4, 3), (3,)), ((2, 4, 3), (4, 3)), ((2, 4, 3), (3,))])
def test_fused_rms_norm_backward_is_the_gradient_of_rms_norm(shape, over, affine, mask, dtype):
    x, grad = normal(*shape).to(dtype), normal(*shape, seed=1).to(dtype)
    weight = normal(*over, seed=2).to(dtype) if affine else None
    axes = tuple(range(-len(over), 0))
    leaf, scale = widened(x, weight)
    rstd = (leaf.square().mean(axes, keepdim=True) + EPS).rsqrt()
    out = leaf * rstd * (1 if scale is None else scale)
    want = torch.autograd.grad(out, [leaf, scale] if affine else [leaf], grad.to(out.dtype))
    want = rounded(only((*want, None)[:2], mask), dtype)
    close(aten._fused_rms_norm_backward(*n(grad, x), list(over), *n(rstd, weight), list(mask)), want)


# ---------------------------------------------------------------- windows


@pytest.mark.parametrize("bias", [True, False])
def test_depthwise_convolutions_are_convolutions_in_groups(bias):
    b = normal(6) if bias else None
    x, w = normal(2, 3, 7, 6), normal(6, 1, 3, 2)
    same([aten._conv_depthwise2d(*n(x, w), [3, 2], *n(b), [2, 1], [1, 0], [1, 2])],
         [F.conv2d(x, w, b, [2, 1], [1, 0], [1, 2], 3)])  # fmt: skip
    x, w = normal(2, 3, 4, 5, 6), normal(6, 1, 2, 3, 2)
    same([aten.conv_depthwise3d(*n(x, w), [2, 3, 2], *n(b), [1, 2, 1], [1, 0, 1], [1, 1, 2])],
         [F.conv3d(x, w, b, [1, 2, 1], [1, 0, 1], [1, 1, 2], 3)])  # fmt: skip


@pytest.mark.parametrize("padding", [[1, 1], [0, 2], [0, 0]])
def test_nnpacks_convolution_is_the_convolution(padding):
    """torch has this kernel only on processors that NNPACK knows."""
    x, w, b = normal(2, 3, 7, 6), normal(4, 3, 3, 3), normal(4)
    for bias in (b, None):
        same([aten._nnpack_spatial_convolution(*n(x, w, bias), padding)], [F.conv2d(x, w, bias, 1, padding)])
    for stride in ([1, 1], [2, 1], [1, 2]):
        same([aten._nnpack_spatial_convolution(*n(x, w, b), padding, stride)], [F.conv2d(x, w, b, stride, padding)])
    with pytest.raises(
        RuntimeError, match="NNPACK SpatialConvolution_updateOutput failed"
    ):  # padding as wide as the window
        aten._nnpack_spatial_convolution(*n(x, w, b), [3, 0])
    rows = [
        (n(x[0], w, b), "NNPack convolutionOutput expects 4D input Tensor N,C,H,W"),
        (n(x.double(), w, b), "Mismatched Tensor types in NNPack convolutionOutput"),
    ]
    for given, said in rows:
        with pytest.raises(RuntimeError) as error:
            aten._nnpack_spatial_convolution(*given, padding)
        assert str(error.value) == said


WINDOWS = [
    ([2, 2],),
    ([3, 2], [2, 1]),
    ([3, 2], [2, 1], [1, 0]),
    ([3, 2], [2, 1], [1, 0], [1, 2]),
    ([2, 3], [2, 2], [0, 1], [1, 1], True),
]


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_max_pool2d_backward_is_the_gradient_of_max_pool2d(dtype, window):
    x = normal(2, 3, 7, 6).to(dtype).requires_grad_()
    out = torch.max_pool2d(x, *window)
    grad = normal(*out.shape, seed=1).to(dtype)
    close([aten.max_pool2d_backward(*n(grad, x), *window)], torch.autograd.grad(out, x, grad))


# ---------------------------------------------------------------- sums and sizes


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64])
def test_linear_combinations_are_products(dtype):
    x, c = normal(3, 2, 4).to(dtype), normal(5, 3).to(torch.empty(0, dtype=dtype).real.dtype)
    same([aten._compute_linear_combination(*n(x, c))], [torch.tensordot(c.to(dtype), x, 1)])


@pytest.mark.parametrize("dims", [None, [0], [1], [0, 1], [-1]])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool])
def test_sums_without_carry(dtype, dims):
    x = torch.tensor([[5, 9, 1], [4, 1, 7]]).to(dtype)
    want = x
    for d in sorted((d % 2 for d in ([0, 1] if dims is None else dims)), reverse=True):
        parts = want.unbind(d)
        want = parts[0]
        for part in parts[1:]:
            want = want ^ part
    close_bits(table["prims::xor_sum"](*n(x), dims), want)
    close_bits(table["prims::xor_sum"](*n(x), dims, output_dtype="int16"), want.to(torch.int16))


def close_bits(found, wanted):
    torch.testing.assert_close(to_torch(found), wanted, rtol=0, atol=0)


@pytest.mark.parametrize("size", [[2, 3], [6], [1, 2], []])
def test_what_an_op_is_to_write_is_resized(size):
    x = torch.arange(6.0).view(3, 2)
    found = aten._resize_output_(to_numpy(x).copy(), size, "cpu")
    want = x.clone().resize_(size)
    assert found.shape == tuple(size)
    close_bits(found, want)
    for device in ("cuda", "meta", "cuda:1"):
        with pytest.raises(RuntimeError) as error:
            aten._resize_output_(*n(x), size, device)
        assert str(error.value) == f"out Tensor doesn't have the correct device set: expected {device[:4]}, got cpu"
