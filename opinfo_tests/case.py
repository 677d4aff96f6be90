"""A case: one call of one overload, in a library-neutral form.

A case stores the arguments' memory as raw buffers, and each array argument as a window (dtype, shape, strides, offset)
on one of them. This keeps strides, views and aliasing between arguments, and any backend can run a case any number of
times. A case's id is a hash of its content, not its position in a list.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from torchnp.core.target import KNOWN, installed, parse

ORDER = 2  # highest order of derivatives that samples compute: 2 is the gradient of the gradient
_NUMPY_NAMES = [
    "bool",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
_ML_NAMES = [
    "bfloat16",
    "complex32",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
]
if parse(installed() or "0.0") >= (2, 14):
    _ML_NAMES.append("bcomplex32")
DTYPES: dict[str, np.dtype] = {n: np.dtype(n) for n in _NUMPY_NAMES} | {
    n: np.dtype(getattr(ml_dtypes, n)) for n in _ML_NAMES
}
NAMES = {dt: name for name, dt in DTYPES.items()}
USUAL = "float32"  # the default dtype
BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def is_float(dt: np.dtype) -> bool:
    return NAMES.get(dt, "").startswith(("float", "bfloat"))


def is_complex(dt: np.dtype) -> bool:
    return NAMES.get(dt, "").startswith(("complex", "bcomplex"))


def is_inexact(dt: np.dtype) -> bool:
    return is_float(dt) or is_complex(dt)


@dataclass(frozen=True)
class Array:
    """An array argument: a window (dtype, shape, strides, offset) on one of a case's buffers.

    Parameters
    ----------
    buffer : int
        Index of the buffer.
    dtype : str
        torch's name of the dtype.
    shape : tuple of int
        In elements.
    strides : tuple of int
        In bytes; 0 in expanded dimensions.
    offset : int, optional
        Offset of the first element, in bytes.
    """

    buffer: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    def on(self, buffers: list[np.ndarray]) -> np.ndarray:
        """Return the NumPy view that this window describes."""
        return window(buffers[self.buffer], DTYPES[self.dtype], self.shape, self.strides, self.offset)

    def is_whole(self, buffer: np.ndarray) -> bool:
        """Return whether this is the whole buffer with the exact strides of a new row-major ndarray."""
        a = self.on([buffer] * (self.buffer + 1))
        return a.nbytes == buffer.size and (not a.size or a.strides == np.empty(a.shape, a.dtype).strides)


@dataclass(frozen=True)
class Named:
    """A dtype, layout, memory format or device by torch's name.

    Parameters
    ----------
    kind : str
        ``"dtype"``, ``"layout"``, ``"memory_format"`` or ``"device"``.
    name : str
        torch's name without the prefix ``torch.``.
    """

    kind: str
    name: str


@dataclass(frozen=True)
class Seeded:
    """A generator argument: each run gets a new generator with this seed.

    Parameters
    ----------
    seed : int
        As `torch.Generator.manual_seed` takes it.
    """

    seed: int


@dataclass
class Case:
    """One call: ``args`` and ``kwargs`` are trees of Array, Named, Seeded, numbers, strings and None.

    Parameters
    ----------
    op : str
        The overload's full name.
    args, kwargs : tuple, dict
        The arguments, in the order and by the names of torch's schema.
    buffers : list of ndarray
        The memory before the call, each a flat array of bytes that the windows in the arguments share.
    source, sample_dtype : str, optional
        The sample that made the call: its OpInfo entry, and the dtype of the sample.
    digest : str, optional
        A hash of the whole call; computed if not given.
    default_dtype : str, optional
        torch's name of the default dtype during the call.
    known : Seen, optional
        torch's recorded result, for a call that torch must not run again in this process.
    """

    op: str
    args: tuple
    kwargs: dict[str, Any]
    buffers: list[np.ndarray] = field(repr=False)
    source: str = ""
    sample_dtype: str = ""
    digest: str = ""
    default_dtype: str = USUAL
    known: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.digest:
            text = f"{self.op}|{self.args!r}|{sorted(self.kwargs.items())!r}"
            text += f"|{self.default_dtype}" * (self.default_dtype != USUAL)
            h = hashlib.blake2b(text.encode(), digest_size=6)
            for b in self.buffers:
                h.update(b.data)
            self.digest = h.hexdigest()

    @property
    def id(self) -> str:
        return f"{self.op}/{self.dtype}/{self.digest}"

    @property
    def dtype(self) -> str:
        """The dtype under which reports list the call: the first array's, the ``dtype`` argument, or ``"none"``."""
        for leaf in leaves((self.args, self.kwargs)):
            if isinstance(leaf, Array):
                return leaf.dtype
        for leaf in leaves((self.args, self.kwargs)):
            if isinstance(leaf, Named) and leaf.kind == "dtype":
                return leaf.name
        return "none"

    @cached_property
    def draws(self) -> bool:
        """Whether the schema says that the operator draws random numbers."""
        return "nondeterministic_seeded" in schemas()[self.op].tags

    @property
    def seed(self) -> int:
        return int(self.digest[:6], 16)

    def arrays(self) -> list[Array]:
        """Return the array arguments in order, including those in lists."""
        return [leaf for leaf in leaves((self.args, self.kwargs)) if isinstance(leaf, Array)]

    def dtypes(self) -> set[str]:
        """Return the dtypes of the array arguments and the dtypes that are passed as arguments."""
        found = list(leaves((self.args, self.kwargs)))
        named = {x.name for x in found if isinstance(x, Named) and x.kind == "dtype"}
        return named | {x.dtype for x in found if isinstance(x, Array)}

    def fresh_buffers(self) -> list[np.ndarray]:
        """Return copies of the buffers that a call may write to."""
        return [b.copy() for b in self.buffers]

    def describe(self, limit: int = 200, values: int = 8) -> str:
        """Return the call as text: each array's dtype and shape, and its values if it has at most ``values`` elements."""
        one = lambda leaf: describe_array(leaf.on(self.buffers), values) if isinstance(leaf, Array) else show(leaf)
        parts = [show_tree(a, one) for a in self.args] + [f"{k}={show_tree(v, one)}" for k, v in self.kwargs.items()]
        text = f"{self.op}({', '.join(parts)})" + f" by default {self.default_dtype}" * (self.default_dtype != USUAL)
        return text if len(text) <= limit else text[: limit - 3] + "..."


