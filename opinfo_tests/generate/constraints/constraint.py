"""Constraints on operators' arguments in random calls, as data: shapes with named sizes, index ranges, dtypes, values.

A shape is text. Letters are sizes that are chosen once for each call ("n k" and "k m" have the same k), ``*`` stands
for batch dimensions, ``n?`` may be absent, ``~n`` is n or 1, and ``g*c`` is an expression. "like" is the first array's
shape, "bcast" a shape that broadcasts with it, "any" any shape. Rules are merged in order, and later rules override
earlier ones. An argument without a constraint gets a value for its name and type.

A call may be "wild" (a percentage of the calls): it may then violate its constraints, so that torch's errors are
tested.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...case import DTYPES, Case, Named


@dataclass(frozen=True)
class T:
    """An array: shape, dtype (main, same, real, a class or a name) and values (a kind, or a range for indices)."""

    shape: str = "any"
    dtype: str = "main"
    values: Any = "any"
    always: bool = False
    layout: str = ""


@dataclass(frozen=True)
class Ts:
    """A list of arrays."""

    shape: str = "any"
    dtype: str = "main"
    values: Any = "any"
    count: str | int | None = None
    layout: str = ""


@dataclass(frozen=True)
class I:  # noqa: E742  one letter keeps the rules readable
    """An integer in a range; the ends of the range may be expressions."""

    low: str | int
    high: str | int
    always: bool = False


@dataclass(frozen=True)
class L:
    """A list of ``count`` integers in a range."""

    count: str | int
    low: str | int
    high: str | int
    always: bool = False


@dataclass(frozen=True)
class N:
    """A number: always one of ``choices``, or any number if there are no choices."""

    choices: tuple = ()
    always: bool = False


@dataclass(frozen=True)
class C:
    """One of a few values; floating-point arguments are occasionally zero, the negative, an infinity or NaN instead."""

    choices: tuple
    always: bool = False


@dataclass(frozen=True)
class D:
    """An argument whose value a function returns; the function also decides whether an optional argument is None."""

    draw: Callable
    always: bool = True

    def __call__(self, call: Any) -> Any:
        return self.draw(call)


FLOATS = ["float32"] * 4 + ["float64"] * 3 + ["bfloat16"] * 2 + ["float16"] * 2
COMPLEX = ["complex64", "complex128"]
INTS = ["int64"] * 3 + ["int32", "uint8", "int8", "int16"]
RARE = ["uint16", "uint32", "uint64", "complex32", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]
RARE += [name for name in ("bcomplex32",) if name in DTYPES]
EVERY_DTYPE = [*FLOATS[::2], *INTS[2:], "bool", *COMPLEX, *RARE]
DTYPE_CLASSES: dict[str, list[str]] = {
    "any": [*FLOATS, *INTS, "bool", "bool", *COMPLEX],
    "every": [*FLOATS, *INTS, "bool", *COMPLEX, *RARE],
    "real": [*FLOATS, *INTS],
    "ordered": [*FLOATS, *INTS, "bool"],
    "float": FLOATS,
    "wide": ["float32", "float64"],
    "double": ["float64"],
    "inexact": [*FLOATS, *COMPLEX],
    "complex": COMPLEX,
    "lapack": ["float32", "float64", *COMPLEX],
    "int": INTS,
    "bits": [*INTS, "bool"],
    "index": ["int64", "int64", "int32"],
    "halffloat": ["float32", "bfloat16"],
    "densely": ["float32", "float32", "bfloat16", "int8", "uint8"],
}
# Ranges of letters for which a rule has no range.
SIZES = {"n": (1, 3), "c": (1, 4), "g": (1, 2), "h": (1, 7), "w": (1, 7), "d": (1, 5), "k": (0, 4), "m": (0, 4)}
# Operators without random calls: they need devices, other layouts, processes, or attributes that arrays do not have.
UNDRAWN = frozenset(
    ["_new_zeros_with_same_feature_meta", "is_pinned", "pin_memory",
     "_debug_has_internal_overlap", "_is_zerotensor", "_efficientzerotensor", "_reshape_from_tensor", "slice_inverse",
     "_copy_from", "_fw_primal_copy"]
)  # fmt: skip


NEVER: Callable[[Case], bool] = lambda case: False


@dataclass(frozen=True)
class Constraint:
    """The merged constraints on an operator's calls."""

    args: dict[str, Any] = field(default_factory=dict)
    dtypes: str = "any"
    values: str = "any"
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    wild: int = 12  # percentage of the calls that may violate the constraints
    mixed: int = 15  # percentage of the arrays after the first that have another dtype
    most_dims: int = 4
    wild_values: bool = True  # whether index values may be out of range: for some operators this crashes torch
    none: bool = True  # whether sizes may be 0: some operators divide by them, which crashes torch
    dies: Callable[[Case], bool] = NEVER  # returns whether a call would crash torch
    always: frozenset[str] = frozenset()  # optional arguments that are always given
    # arguments whose sizes torch does not check, so that it would read beyond them
    unchecked: frozenset[str] = frozenset()


