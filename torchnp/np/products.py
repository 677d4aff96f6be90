"""Products of vectors and matrices, in NumPy's result dtype; integers and bools too."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchnp._private_numpy import parse_einsum_input
from torchnp.np import elementwise as el
from torchnp.np.axes import normal_axis
from torchnp.np.dtypes import HALVES, as_tensor, carried, cast, loop_dtypes, result_dtype, torch_dtype, uncarried
from torchnp.np.table import row
from torchnp.np.ufunc import write

MIXED = "no-mixed-products no-bool-product int-mm-widens product-of-nothing"


def _product(a: Tensor, b: Tensor) -> Tensor:
    """Multiply matrices of one dtype. For bools, the result is whether any pair is true; integers wrap."""
    if a.dtype == torch.bool:
        return torch.matmul(a.to(torch.float64), b.to(torch.float64)) > 0
    if a.is_floating_point() or a.is_complex():
        wide = a.dtype in HALVES
        found = torch.matmul(a.float(), b.float()) if wide else torch.matmul(a, b)
        return found.to(a.dtype)
    return uncarried(torch.matmul(carried(a), carried(b)), a.dtype)


def _checked(core: str, a: Tensor, b: Tensor, n: int, m: int, name: str = "matmul") -> None:
    if n != m:
        raise ValueError(
            f"{name}: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature {core} (size {m} is different from {n})"
        )


def _batched(a: Tensor, b: Tensor, kept: int) -> None:
    batch = a.shape[: max(a.dim() - kept, 0)], b.shape[: max(b.dim() - kept, 0)]
    try:
        torch.broadcast_shapes(*batch)
    except RuntimeError:
        words = " ".join(str(tuple(s)).replace(" ", "") for s in (a.shape, b.shape))
        raise ValueError(f"operands could not be broadcast together with shapes {words}") from None


@row("matmul", f"{MIXED} matrix-only")
def matmul(
    x1: Any,
    x2: Any,
    /,
    out: Any = None,
    *,
    casting: str = "same_kind",
    order: str = "K",
    dtype: Any = None,
    **kwargs: Any,
) -> Tensor:
    """`numpy.matmul` on tensors: vectors, matrices and stacks of them."""
    a, b = as_tensor(x1), as_tensor(x2)
    target = out[0] if isinstance(out, tuple) else out
    for i, t in enumerate((a, b)):
        if t.dim() == 0:
            raise ValueError(
                f"matmul: Input operand {i} does not have enough dimensions (has 0, gufunc core with signature (n?,k),(k,m?)->(n?,m?) requires 1)"
            )
    wanted = None if dtype is None else torch_dtype(dtype)
    types = loop_dtypes("matmul", (a.dtype, b.dtype), (None if target is None else target.dtype,), wanted, casting)
    _checked("(n?,k),(k,m?)->(n?,m?)", a, b, a.shape[-1], b.shape[0 if b.dim() == 1 else -2])
    if a.dim() > 1 and b.dim() > 1:
        _batched(a, b, 2)
    found = cast(_product(cast(a, types[0]), cast(b, types[1])), types[2])
    return found if target is None else write(target, found)


def _stacked(name: str, core: str, prepare: Any, finish: Any) -> None:
    """Add a product with a signature such as ``(n),(n)->()``, whose vectors lie along ``axis=``."""

    def function(x1: Any, x2: Any, /, out: Any = None, *, dtype: Any = None, axis: Any = -1, **kwargs: Any) -> Tensor:
        a, b = as_tensor(x1), as_tensor(x2)
        for i, (t, part) in enumerate(zip((a, b), core.split("->")[0].split("),"), strict=True)):
            need = part.count(",") + 1
            if t.dim() < need:
                raise ValueError(
                    f"{name}: Input operand {i} does not have enough dimensions (has {t.dim()}, gufunc core with signature {core} requires {need})"
                )
        if name == "vecdot" and axis != -1:
            a, b = a.movedim(normal_axis(axis, a.dim()), -1), b.movedim(normal_axis(axis, b.dim()), -1)
        sizes = a.shape[-1], b.shape[-1 if name in ("vecdot", "matvec") else -2]
        _checked(core, a, b, *sizes, name)
        common = result_dtype(a.dtype, b.dtype) if dtype is None else torch_dtype(dtype)
        a, b = cast(a, common), cast(b, common)
        if name in ("vecdot", "vecmat") and a.is_complex():
            a = torch.conj(a)
        found = finish(_product(*prepare(a, b)))
        return found if out is None else write(out[0] if isinstance(out, tuple) else out, found)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`numpy.{name}` on tensors: ``{core}``."
    row(name if name != "vecdot" else "vecdot", f"{MIXED} vecdot-broadcasts")(function)


_stacked("vecdot", "(n),(n)->()", lambda a, b: (a[..., None, :], b[..., :, None]), lambda x: x[..., 0, 0])
_stacked("matvec", "(m,n),(n)->(m)", lambda a, b: (a, b[..., :, None]), lambda x: x[..., 0])
_stacked("vecmat", "(n),(n,m)->(m)", lambda a, b: (a[..., None, :], b), lambda x: x[..., 0, :])


@row("dot", f"{MIXED} vectors-only")
def dot(a: Any, b: Any, out: Any = None) -> Tensor:
    """`numpy.dot` on tensors: sums over the last axis of ``a`` and the second to last of ``b``."""
    x, y = as_tensor(a), as_tensor(b)
    common = result_dtype(x.dtype, y.dtype)
    x, y = cast(x, common), cast(y, common)
    if x.dim() == 0 or y.dim() == 0:
        found = el.multiply(x, y)
    else:
        inner = y.shape[0 if y.dim() == 1 else -2]
        if x.shape[-1] != inner:
            raise ValueError(_misaligned(x, y, x.dim() - 1, 0 if y.dim() == 1 else y.dim() - 2))
        moved = y if y.dim() == 1 else y.movedim(-2, 0)
        flat = _product(_matrix(x), moved.reshape(inner, math.prod(moved.shape[1:])))
        found = flat.reshape((*x.shape[:-1], *moved.shape[1:]))
    return found if out is None else write(out, found)


def _matrix(x: Tensor) -> Tensor:
    """Return a tensor as a matrix whose columns are its last axis."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