@cache
def schemas() -> dict[str, Any]:
    """Return every registered schema by full name: aten, prims, and the other libraries imported so far."""
    from torchnp.core import schema

    # Schemas are those of the installed torch, even if torchnp's table implements another version (`--against`).
    here = parse(installed() or "0.0")
    return dict(schema.load(here if here in KNOWN else None))


def window(buffer: np.ndarray, dtype: np.dtype, shape: tuple, strides: tuple, offset: int) -> np.ndarray:
    if offset > buffer.size:  # in torch, an empty array may have an offset beyond its memory
        buffer = np.empty(offset, np.uint8)
    return np.ndarray(shape, dtype, buffer, offset, strides)


def leaves(tree: Any) -> Iterator[Any]:
    if isinstance(tree, (list, tuple)):
        for item in tree:
            yield from leaves(item)
    elif isinstance(tree, dict):
        for item in tree.values():
            yield from leaves(item)
    else:
        yield tree


def map_tree(fn: Callable[[Any], Any], tree: Any) -> Any:
    if isinstance(tree, (list, tuple)):
        return type(tree)([map_tree(fn, item) for item in tree])
    if isinstance(tree, dict):
        return {k: map_tree(fn, v) for k, v in tree.items()}
    return fn(tree)


def show(leaf: Any) -> str:
    if isinstance(leaf, Named):
        return leaf.name
    return f"Generator({leaf.seed})" if isinstance(leaf, Seeded) else repr(leaf)


def show_tree(tree: Any, one: Callable[[Any], str]) -> str:
    if isinstance(tree, (list, tuple)):
        return "[" + ", ".join(show_tree(item, one) for item in tree) + "]"
    return one(tree)


def rebuilt(case: Case, args: Any, kwargs: Any, buffers: list[np.ndarray] | None = None) -> Case:
    """Return the case with other arguments; buffers that these do not use are dropped."""
    held = case.buffers if buffers is None else buffers
    before = {a.buffer: a.is_whole(held[a.buffer]) for a in case.arrays() if buffers is None}
    windows: dict[int, list[Array]] = {}
    for leaf in leaves((args, kwargs)):
        if isinstance(leaf, Array):
            windows.setdefault(leaf.buffer, []).append(leaf)
    new: list[np.ndarray] = []
    moved: dict[Array, Array] = {}
    for b, users in windows.items():
        if before.get(b) and len(set(users)) == 1:  # an array that had its own memory gets its own memory again
            made, a = whole(users[0].on(held), len(new))
            moved[users[0]] = a
        else:
            start = min(a.offset for a in users) // 16 * 16
            made = held[b][start : max(map(end_of, users))]
            moved |= {a: replace(a, buffer=len(new), offset=a.offset - start) for a in users}
        new.append(made)
    swap = lambda x: moved[x] if isinstance(x, Array) else x
    return replace(case, args=map_tree(swap, args), kwargs=map_tree(swap, kwargs), buffers=new)


def end_of(a: Array) -> int:
    if 0 in a.shape:
        return a.offset
    steps = sum((n - 1) * s for n, s in zip(a.shape, a.strides, strict=True))
    return a.offset + steps + DTYPES[a.dtype].itemsize


def whole(values: np.ndarray, buffer: int) -> tuple[np.ndarray, Array]:
    """Return new memory that holds only ``values``, and the array argument (window) for all of it."""
    held = np.array(values, order="C")
    name = next(n for n, dt in DTYPES.items() if dt == held.dtype)
    return held.reshape(-1).view(np.uint8), Array(buffer, name, held.shape, held.strides)


def describe_array(a: np.ndarray, limit: int) -> str:
    name = NAMES.get(a.dtype, str(a.dtype))
    contiguous = a.flags.c_contiguous or a.size == 0
    tail = "" if contiguous else f" strides{tuple(s // a.itemsize for s in a.strides)}"
    if a.size > limit:
        return f"{name}{list(a.shape)}{tail}"
    values = np.array2string(widen(a), separator=",", precision=6).replace("\n", "").replace(" ", "")
    return f"{name}{list(a.shape)}{tail}={values}"


def widen(a: np.ndarray) -> np.ndarray:
    """Return ``a`` with the same values in a dtype that NumPy can compute with and print."""
    if not is_inexact(a.dtype) or a.dtype in (np.float32, np.float64, np.complex64, np.complex128):
        return a
    return a.astype(np.complex64 if is_complex(a.dtype) else np.float32)
