"""where; masked fill, select and scatter; and the indices of nonzero elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import broadcast_shapes, check, check_expand, check_fits, check_type, refuse, warn
from torchnp.core.errors import not_implemented
from torchnp.core.fast_path import exact
from torchnp.core.inplace_out_spec import Bound, WriteSpec
from torchnp.core.python_scalars import item, scalar, single
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._elementwise import check_broadcast
from torchnp.kernels._memory import RARE, RARE_OR_CHALF, bits
from torchnp.kernels.numerics.blocks import MANY, choose
from torchnp.kernels.view import expand
from torchnp.layout.apply import is_plain
from torchnp.layout.overlap import check_target

ndarray = np.ndarray
_BARE = frozenset(dt.BARE_UNSIGNED)

# ---------------------------------------------------------------- where


def _quick_where(condition, self, other):
    """Compute `where` for three dense tensors of one shape, else return None."""
    if not type(condition) is type(self) is type(other) is ndarray or not condition.shape == self.shape == other.shape:
        return None
    if self.dtype is not other.dtype or condition.dtype is not dt.bool_:
        return None
    if not (is_plain(condition) and is_plain(self) and is_plain(other)):
        return None
    if self.size > MANY:
        return choose(condition, self, other)
    out = other.copy()
    np.putmask(out, condition, self)
    return out


@kernel(
    "where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar", like=np.where,
    differs=[
        "three-tier-promotion", "int-float-promotion", "number-promotion", "where-number", "where-needs-bool",
        "fill-overflow",
    ],
    quick=exact(_quick_where, placed=True),
)  # fmt: skip
def where(condition: ndarray, self: Any, other: Any) -> ndarray:
    """``self`` where the condition is true, else ``other``."""
    out = None if type(self) is type(other) is ndarray and self.dtype is other.dtype else dt.result_type(self, other)
    if out is not None:
        self, other = (x if isinstance(x, ndarray) else single(x, out) for x in (self, other))
    words = "where expected condition to be a boolean tensor, but got a tensor with dtype"
    check(condition.dtype in (dt.bool_, dt.uint8), f"{words} {dt.scalar_name(condition.dtype)}")
    if condition.dtype == dt.uint8:
        words = "This behavior is deprecated and will be removed in a future version of PyTorch."
        warn(f"where received a uint8 condition tensor. {words} Use a boolean condition instead.")
    if out is not None:
        self, other = dt.cast(self, out), dt.cast(other, out)
    check_broadcast(condition, self, other)
    if not since("2.13"):
        refuse("where_cpu", self.dtype, dt.BARE_UNSIGNED)
    return choose(condition, self, other)


@kernel("where", like=np.where, differs=["nonzero-0d"])
def where_indices(condition: ndarray) -> list[ndarray]:
    """The indices of the nonzero elements, one tensor for each dimension."""
    refuse("nonzero_count_cpu", condition.dtype, RARE)
    return [np.ascontiguousarray(i) for i in np.nonzero(np.atleast_1d(condition))]


# ---------------------------------------------------------------- masks and nonzero elements


def _precheck_mask_fits(bound: Bound, written: list[ndarray]) -> None:
    """For the in-place form, check the value, then the mask's dtype, then that the mask fits the target."""
    if isinstance(bound["value"], ndarray):
        _check_number(bound["value"])
    _check_mask(bound["mask"])
    check_fits(bound["mask"], written[0])


def _check_number(value: ndarray) -> None:
    words = f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
    check(value.ndim == 0, words)


def _check_mask(mask: ndarray) -> None:
    words = "masked_fill_ only supports boolean masks, but got mask with dtype"
    check(mask.dtype == dt.bool_, f"{words} {dt.c_name(mask.dtype)}")


@kernel(
    "masked_fill.Scalar",
    like=np.where,
    differs=["masked-fill-truncates", "fill-overflow"],
    writes=WriteSpec(inplace=_precheck_mask_fits, vectors=False),
)
def masked_fill(self, mask, value):
    """The tensor with ``value`` where the mask is true."""
    if mask.shape != self.shape:
        shape = broadcast_shapes(mask.shape, self.shape)
        self = self if self.shape == shape else expand(self, shape)
    _check_mask(mask)
    refuse("masked_fill", self.dtype, RARE)
    number = scalar(value, self.dtype)
    if self.size >= MANY and self.flags.c_contiguous and mask.dtype == dt.bool_:
        return choose(np.ascontiguousarray(np.broadcast_to(mask, self.shape)), number, self)
    out = np.array(self, order="C", copy=True)
    np.copyto(bits(out), bits(number), where=mask)
    return out


# torch reads the number before it writes, so the value may overlap the target.
@kernel(
    "masked_fill.Tensor",
    like=np.where,
    differs=["masked-fill-truncates", "fill-overflow", "fill-0d"],
    writes=WriteSpec(inplace=_precheck_mask_fits, free=("value",), vectors=False),
)
def masked_fill_tensor(self, mask, value):
    """The tensor with the number of a 0-d tensor where the mask is true."""
    broadcast_shapes(mask.shape, self.shape)
    _check_number(value)
    return masked_fill(self, mask, item(value))


