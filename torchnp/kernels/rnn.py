"""Recurrent networks: cells, and layers of them over whole sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import broadcast_shapes, check, wrap_dim
from torchnp.errors import shape_text
from torchnp.kernels.dropout import dropout as drop
from torchnp.registry import kernel

ndarray = np.ndarray
State = tuple[ndarray, ...]  # (h,), or (h, c) for an LSTM


class Weights(NamedTuple):
    """The parameters of one layer in one direction."""

    ih: ndarray
    hh: ndarray
    bias_ih: ndarray | None
    bias_hh: ndarray | None
    projection: ndarray | None


Cell = Callable[[ndarray, State, Weights], State]

# ---------------------------------------------------------------- cells: from gates of the input and a state to a state


def _sigmoid(x: ndarray) -> ndarray:
    wide = dt.cast(x, dt.opmath(x.dtype))
    one = wide.dtype.type(1)
    return dt.cast(one / (one + np.exp(-wide)), x.dtype)


def linear(x: ndarray, weight: ndarray, bias: ndarray | None) -> ndarray:
    """``x @ weight.T + bias``, or torch's error where sizes do not fit."""
    if x.shape[-1] != weight.shape[1]:
        rows = x.size // max(x.shape[-1], 1)
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({rows}x{x.shape[-1]} and {weight.shape[1]}x{weight.shape[0]})"
        )
    inner = dt.opmath(x.dtype)
    y = np.matmul(dt.cast(x, inner), dt.cast(weight, inner).T)
    if bias is not None:
        if x.ndim == 3 and not x.flags.c_contiguous:  # torch multiplies and adds in two steps then
            return dt.cast(y, x.dtype) + bias
        y += dt.cast(bias, inner)
    return dt.cast(y, x.dtype)


def _lstm(gates: ndarray, state: State, w: Weights) -> State:
    h, c = state
    gates = gates + linear(h, w.hh, w.bias_hh)
    i, f, g, o = np.split(gates, 4, -1)
    c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
    h = _sigmoid(o) * np.tanh(c)
    return (h if w.projection is None else linear(h, w.projection, None)), c


def _gru(gates: ndarray, state: State, w: Weights) -> State:
    (h,) = state
    of_input, of_state = np.split(gates, 3, -1), np.split(linear(h, w.hh, w.bias_hh), 3, -1)
    reset = _sigmoid(of_input[0] + of_state[0])
    update = _sigmoid(of_input[1] + of_state[1])
    new = np.tanh(of_input[2] + reset * of_state[2])
    return (new + update * (h - new),)


def _tanh(gates: ndarray, state: State, w: Weights) -> State:
    return (np.tanh(gates + linear(state[0], w.hh, w.bias_hh)),)


def _relu(gates: ndarray, state: State, w: Weights) -> State:
    return (np.maximum(gates + linear(state[0], w.hh, w.bias_hh), np.asarray(0, gates.dtype)),)


# ---------------------------------------------------------------- layers


def _run(cell: Cell, x: ndarray, state: State, w: Weights, reverse: bool) -> tuple[ndarray, State]:
    """One direction of one layer over (time, batch, features)."""
    gates = linear(x, w.ih, w.bias_ih)
    broadcast_shapes(state[0].shape[:1], gates.shape[1:2])
    out = np.empty((*x.shape[:2], state[0].shape[-1]), x.dtype)
    steps = range(len(x) - 1, -1, -1) if reverse else range(len(x))
    for t in steps:
        state = cell(gates[t], state, w)
        out[t] = state[0]
    return out, state


def _run_packed(
    cell: Cell, x: ndarray, sizes: list[int], state: State, w: Weights, reverse: bool
) -> tuple[ndarray, State]:
    """One direction of one layer over packed sequences, longest first: step ``t`` has ``sizes[t]`` of them."""
    gates = linear(x, w.ih, w.bias_ih)
    out = np.empty((len(x), state[0].shape[-1]), x.dtype)
    state = tuple(s.copy() for s in state)
    starts = np.cumsum([0, *sizes])
    for t in range(len(sizes) - 1, -1, -1) if reverse else range(len(sizes)):
        n, rows = sizes[t], slice(starts[t], starts[t + 1])
        new = cell(gates[rows], tuple(s[:n] for s in state), w)
        for kept, value in zip(state, new, strict=True):
            kept[:n] = value
        out[rows] = new[0]
    return out, state