class ConstraintRule(NamedTuple):
    """Constraints (fields of `Constraint`) for the operators whose names match one of the patterns."""

    patterns: tuple[str, ...]
    given: dict[str, Any]


def rule(names: str, **given: Any) -> ConstraintRule:
    """Return a rule for operators by patterns of names, separated by blanks; keywords are fields of `Constraint`."""
    return ConstraintRule(tuple(names.split()), given)


# ---------------------------------------------------------------- by argument name


def dims(least: int = 0, most: int | None = None) -> Callable:
    return lambda call: call.dims(least, most)


def one_dim(call: Any) -> int:
    return call.dim()


def index_of_dim(call: Any) -> int:
    """Return an index along the call's ``dim``, possibly negative."""
    n = size_of_dim(call)
    return call.integer(-n - 2, n + 1) if call.wild else call.integer(-n, max(n - 1, 0))


def size_of_dim(call: Any) -> int:
    shape = call.shape or ()
    dim = call.held.get("dim", call.held.get("dimension", 0))
    return shape[dim] if shape and isinstance(dim, int) and -len(shape) <= dim < len(shape) else 1


def split_sizes(call: Any) -> list[int]:
    """Return sizes that add up to the size of the call's ``dim``, or of the first dimension."""
    left, found = size_of_dim(call), []
    while left > 0:
        found.append(call.integer(1, left))
        left -= found[-1]
    return [*found, 1] if call.wild and call.chance(30) else found or [0]


@dataclass(frozen=True)
class Ordered:
    """A sorted array; with ``to``, its first element is 0 and its last is ``to``."""

    spec: T
    to: str = ""

    def __call__(self, call: Any) -> Any:
        a = call.array(self.spec)
        view = a.on(call.buffers)
        if view.ndim:
            view.sort()
        if self.to:
            view[0], view[-1] = 0, call.value(self.to)
        return a


def tame(spec_of: Callable) -> Callable:
    """Return a function that generates an array which never violates its constraints."""

    def draw(call: Any) -> Any:
        wild, call.wild = call.wild, False
        made = call.array(spec_of(call))
        call.wild = wild
        return made

    return draw


def regroup(call: Any) -> list[int]:
    """Return another shape with the same number of elements, sometimes with a -1."""
    n = 1
    for s in call.shape or ():
        n *= s
    if n == 0:
        return list(call.shape)
    out: list[int] = []
    for _ in range(call.integer(0, 3)):
        factors = [f for f in range(1, n + 1) if n % f == 0]
        out.append(call.choose(factors))
        n //= out[-1]
    out.append(n) if n != 1 or call.chance(30) else None
    if out and call.chance(25):
        out[call.integer(0, len(out) - 1)] = -1
    return [*out, 2] if call.wild and call.chance(30) else out


def expanded(call: Any) -> list[int]:
    """Return a shape that the first array can be expanded to, sometimes with -1."""
    shape = list(call.shape or ())
    out = [call.integer(1, 3) if s == 1 else s for s in shape]
    out = [-1 if call.chance(15) else s for s in out]
    return [call.integer(1, 3) for _ in range(call.integer(0, 2))] + out


def repeated_size(call: Any) -> int:
    """Return the size along ``dim`` (or the number of elements) times the repeats; in wild calls one more."""
    n = size_of_dim(call)
    if call.held.get("dim") is None:
        n = 1
        for s in call.shape or ():
            n *= s
    return n * call.held["repeats"] + (1 if call.wild else 0)


def same_shape(call: Any) -> list[int]:
    return list(call.shape or ())


def flat_strides(call: Any) -> list[int]:
    return [call.integer(0, 2) for _ in call.held.get("size", ())]


def small_sizes(call: Any) -> list[int]:
    return [call.integer(0 if call.chance(20) else 1, 4) for _ in range(call.integer(0, 3))]


def sizes(text: str) -> Callable:
    """Return a function that returns a shape, given as text, as a list."""
    return lambda call: list(call.shape_of(text))


def row_major(call: Any) -> list[int]:
    out, step = [], 1
    for n in reversed(call.held["size"]):
        out.append(step)
        step *= max(1, n)
    return out[::-1]


