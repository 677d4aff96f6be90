"""Recurrent cells that take their gates as arguments, an LSTM layer as oneDNN runs it, and the gradients of both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check
from torchnp.core.registry import kernel
from torchnp.kernels.activation import sigmoid
from torchnp.kernels.arithmetic import add, mul, sub
from torchnp.kernels.backward.activation import sigmoid_backward, tanh_backward
from torchnp.kernels.join import cat
from torchnp.kernels.pointwise import tanh
from torchnp.kernels.reduce import sum_dim
from torchnp.kernels.rnn import Weights, check_vendor, gru_gates, half_lstm, lstm, lstm_gates, run

ndarray = np.ndarray
Grads = tuple[Any, ...]


def _gates(input_gates: ndarray, hidden_gates: ndarray, input_bias: Any, hidden_bias: Any, inner: np.dtype) -> Any:
    """Return input and hidden gates in the opmath dtype, with the biases added."""
    pairs = ((input_gates, input_bias), (hidden_gates, hidden_bias))
    return (dt.cast(g, inner) if b is None else dt.cast(g, inner) + dt.cast(b, inner) for g, b in pairs)


def _lstm_grads(grad_hy: Any, grad_cy: Any, cx: ndarray, cy: ndarray, gates: Sequence[Any]) -> tuple[ndarray, ndarray]:
    """Return the gradients of the gates before their sigmoids and tanh, and of the cell state."""
    i, f, g, o = gates
    if grad_hy is None:
        of_o, of_c = np.zeros_like(cx), grad_cy
    else:
        t = np.tanh(cy)
        of_o, of_c = sigmoid_backward(grad_hy * t, o), tanh_backward(grad_hy * o, t)
        of_c = of_c if grad_cy is None else of_c + grad_cy
    of_i, of_f, of_g = sigmoid_backward(of_c * g, i), sigmoid_backward(of_c * cx, f), tanh_backward(of_c * i, g)
    return np.concatenate([of_i, of_f, of_g, of_o], 1), of_c * f


def _gru_grads(grad: ndarray, r: ndarray, z: ndarray, n: ndarray, hx: ndarray, hn: ndarray) -> Grads:
    """Return the gradients of the input's gates, of the state's gates, and of the state."""
    one = grad.dtype.type(1)
    of_z, of_n = sigmoid_backward(grad * (hx - n), z), tanh_backward(grad * (one - z), n)
    of_r = sigmoid_backward(of_n * hn, r)
    return np.concatenate([of_r, of_z, of_n], 1), np.concatenate([of_r, of_z, of_n * r], 1), grad * z


def _summed(grads: ndarray) -> ndarray:
    return dt.cast(dt.cast(grads, dt.opmath(grads.dtype)).sum(0), grads.dtype)


def _wide(x: ndarray | None, inner: np.dtype) -> Any:
    return None if x is None else dt.cast(x, inner)


# ---------------------------------------------------------------- fused cells: torch runs them on CUDA


@kernel("_thnn_fused_lstm_cell", differs=["half-opmath"])
def _thnn_fused_lstm_cell(input_gates, hidden_gates, cx, input_bias=None, hidden_bias=None):
    """Hidden and cell state after an LSTM step, and the gates for the backward pass; torch has a CUDA kernel only."""
    dtype, inner = input_gates.dtype, dt.opmath(input_gates.dtype)
    i, f, g, o = lstm_gates(sum(_gates(input_gates, hidden_gates, input_bias, hidden_bias, inner)))
    cy = f * cx + i * g
    return tuple(dt.cast(x, dtype) for x in (o * np.tanh(cy), cy, np.concatenate([i, f, g, o], 1)))


@kernel("_thnn_fused_lstm_cell_backward_impl", differs=["half-opmath"])
def _thnn_fused_lstm_cell_backward_impl(grad_hy, grad_cy, cx, cy, workspace, has_bias):
    """Gradients of the gates, cell state and bias of `_thnn_fused_lstm_cell`; torch has a CUDA kernel only."""
    dtype, inner = workspace.dtype, dt.opmath(workspace.dtype)
    if grad_hy is None and grad_cy is None:
        return None, None, None
    grad_hy, grad_cy, cx, cy = (_wide(x, inner) for x in (grad_hy, grad_cy, cx, cy))
    gates, of_cx = _lstm_grads(grad_hy, grad_cy, cx, cy, np.split(dt.cast(workspace, inner), 4, 1))
    gates = dt.cast(gates, dtype)
    return gates, dt.cast(of_cx, dtype), _summed(gates) if has_bias else None


@kernel("_thnn_fused_lstm_cell_backward", differs=["half-opmath"])
def _thnn_fused_lstm_cell_backward(grad_hy, grad_cy, cx, cy, workspace, has_bias):
    """`_thnn_fused_lstm_cell_backward_impl` for both halves of the gates and both biases."""
    gates, of_cx, bias = _thnn_fused_lstm_cell_backward_impl(grad_hy, grad_cy, cx, cy, workspace, has_bias)
    return gates, gates, of_cx, bias, bias


@kernel("_thnn_fused_gru_cell", differs=["half-opmath"])
def _thnn_fused_gru_cell(input_gates, hidden_gates, hx, input_bias=None, hidden_bias=None):
    """Hidden state after a GRU step, and a workspace for the backward pass; torch has a CUDA kernel only."""
    dtype, inner = input_gates.dtype, dt.opmath(input_gates.dtype)
    r, z, n, hn = gru_gates(*_gates(input_gates, hidden_gates, input_bias, hidden_bias, inner))
    wide = dt.cast(hx, inner)
    hy = n + z * (wide - n)
    return dt.cast(hy, dtype), dt.cast(np.concatenate([r, z, n, wide, hn], 1), dtype)


@kernel("_thnn_fused_gru_cell_backward", differs=["half-opmath"])
def _thnn_fused_gru_cell_backward(grad_hy, workspace, has_bias):
    """Gradients of the input's and state's gates, the state and the biases of `_thnn_fused_gru_cell` (CUDA only)."""
    dtype, inner = workspace.dtype, dt.opmath(workspace.dtype)
    grads = _gru_grads(dt.cast(grad_hy, inner), *np.split(dt.cast(workspace, inner), 5, 1))
    of_input, of_state, of_hx = (dt.cast(x, dtype) for x in grads)
    biases = (_summed(of_input), _summed(of_state)) if has_bias else (None, None)
    return of_input, of_state, of_hx, *biases


@kernel("_thnn_differentiable_lstm_cell_backward")
def _thnn_differentiable_lstm_cell_backward(
    grad_hy, grad_cy, input_gates, hidden_gates, input_bias, hidden_bias, cx, cy
):
    """Gradients of an LSTM cell's gates, cell and biases, from the gates before their sigmoids and tanh."""
    if grad_hy is None and grad_cy is None:
        return None, None, None, None, None
    given = add(input_gates, hidden_gates)
    for b in (input_bias, hidden_bias):
        given = given if b is None else add(given, b)
    i, f, g, o = np.split(given, 4, 1)
    i, f, g, o = sigmoid(i), sigmoid(f), tanh(g), sigmoid(o)
    t = tanh(cy)
    if grad_hy is None:
        of_o, of_c = np.zeros_like(cx), grad_cy
    else:
        of_o, of_c = sigmoid_backward(mul(grad_hy, t), o), tanh_backward(mul(grad_hy, o), t)
        of_c = of_c if grad_cy is None else add(of_c, grad_cy)
    of_i, of_f, of_g = mul(of_c, g), mul(of_c, cx), mul(of_c, i)
    of_cx = mul(of_c, f)
    gates = cat([sigmoid_backward(of_i, i), sigmoid_backward(of_f, f), tanh_backward(of_g, g), of_o], 1)
    bias = None if input_bias is None else sum_dim(gates, [0])
    return gates, gates, of_cx, bias, bias


