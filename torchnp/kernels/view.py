"""Views of the same elements in another shape or order of dimensions, and reshapes.

Views share memory with their input, as torch's do; some of NumPy's counterparts are read-only (broadcast_to,
diagonal) or copy (reshape).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index

import numpy as np

from torchnp.core.checks import check, wrap_dim, wrap_dims
from torchnp.core.errors import ambiguous_view, expand_mismatch, invalid_view, no_dimensions, shape_text, too_few_sizes
from torchnp.core.inplace_out_spec import Bound, WriteSpec
from torchnp.core.registry import kernel
from torchnp.dtypes import bool_
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._memory import check_size, storage, window
from torchnp.layout import stride_rules
from torchnp.layout.apply import is_plain

ndarray = np.ndarray

# ---------------------------------------------------------------- the same tensor


rows("alias detach lift_fresh", lambda x: x.view(), "A new array on the same memory.", like=np.ndarray.view)
rows("lift data resolve_conj resolve_neg", lambda x: x, "The tensor itself: arrays have no conjugate or negative bit.")
rows("_fw_primal", lambda x, level: x.view(), "The tensor itself: arrays carry no forward gradients.")


@kernel("positive", like=np.positive, differs=["positive-is-self"])
def positive(self):
    """The tensor itself."""
    check(self.dtype != bool_, "The `+` operator, on a bool tensor is not supported.")
    return self


# ---------------------------------------------------------------- shape


def infer_size(size: Sequence[int], numel: int) -> tuple[int, ...]:
    """Return a shape with its -1 inferred, or raise torch's error if it does not have ``numel`` elements."""
    known, inferred = 1, None
    for i, n in enumerate(size):
        if n == -1:
            check(inferred is None, "only one dimension can be inferred")
            inferred = i
        elif n < 0:
            raise RuntimeError(f"invalid shape dimension {n} at index {i} of shape {shape_text(size)}")
        else:
            known *= n
    if known != numel and not (inferred is not None and known > 0 and numel % known == 0):
        raise invalid_view(size, numel)
    if inferred is None:
        return tuple(size)
    if known == 0:
        raise ambiguous_view(size)
    return (*size[:inferred], numel // known, *size[inferred + 1 :])


@kernel("view", like=np.reshape, differs=["view-never-copies"])
def view(self, size):
    """A view in another shape; an error if the strides do not allow it."""
    out = _viewed(self, size)
    if out is None:
        words = "view size is not compatible with input tensor's size and stride (at least one dimension spans across"
        raise RuntimeError(f"{words} two contiguous subspaces). Use .reshape(...) instead.")
    return out


def _viewed(x: ndarray, size: Sequence[int]) -> ndarray | None:
    """Return `view`'s result, or None if the strides do not allow a view."""
    if x.size and (1 not in x.shape or is_plain(x)):  # NumPy treats dimensions of size 1 differently
        try:
            out = x.reshape(size) if x.flags.c_contiguous else x.reshape(size, copy=False)
        except ValueError:
            infer_size(size, x.size)
            return None
        if size and min(size) < -1:  # NumPy infers any negative size, torch only -1
            infer_size(size, x.size)
        return out
    size = infer_size(size, x.size)
    strides = stride_rules.viewed(*stride_rules.layout_of(x), size)
    return None if strides is None else window(x, size, [s * x.itemsize for s in strides])


@kernel("reshape", like=np.reshape)
def reshape(self, shape):
    """A view in another shape if the strides allow it, else a copy."""
    out = _viewed(self, shape)
    return self.copy("C").reshape(infer_size(shape, self.size)) if out is None else out


_COPY, _NEVER = "copy-forms", "view-never-copies"
for _name, _run, _doc, *_differs in (
    (
        "view_copy",
        lambda x, n: reshape(x, n).copy("K"),
        "A copy in another shape, even if the strides allow no view.",
        _COPY,
    ),
    ("_unsafe_view", view, "`view` whose result autograd treats as a new tensor.", _NEVER),
    ("view_as", lambda x, other: view(x, other.shape), "`view` in the shape of another tensor.", _NEVER),
    ("reshape_as", lambda x, other: reshape(x, other.shape), "`reshape` to the shape of another tensor."),
    ("_reshape_copy", lambda x, size: reshape(x, size).copy(), "A copy in another shape.", _COPY),
    ("_reshape_from_tensor", lambda x, n: reshape(x, n.tolist()), "`reshape` to a shape given as a tensor."),
):
    rows(_name, _run, _doc, like=np.reshape, differs=_differs)


@kernel("flatten.using_ints", like=np.ndarray.flatten, differs=["view-not-copy"])
def flatten(self, start_dim=0, end_dim=-1):
    """The tensor with the dimensions from ``start_dim`` to ``end_dim`` merged into one."""
    start, end = wrap_dim(start_dim, self.ndim), wrap_dim(end_dim, self.ndim)
    check(start <= end, "flatten() has invalid args: start_dim cannot come after end_dim")
    if not self.ndim:
        return self.reshape(1)
    if start == end:
        return self
    shape = self.shape
    return reshape(self, (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))


@kernel("unflatten.int", like=np.reshape, differs=["unflatten-needs-sizes"])
def unflatten(self, dim, sizes):
    """A view with one dimension split into several."""
    dim = wrap_dim(dim, self.ndim)
    check(len(sizes) > 0, "unflatten: sizes must be non-empty")
    unexpected = "unflatten got an unexpected error:\n"
    check(self.ndim > 0, f"{unexpected}{no_dimensions(dim)}")
    extent = self.shape[dim]
    try:
        sizes = infer_size(sizes, extent)
    except RuntimeError as error:
        if str(error) != str(invalid_view(sizes, extent)):
            raise RuntimeError(f"{unexpected}{error}") from None
        words = f"unflatten: Provided sizes {shape_text(sizes)} don't multiply up to the size of dim {dim} ({extent})"
        raise RuntimeError(f"{words} in the input tensor") from None
    return view(self, (*self.shape[:dim], *sizes, *self.shape[dim + 1 :]))


rows(
    "ravel", lambda x: view(x, (-1,)) if x.flags.c_contiguous else x.flatten(),
    "All elements in one dimension, as a view if contiguous, else a copy.", like=np.ravel,
)  # fmt: skip

# ---------------------------------------------------------------- dimensions of size 1

rows("squeeze", lambda x: x.squeeze(), "The tensor without its dimensions of size 1.", like=np.squeeze)


@kernel("squeeze.dim", "squeeze.dims", like=np.squeeze, differs=["squeeze-size-not-1"])
def squeeze_dims(self, dim):
    """The tensor without those of the given dimensions that have size 1."""
    dims = wrap_dims(dim, self.ndim)
    return self.squeeze(tuple(d for d in dims if self.shape[d] == 1)) if self.ndim else self.view()


@kernel("unsqueeze", like=np.expand_dims)
def unsqueeze(self, dim):
    """The tensor with a dimension of size 1 inserted."""
    shape, span = self.shape, self.ndim + 1
    if not -span <= dim < span:
        wrap_dim(dim, span)
    if dim < 0:
        dim += span
    if is_plain(self):
        return self.reshape((*shape[:dim], 1, *shape[dim:]))
    # None as an index would leave a stride of 0, which reads as an expanded dimension.
    strides = self.strides
    step = self.itemsize if dim == self.ndim else shape[dim] * strides[dim]
    return window(self, (*shape[:dim], 1, *shape[dim:]), (*strides[:dim], step, *strides[dim:]))


# ---------------------------------------------------------------- expand


def check_count(shape: Sequence[int]) -> None:
    """Raise torch's error for negative sizes of a view; the error is different if another size is 0."""
    if shape and min(shape) < 0:
        check(0 in shape, "numel: integer multiplication overflow")
        check_size(shape)


@kernel("expand", like=np.broadcast_to, differs=["expand-minus-1", "expand-writable"])
def expand(self, size, *, implicit=False):
    """A view that repeats dimensions of size 1 by strides of 0."""
    own = self.shape
    extra = len(size) - len(own)
    if extra < 0:
        raise too_few_sizes(self.dtype, own, size)
    shape, strides = list(size), [0] * extra + list(self.strides)
    for i in range(len(shape) - 1, extra - 1, -1):
        n = own[i - extra]
        if shape[i] != n:
            if shape[i] == -1:
                shape[i] = n
            else:
                if n != 1:
                    raise expand_mismatch(shape[i], n, i, size, own)
                strides[i] = 0
    for i in reversed(range(extra)):
        if shape[i] == -1 and self.ndim:
            words = "The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension"
            raise RuntimeError(f"{words} {i}")
        # A new dimension of size 1 gets the stride that a contiguous tensor would have.
        if shape[i] == 1:
            strides[i] = shape[i + 1] * strides[i + 1] if i + 1 < len(shape) else 0
    check_count(shape)
    return window(self, shape, strides)


rows("broadcast_to", expand, "`expand`.", like=np.broadcast_to, differs=["expand-minus-1", "expand-writable"])
rows(
    "expand_as", lambda x, other: expand(x, other.shape), "`expand` to the shape of another tensor.",
    like=np.broadcast_to, differs=["expand-writable"],
)  # fmt: skip

# ---------------------------------------------------------------- order of dimensions


@kernel("permute", like=np.transpose)
def permute(self, dims):
    """A view with the dimensions in another order."""
    try:
        return self.transpose(dims)
    except ValueError:
        n = len(dims)
        check(
            n == self.ndim,
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {self.ndim} is not equal to len(dims) = {n}",
        )
        seen = set()
        for d in dims:
            d = wrap_dim(d, self.ndim)
            check(d not in seen, "permute(): duplicate dims are not allowed.")
            seen.add(d)
        raise


@kernel("transpose.int", "swapdims", like=np.swapaxes, differs=["transpose-pair", "zero-dim-axis"])
def transpose(self, dim0, dim1):
    """A view with two dimensions swapped."""
    try:
        return self.swapaxes(dim0, dim1)
    except ValueError:
        wrap_dim(dim0, self.ndim), wrap_dim(dim1, self.ndim)
        return self.view()  # 0-d


rows("swapaxes", transpose, "`transpose`.", like=np.swapaxes, differs=["zero-dim-axis"])


def _transposed(self, *, op):
    if self.ndim > 2:
        raise RuntimeError(f"{op}() expects a tensor with <= 2 dimensions, but self is {self.ndim}D")
    return self.T


_DOC = "The transpose of a matrix, as a view even for `t_`; vectors and scalars are unchanged."
matrix_transposed, _ = rows("t t_", _transposed, _DOC, like=np.transpose, differs=["t-of-matrices"])
rows("numpy_T", lambda x: x.T, "Dimensions in reverse order.", like=np.transpose)


def check_matrix(x: ndarray, name: str) -> None:
    if x.ndim == 1:
        raise RuntimeError(f"tensor.{name} is only supported on matrices or batches of matrices. Got 1-D tensor.")


@kernel("mT", like=np.matrix_transpose)
def m_t(self):
    """The last two dimensions swapped."""
    check_matrix(self, "mT")
    return self.swapaxes(-2, -1) if self.ndim else self


@kernel("movedim.intlist", "moveaxis.intlist", like=np.moveaxis, differs=["zero-dim-axis"])
def movedim_intlist(self, source, destination):
    """A view with some dimensions moved; the others keep their order."""
    if len(source) != len(destination):
        words = f"movedim: Invalid source or destination dims: source ({shape_text(source)} dims) should contain the"
        raise RuntimeError(f"{words} same number of dims as destination ({shape_text(destination)} dims)")
    src = [wrap_dim(d, self.ndim) for d in source]
    dst = [wrap_dim(d, self.ndim) for d in destination]
    for name, dims, given in (("source", src, source), ("destination", dst, destination)):
        check(len(set(dims)) == len(dims), f"movedim: repeated dim in `{name}` ({shape_text(given)})")
    if not self.ndim:
        return self
    rest = iter(d for d in range(self.ndim) if d not in src)
    moved = dict(zip(dst, src))
    return self.transpose([moved[d] if d in moved else next(rest) for d in range(self.ndim)])


rows(
    "movedim.int moveaxis.int", lambda x, *places: movedim_intlist(x, *([d] for d in places)), "One dimension moved.",
    like=np.moveaxis, differs=["zero-dim-axis"],
)  # fmt: skip

# ---------------------------------------------------------------- strides


def _precheck_in_place(bound: Bound, _: list[ndarray]) -> None:
    """In place, check as torch does: first that the memory can hold the view, then that no size is negative."""
    size, stride, offset = bound["size"], bound["stride"], bound["storage_offset"]
    if len(size) == len(stride) and min(*stride, offset or 0, 0) >= 0 and min(size, default=0) < 0 not in size:
        _window_on(bound["self"], size, stride, offset)
        check_count(size)


def _window_on(
    x: ndarray, size: Sequence[int], stride: Sequence[int], storage_offset: int | None
) -> tuple[ndarray, int]:
    """Return the memory of a strided view and the byte at which it starts, or raise torch's error if out of bounds."""
    memory, start = storage(x)
    start = start if storage_offset is None else storage_offset * x.itemsize
    extent = 0 if 0 in size else 1 + sum((n - 1) * s for n, s in zip(size, stride))
    needed = start + x.itemsize * extent
    if extent and needed > memory.nbytes:
        words = f"setStorage: sizes {shape_text(size)}, strides {shape_text(stride)}, storage offset"
        found = f"requiring a storage size of {needed} are out of bounds for storage of size {memory.nbytes}"
        raise RuntimeError(f"{words} {start // x.itemsize}, and itemsize {x.itemsize} {found}")
    return memory, start


@kernel(
    "as_strided",
    like=np.lib.stride_tricks.as_strided,
    differs=["as-strided-storage", "as-strided-elements", "as-strided-bounds"],
    writes=WriteSpec(inplace=_precheck_in_place),
)
def as_strided(self, size, stride, storage_offset=None):
    """A view of the tensor's whole storage, with size, strides and offset in elements."""
    check(len(size) == len(stride), "mismatch in length of strides and shape")
    # NumPy's integers wrap, so that a view far out of bounds would seem to lie inside.
    size, stride = list(map(index, size)), list(map(index, stride))
    storage_offset = None if storage_offset is None else index(storage_offset)
    if stride and min(stride) < 0:
        words = "as_strided: Negative strides are not supported at the moment, got strides:"
        raise RuntimeError(f"{words} {shape_text(stride)}")
    if storage_offset is not None and storage_offset < 0:
        raise RuntimeError(f"Tensor: invalid storage offset {storage_offset}")
    if 0 not in size and any(n < 0 < s for n, s in zip(size, stride)):
        words = f"Storage size calculation overflowed with sizes={shape_text(size)} and"
        raise RuntimeError(f"{words} strides={shape_text(stride)}")
    memory, start = _window_on(self, size, stride, storage_offset)
    if 0 in size:
        check_size(size)
        start = 0
    check_count(size)
    return ndarray(size, self.dtype, memory, start, [s * self.itemsize for s in stride])


rows(
    "_reshape_alias", as_strided, "`view` with the given strides.", like=np.lib.stride_tricks.as_strided,
    differs=["as-strided-elements"],
)  # fmt: skip


_UNFOLD = ["unfold-step", "unfold-of-number", "windows-writable"]


@kernel("unfold", like=np.lib.stride_tricks.sliding_window_view, differs=_UNFOLD)
def unfold(self, dimension, size, step):
    """All windows of ``size`` along a dimension, ``step`` apart, as a new last dimension."""
    dim = wrap_dim(dimension, self.ndim)
    extent = self.shape[dim] if self.ndim else 1
    check(size >= 0, f"size is {size} but must be >= 0")
    check(size <= extent, f"maximum size for tensor at dimension {dim} is {extent} but size is {size}")
    check(step > 0, f"step is {step} but must be > 0")
    if not self.ndim:
        return window(self, (size,), (self.itemsize,))
    shape, strides = list(self.shape), list(self.strides)
    shape[dim], along = (extent - size) // step + 1, strides[dim]
    strides[dim] = along * step
    return window(self, (*shape, size), (*strides, along))
