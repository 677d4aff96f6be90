"""Joining tensors (cat, stack), and products of sets (meshgrid, combinations)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from torchnp.core.checks import broadcast_shapes, check, refuse_elements, wrap_dim
from torchnp.core.errors import shape_text
from torchnp.core.fast_path import exact, is_axis
from torchnp.core.inplace_out_spec import Bound, WriteSpec
from torchnp.core.registry import kernel
from torchnp.dtypes import BARE_UNSIGNED, can_cast, cast, get_default_dtype, result_type, scalar_name
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._memory import bits, rarer
from torchnp.kernels.copy import contiguous
from torchnp.kernels.slicing import narrow
from torchnp.kernels.view import expand, reshape, unsqueeze
from torchnp.layout.apply import is_plain
from torchnp.layout.stride_rules import WRITTEN

ndarray = np.ndarray


def common_dtype(tensors: Sequence[ndarray]) -> np.dtype:
    """Return the promoted dtype of all tensors."""
    first = tensors[0].dtype
    for x in tensors:
        if x.dtype is not first:
            return result_type(*tensors)
    return first


def _check_list(tensors: Sequence[ndarray], name: str) -> None:
    check(len(tensors) > 0, f"{name} expects a non-empty TensorList")


# ---------------------------------------------------------------- cat


def _quick_cat(tensors, dim=0):
    """Concatenate dense tensors of one dtype and at least two dimensions; for others return None."""
    if (type(tensors) is not list and type(tensors) is not tuple) or not tensors or type(tensors[0]) is not ndarray:
        return None
    dtype, n, shape = tensors[0].dtype, tensors[0].ndim, tensors[0].shape
    if n < 2 or not is_axis(dim, n):
        return None
    for x in tensors:
        if type(x) is not ndarray or x.dtype is not dtype or x.ndim != n or not is_plain(x):
            return None
        other = x.shape
        if other != shape and (other[:dim] != shape[:dim] or other[dim % n + 1 :] != shape[dim % n + 1 :]):
            return None
    return np.concatenate(tensors, dim)


def _cast_first(bound: Bound, outs: list[ndarray]) -> None:
    # torch checks the dtype of ``out=`` before the sizes, and copies each tensor into ``out=``.
    tensors, dtype = bound["tensors"], outs[0].dtype
    if not can_cast(common_dtype(tensors), dtype):
        words = "torch.cat(): input types can't be cast to the desired output type"
        raise TypeError(f"{words} {scalar_name(dtype)}")
    bound["tensors"] = [cast(x, dtype) for x in tensors]


def _into_cat(bound: Bound, outs: list[ndarray]) -> None:
    shapes = [x.shape for x in bound["tensors"]]
    ranks = [len(s) for s in shapes if s != (0,)] or [1]
    if () not in shapes and shapes and -ranks[0] <= bound["dim"] < ranks[0]:
        _cast_first(bound, outs)


def _into_stack(bound: Bound, outs: list[ndarray]) -> None:
    tensors = bound["tensors"]
    if len({x.shape for x in tensors}) == 1 and -tensors[0].ndim - 1 <= bound["dim"] <= tensors[0].ndim:
        _cast_first(bound, outs)


def _into_raised(bound: Bound, outs: list[ndarray]) -> None:
    # A vector has more weight in promotion than the 0-d tensor that it was made from
    bound["tensors"] = [atleast_1d(x) for x in bound["tensors"]]
    if bound["tensors"]:
        _cast_first(bound, outs)


_CAT, _STACK, _RAISED = WriteSpec(out=_into_cat), WriteSpec(out=_into_stack), WriteSpec(out=_into_raised)


@kernel(
    "cat",
    like=np.concatenate,
    differs=["cat-legacy-empty", "int-float-promotion"],
    quick=exact(_quick_cat, placed=True),
    writes=_CAT,
)
def cat(tensors, dim=0):
    """Tensors concatenated along a dimension; empty tensors of shape (0,) are skipped."""
    check(len(tensors) > 0, "torch.cat(): expected a non-empty list of Tensors", ValueError)
    for i, x in enumerate(tensors):
        if not x.ndim:
            raise RuntimeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
    parts = [x for x in tensors if x.shape != (0,)]
    if not parts:
        return np.empty(0, common_dtype(tensors))
    shape = parts[0].shape
    dim = wrap_dim(dim, len(shape))
    dtype = common_dtype(tensors)
    rest = (*shape[:dim], *shape[dim + 1 :])
    for i, x in enumerate(tensors):
        if x.shape != (0,) and (x.ndim != len(shape) or (*x.shape[:dim], *x.shape[dim + 1 :]) != rest):
            _raise_cat(shape, x.shape, dim, i)
    return np.concatenate([bits(x if x.dtype is dtype else cast(x, dtype)) for x in parts], dim).view(dtype)


def _raise_cat(first: tuple[int, ...], other: tuple[int, ...], dim: int, position: int) -> None:
    if len(first) != len(other):
        raise RuntimeError(f"Tensors must have same number of dimensions: got {len(first)} and {len(other)}")
    a, b = next((m, n) for i, (m, n) in enumerate(zip(first, other)) if m != n and i != dim)
    raise RuntimeError(
        f"Sizes of tensors must match except in dimension {dim}. Expected size {a} but got size {b} "
        f"for tensor number {position} in the list."
    )


_OF_CAT = {"like": np.concatenate, "differs": ["cat-legacy-empty", "int-float-promotion"], "writes": _CAT}
rows("concat concatenate", cat, "`cat`.", **_OF_CAT)


def _stacked(tensors, dim=0, *, op):
    _check_list(tensors, "stack")
    if op == "_stack" and WRITTEN.target is None:
        common_dtype(tensors)
    dim = wrap_dim(dim, tensors[0].ndim + 1)
    shape = tensors[0].shape
    for i, x in enumerate(tensors):
        if x.shape != shape:
            words = f"stack expects each tensor to be equal size, but got {shape_text(shape)} at entry 0 and"
            raise RuntimeError(f"{words} {shape_text(x.shape)} at entry {i}")
    return cat([x.reshape(*shape[:dim], 1, *shape[dim:]) for x in tensors], dim)


_OF_STACK = {"like": np.stack, "differs": ["int-float-promotion"], "writes": _STACK}
stack, _ = rows("stack _stack", _stacked, "Tensors of one shape along a new dimension.", **_OF_STACK)


@kernel("block_diag")
def block_diag(tensors):
    """Matrices placed along the diagonal of a larger one, with zeros elsewhere."""
    dtype = result_type(*tensors) if len(tensors) else get_default_dtype()
    if not len(tensors):
        return np.empty((1, 0), dtype)
    for i, x in enumerate(tensors):
        if x.ndim > 2:
            raise RuntimeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {x.ndim} dimensions"
            )
    blocks = [atleast_2d(x) for x in tensors]
    out = np.zeros((sum(b.shape[0] for b in blocks), sum(b.shape[1] for b in blocks)), dtype)
    row = column = 0
    for b in blocks:
        out[row : row + b.shape[0], column : column + b.shape[1]] = cast(b, dtype)
        row, column = row + b.shape[0], column + b.shape[1]
    return out


@kernel("_chunk_cat")
def _chunk_cat(tensors, dim, num_chunks):
    """Each tensor cut into zero-padded chunks along a dimension; the i-th chunks of all tensors are joined."""
    check(len(tensors) > 0, "_chunk_cat expects a non-empty input tensor list")
    check(num_chunks >= 1, "_chunk_cat expects positive num_chunks")
    dtype, rows = tensors[0].dtype, []
    for x in tensors:
        check(x.size > 0, "_chunk_cat expects non-empty tensor")
        check(x.dtype == dtype, "_chunk_cat expects all input tensors with the same dtype")
    if len({x.ndim for x in tensors}) == 1:
        dim = wrap_dim(dim, tensors[0].ndim)
    check(dim >= 0, "_chunk_cat expects non-negative dim when input tensors have different ndims")
    check(all(dim < x.ndim for x in tensors), "_chunk_cat expects dim < ndim for all input tensors")
    words = "_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors"
    for x in tensors:
        check(x.shape[:dim] == tensors[0].shape[:dim], words)
        padded = np.zeros((*x.shape[:dim], -(-x.shape[dim] // num_chunks) * num_chunks, *x.shape[dim + 1 :]), dtype)
        padded[(*(slice(None),) * dim, slice(x.shape[dim]))] = x
        rows.append(padded.reshape(*x.shape[:dim], num_chunks, -1))
    return cat(rows, dim + 1)


# ---------------------------------------------------------------- at least 1, 2 or 3 dimensions


(atleast_1d,) = rows(
    "atleast_1d", lambda x: x if x.ndim else x.reshape(1), "The tensor with at least one dimension.",
    like=np.atleast_1d,
)  # fmt: skip
(atleast_2d,) = rows(
    "atleast_2d", lambda x: x if x.ndim > 1 else unsqueeze(atleast_1d(x), 0),
    "The tensor with at least two dimensions, new ones in front.", like=np.atleast_2d,
)  # fmt: skip
(atleast_3d,) = rows(
    "atleast_3d", lambda x: x if x.ndim > 2 else unsqueeze(atleast_2d(x), -1),
    "The tensor with at least three dimensions: a vector becomes (1, n, 1), a matrix (m, n, 1).", like=np.atleast_3d,
)  # fmt: skip


def _of_each(tensors, *, to):
    return [to(x) for x in tensors]


rows("atleast_1d.Sequence", _of_each, "`atleast_1d` of each tensor.", to=atleast_1d, like=np.atleast_1d)
rows("atleast_2d.Sequence", _of_each, "`atleast_2d` of each tensor.", to=atleast_2d, like=np.atleast_2d)
rows("atleast_3d.Sequence", _of_each, "`atleast_3d` of each tensor.", to=atleast_3d, like=np.atleast_3d)


def _raised(tensors, *, op, to, dim):
    _check_list(tensors, op)
    parts = [to(x) for x in tensors]
    return cat(parts, min(dim, parts[0].ndim - 1))


_OF_RAISED = {"differs": ["int-float-promotion"], "writes": _RAISED}
rows(
    "hstack",
    _raised,
    "`cat` along dimension 1, or 0 for vectors.",
    to=atleast_1d,
    dim=1,
    like=np.hstack,
    **_OF_RAISED,
)
_DOC = "`cat` along dimension {} of tensors with at least {} dimensions."
rows("vstack", _raised, _DOC.format(0, 2), to=atleast_2d, dim=0, like=np.vstack, **_OF_RAISED)
rows("row_stack", _raised, "`vstack`.", op="vstack", to=atleast_2d, dim=0, like=np.vstack, **_OF_RAISED)
rows("dstack", _raised, _DOC.format(2, 3), to=atleast_3d, dim=2, like=np.dstack, **_OF_RAISED)
_column = lambda x: x.reshape(x.size, 1) if x.ndim <= 1 else x
rows(
    "column_stack",
    _raised,
    "`hstack` with vectors as columns.",
    to=_column,
    dim=1,
    like=np.column_stack,
    **_OF_RAISED,
)


@kernel("broadcast_tensors", like=np.broadcast_arrays)
def broadcast_tensors(tensors):
    """Each tensor expanded to the common shape."""
    shape = broadcast_shapes(*(x.shape for x in tensors))
    return [expand(x, shape) for x in tensors]


# ---------------------------------------------------------------- products of sets


@kernel("meshgrid", like=np.meshgrid, differs=["meshgrid-ij", "expand-writable"])
def meshgrid(tensors):
    """Each vector expanded over a grid with one dimension per vector."""
    _check_list(tensors, "meshgrid")
    _check_one_dtype(tensors)
    for x in tensors:
        if x.ndim > 1:
            found = "".join(f"{n:2d}" for n in x.shape) if x.ndim == 2 else f"({'1,' * (x.ndim - 2)}.,.) = "
            raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {found}")
    shape, n = [x.size for x in tensors], len(tensors)
    return [expand(reshape(x, [x.size if i == j else 1 for j in range(n)]), shape) for i, x in enumerate(tensors)]


def _check_one_dtype(tensors: Sequence[ndarray]) -> None:
    check(all(x.dtype == tensors[0].dtype for x in tensors), "meshgrid expects all tensors to have the same dtype")


@kernel("meshgrid.indexing", like=np.meshgrid, differs=["meshgrid-ij", "expand-writable"])
def meshgrid_indexing(tensors, *, indexing):
    """`meshgrid`; ``indexing="xy"`` swaps the first two dimensions."""
    _check_list(tensors, "meshgrid")
    _check_one_dtype(tensors)
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    if indexing == "ij" or len(tensors) < 2:
        return meshgrid(tensors)
    grids = meshgrid([tensors[1], tensors[0], *tensors[2:]])
    grids[:2] = grids[1::-1]
    return grids


@kernel("cartesian_prod")
def cartesian_prod(tensors):
    """All tuples with one value from each vector, as rows."""
    for x in tensors:
        check(x.ndim == 1, f"Expect a 1D vector, but got shape {shape_text(x.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    return stack([g.reshape(-1) for g in meshgrid(tensors)], 1)


@kernel("combinations")
def combinations(self, r=2, with_replacement=False):
    """All combinations of ``r`` values of a vector, as rows."""
    check(self.ndim == 1, f"Expect a 1D vector, but got shape {shape_text(self.shape)}")
    check(r >= 0, f"Expect a non-negative number, but got {r}")
    if r == 0:
        return np.empty(0, self.dtype)
    check(self.size**r < 1 << 63, "numel: integer multiplication overflow")
    if self.size >= (1 if with_replacement else r):  # else torch selects nothing
        refuse_elements("masked_select", self, rarer("2.14", frozenset(BARE_UNSIGNED)))
    columns = [np.arange(self.size)]
    for _ in range(r - 1):  # each combination continues with every later position
        first = columns[-1] if with_replacement else columns[-1] + 1
        counts = self.size - first
        chosen = np.repeat(np.arange(len(first)), counts)
        start = first - (np.cumsum(counts) - counts)
        columns = [*(column[chosen] for column in columns), start[chosen] + np.arange(len(chosen))]
    return np.stack([self[column] for column in columns], 1)


# ---------------------------------------------------------------- lists of tensors in one vector


rows(
    "flatten_dense_tensors", lambda xs: contiguous(xs[0]).reshape(-1) if len(xs) == 1 else cat([x.reshape(-1) for x in xs]),
    "All elements of all tensors in one vector.", like=np.concatenate, differs=["view-not-copy"],
)  # fmt: skip


@kernel("unflatten_dense_tensors", like=np.split)
def unflatten_dense_tensors(flat, tensors):
    """A vector split into views with the shapes of tensors."""
    start, out = 0, []
    for x in tensors:
        if not x.size:
            out.append(np.empty(x.shape, flat.dtype))
            continue
        out.append(reshape(narrow(flat, 0, start, x.size), x.shape))
        start += x.size
    return out
