"""Calls that models make: recorded signatures (``scripts/record_models.py``) with random values that match them.

A signature is a line of JSON: the overload, its arguments and its keyword arguments. For a tensor it has the dtype, the
shape, the strides if not contiguous, and the values: all if they are few integers, the distinct values if these are
few, else the range.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch

from ...backends.torch_backend import DTYPE_NAMES, TORCH_DTYPES
from ..task import reseed
from .recording import NAMED, Recorder

SOURCE = "models"
DATA = Path(__file__).parents[2] / "data" / "models.jsonl"
RECORDED = "float32"  # the models' dtype, which tasks in another dtype replace
DTYPES = (RECORDED, "bfloat16")
FEW = 4  # up to this many distinct values are kept exactly
# up to this many integers are kept in order, because offsets, lengths and sizes are meaningful only together
SHORT = 16


class NotKeptError(Exception):
    """Raised if a line cannot describe an argument: a generator, a non-strided or non-CPU tensor, a SymInt."""


# ---------------------------------------------------------------- from a call to a line


class Speller:
    """Encodes the arguments of one call; for tensors that share memory, their offsets in it are kept."""

    def __init__(self, args: Any, values: bool = True) -> None:
        self.values = values
        tensors = [t for t in torch.utils._pytree.tree_leaves(args) if isinstance(t, torch.Tensor)]
        memories = [t.untyped_storage()._cdata for t in tensors]
        self.shared = [m for m in dict.fromkeys(memories) if memories.count(m) > 1]

    def spell(self, x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return self.tensor(x)
        if isinstance(x, (list, tuple)):
            return [self.spell(item) for item in x]
        if isinstance(x, dict):
            return {k: self.spell(v) for k, v in x.items()}
        if type(x) in NAMED:
            return {NAMED[type(x)]: str(x).removeprefix("torch.")}
        if isinstance(x, complex):
            return {"complex": [x.real, x.imag]}
        if x is None or type(x) in (bool, int, float, str):
            return x
        raise NotKeptError(type(x).__name__)

    def tensor(self, t: torch.Tensor) -> dict[str, Any]:
        if t.layout is not torch.strided or t.device.type != "cpu" or t.dtype not in DTYPE_NAMES or t.is_quantized:
            raise NotKeptError(f"{t.layout} {t.device} {t.dtype}")
        out: dict[str, Any] = {"t": DTYPE_NAMES[t.dtype], "n": list(t.shape)}
        if not t.is_contiguous():
            out["s"] = list(t.stride())
        memory = t.untyped_storage()._cdata
        if memory in self.shared:
            out["at"] = [self.shared.index(memory), t.storage_offset()]
        if self.values and t.numel():
            out["v"] = values_of(t)
        return out


def values_of(t: torch.Tensor) -> Any:
    """Encode a tensor's values: ``{"is": all}``, ``{"of": the distinct ones}`` or ``[smallest, largest]``."""
    flat = t.detach().resolve_conj().resolve_neg().reshape(-1)
    if not (t.is_floating_point() or t.is_complex()) and t.numel() <= SHORT:
        return {"is": flat.tolist()}
    if t.is_complex():
        flat = torch.view_as_real(flat).reshape(-1)
    different = flat.double().unique() if flat.is_floating_point() else flat.unique()
    if different.numel() <= FEW:
        return {"of": [rounded(x) for x in different.tolist()]}
    finite = different[different.isfinite()]
    ends = [finite.min().item(), finite.max().item()] if finite.numel() else [-1, 1]
    return [rounded(end) for end in ends]


def rounded(x: float) -> float:
    """Return a float rounded to three digits; integers are not changed."""
    return x if isinstance(x, int) else float(f"{x:.3g}")


def spelled(op: str, args: tuple, kwargs: dict[str, Any], values: bool = True) -> str:
    """Return the line that describes a call; with ``values=False``, without values of tensors."""
    speller = Speller((args, kwargs), values)
    return json.dumps([op, speller.spell(args), speller.spell(kwargs)], separators=(",", ":"))


# ---------------------------------------------------------------- from a line to a call