# ---------------------------------------------------------------- select, scatter


@kernel("masked_select", like=np.extract, differs=["masks-broadcast"])
def masked_select(self, mask):
    """The elements where the mask is true, as a vector."""
    check(mask.dtype == dt.bool_, "masked_select: expected BoolTensor for mask")
    shape = broadcast_shapes(mask.shape, self.shape) if mask.shape != self.shape else self.shape
    x = bits(self) if self.shape == shape else np.broadcast_to(bits(self), shape)
    mask = mask if mask.shape == shape else np.broadcast_to(mask, shape)
    if mask.any():  # else torch copies nothing
        refuse("masked_select", self.dtype, _BARE)
    return x[mask].view(self.dtype)


def _precheck_mask(bound: Bound, _: list[ndarray]) -> None:
    """For the in-place form, check the target's memory, then the source, then that the mask expands to the target."""
    self = bound["self"]
    check_target(self)
    _check_source(self, bound["source"])
    check_expand(bound["mask"], self.shape)


def _check_source(self: ndarray, source: ndarray) -> None:
    words = "masked_scatter: expected self and source to have same dtypes but got"
    check(self.dtype == source.dtype, f"{words}{dt.scalar_name(self.dtype)} and {dt.scalar_name(source.dtype)}")


@kernel(
    "masked_scatter",
    like=np.place,
    differs=["masks-broadcast", "masked-scatter-enough", "where-needs-bool", "no-mixed-writes"],
    writes=WriteSpec(inplace=_precheck_mask, free=("source",)),
)
def masked_scatter(self, mask, source):
    """The tensor with the elements of ``source``, taken one after the other, where the mask is true."""
    shape = broadcast_shapes(mask.shape, self.shape)
    _check_source(self, source)
    if mask.dtype == dt.uint8:
        warn(
            "masked_scatter_ received a mask with dtype torch.uint8, this behavior is now deprecated,"
            "please use a mask with dtype torch.bool instead."
        )
    words = f"masked_scatter_ only supports boolean masks, but got mask with dtype {dt.scalar_name(mask.dtype)}"
    check(mask.dtype == dt.bool_, words)
    refuse("masked_scatter", self.dtype, RARE_OR_CHALF)
    out = np.array(np.broadcast_to(self, shape), order="C", copy=True)
    mask = np.broadcast_to(mask, shape)
    needed = int(np.count_nonzero(mask))
    check(source.size >= needed, "Number of elements of source < number of ones in mask")
    bits(out)[mask] = bits(source).reshape(-1)[:needed]
    return out


@kernel("nonzero", like=np.argwhere, differs=["nonzero-rows"])
def nonzero(self):
    """The positions of nonzero elements, as rows."""
    refuse("nonzero_count_cpu", self.dtype, RARE)  # torch refuses these dtypes even if the tensor is empty
    truth = self if self.dtype.num <= 255 else self != 0
    if not self.ndim:
        return np.empty((int(bool(truth)), 0), dt.int64)
    found = truth.nonzero()
    # torch fills a matrix by columns: its transpose is contiguous.
    return np.stack(found).T


rows("argwhere", nonzero, "`nonzero`.", like=np.argwhere)
_DOC = "The positions of nonzero elements, one vector for each dimension."
rows("nonzero_numpy", lambda x: list(nonzero(np.atleast_1d(x)).T), _DOC, like=np.nonzero, differs=["nonzero-0d"])


@kernel("nonzero_static", like=np.argwhere, differs=["nonzero-static-size"])
def nonzero_static(self, *, size, fill_value=-1):
    """The first ``size`` positions of nonzero elements, padded with rows of ``fill_value``."""
    check(size >= 0, "nonzero_static: 'size' must be an non-negative integer")
    out = np.full((size, self.ndim), fill_value, dt.int64)
    if out.size:  # torch dispatches only if there is something to write
        found = nonzero(self)[:size]
        out[: len(found)] = found
    return out


@kernel("_rowwise_prune")
def _rowwise_prune(weight, mask, compressed_indices_dtype):
    """The rows where the mask is true, and each row's position among them, or -1."""
    check(weight.ndim == 2, "'weights' should have 2 dimensions.")
    words = "Number of elements in 'mask' should be equivalent to the number of rows in 'weights'."
    check(mask.size == len(weight), words)
    words = "compressed_indices_dtype should be either int(int32) or long(int64)."
    check(dt.as_dtype(compressed_indices_dtype) in (dt.int32, dt.int64), words)
    check_type(dt.bool_, mask)
    if weight.dtype in RARE or weight.dtype == dt.bool_ or dt.is_complex(weight.dtype):
        raise not_implemented("rowwise_prune_helper", weight.dtype)
    mask = mask.reshape(-1)
    places = np.where(mask, np.cumsum(mask) - 1, -1)
    return weight[mask], places.astype(dt.as_dtype(compressed_indices_dtype))
