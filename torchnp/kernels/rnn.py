"""Recurrent networks: single cells, and layers that apply cells to whole sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import broadcast_shapes, check, check_type, wrap_dim
from torchnp.core.errors import cannot_cast, no_primitive, shape_text
from torchnp.core.target import since
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._elementwise import in_place
from torchnp.kernels.arithmetic import add, mul
from torchnp.kernels.dropout import dropout as drop
from torchnp.kernels.tensor_products import linear as any_linear
from torchnp.layout import stride_rules

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

# ---------------------------------------------------------------- cells: (gates of the input, state) -> new state


_USUAL = frozenset({dt.float32, dt.float64, *dt.HALVES, dt.complex64, dt.complex128})  # others raise errors in some op


def _sigmoid(x: ndarray) -> ndarray:
    if not dt.is_inexact(x.dtype):  # torch writes the float result into the gate
        raise cannot_cast(dt.get_default_dtype(), x.dtype)
    y: Any = np.negative(dt.cast(x, dt.opmath(x.dtype)))
    one = y.dtype.type(1)
    np.exp(y, out=y)
    y += one
    np.divide(one, y, out=y)
    return dt.cast(y, x.dtype)


def _cut(gates: ndarray, n: int) -> list[ndarray]:
    """Split along the last dimension; ``np.split`` would take longer than the arithmetic of a small cell."""
    size, left = divmod(gates.shape[-1], n)
    if left:
        raise ValueError("array split does not result in an equal division")
    return [gates[..., i * size : (i + 1) * size] for i in range(n)]


def _differ(*given: ndarray | None) -> bool:
    """Return whether dtypes differ: torch refuses nearly all mixtures."""
    return len({x.dtype for x in given if x is not None}) > 1


def _added(x: ndarray, y: ndarray) -> ndarray:
    """Add ``y`` to ``x`` as torch does in place."""
    return x + y if x.dtype == y.dtype and x.dtype in _USUAL else in_place(x, add(x, y))


def linear(x: ndarray, weight: ndarray, bias: ndarray | None) -> ndarray:
    """Return ``x @ weight.T + bias``, or raise torch's error if sizes do not fit."""
    if _differ(x, weight, bias) or x.dtype not in _USUAL:
        return any_linear(x, weight, bias)
    sizes = f"{x.size // max(x.shape[-1], 1)}x{x.shape[-1]} and {weight.shape[1]}x{weight.shape[0]}"
    by = f"{'mm' if bias is None else 'addmm'}: " if since("2.15") else ""
    check(x.shape[-1] == weight.shape[1], f"{by}mat1 and mat2 shapes cannot be multiplied ({sizes})")
    inner = dt.opmath(x.dtype)
    wide, turned = dt.cast(x, inner), dt.cast(weight, inner).T
    # For an inner size of 1, BLAS adds the products to 0 only in a single row or column. Other products keep a -0.
    y = wide * turned if x.shape[-1] == 1 < min(x.size, len(weight)) else np.matmul(wide, turned)
    if bias is not None:
        if x.ndim == 3 and not x.flags.c_contiguous:  # torch then multiplies and adds in two steps
            return dt.cast(y, x.dtype) + bias
        y += dt.cast(bias, inner)
    return dt.cast(y, x.dtype)


def lstm_gates(gates: ndarray) -> tuple[ndarray, ndarray, ndarray, ndarray]:
    """Return the activated gates i, f, g and o of an LSTM."""
    *_, g, o = _cut(gates, 4)
    i, f = _cut(_sigmoid(gates[..., : 2 * g.shape[-1]]), 2)
    return i, f, np.tanh(g), _sigmoid(o)


def gru_gates(of_input: ndarray, of_state: ndarray) -> tuple[ndarray, ndarray, ndarray, ndarray]:
    """Return the activated gates reset, update and new of a GRU, and the state's part of the new gate."""
    (ir, iz, i_n), (hr, hz, hn) = _cut(of_input, 3), _cut(of_state, 3)
    reset = _sigmoid(_added(hr, ir))
    return reset, _sigmoid(_added(hz, iz)), np.tanh(add(i_n, reset * hn)), hn