@kernel("_thnn_differentiable_gru_cell_backward")
def _thnn_differentiable_gru_cell_backward(grad_hy, input_gates, hidden_gates, hx, input_bias, hidden_bias):
    """Gradients of a GRU cell's gates, state and biases, from the gates before their sigmoids and tanh."""
    of_input = input_gates if input_bias is None else add(input_gates, input_bias)
    of_state = hidden_gates if hidden_bias is None else add(hidden_gates, hidden_bias)
    (ir, iz, i_n), (hr, hz, hn) = np.split(of_input, 3, 1), np.split(of_state, 3, 1)
    r, z = sigmoid(add(ir, hr)), sigmoid(add(iz, hz))
    of_hx = mul(grad_hy, z)
    n = tanh(add(i_n, mul(r, hn)))
    of_z = sigmoid_backward(mul(grad_hy, sub(hx, n)), z)
    of_n = tanh_backward(mul(grad_hy, sub(np.ones((), z.dtype), z)), n)
    of_hn, of_r = mul(of_n, r), sigmoid_backward(mul(of_n, hn), r)
    grads = cat([of_r, of_z, of_n], 1), cat([of_r, of_z, of_hn], 1)
    biases = (None, None) if input_bias is None else tuple(sum_dim(x, [0]) for x in grads)
    return *grads, of_hx, *biases


