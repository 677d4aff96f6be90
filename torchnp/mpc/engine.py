"""The engine of secret-shared tensors, which computes on shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

import torchnp
from torchnp.engine import BaseHandleTensor, Call, Engine, TensorSpec
from torchnp.mpc.fixed_point import DEFAULT_BITS, FixedPoint
from torchnp.mpc.network import Network, Traffic
from torchnp.mpc.operators import (  # noqa: F401, they register operators
    elementwise,
    layers,
    linear,
    losses,
    products,
    selection,
    sorting,
)
from torchnp.mpc.operators.registry import OPS, PublicArray
from torchnp.mpc.protocol import RANGE_BITS
from torchnp.mpc.shares import SharedSum


class SharedTensor(BaseHandleTensor):
    """A tensor whose values exist only as shares, until `publish`."""


class SharedEngine(Engine):
    """Runs operators on shares. `torchnp.mpc.local` and `torchnp.mpc.connect` make one.

    Parameters
    ----------
    network : Network
        The network of the parties.
    source : object
        The source of the dealer's correlated randomness.
    sharing : object
        Makes shares of values that one party knows.
    bits : int
        Fractional bits of floating-point tensors.
    """

    kind, name, ops = SharedTensor, "secret shares", OPS
    dtypes = ("float32", "float64", "int64", "bool")

    def __init__(self, network: Network, source: Any, sharing: Any, bits: int = DEFAULT_BITS) -> None:
        super().__init__()
        self.protocol = FixedPoint(network, source, bits)
        self._sharing = sharing

    @property
    def parties(self) -> int:
        """The number of parties."""
        return self.protocol.network.parties

    @property
    def bits(self) -> int:
        """Fractional bits of floating-point tensors."""
        return self.protocol.bits

    @property
    def tolerances(self) -> Mapping[str, tuple[float, float]]:  # type: ignore[override]
        """For the harness: an absolute and a relative tolerance of 16 units in the last place."""
        unit = 2.0**-self.bits
        return {"float32": (16 * unit, 16 * unit), "float64": (16 * unit, 16 * unit)}

    @property
    def resolution(self) -> Mapping[str, float]:  # type: ignore[override]
        """For the harness: one unit in the last place."""
        return dict.fromkeys(("float32", "float64"), 2.0**-self.bits)

    @property
    def largest(self) -> Mapping[str, float]:  # type: ignore[override]
        """For the harness: the largest number such that all products of two numbers up to it are in range."""
        return dict.fromkeys(("float32", "float64"), 2.0 ** (RANGE_BITS // 2 - self.bits))

    @property
    def traffic(self) -> Traffic:
        """A copy of the counts so far: bytes, rounds, correlations and published elements."""
        found = self.protocol.network.traffic.copy()
        found.bytes_dealt, found.requests = self.protocol.source.bytes_dealt, self.protocol.source.requests
        return found

    def close(self) -> None:
        """End the connections to the other parties and the dealer."""
        self.protocol.network.close()
        self.protocol.source.close()

    def __enter__(self) -> SharedEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _bits_of(self, dtype: torch.dtype) -> int:
        return self.protocol.bits if dtype.is_floating_point else 0

    def upload(self, tensor: torch.Tensor, *, owner: int = 0, **options: Any) -> SharedSum:
        """Return shares of the owner's tensor.

        Every party calls this. The other parties pass a tensor of the same shape and dtype, whose values are ignored.
        """
        _no_others(options, "send() and module() take owner=")
        if not 0 <= owner < self.parties:
            raise ValueError(f"the owner is a party, 0 to {self.parties - 1}, not {owner}")
        bits = self._bits_of(tensor.dtype)
        self.protocol.network.note(f"send {owner} {tensor.dtype} {tuple(tensor.shape)}".encode())
        words = None
        if owner in self.protocol.network.ranks:
            words = self.protocol.encode(tensor.numpy(), bits)
        return SharedSum(tuple(self._sharing.share(words, tuple(tensor.shape), owner)), bits)

    def constant(self, tensor: torch.Tensor) -> PublicArray:
        """Return the payload of a value that every party's program has."""
        array = tensor.numpy().copy()
        self.protocol.network.note(f"constant {array.dtype} {array.shape}".encode() + array.tobytes())
        return PublicArray(array)

    def download(self, payload: Any, spec: TensorSpec, **options: Any) -> torch.Tensor:
        """Return the values; every party gets them."""
        _no_others(options, "publish() takes no options: every party gets the values")
        if isinstance(payload, PublicArray):
            return torch.from_numpy(payload.array.copy()).to(spec.dtype)
        words = self.protocol.network.publish(payload, f"a tensor of {spec.dtype}")
        return torch.from_numpy(np.array(self.protocol.decode(words, payload.bits))).to(spec.dtype)

    def run(self, call: Call) -> Any:
        """Run one operator: with the table's kernel on public values, else with its protocol."""
        values = [*call.args, *call.kwargs.values()]
        flat = [y for x in values for y in (x if isinstance(x, list) else (x,))]
        if self.protocol.network.notes:
            named = [f"{name}={_described(a)}" for name, a in call.kwargs.items()]
            self.protocol.network.note(" ".join((call.op, *map(_described, call.args), *named)).encode())
        if not any(isinstance(x, SharedSum) for x in flat):
            return self._run_public(call)
        with np.errstate(over="ignore"):
            return self._functions[call.op](self.protocol, call, *call.args, **call.kwargs)

    def _run_public(self, call: Call) -> Any:
        def plain(x: Any) -> Any:
            return [plain(y) for y in x] if isinstance(x, list) else x.array if isinstance(x, PublicArray) else x

        out = torchnp.table[call.op](*map(plain, call.args), **{k: plain(a) for k, a in call.kwargs.items()})
        if isinstance(out, (tuple, list)):
            return type(out)(None if x is None else PublicArray(x) for x in out)
        return PublicArray(out)


def _described(x: Any) -> str:
    """Describe an argument by what must be the same for all parties: numbers, shapes and dtypes."""
    if isinstance(x, list):
        return f"[{' '.join(map(_described, x))}]"
    if isinstance(x, PublicArray):  # `constant` has noted the values
        return f"public {x.array.dtype} {x.array.shape}"
    return f"secret {x.shape} {x.bits}" if isinstance(x, SharedSum) else repr(x)


def _no_others(options: dict[str, Any], instead: str) -> None:
    if options:
        raise TypeError(f"unknown option {next(iter(options))!r}: {instead}")