def lstm(gates: ndarray, state: State, w: Weights) -> State:
    """Compute one step of an LSTM."""
    h, c = state
    i, f, g, o = lstm_gates(_added(linear(h, w.hh, w.bias_hh), gates))
    c = (f * c if f.dtype == c.dtype else mul(f, c)) + i * g
    h = o * np.tanh(c) if o.dtype == c.dtype else mul(o, np.tanh(c))
    return (h if w.projection is None else linear(h, w.projection, None)), c


def _gru(gates: ndarray, state: State, w: Weights) -> State:
    (h,) = state
    of_state = linear(h, w.hh, w.bias_hh)
    if _differ(of_state, gates) or gates.dtype not in _USUAL:
        _added(of_state, gates)
    _, update, new, _ = gru_gates(gates, of_state)
    return (new + update * (h - new),)


def _tanh(gates: ndarray, state: State, w: Weights) -> State:
    total = _added(linear(state[0], w.hh, w.bias_hh), gates)
    return (np.tanh(total if dt.is_inexact(total.dtype) else dt.cast(total, dt.get_default_dtype())),)


def _relu(gates: ndarray, state: State, w: Weights) -> State:
    total = _added(linear(state[0], w.hh, w.bias_hh), gates)
    check(not dt.is_complex(total.dtype), "clamp is not supported for complex types", NotImplementedError)
    return (np.maximum(total, np.asarray(0, total.dtype)),)


# ---------------------------------------------------------------- layers

_TAKEN = frozenset({dt.float32, *dt.HALVES})  # dtypes that oneDNN accepts; `_KNOWN` adds those that it recognises
_KNOWN = _TAKEN | {dt.uint8, dt.int8, dt.float8_e4m3fn, dt.float8_e5m2}


def check_vendor(x: ndarray, ih: ndarray, hh: ndarray, bias: ndarray | None, h: ndarray, c: ndarray) -> None:
    """Raise torch's error for dtypes that oneDNN does not support or mix; half types may have float32 biases."""
    for a in (x, h, c, bias, ih, hh):
        if a is not None and a.dtype not in _TAKEN:
            check(a.dtype in _KNOWN, "get_mkldnn_dtype: unsupported data type")
            raise RuntimeError("itensor_view_from_dense expects float, bfloat16 or half tensor input")
    same = {a.dtype for a in (x, h, ih, hh)} == {x.dtype}
    own = c.dtype == x.dtype or (x.dtype == dt.bfloat16 and c.dtype == dt.float32)
    fits = bias is None or bias.dtype in (x.dtype, dt.float32)
    check(same and own and fits and hh.shape[-1] > 0, no_primitive("LSTM"))


def run(
    cell: Cell, x: ndarray, state: State, w: Weights, reverse: bool, sizes: Sequence[int] | None = None
) -> tuple[ndarray, State]:
    """Run one direction of one layer over (time, batch, features).

    With ``sizes``, sequences are packed, the longest first: step ``t`` has ``sizes[t]`` of them. Ended sequences keep
    their
    state.
    """
    gates = linear(x, w.ih, w.bias_ih)
    if sizes is None:
        check(len(x) > 0, "Expected sequence length to be larger than 0 in RNN")
        broadcast_shapes(state[0].shape[:1], gates.shape[1:2])
        steps: list[tuple[Any, int | None]] = [(t, None) for t in range(len(x))]
    else:
        steps = [(slice(end - n, end), n) for end, n in zip(np.cumsum(sizes), sizes, strict=True)]
    out = np.empty((*x.shape[:-1], state[0].shape[-1]), state[0].dtype)
    for t, n in reversed(steps) if reverse else steps:
        new = cell(gates[t], tuple(s[:n] for s in state), w)
        if new[0].dtype != out.dtype:  # a GRU whose input has a wider dtype
            out = dt.cast(out, new[0].dtype)
        out[t] = new[0]
        state = (
            new
            if n is None
            else tuple(np.concatenate([a, dt.cast(b[n:], a.dtype)]) for a, b in zip(new, state, strict=True))
        )
    return out, state


