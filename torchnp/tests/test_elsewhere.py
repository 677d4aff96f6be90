"""Kernels that torch has on other devices only, against the same thing computed by torch's public operators."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from torchnp import aten
from torchnp.interop import to_numpy, to_torch

EPS = 1e-3


def n(*tensors):
    return tuple(to_numpy(y.detach()) if isinstance(y, torch.Tensor) else y for y in tensors)


def same(found, wanted):
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(to_torch(ours), theirs.detach(), rtol=1e-5, atol=1e-6)


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


# Of each dtype how near the results are to those of the wide one, in which halves are computed, too.
NEAR = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 1e-2, torch.float16: 2e-3}
DTYPES = list(NEAR)


def wide(dtype):
    return dtype if dtype.itemsize > 2 else torch.float32


def close(found, wanted):
    """Each result is there or not, has the dtype that is wanted, and is as near as that dtype allows."""
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
    """Two processes, one with more: statistics, values, running ones and gradients are those of one with all."""
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
    running, theirs = n(torch.zeros(3, dtype=dtype), torch.ones(3, dtype=dtype)), (torch.zeros(3, dtype=dtype), torch.ones(3, dtype=dtype))
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


def gates_of(count, biased):
    """The input of a cell, its weights and biases, and what the fused cell takes in place of input and state."""
    x, hx, w, u = normal(2, 5), normal(2, 3), normal(3 * count, 5), normal(3 * count, 3)
    biases = [normal(3 * count, seed=s).requires_grad_() for s in (0, 1)] if biased else [None, None]
    gates = [(x @ w.T).requires_grad_(), (hx @ u.T).requires_grad_()]
    return (x, hx, w, u), gates, biases


@pytest.mark.parametrize("biased", [True, False])
def test_the_fused_lstm_cell_is_the_cell(biased):
    (x, hx, w, u), gates, biases = gates_of(4, biased)
    cx = normal(2, 3, seed=1).requires_grad_()
    wanted = by_gates_lstm(*gates, cx, biases)
    same(n(*wanted), torch.lstm_cell(x, (hx, cx), w, u, *biases))
    hy, cy, workspace = aten._thnn_fused_lstm_cell(*n(*gates, cx, *biases))
    same((hy, cy), wanted)
    grads = normal(2, 3, seed=5), normal(2, 3, seed=6)
    want = torch.autograd.grad(wanted, [*gates, cx, *(b for b in biases if biased)], grads)
    saved = *n(*grads, cx), cy, workspace, biased
    same(aten._thnn_fused_lstm_cell_backward(*saved)[: len(want)], want)
    same(aten._thnn_fused_lstm_cell_backward_impl(*saved)[:2], (want[0], want[2]))


@pytest.mark.parametrize("given", [(True, False), (False, True)])
def test_a_gradient_of_the_lstm_cell_may_be_missing(given):
    _, gates, biases = gates_of(4, False)
    cx = normal(2, 3, seed=1).requires_grad_()
    wanted = by_gates_lstm(*gates, cx, biases)
    grads = [normal(2, 3, seed=5 + i) if there else None for i, there in enumerate(given)]
    zeros = [torch.zeros(2, 3) if g is None else g for g in grads]
    want = torch.autograd.grad(wanted, [gates[0], cx], zeros)
    _, cy, workspace = aten._thnn_fused_lstm_cell(*n(*gates, cx))
    saved = *n(*grads, cx), cy, workspace, False
    same(aten._thnn_fused_lstm_cell_backward_impl(*saved)[:2], want)
    halves = tuple(None if x is None else aten._to_copy(x, dtype="bfloat16") for x in saved[:-1])
    assert {str(x.dtype) for x in aten._thnn_fused_lstm_cell_backward_impl(*halves, True)} == {"bfloat16"}
    assert aten._thnn_fused_lstm_cell_backward_impl(None, None, *saved[2:]) == (None, None, None)


@pytest.mark.parametrize("biased", [True, False])
def test_the_fused_gru_cell_is_the_cell(biased):
    (x, hx, w, u), gates, biases = gates_of(3, biased)
    hx = hx.clone().requires_grad_()
    wanted = by_gates_gru(*gates, hx, biases)
    same(n(wanted), [torch.gru_cell(x, hx, w, u, *biases)])
    hy, workspace = aten._thnn_fused_gru_cell(*n(*gates, hx, *biases))
    same([hy], [wanted])
    grad = normal(2, 3, seed=5)
    want = torch.autograd.grad(wanted, [*gates, hx, *(b for b in biases if biased)], grad)
    same(aten._thnn_fused_gru_cell_backward(*n(grad), workspace, biased)[: len(want)], want)


def with_bias(gates, bias):
    return gates if bias is None else gates + bias


def by_gates_lstm(of_input, of_state, cx, biases):
    i, f, g, o = (with_bias(of_input, biases[0]) + with_bias(of_state, biases[1])).chunk(4, 1)
    cy = f.sigmoid() * cx + i.sigmoid() * g.tanh()
    return o.sigmoid() * cy.tanh(), cy


def by_gates_gru(of_input, of_state, hx, biases):
    (ir, iz, i_n), (hr, hz, hn) = with_bias(of_input, biases[0]).chunk(3, 1), with_bias(of_state, biases[1]).chunk(3, 1)
    r, z = (ir + hr).sigmoid(), (iz + hz).sigmoid()
    new = (i_n + r * hn).tanh()
    return new + z * (hx - new)


# ---------------------------------------------------------------- gradients by name


def asked(found, wanted, mask):
    """What is asked for is there, and nothing else."""
    assert [x is not None for x in found] == list(mask)
    same([x for x in found if x is not None], [y for y, there in zip(wanted, mask, strict=True) if there])


OPERANDS = [
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (6, 3, 4)), ((5, 2, 3), (3,)), ((3,), (5, 3, 4)),
]  # fmt: skip


@pytest.mark.parametrize("mask", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize(("a", "b"), OPERANDS)
def test_matmul_backward_is_the_gradient_of_matmul(a, b, mask):
    x, y = (torch.complex(normal(*s), normal(*s, seed=1)).requires_grad_() for s in (a, b))
    out = x @ y
    grad = torch.complex(normal(*out.shape, seed=2), normal(*out.shape, seed=3))
    asked(aten.matmul_backward(*n(grad, x, y), list(mask)), torch.autograd.grad(out, (x, y), grad), mask)


@pytest.mark.parametrize("mask", [(True, True, True), (True, False, False), (False, True, False), (False, False, True)])
@pytest.mark.parametrize("shape", [(4, 3), (2, 4, 3), (3,)])
def test_linear_backward_is_the_gradient_of_linear(shape, mask):
    x, weight, bias = (normal(*s, seed=7).requires_grad_() for s in (shape, (5, 3), (5,)))
    out = F.linear(x, weight, bias)
    grad = normal(*out.shape, seed=2)
    want = torch.autograd.grad(out, (x, weight, bias), grad)
    asked(aten.linear_backward(*n(x, grad, weight), list(mask)), want, mask)


@pytest.mark.parametrize("mask", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize(("shape", "over"), [((4, 3), (3,)), ((2, 4, 3), (4, 3)), ((2, 4, 3), (3,))])
def test_fused_rms_norm_backward_is_the_gradient_of_rms_norm(shape, over, affine, mask):
    x, grad = normal(*shape).requires_grad_(), normal(*shape, seed=1)
    weight = normal(*over, seed=2).requires_grad_() if affine else None
    axes = tuple(range(-len(over), 0))
    rstd = (x.square().mean(axes, keepdim=True) + EPS).rsqrt()
    out = F.rms_norm(x, over, weight, EPS)
    want = torch.autograd.grad(out, [x, weight] if affine else [x], grad)
    found = aten._fused_rms_norm_backward(*n(grad, x), list(over), *n(rstd, weight), list(mask))
    asked(found, (*want, None)[:2], (mask[0], mask[1] and affine))


# ---------------------------------------------------------------- convolutions


@pytest.mark.parametrize("bias", [True, False])
def test_depthwise_convolutions_are_convolutions_in_groups(bias):
    b = normal(6) if bias else None
    x, w = normal(2, 3, 7, 6), normal(6, 1, 3, 2)
    same([aten._conv_depthwise2d(*n(x, w), [3, 2], *n(b), [2, 1], [1, 0], [1, 2])],
         [F.conv2d(x, w, b, [2, 1], [1, 0], [1, 2], 3)])  # fmt: skip
    x, w = normal(2, 3, 4, 5, 6), normal(6, 1, 2, 3, 2)
    same([aten.conv_depthwise3d(*n(x, w), [2, 3, 2], *n(b), [1, 2, 1], [1, 0, 1], [1, 1, 2])],
         [F.conv3d(x, w, b, [1, 2, 1], [1, 0, 1], [1, 1, 2], 3)])  # fmt: skip


# ---------------------------------------------------------------- keys and sums


def test_philox_normals_are_normal_and_move_with_their_key():
    out = [np.empty((200, 100), d) for d in (np.float32, np.float64)]
    keys = [np.array(k, np.uint64) for k in ((1, 2), (1, 3))]
    for x in out:
        one, again, other = (aten._philox_normal(x, k) for k in (keys[0], keys[0], keys[1]))
        assert one.dtype == x.dtype
        assert np.array_equal(one, again)
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.03
        share = torch.special.ndtr(to_torch(one.astype(np.float64)).ravel()).sort().values  # uniform, if it is normal
        steps = torch.linspace(0, 1, share.numel(), dtype=torch.float64)
        assert float((share - steps).abs().max()) < 2 / math.sqrt(share.numel())
        moved = aten._philox_normal(x, keys[0], 3.0, 0.5)
        np.testing.assert_allclose(moved, one * 0.5 + 3, rtol=1e-5, atol=1e-5)
        written = np.zeros_like(x)
        assert aten._philox_normal_(written, keys[0]) is written
        assert np.array_equal(written, one)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_philox_uniforms_are_uniform(dtype):
    key = np.array((1, 2), np.uint64)
    x = aten._philox_uniform(np.empty((200, 100), dtype), key, -1.0, 3.0)
    assert x.dtype == dtype and x.min() >= -1 and x.max() < 3
    steps = np.linspace(0, 1, x.size)
    assert np.abs(np.sort((x.astype(np.float64).ravel() + 1) / 4) - steps).max() < 2 / math.sqrt(x.size)
    units = aten._philox_uniform(np.empty(1000, dtype), key).astype(np.float64)
    bits = {2: 11, 4: 24, 8: 53}[np.dtype(dtype).itemsize]
    assert (units * 2.0**bits % 1 == 0).all() and (units * 2.0 ** (bits - 1) % 1 != 0).any()


def test_split_keys_are_keys_folded_in():
    key = np.array((5, 6), np.uint64)
    split = aten._philox_key_split(key, 4)
    assert split.shape == (4, 2) and len(np.unique(split)) == 8
    for step, one in enumerate(split):
        assert np.array_equal(aten._philox_key_fold_in(key, step), one)


def test_batched_keys_are_keys_one_by_one():
    keys = np.array([[1, 2], [3, 4]], np.uint64)
    both = aten._philox_normal(np.empty((2, 9), np.float32), keys[:, None])
    for row, key in zip(both, keys, strict=True):
        assert np.array_equal(row, aten._philox_normal(np.empty(9, np.float32), key))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64])
def test_linear_combinations_are_products(dtype):
    x, c = normal(3, 2, 4).to(dtype), normal(5, 3).to(dtype)
    same([aten._compute_linear_combination(*n(x, c))], [torch.tensordot(c, x, 1)])