def _weights(params: Sequence[ndarray], has_biases: bool, projected: bool, inner: np.dtype) -> Iterator[Weights]:
    each = 2 + 2 * has_biases + projected
    check(len(params) % each == 0, "got an incorrect number of RNN parameters")
    params = [dt.cast(p, inner) for p in params]
    for i in range(0, len(params), each):
        part = params[i : i + each]
        biases = part[2:4] if has_biases else (None, None)
        yield Weights(part[0], part[1], *biases, part[-1] if projected else None)


def _layers(
    cell: Cell,
    x: ndarray,
    sizes: list[int] | None,
    states: Sequence[ndarray],
    params: Sequence[ndarray],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> tuple[ndarray, list[ndarray]]:
    """All layers; ``states`` and the states returned are stacked (layers * directions, batch, size)."""
    # torch rounds every step of a half type, except in its fused LSTM.
    dtype, inner = x.dtype, x.dtype if len(states) == 1 else dt.opmath(x.dtype)
    directions = 2 if bidirectional else 1
    projected = len(states) == 2 and states[0].shape[-1] != states[1].shape[-1]
    rows = iter(_weights(params, has_biases, projected, inner))
    for s in states:
        check(s.shape[0] <= num_layers * directions, "Expected more hidden states in stacked_rnn")
        if len(states) == 1 and params and s.dtype != params[0].dtype:
            names = f"{dt.scalar_name(s.dtype)} and {dt.scalar_name(params[0].dtype)}"
            raise RuntimeError(f"mat1 and mat2 must have the same dtype, but got {names}")
        check(
            s.ndim == 3 and s.shape[0] == num_layers * directions,
            f"Expected hidden size of ({num_layers * directions}, ...), got {shape_text(s.shape)}",
        )
    wide = [dt.cast(s, inner) for s in states]
    y = dt.cast(x, inner)
    ends: list[State] = []
    for layer in range(num_layers):
        outs = []
        for d in range(directions):
            state = tuple(s[layer * directions + d] for s in wide)
            w = next(rows)
            if sizes is None:
                out, end = _run(cell, y, state, w, d == 1)
            else:
                out, end = _run_packed(cell, y, sizes, state, w, d == 1)
            outs.append(out)
            ends.append(end)
        y = np.concatenate(outs, -1) if bidirectional else outs[0]
        if dropout and train and layer < num_layers - 1:
            y = drop(y, dropout, True)
    return dt.cast(y, dtype), [dt.cast(np.stack(parts), dtype) for parts in zip(*ends, strict=True)]


def _sequence(cell: Cell, input: ndarray, states: Sequence[ndarray], batch_first: bool, *rest: Any) -> tuple:
    x = input.swapaxes(0, 1) if batch_first else input
    y, ends = _layers(cell, x, None, states, *rest)
    return (y.swapaxes(0, 1) if batch_first else y, *ends)


def _packed(cell: Cell, data: ndarray, batch_sizes: ndarray, states: Sequence[ndarray], *rest: Any) -> tuple:
    y, ends = _layers(cell, data, [int(n) for n in batch_sizes], states, *rest)
    return (y, *ends)


# ---------------------------------------------------------------- kernels


@kernel("lstm.input", differs=["half-opmath"])
def lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    """Long short-term memory over a batch of sequences; gates in the order i, f, g, o."""
    check(len(hx) == 2, "lstm expects two hidden states")
    rest = (params, has_biases, num_layers, dropout, train, bidirectional)
    return _sequence(_lstm, input, hx, batch_first, *rest)


@kernel("lstm.data", differs=["half-opmath"])
def lstm_data(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional):
    """`lstm` over packed sequences."""
    check(len(hx) == 2, "lstm expects two hidden states")
    return _packed(_lstm, data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional)


@kernel("gru.input", differs=["half-opmath"])
def gru(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    """Gated recurrent units over a batch of sequences; gates in the order reset, update, new."""
    rest = (params, has_biases, num_layers, dropout, train, bidirectional)
    return _sequence(_gru, input, [hx], batch_first, *rest)


@kernel("gru.data", differs=["half-opmath"])
def gru_data(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional):
    """`gru` over packed sequences."""
    return _packed(_gru, data, batch_sizes, [hx], params, has_biases, num_layers, dropout, train, bidirectional)


@kernel("rnn_tanh.input", differs=["half-opmath"])
def rnn_tanh(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    """Plain recurrence with tanh over a batch of sequences."""
    rest = (params, has_biases, num_layers, dropout, train, bidirectional)
    return _sequence(_tanh, input, [hx], batch_first, *rest)


@kernel("rnn_tanh.data", differs=["half-opmath"])
def rnn_tanh_data(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional):
    """`rnn_tanh` over packed sequences."""
    return _packed(_tanh, data, batch_sizes, [hx], params, has_biases, num_layers, dropout, train, bidirectional)


@kernel("rnn_relu.input", differs=["half-opmath"])
def rnn_relu(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    """Plain recurrence with relu over a batch of sequences."""
    rest = (params, has_biases, num_layers, dropout, train, bidirectional)
    return _sequence(_relu, input, [hx], batch_first, *rest)


@kernel("rnn_relu.data", differs=["half-opmath"])
def rnn_relu_data(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional):
    """`rnn_relu` over packed sequences."""
    return _packed(_relu, data, batch_sizes, [hx], params, has_biases, num_layers, dropout, train, bidirectional)


# ---------------------------------------------------------------- single cells


def _check_gates(cell: Cell, w_ih: ndarray, w_hh: ndarray) -> None:
    times, size = {_lstm: 4, _gru: 3}.get(cell, 1), w_hh.shape[1]
    for name, w in (("weight_ih", w_ih), ("weight_hh", w_hh)):
        check(
            w.shape[0] == times * size,
            f"{name} first dim must be {times} * hidden_size = {times * size}, but got {w.shape[0]}",
        )


def _one(cell: Cell, input: ndarray, states: State, w_ih, w_hh, b_ih, b_hh) -> State:
    for x in (input, w_ih, w_hh):
        wrap_dim(1, x.ndim)
    if cell is not _gru:
        _check_gates(cell, w_ih, w_hh)
    check(
        input.shape[-1] == w_ih.shape[1],
        f"input has inconsistent input_size: got {input.shape[-1]} expected {w_ih.shape[1]}",
    )
    for i, s in enumerate(states):
        check(
            input.shape[0] == s.shape[0],
            f"Input batch size {input.shape[0]} doesn't match hidden{i} batch size {s.shape[0]}",
        )
        check(
            s.shape[-1] == w_hh.shape[1],
            f"hidden{i} has inconsistent hidden_size: got {s.shape[-1]}, expected {w_hh.shape[1]}",
        )
    _check_gates(cell, w_ih, w_hh)
    return cell(linear(input, w_ih, b_ih), states, Weights(w_ih, w_hh, b_ih, b_hh, None))


@kernel("lstm_cell", differs=["half-opmath"])
def lstm_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of `lstm`."""
    check(len(hx) == 2, "lstm_cell expects two hidden states")
    return _one(_lstm, input, tuple(hx), w_ih, w_hh, b_ih, b_hh)


@kernel("gru_cell", differs=["half-opmath"])
def gru_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of `gru`."""
    return _one(_gru, input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


@kernel("rnn_tanh_cell", differs=["half-opmath"])
def rnn_tanh_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of `rnn_tanh`."""
    return _one(_tanh, input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


@kernel("rnn_relu_cell", differs=["half-opmath"])
def rnn_relu_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of `rnn_relu`."""
    return _one(_relu, input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]