def _misaligned(x: Tensor, y: Tensor, i: int, j: int) -> str:
    names = (str(tuple(t.shape)).replace(" ", "") for t in (x, y))
    return "shapes {} and {} not aligned: {} (dim {}) != {} (dim {})".format(*names, x.shape[i], i, y.shape[j], j)


@row("inner", MIXED)
def inner(a: Any, b: Any, /) -> Tensor:
    """`numpy.inner` on tensors: sums over the last axes."""
    x, y = as_tensor(a), as_tensor(b)
    common = result_dtype(x.dtype, y.dtype)
    x, y = cast(x, common), cast(y, common)
    if x.dim() == 0 or y.dim() == 0:
        return el.multiply(x, y)
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(_misaligned(x, y, x.dim() - 1, y.dim() - 1))
    flat = _product(_matrix(x), _matrix(y).T)
    return flat.reshape((*x.shape[:-1], *y.shape[:-1]))


@row("vdot", f"{MIXED} vectors-only")
def vdot(a: Any, b: Any, /) -> Tensor:
    """`numpy.vdot` on tensors: the product of the flattened tensors, the first one conjugated."""
    x, y = as_tensor(a).reshape(-1), as_tensor(b).reshape(-1)
    if x.shape != y.shape:
        raise ValueError(f"cannot reshape array of size {y.shape[0]} into shape ({x.shape[0]},)")
    return dot(torch.conj(x) if x.is_complex() else x, y)


