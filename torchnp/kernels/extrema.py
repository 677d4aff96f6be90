"""Largest and smallest elements, and their indices."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, refuse, wrap_dim
from torchnp.core.errors import empty_list
from torchnp.core.fast_path import Quick, axes, exact, is_axis, is_float
from torchnp.core.inplace_out_spec import Bound, WriteSpec, store
from torchnp.core.python_scalars import single
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._reduction import NOT_ORDERED, axes_of, listed_axes, ordered
from torchnp.layout.overlap import overlap

ndarray = np.ndarray

# ---------------------------------------------------------------- values


def _extreme(x: ndarray, dim: Any = None, keepdim: bool = False, *, op: str, ufunc: Any, cpu: str) -> ndarray:
    if x.size == 0:  # torch's message names the dimension as given
        _check_not_empty(op, x, ([dim] if isinstance(dim, int) else dim) or None)
    axes = axes_of(dim, x.ndim)
    if x.size == 0:
        return np.empty(reduced_shape(x.shape, axes, keepdim), x.dtype)
    refuse(cpu, x.dtype, NOT_ORDERED)
    return dt.cast(np.asarray(ufunc.reduce(ordered(x), axes, None, None, keepdim)), x.dtype)


def _quick_extreme(ufunc: Any) -> Quick:
    reduce = ufunc.reduce

    def quick(self, dim=(), keepdim=False):
        given = axes(dim, self.ndim) if is_float(self) and self.size and type(keepdim) is bool else None
        return None if given is None else np.asarray(reduce(self, given, None, None, keepdim))

    return exact(quick)


def _check_not_empty(name: str, x: ndarray, axes: Any) -> None:
    if axes is None:
        words = f"{name}(): Expected reduction dim to be specified for input.numel() == 0."
        raise RuntimeError(f"{words} Specify the reduction dim with the 'dim' argument.")
    for axis in axes:
        words = f"{name}(): Expected reduction dim {axis} to have non-zero size."
        check(x.shape[wrap_dim(axis, x.ndim)], words, IndexError)


def _precheck_filled(bound: Bound, outs: list[ndarray], of: Any) -> tuple[int, ...]:
    """Compute the result and write it to ``out=``: torch fills ``out=`` with a number, which must fit its dtype."""
    x, d = bound["self"], outs[0].dtype
    if not dt.can_cast(x.dtype, d):
        return ()
    return store(outs[0], single(dt.cast(of(x), dt.opmath(x.dtype)).item(), d))


_ORDER = ["empty-dim", "zero-dim-axis", "no-complex-order", "missing-kernel"]
_most = partial(rows, ufunc=np.maximum, like=np.max, quick=_quick_extreme(np.maximum))
_least = partial(rows, ufunc=np.minimum, like=np.min, quick=_quick_extreme(np.minimum))
_DOC = "{} element over dimensions; NaN wins."
(amax,) = _most("amax", _extreme, _DOC.format("Largest"), cpu="max_values_cpu", differs=_ORDER)
(amin,) = _least("amin", _extreme, _DOC.format("Smallest"), cpu="min_values_cpu", differs=_ORDER)
_DOC = "{} of all elements; NaN wins."
_OF_ALL: Any = {"differs": ["no-complex-order"]}
max_all: Any
min_all: Any
_precheck_most = lambda bound, outs: _precheck_filled(bound, outs, max_all)
_precheck_least = lambda bound, outs: _precheck_filled(bound, outs, min_all)
(max_all,) = _most(
    "max", _extreme, _DOC.format("Largest"), cpu="max_all", writes=WriteSpec(out=_precheck_most), **_OF_ALL
)
(min_all,) = _least(
    "min", _extreme, _DOC.format("Smallest"), cpu="min_all", writes=WriteSpec(out=_precheck_least), **_OF_ALL
)


@kernel("_foreach_max", like=np.max, differs=["no-complex-order"])
def foreach_max(self):
    """The largest element of each tensor."""
    check(len(self) > 0, empty_list())
    words = "_foreach_max cannot compute the maximum of an empty tensor; max over zero elements is undefined."
    if not since("2.13"):
        words = "max(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument."
    found = []
    for x in self:  # the first bad tensor is reported
        check(x.size, words)
        found.append(max_all(x))
    return found


def _refuse_complex(dtype: np.dtype) -> None:
    check(not dt.is_complex(dtype), f"aminmax not implemented for {dt.scalar_name(dtype)}")


def check_aminmax(dtype: np.dtype) -> None:
    """Refuse a dtype that torch's `aminmax` has no code for."""
    if since("2.15"):
        _refuse_complex(dtype)
    refuse("aminmax_cpu", dtype, NOT_ORDERED)


def _precheck_apart(bound: Bound, outs: list[ndarray]) -> None:
    if since("2.15"):
        words = "aminmax(): the `min` and `max` out= tensors must not overlap."
        check(outs[0] is not outs[1] and overlap(*outs) not in ("full", "partial"), words, ValueError)


