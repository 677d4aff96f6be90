"""torch's rules for the dtypes that an in-place op or ``out=`` may write to, and its errors if they do not fit.

For ``out=`` torch has many rules; an op's rule depends on how torch implements it. The default is the rule for
elementwise loops: the result's dtype must be castable to that of ``out=``. Overloads that torch generates from the
functional form require the exact dtype. All other cases are listed in ``data/outs.tsv``, which
``scripts/make_data.py outs`` measures on torch.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from torchnp.core.checks import broadcast_shapes
from torchnp.core.errors import output_shape, shape_text, tensor_type
from torchnp.core.inplace_out_spec import resize_out
from torchnp.core.schema import Argument, Schema
from torchnp.dtypes import (
    STORED,
    bool_,
    c_name,
    can_cast,
    cast,
    int32,
    is_complex,
    is_floating,
    is_inexact,
    scalar_name,
    uint8,
)
from torchnp.layout.overlap import are_apart
from torchnp.layout.stride_rules import layout_of

ndarray = np.ndarray

# ---------------------------------------------------------------- the rules of out=

# Whether a result of dtype r may be written to an ``out=`` of dtype d; x is the dtype of the first input.
ALLOWS: dict[str, Callable[[np.dtype, np.dtype, np.dtype], bool]] = {
    "cast": lambda r, d, x: can_cast(r, d),
    "same": lambda r, d, x: r == d,
    "any": lambda r, d, x: True,
    "floating": lambda r, d, x: is_floating(d),
    "inexact": lambda r, d, x: is_inexact(d),
    "complex": lambda r, d, x: is_complex(d),
    "flag": lambda r, d, x: d in (bool_, uint8),
    "real_out": lambda r, d, x: not is_complex(d),
    "real": lambda r, d, x: not is_complex(x),
    # abs of a complex tensor casts its result to a real out=; any other out= must have the input's dtype.
    "modulus": lambda r, d, x: can_cast(r, d) if is_complex(x) and not is_complex(d) else d == x,
}
_CAST = ALLOWS["cast"]
_CANNOT_CAST = "result type {r} can't be cast to the desired output type {d}"
NOT_THE_SAME = "Expected out tensor to have dtype {rc}, but got {dc} instead"


class WriteRule(NamedTuple):
    """The rule by which one op writes an ``out=`` array, or its first argument."""

    allows: Callable[[np.dtype, np.dtype, np.dtype], bool]
    words: str  # error message; a prefix "Class: " names an exception other than RuntimeError
    into: bool = False  # the op computes in the dtype of its out=
    flat: bool = False  # an out= with the same number of elements keeps its shape
    copies: bool = False  # the out= is not resized: the result is broadcast into it
    first: bool = False  # in-place: the dtype is checked before the shape
    laid: bool = False  # a resized out= gets the result's strides, because torch computes directly in it
    sized: bool = False  # in-place: torch's structured kernels have their own error for another shape

    def check(self, result: np.dtype, out: np.dtype, x: np.dtype) -> None:
        """Raise torch's error if the dtypes of a result, its ``out=`` and the first input do not fit."""
        if not self.allows(result, out, x):
            names = {"r": scalar_name(result), "d": scalar_name(out), "rc": c_name(result), "dc": c_name(out)}
            names["i32"] = str(result == int32)
            casts = self.allows is ALLOWS["modulus"] and is_complex(x) and not is_complex(out)
            if self.allows is ALLOWS["modulus"] and is_complex(out):
                names |= {"r": scalar_name(x), "rc": c_name(x)}
            names |= {"rt": tensor_type(result), "dt": tensor_type(out)}
            raise _error((_CANNOT_CAST if casts else self.words).format(**names, x=scalar_name(x)))

    @property
    def exact(self) -> bool:
        return self.allows is ALLOWS["same"]

    @property
    def casts(self) -> bool:
        return self.allows is _CAST

    @property
    def of_integers(self) -> bool:
        """Whether an op that computes in its ``out=`` dtype also does so for integers: sums do, means do not."""
        return self.allows in (ALLOWS["any"], ALLOWS["same"])

    def check_early(self, out: np.dtype, x: np.dtype) -> None:
        """Call `check` before the computation, for an op that computes in the dtype of its ``out=``."""
        if is_inexact(x) and not self.allows(x, out, x):
            self.check(x if self.allows is _CAST else out, out, x)

    def write(self, out: ndarray, value: ndarray, x: np.dtype) -> None:
        """Store a result in ``out=``; resize an out of the wrong shape, with torch's warning."""
        self.check(value.dtype, out.dtype, x)
        if out.shape != value.shape:
            if self.copies:
                value = _broadcast(value, out.shape)
            elif self.flat and out.size == value.size:
                value = value.reshape(out.shape)
            else:
                out = resize_out(out, value.shape, layout_of(value)[1] if self.laid else None)
        out[...] = cast(value, out.dtype)

    def check_first(self, target: ndarray, value: ndarray) -> None:
        """Raise the errors of torch's structured kernels that come before the check of the target's memory."""
        if self.first:
            self.check(value.dtype, target.dtype, target.dtype)
        if self.sized and value.shape != target.shape:
            sizes = f"size {shape_text(target.shape)} and output tensor size {shape_text(value.shape)}"
            raise RuntimeError(f"Bad in-place call: input tensor {sizes} should match")

    def write_inplace(self, target: ndarray, value: ndarray) -> None:
        """Store the result of an in-place op, which must have the target's shape."""
        if value.dtype is target.dtype and value.shape == target.shape:
            if value.ctypes.data != target.ctypes.data or value.strides != target.strides:  # else it is written
                _write(target, value)
            return
        self.check_first(target, value)
        if value.shape != target.shape:
            raise output_shape(target.shape, value.shape)
        self.check(value.dtype, target.dtype, target.dtype)
        _write(target, cast(value, target.dtype))


