"""Recurrent layers: one product for all steps' inputs, and a scan over the steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torchnp import dtypes as dt
from torchnp.portable.library import ArrayLibrary
from torchnp.portable.rows import Array, portable

Cell = Callable[..., tuple[tuple[Array, ...], Array]]


def _sigmoid(lib: ArrayLibrary, x: Array) -> Array:
    return lib.call("aten::sigmoid", x)


def _gates(lib: ArrayLibrary, x: Array, n: int) -> list[Array]:
    size = x.shape[-1] // n
    return [x[..., i * size : (i + 1) * size] for i in range(n)]


def _product(lib: ArrayLibrary, x: Array, weight: Array, bias: Array | None) -> Array:
    return lib.call("aten::linear", x, weight, bias)


def _lstm_cell(lib: ArrayLibrary, state: tuple[Array, ...], x: Array, p: list[Any]) -> tuple[tuple[Array, ...], Array]:
    _, w_hh, _, b_hh, w_hr = p
    h, c = state
    i, f, g, o = _gates(lib, x + _product(lib, h, w_hh, b_hh), 4)
    c = _sigmoid(lib, f) * c + _sigmoid(lib, i) * lib.xp.tanh(g)
    h = _sigmoid(lib, o) * lib.xp.tanh(c)
    h = h if w_hr is None else _product(lib, h, w_hr, None)
    return (h, c), h


def _gru_cell(lib: ArrayLibrary, state: tuple[Array, ...], x: Array, p: list[Any]) -> tuple[tuple[Array, ...], Array]:
    _, w_hh, _, b_hh, _ = p
    (h,) = state
    (xr, xz, xn), (hr, hz, hn) = _gates(lib, x, 3), _gates(lib, _product(lib, h, w_hh, b_hh), 3)
    r, z = _sigmoid(lib, xr + hr), _sigmoid(lib, xz + hz)
    n = lib.xp.tanh(xn + r * hn)
    h = (h - n) * z + n
    return (h,), h


def _plain_cell(activation: str) -> Cell:
    def cell(lib: ArrayLibrary, state: tuple[Array, ...], x: Array, p: list[Any]) -> tuple[tuple[Array, ...], Array]:
        h = lib.call(activation, x + _product(lib, state[0], p[1], p[3]))
        return (h,), h

    return cell


def _parameters(params: Sequence[Array], has_biases: bool, projected: bool) -> list[list[Any]]:
    """Return, for each layer and direction, the input and hidden weights, their biases, and a projection."""
    size = 2 + 2 * has_biases + projected
    found = []
    for i in range(0, len(params), size):
        p = list(params[i : i + size])
        biases = p[2:4] if has_biases else [None, None]
        found.append([*p[:2], *biases, p[-1] if projected else None])
    return found


def _layers(
    lib: ArrayLibrary,
    cell: Cell,
    x: Array,
    states: Sequence[Array],
    params: list[list[Any]],
    num_layers: int,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Array, ...]:
    """Return the last layer's outputs, then each final state, stacked over layers and directions."""
    directions = 2 if bidirectional else 1
    swap = lambda v: lib.call("aten::transpose.int", v, 0, 1)
    x = swap(x) if batch_first else x
    finals = []
    for layer in range(num_layers):
        outputs = []
        for k in range(directions):
            at = layer * directions + k
            p = params[at]
            given = _product(lib, x, p[0], p[2])
            start = tuple(s[at, ...] for s in states)
            step = lambda carry, v, p=p: cell(lib, carry, v, p)
            final, y = lib.scan(step, start, given, reverse=bool(k))
            finals.append(final)
            outputs.append(y)
        x = outputs[0] if directions == 1 else lib.xp.concat(outputs, axis=-1)
    stacked = [lib.xp.stack(list(column), axis=0) for column in zip(*finals)]
    return swap(x) if batch_first else x, *stacked


def _run(
    lib: ArrayLibrary,
    cell: Cell,
    input: Array,
    states: Sequence[Array],
    params: Sequence[Array],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    projected: bool = False,
) -> tuple[Array, ...]:
    if (dropout and train and num_layers > 1) or dt.is_half(lib.dtype_of(input)):
        return NotImplemented
    single = input.ndim == 2  # one sequence without a batch
    if single:
        input = lib.xp.expand_dims(input, axis=0 if batch_first else 1)
        states = [lib.xp.expand_dims(s, axis=1) for s in states]
    listed = _parameters(params, has_biases, projected)
    y, *finals = _layers(lib, cell, input, states, listed, num_layers, bidirectional, batch_first)
    if single:
        y = lib.xp.squeeze(y, axis=0 if batch_first else 1)
        finals = [lib.xp.squeeze(s, axis=1) for s in finals]
    return y, *finals


@portable("aten::lstm.input")
def lstm(
    lib: ArrayLibrary,
    input: Array,
    hx: Sequence[Array],
    params: Sequence[Array],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Array, ...]:
    projected = hx[0].shape[-1] != hx[1].shape[-1]
    how = has_biases, num_layers, dropout, train, bidirectional, batch_first, projected
    return _run(lib, _lstm_cell, input, hx, params, *how)


def _recurrent(name: str, cell: Cell) -> None:
    @portable(name)
    def row(
        lib: ArrayLibrary,
        input: Array,
        hx: Array,
        params: Sequence[Array],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Array, ...]:
        how = has_biases, num_layers, dropout, train, bidirectional, batch_first
        return _run(lib, cell, input, [hx], params, *how)


_recurrent("aten::gru.input", _gru_cell)
_recurrent("aten::rnn_tanh.input", _plain_cell("aten::tanh"))
_recurrent("aten::rnn_relu.input", _plain_cell("aten::relu"))


# ---------------------------------------------------------------- one step


def _mixed(lib: ArrayLibrary, *arrays: Array) -> bool:
    return len(set(map(lib.dtype_of, arrays))) > 1


@portable("aten::lstm_cell")
def lstm_cell(
    lib: ArrayLibrary,
    input: Array,
    hx: Sequence[Array],
    w_ih: Array,
    w_hh: Array,
    b_ih: Array | None = None,
    b_hh: Array | None = None,
) -> tuple[Array, ...]:
    if _mixed(lib, input, *hx, w_ih, w_hh):
        return NotImplemented
    return _lstm_cell(lib, tuple(hx), _product(lib, input, w_ih, b_ih), [w_ih, w_hh, b_ih, b_hh, None])[0]


def _one_step(name: str, cell: Cell) -> None:
    @portable(name)
    def row(
        lib: ArrayLibrary,
        input: Array,
        hx: Array,
        w_ih: Array,
        w_hh: Array,
        b_ih: Array | None = None,
        b_hh: Array | None = None,
    ) -> Array:
        if _mixed(lib, input, hx, w_ih, w_hh):
            return NotImplemented
        return cell(lib, (hx,), _product(lib, input, w_ih, b_ih), [w_ih, w_hh, b_ih, b_hh, None])[1]


_one_step("aten::gru_cell", _gru_cell)
_one_step("aten::rnn_tanh_cell", _plain_cell("aten::tanh"))
_one_step("aten::rnn_relu_cell", _plain_cell("aten::relu"))