def half_lstm(x: ndarray, state: State, w: Weights, reverse: bool) -> tuple[ndarray, State]:
    """Run one direction of a half-type LSTM layer as oneDNN does, with one bias: only the states are rounded."""
    inner = dt.opmath(x.dtype)
    ih, hh = dt.cast(w.ih, inner), dt.cast(w.hh, inner)
    gates = linear(dt.cast(x, inner), ih, w.bias_ih)
    h, c = state
    broadcast_shapes(h.shape[:1], gates.shape[1:2])
    out = np.empty((*x.shape[:2], h.shape[-1]), x.dtype)
    for t in range(len(x) - 1, -1, -1) if reverse else range(len(x)):
        i, f, g, o = lstm_gates(linear(dt.cast(h, inner), hh, None) + gates[t])
        following = f * dt.cast(c, inner) + i * g
        out[t] = h = dt.cast(o * np.tanh(following), h.dtype)
        c = dt.cast(following, c.dtype)
    return out, (h, c)


def _half_layer(
    x: ndarray, state: State, w: Weights, reverse: bool, sizes: Sequence[int] | None
) -> tuple[ndarray, State]:
    """Run `half_lstm` over sequences, or over packed sequences of equal length, with the rounded sum of two biases."""
    bias = None
    if w.bias_ih is not None and w.bias_hh is not None:
        bias = dt.cast(add(w.bias_ih, w.bias_hh), dt.opmath(x.dtype))
    steps = x if sizes is None else x.reshape(len(sizes), -1, x.shape[-1])
    out, end = half_lstm(steps, state, Weights(w.ih, w.hh, bias, None, None), reverse)
    return out.reshape(*x.shape[:-1], out.shape[-1]), end


def _weights(params: Sequence[ndarray], has_biases: bool, projected: bool) -> Iterator[Weights]:
    each = 2 + 2 * has_biases + projected
    check(len(params) % each == 0, "got an incorrect number of RNN parameters")
    for i in range(0, len(params), each):
        part = params[i : i + each]
        bias_ih, bias_hh = part[2:4] if has_biases else (None, None)
        yield Weights(part[0], part[1], bias_ih, bias_hh, part[-1] if projected else None)


def _layers(
    cell: Cell, x: ndarray, sizes: list[int] | None, states: Sequence[ndarray], params: Sequence[ndarray],
    has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool,
) -> tuple[ndarray, list[ndarray]]:  # fmt: skip
    """Run all layers; ``states`` and the returned states are stacked: (layers * directions, batch, size)."""
    directions = 2 if bidirectional else 1
    projected = len(states) == 2 and states[0].shape[-1] != states[1].shape[-1]
    level = sizes is None or len(set(sizes)) == 1
    vendor = len(states) == 2 and not projected and level and x.size and x.dtype in (dt.float32, dt.bfloat16)
    rounds = vendor and x.dtype == dt.bfloat16
    # torch rounds every step of a half type, except in its fused LSTM.
    fused = not rounds and len(states) == 2 and dt.is_half(x.dtype) and not _differ(x, *states, *params)
    dtype, inner = x.dtype, dt.opmath(x.dtype)
    single = vendor and not rounds  # oneDNN gets the sum of two biases, whatever their dtypes
    taken = [dt.cast(p, inner) if fused or (single and p.ndim == 1) else p for p in params]
    rows = iter(_weights(taken, has_biases, projected))
    for s in states:
        check(s.shape[0] <= num_layers * directions, "Expected more hidden states in stacked_rnn")
        words = f"Expected hidden size of ({num_layers * directions}, ...), got {shape_text(s.shape)}"
        check(s.ndim == 3 and s.shape[0] == num_layers * directions, words)
    if vendor:
        for ih, hh, bias_ih, bias_hh, _ in _weights(params, has_biases, projected):  # here oneDNN checks the dtypes
            check_vendor(x, ih, hh, None if bias_ih is None or bias_hh is None else add(bias_ih, bias_hh), *states)
    wide = [dt.cast(s, inner) if fused else s for s in states]
    y = dt.cast(x, inner) if fused else x
    one = _half_layer if rounds else partial(run, cell)
    ends: list[State] = []
    for layer in range(num_layers):
        outs = []
        for d in range(directions):
            state = tuple(s[layer * directions + d] for s in wide)
            out, end = one(y, state, next(rows), d == 1, sizes)
            outs.append(out)
            ends.append(end)
        y = np.concatenate(outs, -1) if bidirectional else outs[0]
        if dropout and train and layer < num_layers - 1:
            y = drop(y, dropout, True)
    stacked = [np.stack(parts) for parts in zip(*ends, strict=True)]
    return (dt.cast(y, dtype), [dt.cast(s, dtype) for s in stacked]) if fused else (y, stacked)


