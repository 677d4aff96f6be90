"""The executor's fast LSTM and GRU: each step makes one matrix product and one tanh call for all gates.

The logistic function of x is (1 + tanh(x / 2)) / 2, so one tanh call can compute all gates if the weights of the
logistic ones are halved beforehand. Each gate's values are contiguous in memory, and products are split so that BLAS
does not copy their operands.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import torchnp
from torchnp.runtime.fast_ops_common import FLOAT, aligned, plain
from torchnp.thresholds import Threshold

ndarray = np.ndarray
_HALF = np.array(0.5, FLOAT)
_ALONE: Threshold = 1 << 18  # up to this many multiplications OpenBLAS uses one thread and does not copy operands
_NARROW: Threshold = 64  # minimum number of columns of a part


class _Weights(NamedTuple):
    """The weights of one direction of one layer.

    The shapes are (parts, given, each) for ``of_input`` and (parts, size, each) for ``of_state``. ``bias`` and
    ``of_last`` are (parts, 1, each), or None.
    """

    of_input: ndarray
    of_state: ndarray
    bias: ndarray | None
    of_last: ndarray | None  # added only to the product of the state and the last gate's weights


class Recurrent(ABC):
    """A recurrent network over float32 sequences."""

    name: str
    gates: int
    order: tuple[int, ...]  # the gates' positions in torch's weights
    logistic: int  # number of logistic gates, which come first in ``order``
    states: int

    def __init__(self) -> None:
        self._made: dict[int, tuple[list[ndarray], int, _Weights]] = {}
        self.keep = False  # whether the weights are constant, so that the prepared ones are cached

    def __call__(
        self, input: ndarray, hx: Any, params: Sequence[ndarray], has_biases: bool, num_layers: int,
        dropout: float, train: bool, bidirectional: bool, batch_first: bool,
    ) -> tuple:  # fmt: skip
        directions, per_layer = 1 + bool(bidirectional), 2 + 2 * bool(has_biases)
        given = [hx] if self.states == 1 else hx
        fits = (
            plain(input, *given, *params) and input.ndim == 3 and input.size and len(given) == self.states
            and not (train and dropout) and len(params) == per_layer * directions * num_layers
            and self._matching(input, given, params, per_layer, directions, batch_first)
        )  # fmt: skip
        if not fits:
            return torchnp.table[self.name](
                input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first
            )
        y = np.ascontiguousarray(input.swapaxes(0, 1) if batch_first else input)
        size = given[0].shape[-1]
        ends: list[list[ndarray]] = [[] for _ in given]
        for layer in range(num_layers):
            out = np.empty((*y.shape[:2], directions * size), FLOAT)
            for d in range(directions):
                k = layer * directions + d
                weights = self._weights(k, params[k * per_layer : (k + 1) * per_layer], y.shape[1])
                last = self._layer(y, [x[k] for x in given], weights, out[:, :, d * size : (d + 1) * size], d == 1)
                for found, x in zip(ends, last):
                    found.append(x)
            y = out
        if batch_first:
            y = y.swapaxes(0, 1)
        return y, *map(np.stack, ends)

    def _matching(
        self, x: ndarray, states: Sequence[ndarray], params: Sequence[ndarray], per_layer: int, directions: int, batch_first: bool
    ) -> bool:  # fmt: skip
        """Return whether all sizes match; if not, the table's kernel raises the error."""
        batch, size = x.shape[0 if batch_first else 1], states[0].shape[-1]
        if not size or any(h.shape != (len(params) // per_layer, batch, size) for h in states):
            return False
        rows = self.gates * size
        for i in range(0, len(params), per_layer):
            given = x.shape[-1] if i < per_layer * directions else size * directions
            shapes = [(rows, given), (rows, size), (rows,), (rows,)]
            if [p.shape for p in params[i : i + per_layer]] != shapes[:per_layer]:
                return False
        return True

    def _weights(self, k: int, params: Sequence[ndarray], batch: int) -> _Weights:
        """Prepare the weights of one direction of one layer: logistic gates first, their weights halved."""
        size = params[1].shape[1]
        parts = 1  # parts per gate
        while batch * size * (size // parts) > _ALONE and size % (2 * parts) == 0 and size // parts >= 2 * _NARROW:
            parts *= 2
        if k in self._made and self._made[k][1] == parts and all(a is b for a, b in zip(self._made[k][0], params)):
            return self._made[k][2]

        def cut(w: ndarray) -> ndarray:
            """Rearrange (gates * size, n) to (gates * parts, n, each)."""
            rows = w.reshape(self.gates, size, -1)[[*self.order]]
            rows[: self.logistic] *= _HALF
            return aligned(rows.reshape(self.gates * parts, size // parts, -1).swapaxes(1, 2))

        found = _Weights(cut(params[0]), cut(params[1]), *self._biases(*map(cut, params[2:])))
        if self.keep:
            self._made[k] = [*params], parts, found
        return found

    @abstractmethod
    def _biases(self, of_input: ndarray | None = None, of_state: ndarray | None = None) -> tuple[Any, Any]:
        """Return the bias added to the input products, and the separate bias of the last gate's product with the state.

        Either is None if there is no such bias.
        """

    def _layer(
        self, x: ndarray, states: list[ndarray], weights: _Weights, out: ndarray, reverse: bool
    ) -> list[ndarray]:  # fmt: skip
        """Run one direction of one layer; return its final states."""
        steps, batch, size = *x.shape[:2], states[0].shape[-1]
        many, _, each = weights.of_state.shape
        given = np.matmul(x.reshape(steps * batch, -1), weights.of_input)
        if weights.bias is not None:
            given += weights.bias
        given = given.reshape(many, steps, batch, each)
        parts = many // self.gates

        def by_parts(h: ndarray) -> ndarray:
            return h.reshape(batch, parts, each).swapaxes(0, 1)

        state = states[0].copy()
        own = [by_parts(state), *(by_parts(c).copy() for c in states[1:])]
        made = np.empty((many, batch, each), FLOAT)
        gates = made.reshape(self.gates, parts, batch, each)
        step = self._step(gates, own, weights.of_last)
        for t in range(steps - 1, -1, -1) if reverse else range(steps):
            np.matmul(state, weights.of_state, out=made)
            step(given[:, t])
            out[t] = state
        return [state, *(c.swapaxes(0, 1).reshape(batch, size) for c in own[1:])]

    @abstractmethod
    def _step(self, gates: ndarray, own: list[ndarray], bias: ndarray | None) -> Any:
        """Return the function that updates the states in place.

        It takes a step's input products; ``gates`` has the state's products.
        """


class LSTM(Recurrent):
    """LSTM with the gates i, f, g and o; its states are the hidden state and the cell."""

    name, gates, order, logistic, states = "aten::lstm.input", 4, (0, 1, 3, 2), 3, 2

    def _biases(self, of_input: ndarray | None = None, of_state: ndarray | None = None) -> tuple[Any, Any]:
        return None if of_input is None else of_input + of_state, None

    def _step(self, gates: ndarray, own: list[ndarray], bias: ndarray | None) -> Any:
        h, c = own
        made, opened, (i, f, o, g) = gates.reshape(-1, *gates.shape[2:]), gates[:3], gates
        part = np.empty_like(c)

        def step(given: ndarray) -> None:
            np.add(made, given, out=made)
            np.tanh(made, out=made)
            np.multiply(opened, _HALF, out=opened)
            np.add(opened, _HALF, out=opened)
            np.multiply(f, c, out=c)
            np.multiply(i, g, out=part)
            np.add(c, part, out=c)
            np.tanh(c, out=part)
            np.multiply(o, part, out=h)

        return step


class GRU(Recurrent):
    """GRU with the gates r and z and the candidate n; it has one state."""

    name, gates, order, logistic, states = "aten::gru.input", 3, (0, 1, 2), 2, 1

    def _biases(self, of_input: ndarray | None = None, of_state: ndarray | None = None) -> tuple[Any, Any]:
        if of_input is None or of_state is None:
            return None, None
        first = len(of_input) // 3 * 2
        return np.concatenate([of_input[:first] + of_state[:first], of_input[first:]]), of_state[first:]

    def _step(self, gates: ndarray, own: list[ndarray], bias: ndarray | None) -> Any:
        (h,), (r, z, n) = own, gates
        opened = gates[:2].reshape(-1, *gates.shape[2:])
        first, part = len(opened), np.empty(n.shape, FLOAT)

        def step(given: ndarray) -> None:
            np.add(opened, given[:first], out=opened)
            np.tanh(opened, out=opened)
            np.multiply(opened, _HALF, out=opened)
            np.add(opened, _HALF, out=opened)
            if bias is not None:
                np.add(n, bias, out=n)
            np.multiply(n, r, out=n)
            np.add(n, given[first:], out=n)
            np.tanh(n, out=n)
            np.subtract(h, n, out=part)
            np.multiply(part, z, out=part)
            np.add(part, n, out=h)

        return step