def index_list(call: Any) -> list[Any]:
    """Return indices for the first array's leading dimensions: integers, a mask, or None for a whole dimension."""
    n, m, *rest = call.shape
    kind = call.integer(0, 6 if rest else 4)
    if kind == 0:
        return [call.array(T("k", "int64", (-n, n - 1)))]
    if kind == 1:
        return [call.array(T("k", "int64", (-n, n - 1))), call.array(T("k", "int64", (-m, m - 1)))]
    if kind == 2:
        return [call.array(T("n", "bool"))]
    if kind == 3:
        return [None, call.array(T("k", "index", (0, m - 1)))]
    if kind > 4:
        first = call.array(T("2", "int64", (0, n - 1))) if kind == 5 else None
        second = call.array(T("2", "int64", (-m, m - 1))) if kind == 6 else None
        return [first, second, call.array(T("2", "int64", (0, rest[0] - 1)))]
    return [call.array(T("2 1", "int64", (0, n - 1))), call.array(T("3", "int64", (0, m - 1)))]


def any_dtype(call: Any) -> Named:
    return Named("dtype", call.choose(EVERY_DTYPE))


def rolled_dims(call: Any) -> list[int]:
    """Return a dimension for each shift."""
    n = max(1, len(call.shape or ()))
    return [call.integer(-n, n - 1) for _ in call.held["shifts"]]


def permutation(call: Any) -> list[int]:
    return call.permuted(range(len(call.held.get("size", call.held.get("shape", ())))))


NAMES: dict[str, Any] = {
    "dim": one_dim, "dim0": one_dim, "dim1": one_dim, "dim2": one_dim, "axis0": one_dim, "axis1": one_dim, "axis": one_dim,
    "start_dim": one_dim, "end_dim": one_dim, "dimension": one_dim,
    "reduction": I(0, 2), "pin_memory": C((None, False)), "keepdim": C((False, True)),
    "eps": C((1e-5, 1e-3, 0.1, 1e-6)), "momentum": C((0.1, 0.5, 0.0)), "p": C((2, 1, 0.5, 0.0, 3, 1.0)),
    "steps": I(0, 6), "offset": I(-2, 2), "diagonal": I(-3, 3), "groups": I(1, 1), "ignore_index": C((-100, 0, 1)),
    "rounding_mode": C((None, "floor", "trunc")), "approximate": C(("none", "tanh")), "indexing": C(("ij", "xy")),
    "grad_output": T("like", "same"), "grad_out": T("like", "same"), "grad": T("like", "same"), "result": T("like", "same"),
    "output": T("like", "same"), "noise": T("like", "same"), "decimals": I(-3, 3), "alpha": N(), "non_blocking": C((False,)),
    "base": C((10.0, 2.0, 0.5)), "delta": C((1.0, 0.5, 2.0)), "margin": C((1.0, 0.0, 0.5)), "sections": I(1, 4),
    "chunks": I(1, 4), "device": C((Named("device", "cpu"),)), "rtol": C((1e-5, 0.1, 0.0)), "atol": C((1e-8, 0.1, 0.0)),
    "length": I(0, 2), "copy": C((False, True)), "implicit": C((False, True)), "cudnn_enabled": C((False, True)),
}  # fmt: skip
TYPES: dict[tuple[str, str], Any] = {
    ("int[]", "dims"): dims(), ("int[]", "dim"): dims(), ("int[1]", "dim"): dims(1), ("int[1]", "dims"): dims(1),
    ("SymInt[]", "size"): small_sizes, ("SymInt", "index"): index_of_dim, ("SymInt", "start"): index_of_dim,
    ("SymInt", "end"): index_of_dim, ("SymInt", "step"): I(1, 3), ("int", "step"): I(1, 3),
    ("Scalar", "p"): C((2, 1, 0.5, 0, 3, 1.0, float("inf"), -1)), ("SymInt[]", "dims"): dims(),
}  # fmt: skip

# Strings that torch accepts, by argument name, for overloads without a constraint for the argument.
WORDS = {
    "interpolation": ("linear", "lower", "higher", "midpoint", "nearest"),
    "mode": ("constant", "reflect", "replicate", "circular"),
    "padding_side": ("left", "right"),
    "side": ("left", "right"),
}


def by_name(a: Any) -> Any:
    """Return the constraint that an argument's name implies, or None if only its type is known."""
    kind = a.type.removesuffix("?")
    if (kind, a.name) in TYPES:
        return TYPES[kind, a.name]
    found = NAMES.get(a.name)
    if found is None:
        return None
    integer = kind in ("int", "SymInt")
    fits = {T: kind == "Tensor", I: integer, N: kind == "Scalar"}.get(type(found))
    if fits is None:
        fits = integer if found is one_dim else not kind.startswith(("Tensor", "int[", "SymInt["))
        if a.name in ("eps", "momentum", "p", "base", "delta", "margin", "rtol", "atol"):
            fits = kind in ("float", "Scalar")
    return found if fits else None
