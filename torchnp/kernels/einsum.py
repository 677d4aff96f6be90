"""Einstein summation, and the product of three operands."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, wrap_dims
from torchnp.core.registry import kernel
from torchnp.kernels._elementwise import in_place
from torchnp.kernels._memory import window
from torchnp.kernels.arithmetic import add, mul
from torchnp.kernels.matmul import batched
from torchnp.kernels.reduce import sum_dim
from torchnp.kernels.slicing import narrow
from torchnp.kernels.view import reshape, view
from torchnp.layout.stride_rules import dense, iterated, layout_of, place, preserved
from torchnp.thresholds import Threshold

ndarray = np.ndarray


def _subscripts(equation: str, start: int, text: str, where: str) -> list[str]:
    """Parse the subscripts of an operand or the output: letters and at most one ellipsis."""
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


@kernel(
    "einsum", like=np.einsum, differs=["half-opmath", "no-bool-product", "einsum-ellipsis", "einsum-path", "sum-dtype"]
)
def einsum(equation, tensors, *, path=None):
    """Sum of products over the dimensions that the equation's output does not name."""
    check(len(tensors) > 0, "einsum(): must provide at least one operand")
    size = max(2 * len(tensors) - 2, 1)
    words = f"einsum(): expected contraction path given in path parameter to have size {size} but got"
    check(path is None or len(path) == size, f"{words} {len(path or ())}")
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
        flat = [s for subscripts in names for s in subscripts]
        output = sorted(s for s in set(flat) if s == "..." or flat.count(s) == 1)
    for letter in (s for s in output if s != "..."):
        check(output.count(letter) == 1, f"einsum(): output subscript {letter} appears more than once in the output")
        words = "does not appear in the equation for any input operand"
        check(letter in seen, f"einsum(): output subscript {letter} {words}")
    return _evaluated(names, output, tensors, path)


def _evaluated(names: list[list[str]], output: list[str], tensors: list[ndarray], path: list[int] | None) -> ndarray:
    """Give all operands the same order of dimensions, the output's first, and multiply them pairwise as torch does."""
    widths = [x.ndim - len(n) + 1 if "..." in n else 0 for n, x in zip(names, tensors, strict=True)]
    # Names for the dimensions of an ellipsis; they sort before the letters.
    filler = [str(d) for d in range(max(widths))]

    def spelled(subscripts: list[str], width: int) -> list[str]:
        return [c for s in subscripts for c in (filler[len(filler) - width :] if s == "..." else [s])]

    inputs = [spelled(n, w) for n, w in zip(names, widths, strict=True)]
    kept = spelled(output, len(filler))
    order = [*kept, *sorted({c for n in inputs for c in n} - set(kept))]
    ops = [_ordered(x, n, order) for n, x in zip(inputs, tensors, strict=True)]
    if len(ops) == 1:
        return dense(sum_dim(ops[0], range(len(kept), len(order)))) if len(order) > len(kept) else ops[0]
    for step in range(len(ops) - 1):
        i, j = (0, 1) if path is None else sorted(path[2 * step : 2 * step + 2])
        pair = f"einsum(): invalid contraction ({i}, {j})"
        check(i != j, f"{pair} cannot contract an operand with itself")
        check(i >= 0 and j < len(ops), f"{pair} operand index is out of bounds")
        b, a = ops.pop(j), ops.pop(i)
        ops.insert(0 if path is None else len(ops), _multiplied(a, b, ops, len(kept)))
    return view(ops[0], ops[0].shape[: len(kept)]) if len(order) > len(kept) else ops[0]


def _ordered(x: ndarray, letters: list[str], order: list[str]) -> ndarray:
    """Return a view of an operand with one dimension per letter; a repeated letter takes the diagonal."""
    at = [[d for d, n in enumerate(letters) if n == c] for c in order]
    shape = [x.shape[dims[0]] if dims else 1 for dims in at]
    steps = [sum(x.strides[d] for d in dims) if dims else x.itemsize for dims in at]
    return window(x, shape, steps)


