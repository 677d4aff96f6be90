"""Einstein summation."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import as_strided

from torchnp import dtypes as dt
from torchnp.checks import check
from torchnp.kernels._memory import bits
from torchnp.kernels.numerics.products import check_products
from torchnp.layout import dense
from torchnp.registry import kernel

ndarray = np.ndarray


def _subscripts(equation: str, start: int, text: str, where: str) -> list[str]:
    """Letters and at most one ellipsis of an operand or of the output."""
    found: list[str] = []
    for token in re.finditer(r"\.{3}|[^ ]", text):
        c = token[0]
        if c[0] == ".":
            check("..." not in found, f"einsum(): found '.' for {where} for which an ellipsis was already found")
            check(c == "...", f"einsum(): found '.' for {where} that is not part of any ellipsis")
        else:
            at = f"invalid subscript given at index {start + token.start()} in the equation string"
            check(c.isascii() and c.isalpha(), f"einsum(): {at}, subscripts must be in [a-zA-Z]")
        found.append(c)
    return found


def _check_operand(subscripts: Sequence[str], x: ndarray, number: int, seen: dict[str, int]) -> None:
    letters = [s for s in subscripts if s != "..."]
    n, ellipsis = len(letters), "..." in subscripts
    if n > x.ndim or (n < x.ndim and not ellipsis):
        what = "is more than the number of" if ellipsis else "does not match the number of"
        tail = "" if ellipsis else " and no ellipsis was given"
        found = f"({n}) {what} dimensions ({x.ndim}) for operand {number}{tail}"
        raise RuntimeError(f"einsum(): the number of subscripts in the equation {found}")
    at = subscripts.index("...") if ellipsis else n
    own: dict[str, int] = {}
    for i, letter in enumerate(letters):
        size = x.shape[i if i < at else i + x.ndim - n]
        words = f"einsum(): subscript {letter} is repeated for operand {number} but the sizes don't match, {size} !="
        check(own.setdefault(letter, size) == size, f"{words} {own[letter]}")
        known = seen.get(letter, 1)
        words = f"for operand {number} which does not broadcast with previously seen size {known}"
        check(1 in (size, known) or size == known, f"einsum(): subscript {letter} has size {size} {words}")
        seen[letter] = size if known == 1 else known


@kernel("einsum", like=np.einsum, differs=["half-opmath", "no-bool-product", "einsum-ellipsis"])
def einsum(equation, tensors, *, path=None):
    """Sum of products over the dimensions that the equation does not name in its output."""
    check(len(tensors) > 0, "einsum(): must provide at least one operand")
    left, arrow, right = equation.partition("->")
    parts = left.split(",")
    starts = [sum(len(p) + 1 for p in parts[:i]) for i in range(len(parts))]
    names = [_subscripts(equation, s, p, f"operand {i}") for i, (s, p) in enumerate(zip(starts, parts, strict=True))]
    check(len(names) <= len(tensors), "einsum(): fewer operands were provided than specified in the equation")
    check(len(names) >= len(tensors), "einsum(): more operands were provided than specified in the equation")
    output = _subscripts(equation, len(left) + 2, right, "the output") if arrow else None
    seen: dict[str, int] = {}
    for i, (subscripts, x) in enumerate(zip(names, tensors, strict=True)):
        _check_operand(subscripts, x, i, seen)
    if output is None:
        flat = [s for subscripts in names for s in subscripts if s != "..."]
        once = sorted(s for s in set(flat) if flat.count(s) == 1)
        output = (["..."] if any("..." in n for n in names) else []) + once
    for letter in (s for s in output if s != "..."):
        check(output.count(letter) == 1, f"einsum(): output subscript {letter} appears more than once in the output")
        words = "does not appear in the equation for any input operand"
        check(letter in seen, f"einsum(): output subscript {letter} {words}")
    return _evaluated(names, output, tensors)


def _evaluated(names: list[list[str]], output: list[str], tensors: Sequence[ndarray]) -> ndarray:
    # An ellipsis that the output does not keep is summed over, which np.einsum refuses: its dimensions get letters.
    spare = [c for c in string.ascii_letters if all(c not in n for n in names)]
    widths = [x.ndim - len(n) + 1 if "..." in n else 0 for n, x in zip(names, tensors, strict=True)]
    filler = spare[: max(widths)]

    def spelled(subscripts: list[str], width: int) -> str:
        return "".join("".join(filler[len(filler) - width :]) if s == "..." else s for s in subscripts)

    inputs = [spelled(n, w) for n, w in zip(names, widths, strict=True)]
    result = spelled(output, len(filler))
    sums = any(c not in result for c in "".join(inputs))
    program = f"{','.join(inputs)}->{result}"
    if len(tensors) == 1:
        return _rearranged(program, tensors[0], sums)
    out = dt.result_type(*tensors)
    if sums:
        check_products("bmm", out)
    operands = [dt.cast(x, dt.opmath(out)) for x in tensors]
    # np.einsum may give a transposed product; torch orders the factors of its last bmm so that none is left over.
    return dense(dt.cast(np.asarray(np.einsum(program, *operands, optimize=True)), out))


def _rearranged(program: str, x: ndarray, sums: bool) -> ndarray:
    """One operand: a view where nothing is summed, else sums as `sum` makes them."""
    if not sums:
        names, result = program.split("->")  # a letter that is there twice stands for the diagonal
        steps = [sum(s for s, n in zip(x.strides, names, strict=True) if n == c) for c in result]
        return as_strided(bits(x), [x.shape[names.index(c)] for c in result], steps).view(x.dtype)
    out = x.dtype if dt.is_inexact(x.dtype) else dt.int64
    return dense(dt.cast(np.asarray(np.einsum(program, dt.cast(x, dt.opmath(out)))), out))