def _write(target: ndarray, value: ndarray) -> None:
    """Write a value into a target. If the target's elements overlap, write only those that change."""
    if target.flags.forc or are_apart(target.shape, target.strides):
        target[...] = value
        return
    changed = target != value
    if is_inexact(target.dtype):
        changed &= (target == target) | (value == value)  # NaN that stays
    np.copyto(target, value, where=changed)


def _error(words: str) -> Exception:
    kind, _, rest = words.partition(": ")
    found = getattr(builtins, kind, None) if kind.endswith("Error") else None
    return found(rest) if found else RuntimeError(words)


def _broadcast(value: ndarray, shape: tuple[int, ...]) -> ndarray:
    together = broadcast_shapes(shape, value.shape)
    if together != shape:
        raise output_shape(shape, together)
    return np.broadcast_to(value, shape)


def check_fits(target: ndarray, operands: list[ndarray]) -> None:
    """Raise torch's error if the operands of an elementwise op do not broadcast to its target."""
    together = broadcast_shapes(*(x.shape for x in operands))
    if together != target.shape:
        raise output_shape(target.shape, together)


def lacking(error: Exception, otherwise: np.dtype) -> np.dtype:
    """Return the dtype that torch does not support, parsed from its error message; ``otherwise`` if there is none."""
    name = str(error).rpartition("for '")[2].rstrip("'")
    return next((d for d in STORED if scalar_name(d) == name), otherwise)


DATA = Path(__file__).parent.parent / "data" / "outs.tsv"
Spelled = tuple[str, str]


def default_rule(schema: Schema) -> Spelled:
    """Return the rule and the message for a row that the data file does not list."""
    return ("same", NOT_THE_SAME) if "generated" in schema.tags else ("cast", _CANNOT_CAST)


@functools.cache
def exceptions(path: Path = DATA) -> Mapping[str, Spelled]:
    """Return the rules and messages in the data file, by row.

    Rows are named like ``"neg.out"``, or like ``"sort.values:indices"`` if an op has several ``out=`` arrays.
    """
    found: dict[str, Spelled] = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if line[0] != "#":
                rule, words, names = line.rstrip("\n").split("\t")
                found |= dict.fromkeys(names.split(" "), (rule, words))
    return found


def out_rule(schema: Schema, out: Argument, several: bool) -> WriteRule:
    """Return the rule by which an op writes one of its ``out=`` arrays."""
    name = f"{schema.base}.{schema.overload}" + (f":{out.name}" if several else "")
    return _rule(*exceptions().get(name) or default_rule(schema))._replace(laid="generated" not in schema.tags)


def inplace_rule(schema: Schema) -> WriteRule:
    """Return the rule by which an op writes its first argument."""
    found = exceptions().get(f"{schema.base}.{schema.overload}" if schema.overload else schema.base)
    return _rule(*found)._replace(first=True) if found else _rule("cast", _CANNOT_CAST)


def _rule(spelled: str, words: str) -> WriteRule:
    kind, *how = spelled.split(" ")
    return WriteRule(
        ALLOWS[kind], words or _CANNOT_CAST, "into" in how, "flat" in how, "copy" in how, sized="sized" in how
    )


_PLAIN = WriteRule(_CAST, _CANNOT_CAST)
write_inplace = _PLAIN.write_inplace