def _multiplied(a: ndarray, b: ndarray, others: list[ndarray], first: int) -> ndarray:
    """Multiply two operands, and sum over the dimensions from ``first`` on that no other operand has."""
    done = [d for d in range(first, a.ndim) if all(x.shape[d] == 1 for x in others)]
    of_a, of_b = _alone(a, b, done), _alone(b, a, done)
    a, b = (dense(sum_dim(x, dims, True)) if dims else x for x, dims in ((a, of_a), (b, of_b)))
    both = [d for d in done if a.shape[d] != 1]
    if not both:
        common = dt.result_type(a, b)
        laid = [layout_of(x) if x.dtype == common else (x.shape, preserved(*layout_of(x))) for x in (a, b)]
        return place(mul(a, b), iterated(laid))
    return contracted(a, b, both)


def _alone(x: ndarray, y: ndarray, dims: Iterable[int]) -> list[int]:
    """Return those of ``dims`` in which ``y`` has size 1 and ``x`` another size."""
    return [d for d in dims if x.shape[d] != 1 == y.shape[d]]


def contracted(a: ndarray, b: ndarray, both: list[int]) -> ndarray:
    """Multiply two operands of equal rank, and sum over the dimensions ``both``, which become size 1."""
    kept = [d for d in range(a.ndim) if d not in both]
    shared = [d for d in kept if a.shape[d] != 1 != b.shape[d]]
    left, right = _alone(a, b, kept), [d for d in kept if a.shape[d] == 1]
    if left and right and right[-1] < left[0]:
        a, b, left, right = b, a, right, left
    size = lambda x, dims: math.prod(x.shape[d] for d in dims)
    batch, inner = size(a, shared), size(a, both)
    rows = reshape(a.transpose(shared + left + both + right), (batch, size(a, left), inner))
    columns = reshape(b.transpose(shared + both + right + left), (batch, inner, size(b, right)))
    order = shared + left + both + right
    shape = [1 if d in both else (b if d in right else a).shape[d] for d in order]
    return view(dense(batched(rows, columns)), shape).transpose([order.index(d) for d in range(a.ndim)])


# ---------------------------------------------------------------- three operands


def _pair(a: ndarray, b: ndarray, dims: list[int]) -> ndarray:
    """Multiply two operands, and sum over ``dims``."""
    if not dims:
        return mul(a, b)
    of_a, of_b = _alone(a, b, dims), _alone(b, a, dims)
    a, b = (sum_dim(x, own, True) if own else x for x, own in ((a, of_a), (b, of_b)))
    return contracted(a, b, [d for d in dims if d not in (*of_a, *of_b)])


_UNROLLED: Threshold = 1 << 16  # elements of the product of three tensors that are computed at once


@kernel("_trilinear", differs=["half-opmath"])
def _trilinear(i1, i2, i3, expand1, expand2, expand3, sumdim, unroll_dim=1):
    """Products of three tensors, each with size-1 dimensions inserted, summed over ``sumdim``."""
    total = i1.ndim + len(expand1)
    check(0 <= unroll_dim < total, f"unroll_dim must be in [0,{total - 1}]")
    sumdim, *expanded = (wrap_dims(dims, total) for dims in (sumdim, expand1, expand2, expand3))
    given = [np.expand_dims(x, dims) for x, dims in zip((i1, i2, i3), expanded, strict=True)]
    sizes = [0] * total
    for x, dims in zip(given, expanded, strict=True):  # the last operand that has a dimension gives its size
        sizes = [n if d in dims else x.shape[d] for d, n in enumerate(sizes)]
    out = np.zeros([1 if d in sumdim else n for d, n in enumerate(sizes)], i1.dtype)
    summed = [d for d in sumdim if d != unroll_dim]
    early, late = [d for d in summed if d in expanded[2]], [d for d in summed if d not in expanded[2]]
    size = sizes[unroll_dim] if all(x.size for x in given) else 0
    step = 1  # as in torch; but if the dimension is not summed, several indices can be computed at once
    if unroll_dim not in sumdim and size:
        step = max(1, _UNROLLED * size // math.prod(sizes))
    for start in range(0, size, step):
        n = min(step, size - start)
        a, b, c = (x if unroll_dim in e else narrow(x, unroll_dim, start, n) for x, e in zip(given, expanded))
        target = out if unroll_dim in sumdim else narrow(out, unroll_dim, start, n)
        target[...] = in_place(target, add(target, _pair(_pair(a, b, early), c, late)))
    return out.squeeze(sumdim)
