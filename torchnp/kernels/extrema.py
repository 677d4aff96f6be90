"""Largest and smallest elements, and where they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.checks import check, refuse, wrap_dim
from torchnp.errors import empty_list
from torchnp.kernels._reduction import NOT_ORDERED, axes_of, listed_axes, ordered
from torchnp.quick import Quick, axes, exact
from torchnp.registry import kernel

ndarray = np.ndarray

# ---------------------------------------------------------------- values


def _extreme(name: str, ufunc: np.ufunc, x: ndarray, dim: Any, keepdim: bool, cpu: str) -> ndarray:
    axes = axes_of(dim, x.ndim)
    if x.size == 0:
        _check_not_empty(name, x, axes)
        return np.empty(reduced_shape(x.shape, axes, keepdim), x.dtype)
    refuse(cpu, x.dtype, NOT_ORDERED)
    return dt.cast(np.asarray(ufunc.reduce(ordered(x), axes, None, None, keepdim)), x.dtype)


def _quick_extreme(ufunc: np.ufunc) -> Quick:
    reduce = ufunc.reduce

    def quick(self, dim=(), keepdim=False):
        if type(self) is not ndarray or not (self.dtype is dt.float32 or self.dtype is dt.float64) or not self.size:
            return None
        if type(keepdim) is not bool:
            return None
        given = axes(dim, self.ndim)
        if given is None:
            return None
        out = reduce(self, given, None, None, keepdim)
        return out if type(out) is ndarray else np.asarray(out)

    return exact(quick)


def _check_not_empty(name: str, x: ndarray, axes: Any) -> None:
    if axes is None:
        raise RuntimeError(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
            "Specify the reduction dim with the 'dim' argument."
        )
    for axis in axes:
        check(x.shape[axis], f"{name}(): Expected reduction dim {axis} to have non-zero size.", IndexError)


@kernel(
    "amax",
    like=np.max,
    differs=["empty-dim", "zero-dim-axis", "no-complex-order"],
    quick=_quick_extreme(np.maximum),
)
def amax(self, dim=(), keepdim=False):
    """Largest element over dimensions; NaN wins."""
    return _extreme("amax", np.maximum, self, dim, keepdim, "max_values_cpu")


@kernel(
    "amin",
    like=np.min,
    differs=["empty-dim", "zero-dim-axis", "no-complex-order"],
    quick=_quick_extreme(np.minimum),
)
def amin(self, dim=(), keepdim=False):
    """Smallest element over dimensions; NaN wins."""
    return _extreme("amin", np.minimum, self, dim, keepdim, "min_values_cpu")


@kernel("max", like=np.max, differs=["no-complex-order"])
def max_all(self):
    """Largest of all elements; NaN wins."""
    return _extreme("max", np.maximum, self, None, False, "max_all")


@kernel("_foreach_max", like=np.max, differs=["no-complex-order"])
def foreach_max(self):
    """The largest element of each tensor."""
    check(len(self) > 0, empty_list())
    for x in self:
        check(
            x.size > 0,
            "_foreach_max cannot compute the maximum of an empty tensor; max over zero elements is undefined.",
        )
    return [max_all(x) for x in self]


@kernel("min", like=np.min, differs=["no-complex-order"])
def min_all(self):
    """Smallest of all elements; NaN wins."""
    return _extreme("min", np.minimum, self, None, False, "min_all")


@kernel("aminmax")
def aminmax(self, *, dim=None, keepdim=False):
    """Smallest and largest element, of all or along a dimension."""
    axes = None if dim is None else axes_of(dim, self.ndim)
    if dim is not None and self.ndim == 0:
        check(not dt.is_complex(self.dtype), f"aminmax not implemented for {dt.scalar_name(self.dtype)}")
        return self.copy(), self.copy()
    if self.size == 0 and axes is None:
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
        )
    for axis in axes or ():
        check(self.shape[axis], f"aminmax: Expected reduction dim {axis} to have non-zero size.", IndexError)
    refuse("aminmax_cpu", self.dtype, NOT_ORDERED)
    x = ordered(self)
    low, high = (np.asarray(u.reduce(x, axes, None, None, keepdim)) for u in (np.minimum, np.maximum))
    return dt.cast(low, self.dtype), dt.cast(high, self.dtype)


# ---------------------------------------------------------------- values and indices along one dimension


def _extreme_along(name: str, find: Any, x: ndarray, dim: int, keepdim: bool) -> tuple[ndarray, ndarray]:
    axis = wrap_dim(dim, x.ndim)
    if x.size == 0:
        _check_not_empty(name, x, (axis,))
    check(not dt.is_complex(x.dtype), f"{name}(): does not support complex input")
    if x.ndim == 0:
        return x.copy(), np.zeros((), np.int64)
    if x.size == 0:
        shape = reduced_shape(x.shape, (axis,), keepdim)
        return np.empty(shape, x.dtype), np.empty(shape, np.int64)
    refuse(f"{name}_cpu", x.dtype, NOT_ORDERED)
    index = find(ordered(x), axis, None, keepdims=True)
    values = np.take_along_axis(x, index, axis)
    return (values, index) if keepdim else (values.squeeze(axis), index.squeeze(axis))


def reduced_shape(shape: tuple[int, ...], axes: Any, keepdim: bool) -> tuple[int, ...]:
    gone = listed_axes(axes, len(shape))
    return tuple(1 if i in gone else n for i, n in enumerate(shape) if keepdim or i not in gone)


@kernel("max.dim", differs=["zero-dim-axis", "no-complex-order", "max-with-indices"])
def max_dim(self, dim, keepdim=False):
    """Largest elements along a dimension and where the first of each is; the first NaN wins."""
    return _extreme_along("max", np.argmax, self, dim, keepdim)


@kernel("min.dim", differs=["zero-dim-axis", "no-complex-order", "max-with-indices"])
def min_dim(self, dim, keepdim=False):
    """Smallest elements along a dimension and where the first of each is; the first NaN wins."""
    return _extreme_along("min", np.argmin, self, dim, keepdim)


# ---------------------------------------------------------------- indices


def _arg(name: str, find: Any, x: ndarray, dim: int | None, keepdim: bool) -> ndarray:
    check(not dt.is_complex(x.dtype), f"{name}(): does not support complex input")
    check(x.dtype != dt.bool_, f"{name}(): does not support bool input")
    axis = None if dim is None else wrap_dim(dim, x.ndim)
    if x.size == 0:
        if axis is None:
            raise IndexError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0.")
        _check_not_empty(name, x, (axis,))
    axes = None if axis is None or x.ndim == 0 else (axis,)
    if x.size == 0:
        return np.zeros(reduced_shape(x.shape, axes, keepdim), np.int64)
    if axes is not None and x.shape[axis] == 1:
        return np.zeros(reduced_shape(x.shape, axes, keepdim), np.int64)
    refuse(f"{name}_cpu", x.dtype, NOT_ORDERED)
    return find(ordered(x), axis, keepdims=keepdim)


def _quick_argmax(self, dim, keepdim=False):
    if keepdim is not False or type(self) is not ndarray or type(dim) is not int or not -self.ndim <= dim < self.ndim:
        return None
    if (self.dtype is dt.float32 or self.dtype is dt.float64) and self.size:
        out = self.argmax(dim)
        return out if type(out) is ndarray else np.asarray(out)
    return None


def _quick_argmin(self, dim, keepdim=False):
    if keepdim is not False or type(self) is not ndarray or type(dim) is not int or not -self.ndim <= dim < self.ndim:
        return None
    if (self.dtype is dt.float32 or self.dtype is dt.float64) and self.size:
        out = self.argmin(dim)
        return out if type(out) is ndarray else np.asarray(out)
    return None


@kernel("argmax", like=np.argmax, differs=["no-bool", "no-complex-order", "zero-dim-axis"], quick=exact(_quick_argmax))
def argmax(self, dim=None, keepdim=False):
    """Index of the first largest element; NaN is larger than all."""
    return _arg("argmax", np.argmax, self, dim, keepdim)


@kernel("argmin", like=np.argmin, differs=["no-bool", "no-complex-order", "zero-dim-axis"], quick=exact(_quick_argmin))
def argmin(self, dim=None, keepdim=False):
    """Index of the first smallest element; NaN is smaller than all."""
    return _arg("argmin", np.argmin, self, dim, keepdim)