def _sequence(input: ndarray, hx: Any, *rest: Any, cell: Cell) -> tuple:
    *options, batch_first = rest
    y, *ends = _packed(input.swapaxes(0, 1) if batch_first else input, None, hx, *options, cell=cell)
    return (y.swapaxes(0, 1) if batch_first else y, *ends)


def _packed(data: ndarray, batch_sizes: ndarray | None, hx: Any, *rest: Any, cell: Cell) -> tuple:
    states = _states(cell, hx, "lstm")
    check_type(dt.int64, batch_sizes)
    sizes = None if batch_sizes is None else batch_sizes.tolist()
    y, ends = _layers(cell, data, sizes, states, *rest)
    return (y, *ends)


def _states(cell: Cell, hx: Any, name: str) -> Sequence[ndarray]:
    check(cell is not lstm or len(hx) == 2, f"{name} expects two hidden states")
    return hx if cell is lstm else [hx]


# ---------------------------------------------------------------- single cells


def _check_gates(cell: Cell, w_ih: ndarray, w_hh: ndarray) -> None:
    times, size = 4 if cell is lstm else 3 if cell is _gru else 1, w_hh.shape[1]
    for name, w in (("weight_ih", w_ih), ("weight_hh", w_hh)):
        words = f"{name} first dim must be {times} * hidden_size = {times * size}, but got {w.shape[0]}"
        check(w.shape[0] == times * size, words)


def _one(input: ndarray, hx: Any, w_ih: ndarray, w_hh: ndarray, b_ih: Any, b_hh: Any, *, cell: Cell) -> State:
    states = _states(cell, hx, "lstm_cell")
    for x in (input, w_ih, w_hh):
        wrap_dim(1, x.ndim)
    if cell in (_tanh, _relu):  # for these, torch checks the gates before the input, for an LSTM after it
        _check_gates(cell, w_ih, w_hh)
    size, wanted = input.shape[-1], w_ih.shape[1]
    check(size == wanted, f"input has inconsistent input_size: got {size} expected {wanted}")
    if cell is lstm:
        _check_gates(cell, w_ih, w_hh)
    for i, s in enumerate(states):
        batch, size, wanted = s.shape[0], s.shape[-1], w_hh.shape[1]
        words = f"Input batch size {input.shape[0]} doesn't match hidden{i} batch size {batch}"
        check(input.shape[0] == batch, words)
        check(size == wanted, f"hidden{i} has inconsistent hidden_size: got {size}, expected {wanted}")
    _check_gates(cell, w_ih, w_hh)
    if cell is not _gru and _differ(states[0], w_hh, b_hh):  # torch multiplies the state first
        linear(states[0], w_hh, b_hh)
    ends = cell(linear(input, w_ih, b_ih), tuple(states), Weights(w_ih, w_hh, b_ih, b_hh, None))
    if cell is not _gru:
        return ends
    own = stride_rules.layout_of(hx)  # torch adds a row-major gate to the state, which decides the strides
    return (stride_rules.place(ends[0], stride_rules.iterated((own, (hx.shape, stride_rules.contiguous(hx.shape))))),)


for _names, _cell, _doc in (
    (
        "lstm.input lstm.data lstm_cell",
        lstm,
        "Long short-term memory over a batch of sequences; gates in the order i, f, g, o.",
    ),
    (
        "gru.input gru.data gru_cell",
        _gru,
        "Gated recurrent units over a batch of sequences; gates in the order reset, update, new.",
    ),
    ("rnn_tanh.input rnn_tanh.data rnn_tanh_cell", _tanh, "Elman recurrence with tanh over a batch of sequences."),
    ("rnn_relu.input rnn_relu.data rnn_relu_cell", _relu, "Elman recurrence with relu over a batch of sequences."),
):
    _given = {"cell": _cell, "differs": ["half-opmath"]}
    (_of_input, _of_data, _of_cell), _name = _names.split(), _names.partition(".")[0]
    rows(_of_input, _sequence, _doc, **_given)
    rows(_of_data, _packed, f"`{_name}` over packed sequences.", **_given)
    rows(_of_cell, _one, f"One step of `{_name}`.", part=... if _cell is lstm else 0, **_given)