# ---------------------------------------------------------------- one layer of an LSTM, as oneDNN runs it

_LSTM = 2  # the only one of its RNN modes that torch passes to oneDNN


@kernel("mkldnn_rnn_layer", differs=["half-opmath"])
def mkldnn_rnn_layer(
    input, weight0, weight1, weight2, weight3, hx_, cx_, reverse, batch_sizes, mode, hidden_size, num_layers,
    has_biases, bidirectional, batch_first, train,
):  # fmt: skip
    """One direction of one LSTM layer over (time, batch, features), with its last hidden and cell state.

    oneDNN's workspace for the backward pass is empty here, because the backward pass runs the layer again.
    """
    check(mode == _LSTM, "wrong cell type")
    bias = add(weight2, weight3) if has_biases else None
    check_vendor(input, weight0, weight1, bias, hx_, cx_)
    state = tuple(s.reshape(s.shape[-2:]) for s in (hx_, cx_))
    if dt.is_half(input.dtype):
        bias = None if bias is None else dt.cast(bias, dt.opmath(input.dtype))
        out, ends = half_lstm(input, state, Weights(weight0, weight1, bias, None, None), reverse)
    else:  # biases are added as in `lstm.input`, bit for bit
        weights = _layer(weight0, weight1, weight2, weight3, has_biases, input.dtype)
        out, ends = run(lstm, input, state, weights, reverse)
    hy, cy = (np.ascontiguousarray(x).reshape(hx_.shape) for x in ends)
    return out, hy, cy, np.empty(0, np.uint8) if train else None


def _layer(ih: ndarray, hh: ndarray, bias_ih: ndarray, bias_hh: ndarray, has_biases: bool, inner: np.dtype) -> Weights:
    ih, hh, bias_ih, bias_hh = (dt.cast(w, inner) for w in (ih, hh, bias_ih, bias_hh))
    return Weights(ih, hh, bias_ih, bias_hh, None) if has_biases else Weights(ih, hh, None, None, None)


@kernel("mkldnn_rnn_layer_backward", differs=["half-opmath"])
def mkldnn_rnn_layer_backward(
    input, weight1, weight2, weight3, weight4, hx_, cx_tmp, output, hy_, cy_, grad_output, grad_hy, grad_cy, reverse,
    mode, hidden_size, num_layers, has_biases, train, bidirectional, batch_sizes, batch_first, workspace,
):  # fmt: skip
    """Gradients of `mkldnn_rnn_layer`: of input, weights, biases, initial hidden state and initial cell state."""
    check(mode == _LSTM, "wrong cell type")
    if grad_output is None and grad_hy is None and grad_cy is None:
        return (None,) * 7
    dtype, inner = input.dtype, dt.opmath(input.dtype)
    w = _layer(weight1, weight2, weight3, weight4, has_biases, inner)
    x, grads = dt.cast(input, inner), _wide(grad_output, inner)
    h, c = (dt.cast(s, inner).reshape(s.shape[-2:]) for s in (hx_, cx_tmp))
    steps = range(len(x) - 1, -1, -1) if reverse else range(len(x))
    kept = []
    for t in steps:
        i, f, g, o = gates = lstm_gates(sum(_gates(x[t] @ w.ih.T, h @ w.hh.T, w.bias_ih, w.bias_hh, inner)))
        following = f * c + i * g
        kept.append((t, h, c, following, gates))
        h, c = o * np.tanh(following), following
    of_h, of_c = (np.zeros_like(h) if s is None else dt.cast(s, inner).reshape(h.shape) for s in (grad_hy, grad_cy))
    of_x, of_ih, of_hh = np.empty_like(x, order="C"), np.zeros_like(w.ih), np.zeros_like(w.hh)
    of_bias = np.zeros(len(w.ih), inner)
    for t, before, cell, following, activated in reversed(kept):
        of_h = of_h if grads is None else of_h + grads[t]
        of_gates, of_c = _lstm_grads(of_h, of_c, cell, following, activated)
        of_x[t], of_h = of_gates @ w.ih, of_gates @ w.hh
        of_ih += of_gates.T @ x[t]
        of_hh += of_gates.T @ before
        of_bias += of_gates.sum(0)
    of_h, of_c = of_h.reshape(hx_.shape), of_c.reshape(cx_tmp.shape)
    return tuple(dt.cast(y, dtype) for y in (of_x, of_ih, of_hh, of_bias, of_bias.copy(), of_h, of_c))