@row("einsum", "einsum-ellipsis einsum-path no-mixed-products")
def einsum(
    *operands: Any, out: Any = None, dtype: Any = None, order: str = "K", casting: str = "safe", optimize: Any = False
) -> Tensor:
    """`numpy.einsum` on tensors, in the operands' result dtype; NumPy parses the subscripts."""
    subscripts, parts = _parsed(operands)
    common = torch_dtype(dtype) if dtype is not None else result_dtype(*(p.dtype for p in parts))
    values = [cast(p, common) for p in parts]
    boolean, half = common == torch.bool, common in HALVES
    exact = not (common.is_floating_point or common.is_complex)
    wide = [
        v.double() if boolean else v.float() if half else carried(v).to(torch.int64) if exact else v for v in values
    ]
    found = torch.einsum(subscripts, *wide)
    found = found > 0 if boolean else uncarried(found, common).to(common)
    return found if out is None else write(out, found)


def _parsed(operands: tuple[Any, ...]) -> tuple[str, list[Tensor]]:
    """Return subscripts of letters, with an arrow, and the tensors; NumPy checks them on arrays of one byte."""
    if len(operands) < 2:
        raise ValueError(
            "must specify the einstein sum subscripts string and at least one operand, or at least one operand and its "
            "corresponding subscripts list"
        )
    if isinstance(operands[0], str):
        parts = [as_tensor(p) for p in operands[1:]]
        shadows = [np.broadcast_to(np.int8(0), tuple(p.shape)) for p in parts]
        given: tuple[Any, ...] = (operands[0], *shadows)
    else:
        listed = list(operands)
        end = [listed.pop()] if len(listed) % 2 else []
        parts = [as_tensor(p) for p in listed[::2]]
        shadows = [np.broadcast_to(np.int8(0), tuple(p.shape)) for p in parts]
        given = (*(v for pair in zip(shadows, listed[1::2], strict=True) for v in pair), *end)
    inputs, output, _ = parse_einsum_input(given)
    if all(p.numel() < 2**16 for p in parts):
        np.einsum(*given)
    return f"{inputs}->{output}", parts


def correlate_1d(a: Any, v: Any, mode: Any = "valid") -> Tensor:
    """Correlate two 1-d tensors as `numpy.correlate` does, which conjugates the second one."""
    y = as_tensor(v)
    return slide(a, torch.conj(y) if y.is_complex() else y, mode)


def slide(a: Any, v: Any, mode: Any = "valid") -> Tensor:
    """Return the products of the shorter 1-d tensor with each window of the longer one."""
    x, y = as_tensor(a), as_tensor(v)
    if x.dim() != 1 or y.dim() != 1:
        raise ValueError(
            "object too deep for desired array"
            if max(x.dim(), y.dim()) > 1
            else "object of too small depth for desired array"
        )
    if not x.numel():
        raise ValueError("first array argument cannot be empty")
    if not y.numel():
        raise ValueError("second array argument cannot be empty")
    common = result_dtype(x.dtype, y.dtype)
    x, y = cast(x, common), cast(y, common)
    swapped = x.shape[0] < y.shape[0]
    long, short = (y, x) if swapped else (x, y)
    m = short.shape[0]
    names = {"valid": 0, "same": 1, "full": 2, 0: 0, 1: 1, 2: 2}
    if mode not in names:
        raise ValueError(f"mode must be one of 'valid', 'same', or 'full' (got '{mode}')")
    left, right = ((0, 0), (m // 2, m - 1 - m // 2), (m - 1, m - 1))[names[mode]]
    zeros = torch.zeros(m, dtype=common, device=x.device)
    padded = torch.cat([zeros[:left], long, zeros[:right]])
    windows = uncarried(carried(padded).unfold(0, m, 1), common)
    found = _product(windows, short[:, None])[:, 0]
    return uncarried(torch.flip(carried(found), (0,)), common) if swapped else found
