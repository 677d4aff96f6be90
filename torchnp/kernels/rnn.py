"""Recurrent networks: cells, and layers of them over whole sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from torchnp import dtypes as dt
from torchnp import layout
from torchnp.checks import broadcast_shapes, check, wrap_dim
from torchnp.errors import shape_text
from torchnp.kernels._rows import rows
from torchnp.kernels.dropout import dropout as drop

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
    sizes = f"{x.size // max(x.shape[-1], 1)}x{x.shape[-1]} and {weight.shape[1]}x{weight.shape[0]}"
    check(x.shape[-1] == weight.shape[1], f"mat1 and mat2 shapes cannot be multiplied ({sizes})")
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
        bias_ih, bias_hh = part[2:4] if has_biases else (None, None)
        yield Weights(part[0], part[1], bias_ih, bias_hh, part[-1] if projected else None)


def _layers(
    cell: Cell, x: ndarray, sizes: list[int] | None, states: Sequence[ndarray], params: Sequence[ndarray],
    has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool,
) -> tuple[ndarray, list[ndarray]]:  # fmt: skip
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
        words = f"Expected hidden size of ({num_layers * directions}, ...), got {shape_text(s.shape)}"
        check(s.ndim == 3 and s.shape[0] == num_layers * directions, words)
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


def _sequence(input: ndarray, hx: Any, *rest: Any, cell: Cell) -> tuple:
    *options, batch_first = rest
    x = input.swapaxes(0, 1) if batch_first else input
    y, ends = _layers(cell, x, None, _states(cell, hx, "lstm"), *options)
    return (y.swapaxes(0, 1) if batch_first else y, *ends)


def _packed(data: ndarray, batch_sizes: ndarray, hx: Any, *rest: Any, cell: Cell) -> tuple:
    y, ends = _layers(cell, data, [int(n) for n in batch_sizes], _states(cell, hx, "lstm"), *rest)
    return (y, *ends)


def _states(cell: Cell, hx: Any, name: str) -> Sequence[ndarray]:
    check(cell is not _lstm or len(hx) == 2, f"{name} expects two hidden states")
    return hx if cell is _lstm else [hx]


# ---------------------------------------------------------------- single cells


def _check_gates(cell: Cell, w_ih: ndarray, w_hh: ndarray) -> None:
    times, size = 4 if cell is _lstm else 3 if cell is _gru else 1, w_hh.shape[1]
    for name, w in (("weight_ih", w_ih), ("weight_hh", w_hh)):
        words = f"{name} first dim must be {times} * hidden_size = {times * size}, but got {w.shape[0]}"
        check(w.shape[0] == times * size, words)


def _one(input: ndarray, hx: Any, w_ih: ndarray, w_hh: ndarray, b_ih: Any, b_hh: Any, *, cell: Cell) -> State:
    states = _states(cell, hx, "lstm_cell")
    for x in (input, w_ih, w_hh):
        wrap_dim(1, x.ndim)
    if cell is not _gru:
        _check_gates(cell, w_ih, w_hh)
    size, wanted = input.shape[-1], w_ih.shape[1]
    check(size == wanted, f"input has inconsistent input_size: got {size} expected {wanted}")
    for i, s in enumerate(states):
        batch, size, wanted = s.shape[0], s.shape[-1], w_hh.shape[1]
        words = f"Input batch size {input.shape[0]} doesn't match hidden{i} batch size {batch}"
        check(input.shape[0] == batch, words)
        check(size == wanted, f"hidden{i} has inconsistent hidden_size: got {size}, expected {wanted}")
    _check_gates(cell, w_ih, w_hh)
    ends = cell(linear(input, w_ih, b_ih), tuple(states), Weights(w_ih, w_hh, b_ih, b_hh, None))
    if cell is not _gru:
        return ends
    own = layout.layout_of(hx)  # torch adds a row-major gate to the state
    return (layout.place(ends[0], layout.iterated((own, (hx.shape, layout.contiguous(hx.shape))))),)


for _names, _cell, _part, _doc in (
    (
        "lstm.input lstm.data lstm_cell", _lstm, ...,
        "Long short-term memory over a batch of sequences; gates in the order i, f, g, o.",
    ),
    (
        "gru.input gru.data gru_cell", _gru, 0,
        "Gated recurrent units over a batch of sequences; gates in the order reset, update, new.",
    ),
    ("rnn_tanh.input rnn_tanh.data rnn_tanh_cell", _tanh, 0, "Plain recurrence with tanh over a batch of sequences."),
    ("rnn_relu.input rnn_relu.data rnn_relu_cell", _relu, 0, "Plain recurrence with relu over a batch of sequences."),
):  # fmt: skip
    _padded, _data, _step = _names.split()
    _name, _given = _padded.partition(".")[0], {"cell": _cell, "differs": ["half-opmath"]}
    rows(_padded, _sequence, _doc, **_given)
    rows(_data, _packed, f"`{_name}` over packed sequences.", **_given)
    rows(_step, _one, f"One step of `{_name}`.", part=_part, **_given)
