"""Views of another dtype, the parts of complex tensors, and conjugates.

torch conjugates and negates lazily, by a bit on a view. An array has no such bit, so these ops compute a new array.
"""

from __future__ import annotations

import numpy as np

from torchnp import dtypes as dt
from torchnp.core.checks import check, refuse_elements
from torchnp.core.registry import kernel
from torchnp.core.target import since
from torchnp.kernels._declare_rows import rows
from torchnp.kernels._memory import RARE, element_strides, storage_offset
from torchnp.kernels.view import check_matrix
from torchnp.layout.stride_rules import dense, empty, layout_of

ndarray = np.ndarray

# ---------------------------------------------------------------- dtype

_COMPLEX_OF = {dt.float16: dt.complex32, dt.float32: dt.complex64, dt.float64: dt.complex128}
_REAL_OF = {c: r for r, c in _COMPLEX_OF.items()} | {dt.bcomplex32: dt.bfloat16}


@kernel("view.dtype", like=np.ndarray.view, differs=["view-dtype-alignment"])
def view_dtype(self, dtype):
    """The same bytes in another dtype; the last dimension grows or shrinks with the item size."""
    dtype = dt.as_dtype(dtype)
    if dtype.itemsize != self.itemsize:
        if not self.size and self.base is None:
            self = dense(self)  # NumPy's empty arrays that own their memory have strides of 0
        _check_sizes(self, dtype)
    return self.view(dtype)


def _check_sizes(x: ndarray, dtype: np.dtype) -> None:
    """Raise torch's error for layouts that cannot be read as elements of another size."""
    how = f"to view {dt.scalar_name(x.dtype)} as {dt.scalar_name(dtype)} (different element sizes)"
    check(x.ndim > 0, f"self.dim() cannot be 0 {how}")
    strides, last, ratio = element_strides(x), x.shape[-1], dtype.itemsize // x.itemsize or 1
    check(last % ratio == 0, f"self.size(-1) must be divisible by {ratio} {how}, but got {last}")
    divisible = lambda name, n: check(n % ratio == 0, f"self.{name} must be divisible by {ratio} {how}, but got {n}")
    divisible("storage_offset()", storage_offset(x))
    check(strides[-1] == 1, f"self.stride(-1) must be 1 {how}, but got {strides[-1]}")
    for i, step in enumerate(strides[:-1]):
        divisible(f"stride({i})", step)


@kernel("view_as_real", like=np.ndarray.view)
def view_as_real(self):
    """The real and imaginary parts as a new last dimension of size 2."""
    real = _REAL_OF.get(self.dtype)
    check(real is not None, "view_as_real is only supported for complex tensors")
    return self[..., None].view(real)


@kernel("view_as_complex", like=np.ndarray.view, differs=["view-dtype-alignment"])
def view_as_complex(self):
    """Complex numbers whose real and imaginary parts are the two elements of the last dimension."""
    dtype = _COMPLEX_OF.get(self.dtype)
    if dtype is None:
        if since("2.15") and dt.is_complex(self.dtype):
            raise TypeError("view_as_complex is not supported for complex tensors")
        words = "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type:"
        raise RuntimeError(f"{words} {dt.scalar_name(self.dtype)}")
    check(self.ndim > 0, "Input tensor must have one or more dimensions")
    check(self.shape[-1] == 2, "Tensor must have a last dimension of size 2")
    strides = element_strides(self)
    even = all(s % 2 == 0 or n == 1 for s, n in zip(strides[:-1], self.shape))
    check(strides[-1] == 1 or (even and not self.size), "Tensor must have a last dimension with stride 1")
    check(even, "Tensor must have a stride divisible by 2 for all but last dimension")
    check(storage_offset(self) % 2 == 0, "Tensor must have a storage_offset divisible by 2")
    return self.view(dtype)[..., 0]


rows(
    "real", lambda x: view_as_real(x)[..., 0] if dt.is_complex(x.dtype) else x,
    "The real part as a view; a real tensor itself.", like=np.real,
)  # fmt: skip


@kernel("imag", like=np.imag, differs=["imag-of-real"])
def imag(self):
    """The imaginary part of a complex tensor."""
    check(dt.is_complex(self.dtype), "imag is not implemented for tensors with non-complex dtypes.")
    return view_as_real(self)[..., 1]


# ---------------------------------------------------------------- conjugates


def _beside(ufunc, x):
    """Apply a ufunc, keeping its operand's strides and gaps, as torch's view would."""
    out = empty(x.shape, x.dtype, layout_of(x)[1])
    return ufunc(x, out=out)


def _conj(x):
    return _beside(np.conjugate, x) if dt.is_complex(x.dtype) else x


_DOC = "The conjugate, computed eagerly: arrays lack the conjugate bit that torch sets on a view."
(conj,) = rows("_conj", _conj, _DOC, like=np.conjugate)
rows("conj", _conj, _DOC, like=np.conjugate, differs=["conj-of-real"])


def _negative(x):
    refuse_elements("neg_cpu", x, RARE | {dt.bool_})
    return _beside(np.negative, x) if x.size else x


rows(
    "_neg_view", _negative,
    "The negative, computed eagerly: arrays lack the negative bit that torch sets on a view.", like=np.negative,
)  # fmt: skip


def _adjoint(self, *, name):
    check_matrix(self, name)
    return conj(self.swapaxes(-2, -1) if self.ndim else self)


_SWAPPED = "The conjugate transpose over the last two dimensions."
rows("mH", _adjoint, _SWAPPED, name="mH", differs=["conj-of-real"])
rows("adjoint", _adjoint, _SWAPPED, name="adjoint()", differs=["conj-of-real"])


@kernel("matrix_H", differs=["conj-of-real"])
def matrix_h(self):
    """The conjugate transpose of a matrix."""
    if self.ndim not in (0, 2):
        hint = "" if self.ndim == 1 else " For batches of matrices, consider using tensor.mH"
        raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor.{hint}")
    return conj(self.T)