@kernel("aminmax", writes=WriteSpec(out=_precheck_apart))
def aminmax(self, *, dim=None, keepdim=False):
    """Smallest and largest element, overall or along a dimension."""
    if since("2.15"):
        _refuse_complex(self.dtype)
    axes = None if dim is None else axes_of(dim, self.ndim)
    if dim is not None and self.ndim == 0:
        _refuse_complex(self.dtype)
        return self.copy(), self.copy()
    if self.size == 0 and axes is None:
        words = "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
        raise RuntimeError(words)
    for axis in axes or ():
        check(self.shape[axis], f"aminmax: Expected reduction dim {axis} to have non-zero size.", IndexError)
    check_aminmax(self.dtype)
    x = ordered(self)
    low, high = (np.asarray(u.reduce(x, axes, keepdims=keepdim)) for u in (np.minimum, np.maximum))
    return dt.cast(low, self.dtype), dt.cast(high, self.dtype)


# ---------------------------------------------------------------- values and indices along one dimension


def taken(
    op: str, x: ndarray, dim: int, keepdim: bool, find: Callable[[ndarray, int], ndarray], look: Any = None
) -> tuple[ndarray, ndarray]:
    """Return the elements at the indices that ``find`` returns, and the indices.

    ``find`` keeps the reduced dimension. ``look`` runs the checks that torch also applies to 0-d and empty tensors.
    """
    axis = wrap_dim(dim, x.ndim)
    if x.size == 0:
        _check_not_empty(op, x, (axis,))
    if look is not None:
        look(x)
    if x.ndim == 0:
        return x.copy(), np.zeros((), np.int64)
    if x.size == 0:
        shape = reduced_shape(x.shape, (axis,), keepdim)
        return np.empty(shape, x.dtype), np.empty(shape, np.int64)
    refuse(f"{op}_cpu", x.dtype, NOT_ORDERED)
    index = find(x, axis)
    values = np.take_along_axis(x, index, axis)
    return (values, index) if keepdim else (values.squeeze(axis), index.squeeze(axis))


def _extreme_along(x: ndarray, dim: int, keepdim: bool, *, op: str, find: Any) -> tuple[ndarray, ndarray]:
    look = lambda x: check(not dt.is_complex(x.dtype), f"{op}(): does not support complex input")
    return taken(op, x, dim, keepdim, lambda x, axis: find(ordered(x), axis, None, keepdims=True), look)


def reduced_shape(shape: tuple[int, ...], axes: Any, keepdim: bool) -> tuple[int, ...]:
    gone = listed_axes(axes, len(shape))
    return tuple(1 if i in gone else n for i, n in enumerate(shape) if keepdim or i not in gone)


_ALONG = ["max-with-indices", "zero-dim-axis", "no-complex-order"]
_FIRST = "elements along a dimension and the first index of each; the first NaN wins."
rows("max.dim", _extreme_along, f"Largest {_FIRST}", find=np.argmax, like=np.max, differs=_ALONG)
(smallest,) = rows("min.dim", _extreme_along, f"Smallest {_FIRST}", find=np.argmin, like=np.min, differs=_ALONG)

# ---------------------------------------------------------------- indices


def _arg(x: ndarray, dim: int | None, keepdim: bool, *, op: str, find: Any) -> ndarray:
    check(not dt.is_complex(x.dtype), f"{op}(): does not support complex input")
    check(x.dtype != dt.bool_, f"{op}(): does not support bool input")
    axis = None if dim is None else wrap_dim(dim, x.ndim)
    if axis is None:
        check(x.size > 0, f"{op}(): Expected reduction dim to be specified for input.numel() == 0.", IndexError)
    elif x.ndim == 0:
        axis = None
    elif x.size == 0 or x.shape[axis] == 1:
        _check_not_empty(op, x, (axis,))
        return np.zeros(reduced_shape(x.shape, (axis,), keepdim), np.int64)
    refuse(f"{op}_cpu", x.dtype, NOT_ORDERED)
    return find(ordered(x), axis, keepdims=keepdim)


def _quick_arg(find: Any) -> Quick:
    def quick(self, dim, keepdim=False):
        if keepdim is not False or not is_float(self) or not self.size or not is_axis(dim, self.ndim):
            return None
        return np.asarray(find(self, dim))

    return exact(quick)


_DIFFERS = ["no-bool", "no-complex-order"]
_DOC = "Index of the first largest element; NaN is larger than all."
rows("argmax", _arg, _DOC, find=np.argmax, like=np.argmax, differs=_DIFFERS, quick=_quick_arg(ndarray.argmax))
_DOC = "Index of the first smallest element; NaN is smaller than all."
rows("argmin", _arg, _DOC, find=np.argmin, like=np.argmin, differs=_DIFFERS, quick=_quick_arg(ndarray.argmin))


rows("_aminmax", lambda x: aminmax(x), "`aminmax` of all elements.")
rows("_aminmax.dim", lambda x, dim, keepdim: aminmax(x, dim=dim, keepdim=keepdim), "`aminmax` along a dimension.")
