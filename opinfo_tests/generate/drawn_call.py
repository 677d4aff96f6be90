"""The parts of a random call: values, memory layout, sizes and numbers."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

import numpy as np

from ..case import DTYPES, NAMES, Array, Named, is_complex, is_inexact, schemas
from .constraints import constraint as con
from .constraints.table import constraint_of

# ---------------------------------------------------------------- values

FLOATS = [0.0, 1.0, -1.0, 2.0, 0.5, -0.5, 3.0, -2.5, 0.1, -7.25, 10.0, 0.9999, 1.5, -0.001, 33.3, 1e-3, 6.0]
FLOAT_EXTREMES = [
    np.nan,
    np.inf,
    -np.inf,
    -0.0,
    1e-45,
    -1e-45,
    5e-324,
    1e30,
    -1e30,
    1e300,
    65504.0,
    1.2e-38,
    1e5,
    -100.0,
]
INTS = [0, 1, -1, 2, 3, -3, 5, 7, -7, 10, 100]
INT_EXTREMES = [127, 128, 255, 256, -128, 2**31 - 1, 2**53 + 1]
EMPTY = 40  # percentage of the named sizes that are 0 in a call with ``empty``
BETWEEN = 15  # percentage of the floating-point arrays whose values are not from these pools
MAGNITUDES = (1.0, 1.0, 0.1, 10.0, 100.0)
LAYOUTS = ["c"] * 6 + ["t", "step", "offset", "expand", "last", "swap"]


def elements(dt: np.dtype, values: str) -> list[Any]:
    """Return the values from which elements of a dtype are chosen, the simplest first."""
    if dt == np.bool_:
        return [False, True]
    if values == "positive":
        return [1, 2, 3, 0.5, 0.25, 5, 1.5] if is_inexact(dt) else [1, 2, 3, 5]
    if values == "unit":
        return [0.5, 0.0, 1.0, 0.25, 0.75, 0.1] if is_inexact(dt) else [0, 1]
    if is_inexact(dt):
        return FLOATS if values == "tame" else FLOATS + FLOAT_EXTREMES
    info = np.iinfo(dt)
    found = [v for v in INTS if v >= info.min]
    if values == "tame":
        return found
    extremes = [info.min, info.max, *INT_EXTREMES]
    return found + [v for v in extremes if info.min <= v <= info.max]


def lay_out(a: np.ndarray, layout: str) -> tuple[np.ndarray, tuple[int, ...], int]:
    """Return a buffer that holds ``a`` in the given layout, and the strides and the offset of ``a`` in it, in bytes."""
    size = a.itemsize
    if layout == "t" and a.ndim > 1:
        held = np.ascontiguousarray(a.T)
        return raw(held), held.strides[::-1], 0
    if layout in ("last", "swap") and a.ndim > 2:  # channels last, or the last two dimensions swapped
        moved = np.ascontiguousarray(np.moveaxis(a, 1, -1) if layout == "last" else a.swapaxes(-1, -2))
        back = np.moveaxis(moved, -1, 1) if layout == "last" else moved.swapaxes(-1, -2)
        return raw(moved), back.strides, 0
    if layout == "step" and a.ndim:
        held = np.zeros((*a.shape, 2), a.dtype)
        held[..., 0] = a
        return raw(held), held.strides[:-1], 0
    if layout == "offset":
        held = np.concatenate([np.ones(1, a.dtype), a.reshape(-1)])
        return raw(held), np.ascontiguousarray(a).strides if a.ndim else (), size
    if layout == "expand" and a.ndim and a.shape[0] > 1:
        held = np.ascontiguousarray(a[:1])
        return raw(held), (0, *held.strides[1:]), 0
    held = np.ascontiguousarray(a)
    return raw(held), held.strides if a.ndim else (), 0


def raw(a: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(a).reshape(-1).view(np.uint8)


# ---------------------------------------------------------------- one call


class DrawnCall:
    """The state of one random call: the first array's shape and dtype, named sizes, and the memory so far.

    Random choices come from two generators, each a seeded ``random.Random`` or hypothesis's, which can shrink calls.
    The second one, ``between``, is only for numbers outside the pools: drawing more of these does not change the rest
    of a call.
    """

    def __init__(self, random: Random, between: Random, op: str, empty: bool = False, cube: int = 0) -> None:
        self.empty = empty  # whether some named sizes are 0, whatever the constraint says
        # the size of all dimensions, where the constraint allows it: swapped dimensions then change only values
        self.cube = cube
        self.random, self.between, self.op, self.schema = random, between, op, schemas()[op]
        self.row = constraint_of(op)
        self.sizes: dict[str, int] = {}
        self.batch: tuple[int, ...] | None = None
        self.buffers: list[np.ndarray] = []
        self.shape: tuple[int, ...] | None = None
        self.held: dict[str, Any] = {}
        self.arrays: list[Array] = []
        self.once: dict[str, Any] = {}  # random choices that several arguments share
        self.wild = self.chance(self.row.wild)  # whether this call may break the constraints
        self.dtype = self.main_dtype()

    # small draws

    def integer(self, low: int, high: int) -> int:
        return self.random.randint(low, max(low, high))

    def choose(self, options: Any) -> Any:
        return self.random.choice(options)

    def chance(self, percent: int) -> bool:
        """Return True with a probability of ``percent``; hypothesis shrinks it to False."""
        return self.random.randint(0, 99) >= 100 - percent

    def permuted(self, items: Iterable[Any]) -> list[Any]:
        found = list(items)
        self.random.shuffle(found)
        return found

    def main_dtype(self) -> str:
        return self.choose(con.EVERY_DTYPE if self.wild and self.chance(30) else con.DTYPE_CLASSES[self.row.dtypes])

    def size(self, name: str) -> int:
        """Return the size that a name has in this call; it is chosen at the first use."""
        if name not in self.sizes:
            self.sizes[name] = self.integer(*self.row.sizes.get(name, con.SIZES.get(name, (0, 4))))
            if self.empty and len(name) == 1 and self.chance(EMPTY):
                self.sizes[name] = 0
            low, high = self.row.sizes.get(name, con.SIZES.get(name, (0, 4)))
            if self.cube and len(name) == 1 and low <= self.cube <= high:
                self.sizes[name] = self.cube
        return self.sizes[name]

    def value(self, text: str | int) -> int:
        """Return the value of an integer expression of sizes, arguments and ``ndim``."""
        if isinstance(text, int):
            return text
        names = _Names(self)
        return int(eval(text, {"min": min, "max": max, "len": len, "prod": lambda x: int(np.prod(x))}, names))

    def any_shape(self, least: int = 0) -> tuple[int, ...]:
        if self.cube:
            return (self.cube,) * max(2, min(3, self.row.most_dims), least)
        n = self.integer(least, self.row.most_dims)
        sizes = self.row.sizes.get("*", (0, 4))
        shape = tuple(self.integer(*sizes) for _ in range(n))
        return shape if self.chance(8) else tuple(max(1, s) for s in shape)

    def shape_of(self, text: str) -> tuple[int, ...]:
        """Return the shape for a specification, whose entries are separated by blanks.

        An entry is a letter (a named size), a number, an expression, ``*`` for batch dimensions, or ``...`` for the
        first array's shape. ``n?`` may be absent, and ``~n`` may be 1 for broadcasting.
        """
        if text == "any":
            return self.any_shape()
        if text == "like":
            return self.shape if self.shape is not None else self.any_shape()
        if text == "bcast":
            return self.broadcast()
        out: list[int] = []
        for token in text.split():
            if token == "*":
                if self.batch is None:
                    self.batch = tuple(self.integer(1, 3) for _ in range(self.integer(0, 2)))
                out += self.batch
            elif token == "...":
                out += self.shape or ()
            elif token.endswith("?"):
                if token not in self.sizes:
                    self.sizes[token] = self.integer(0, 1)
                if self.sizes[token]:
                    out.append(self.value(token[:-1]))
            elif token.startswith("~"):
                out.append(1 if self.chance(25) else self.value(token[1:]))
            else:
                out.append(max(0, self.value(token)))
        return tuple(out)

    def broadcast(self) -> tuple[int, ...]:
        """Return a shape that can be broadcast with the shape of the first array."""
        shape = self.shape if self.shape is not None else self.any_shape()
        kind = self.integer(0, 9)
        if kind < 6:
            return shape
        if kind < 8:
            return shape[self.integer(0, len(shape)) :]
        if kind < 9 or not shape:
            return tuple(1 if self.chance(50) else n for n in shape)
        return () if self.chance(50) else (2, *shape)

    # arrays

    def array(self, spec: con.T) -> Array:
        """Generate an array argument."""
        shape = self.shape_of(spec.shape)
        if self.wild and self.chance(20) and self.shape is not None:
            shape = self.any_shape()
        dt = DTYPES[self.array_dtype(spec)]
        if self.arrays and not self.cube and self.chance(4) and spec.values in ("any", "tame"):
            same = [a for a in self.arrays if (a.shape, a.dtype) == (shape, NAMES[dt])]
            if spec.layout:
                same = [a for a in same if a.is_whole(self.buffers[a.buffer])]
            if same:
                return self.keep(same[0])
        values = self.values(shape, dt, spec)
        layout = spec.layout or ("c" if self.empty else self.choose(LAYOUTS))
        if layout == "expand" and spec.values in ("square", "spd") and len(shape) == 2 and is_complex(dt):
            layout = "c"  # equal complex rows leave only rounding errors to compare
        buffer, strides, offset = lay_out(values, layout)
        if self.empty and not values.size:  # torch's strides, whereas NumPy's would be zero
            strides = np.empty([max(n, 1) for n in shape], values.dtype).strides
        self.buffers.append(buffer)
        return self.keep(Array(len(self.buffers) - 1, NAMES[dt], shape, tuple(map(int, strides)), offset))

    def keep(self, a: Array) -> Array:
        self.arrays.append(a)
        if self.shape is None:
            self.shape = a.shape
        return a

    def array_dtype(self, spec: con.T) -> str:
        if spec.dtype == "main":
            other = self.arrays and self.chance(self.row.mixed)
            return self.choose(con.DTYPE_CLASSES[self.row.dtypes]) if other else self.dtype
        if spec.dtype == "same":
            return self.choose(con.EVERY_DTYPE) if self.wild and self.chance(15) else self.dtype
        if spec.dtype == "real":
            return {
                "complex64": "float32",
                "complex128": "float64",
                "complex32": "float16",
                "bcomplex32": "bfloat16",
            }.get(self.dtype, self.dtype)
        if spec.dtype in con.DTYPE_CLASSES:
            return self.choose(con.DTYPE_CLASSES[spec.dtype])
        return spec.dtype

    def values(self, shape: tuple[int, ...], dt: np.dtype, spec: con.T) -> np.ndarray:
        n = int(np.prod(shape))
        if isinstance(spec.values, tuple):
            low, high = (self.value(v) for v in spec.values)
            if self.wild and self.row.wild_values and self.chance(40):
                low, high = low - 2, high + 2
            if dt.kind == "u":  # a negative number would wrap to a huge degree or size
                low, high = max(low, 0), max(high, 0)
            flat = [self.integer(low, high) for _ in range(min(n, 6))] or [0]
            return np.resize(np.array(flat, np.int64), shape).astype(dt)
        kind = spec.values if spec.values != "any" else self.row.values
        square = len(shape) > 1 and shape[-1] == shape[-2]
        if kind in ("square", "spd") and not square:  # only in calls with wrong arguments
            kind = "tame"
        if (
            kind == "distinct"
            or (self.cube and kind in ("any", "tame") and dt != np.bool_)
            or (kind in ("any", "tame") and self.chance(25) and dt != np.bool_)
        ):
            a = np.arange(n) - self.integer(0, 3)
            return (a * 0.5 if is_inexact(dt) else a).astype(np.float64).astype(dt).reshape(shape)
        if kind == "square":  # far from singular
            a = np.resize(np.array([self.choose(FLOATS[:9]) for _ in range(min(n, 5))] or [0.0]), shape)
            turned = 1j * np.roll(a, 1) if is_complex(dt) else 0
            return (a + turned + 4 * np.eye(shape[-1])).astype(dt)
        if kind == "spd":
            a = np.resize(np.array([self.choose(FLOATS[:9]) for _ in range(min(n, 5))] or [0.0]), shape)
            a = a + 1j * np.roll(a, 1) if is_complex(dt) else a
            return (a @ np.swapaxes(a, -1, -2).conj() + np.eye(shape[-1])).astype(dt)
        choices = elements(dt, kind)
        if kind == "any" and not self.chance(40):
            choices = elements(dt, "tame")
        drawn = [self.choose(choices) for _ in range(self.integer(1, 6))]
        if is_complex(dt):
            drawn = [complex(a, b) for a, b in zip(drawn, drawn[1:] + drawn[:1], strict=True)]
        if is_inexact(dt) and self.between.randint(0, 99) >= 100 - BETWEEN:
            return self.normals(n, is_complex(dt), kind).astype(dt).reshape(shape)
        made = np.array(drawn, None if is_inexact(dt) else dt)
        return np.resize(made.astype(dt), shape)

    def normals(self, n: int, pairs: bool, kind: str) -> np.ndarray:
        """Return distinct numbers outside the pools, of similar magnitude; between 0 and 1 for ``unit``."""
        draw, scale = self.between, self.between.choice(MAGNITUDES)
        if kind == "unit":
            return np.array([draw.random() for _ in range(n)])
        found = np.array([complex(draw.gauss(0, 1), draw.gauss(0, 1)) for _ in range(n)]) * scale
        found = found if pairs else found.real
        return abs(found) + 1e-3 if kind == "positive" else found

    # numbers

    def number(self, spec: con.N | None = None) -> Any:
        """Return a random Python number."""
        if spec and spec.choices:
            return self.choose(spec.choices)
        dt = DTYPES[self.dtype]
        kinds = ["int", "float"] if is_inexact(dt) else ["int", "int", "float"]
        kind = self.choose(kinds + (["bool"] if self.chance(10) else []) + (["complex"] if is_complex(dt) else []))
        extreme = self.row.values == "any" and self.chance(15)
        if kind == "int":
            return self.choose([*INTS, 255, 300, -129, 2**31, 2**62] if extreme else INTS)
        if kind == "bool":
            return self.choose([False, True])
        x = self.choose(FLOATS + FLOAT_EXTREMES if extreme else FLOATS)
        return complex(x, self.choose(FLOATS)) if kind == "complex" else x

    def dims(self, least: int = 0, most: int | None = None) -> list[int]:
        """Return distinct dimensions, some of them negative."""
        n = len(self.shape or ())
        if n == 0:
            return [self.choose([0, -1])] if least or self.chance(30) else []
        count = self.integer(least, n if most is None else min(n, most))
        order = self.permuted(range(n))[:count]
        if self.wild and self.chance(20):
            order = [*order, self.choose([0, n, -n - 1])]
        return [d - n if self.chance(30) else d for d in order]

    def list_length(self) -> int:
        """Return the length that all list arguments must have; in wrong calls it is sometimes one more."""
        first = next((v for v in self.held.values() if isinstance(v, list)), [])
        return len(first) + (1 if self.wild and self.chance(20) else 0)

    def held_bias(self) -> bool:
        """Return whether a layer has biases, which is chosen once for each call."""
        if "biases" not in self.sizes:
            self.sizes["biases"] = self.integer(0, 1)
        return bool(self.sizes["biases"])

    def named(self, name: str) -> Named:
        return Named("dtype", name)

    def dim(self) -> int:
        n = max(1, len(self.shape or ()))
        return self.integer(-n - 1, n) if self.wild else self.integer(-n, n - 1)


class _Names(dict):
    """The names in an expression: sizes, values of arguments, and the first array's ndim, numel and shape."""

    def __init__(self, call: DrawnCall) -> None:
        self.call = call

    def __missing__(self, name: str) -> Any:
        call = self.call
        if name == "ndim":
            return len(call.shape or ())
        if name == "numel":
            return int(np.prod(call.shape or ()))
        if name == "shape":
            return call.shape or ()
        if name in call.held:
            return call.held[name]
        if len(name) > 2 and name not in call.row.sizes:
            raise KeyError(f"{call.op}: no size and no argument {name}")
        return call.size(name)