class Maker:
    """Builds the arguments of one call, in ``dtype`` instead of the recorded dtype."""

    def __init__(self, call: Any, dtype: str) -> None:
        self.dtype = dtype
        self.memories: dict[tuple[int, str], torch.Tensor] = {}
        sizes: dict[tuple[int, str], int] = {}
        for x in tensors_in(call):
            if "at" in x:
                which, offset = x["at"]
                key = which, self.named(x["t"])
                sizes[key] = max(sizes.get(key, 0), offset + reach_of(x["n"], strides_of(x)))
        for key, size in sizes.items():
            self.memories[key] = torch.zeros(size, dtype=TORCH_DTYPES[key[1]])

    def make(self, x: Any) -> Any:
        if isinstance(x, list):
            return [self.make(item) for item in x]
        if not isinstance(x, dict):
            return x
        if "t" in x:
            return self.tensor(x)
        kind, value = next(iter(x.items()))
        if kind == "complex":
            return complex(*value)
        if kind == "dtype":
            return TORCH_DTYPES[self.named(value)]
        return torch.device(value) if kind == "device" else getattr(torch, value)

    def named(self, dtype: str) -> str:
        return self.dtype if dtype == RECORDED else dtype

    def tensor(self, x: dict[str, Any]) -> torch.Tensor:
        dtype, shape, strides = self.named(x["t"]), x["n"], strides_of(x)
        which, offset = x.get("at", (None, 0))
        memory = self.memories.get((which, dtype))
        if memory is None:
            memory = torch.zeros(reach_of(shape, strides), dtype=TORCH_DTYPES[dtype])
        out = memory.as_strided(shape, strides, offset)
        once = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in strides)
        out[once] = drawn(x.get("v", [0, 1]), TORCH_DTYPES[dtype], shape)[once]
        return out


def tensors_in(call: Any) -> Iterator[dict[str, Any]]:
    """Yield the descriptions of tensors in a line."""
    if isinstance(call, dict) and "t" in call:
        yield call
    elif isinstance(call, (list, dict)):
        for x in call.values() if isinstance(call, dict) else call:
            yield from tensors_in(x)


def strides_of(x: dict[str, Any]) -> list[int]:
    return x["s"] if "s" in x else list(torch.empty(x["n"], device="meta").stride())


def reach_of(shape: list[int], strides: list[int]) -> int:
    """Return the number of elements from the first to the last element of a strided tensor."""
    return 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))


def drawn(v: Any, dtype: torch.dtype, shape: list[int]) -> torch.Tensor:
    """Return a contiguous tensor of random values that match the recorded ones."""
    if isinstance(v, dict) and "is" in v:
        return torch.tensor(v["is"], dtype=dtype).reshape(shape)
    if isinstance(v, dict):
        wide = torch.int64 if not (dtype.is_floating_point or dtype.is_complex) else torch.float64
        return torch.tensor(v["of"], dtype=wide)[torch.randint(len(v["of"]), shape)].to(dtype)
    low, high = v
    if dtype.is_floating_point or dtype.is_complex:
        parts = [torch.empty(shape, dtype=torch.float64).uniform_(low, high) for _ in range(1 + dtype.is_complex)]
        return (torch.complex(*parts) if dtype.is_complex else parts[0]).to(dtype)
    return torch.randint(low, high + 1, shape).to(dtype)


def made(line: str, dtype: str = RECORDED) -> tuple[str, tuple, dict[str, Any]]:
    """Return the call that a line describes: overload, arguments and keyword arguments."""
    op, args, kwargs = json.loads(line)
    maker = Maker([args, kwargs], dtype)
    return op, tuple(maker.make(args)), {k: maker.make(v) for k, v in kwargs.items()}


# ---------------------------------------------------------------- the file


@cache
def lines() -> tuple[str, ...]:
    """Return the signatures; the file's first line, which says where they come from, is left out."""
    return tuple(DATA.read_text(encoding="utf-8").splitlines()[1:])


@cache
def models_reach() -> dict[str, frozenset[str]]:
    """Return the overloads that models call, in the form of `reach`."""
    return {SOURCE: frozenset(map(op_of, lines()))}


def op_of(line: str) -> str:
    return line[2 : line.index('"', 2)]


def run_models(dtype: str, recorder: Recorder) -> Iterator[None]:
    """Pass the calls of the file to the recorder in one dtype; yield after each."""
    recorder.source, recorder.sample_dtype = SOURCE, dtype
    for line in lines():
        if recorder.looks_at(op_of(line)) and (dtype == RECORDED or f'"{RECORDED}"' in line):
            reseed(line)
            recorder.see(*made(line, dtype))
            yield
