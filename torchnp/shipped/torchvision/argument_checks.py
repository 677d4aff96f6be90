"""Checks of arguments that raise torchvision's own error messages."""

from __future__ import annotations

import numpy as np

FLOATS = ("float32", "float64")
HALF_TOO = (*FLOATS, "float16")
_NAMES = {
    "bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long",
    "float16": "Half", "float32": "Float", "float64": "Double", "bfloat16": "BFloat16", "complex32": "ComplexHalf",
    "complex64": "ComplexFloat", "complex128": "ComplexDouble",
}  # fmt: skip


def check_that(holds: bool, what: str) -> None:
    """Raise the default message of torch's checks, for a condition for which torchvision has no message of its own."""
    more = "(Could this error message be improved?  If so, please report an enhancement request to PyTorch.)"
    check(holds, f"Expected {what} to be true, but got false.  {more}")


def check(holds: bool, words: str) -> None:
    """Raise torchvision's error if a condition does not hold."""
    if not holds:
        raise RuntimeError(words)


def check_dtype(array: np.ndarray, kernel: str, names: tuple[str, ...]) -> None:
    """Refuse a dtype that torchvision's kernel is not compiled for."""
    if array.dtype.name not in names:
        raise NotImplementedError(f'"{kernel}" not implemented for {torchs_name(array)!r}')


def check_rois(input: np.ndarray, rois: np.ndarray, kernel: str) -> None:
    """Refuse boxes that are not rows of an image's index and four coordinates, or whose dtype is not the images'."""
    words = "Tensor rois should have" if kernel.startswith("ps_") else "rois must have"
    check(rois.ndim == 2 and rois.shape[1] == 5, f"{words} shape as Tensor[K, 5]")
    check_same(input, rois, "input", kernel)
    if input.ndim != 4:
        raise IndexError(f"Dimension out of range: input has {input.ndim} dimensions, and needs 4")


def check_same(array: np.ndarray, rois: np.ndarray, name: str, kernel: str) -> None:
    """Refuse boxes whose dtype differs from that of the array that is passed with them."""
    check(
        array.dtype == rois.dtype,
        f"Expected tensor for argument #1 '{name}' to have the same type as tensor for argument #2 'rois'; but type "
        f"torch.{torchs_name(array)}Tensor does not equal torch.{torchs_name(rois)}Tensor (while checking arguments for {kernel})",
    )


def check_data(array: np.ndarray, dtype: np.dtype | type) -> None:
    """Refuse an array whose dtype is not the one that the kernel reads."""
    wanted = np.empty(0, dtype)
    check(array.dtype == wanted.dtype, f"expected scalar type {torchs_name(wanted)} but found {torchs_name(array)}")


def check_rank(array: np.ndarray, ndim: int = 4) -> None:
    """Refuse an array with fewer dimensions than those whose sizes or strides a kernel reads."""
    n = array.ndim
    if n < ndim:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-max(n, 1)}, {max(n - 1, 0)}], but got {n})"
        )


def reshaped(array: np.ndarray, shape: tuple[int, ...], shown: tuple[int, ...]) -> np.ndarray:
    """Return an array in another shape; if its size does not fit, raise torch's error, which names the shape ``shown``."""
    check(
        array.size == np.prod(shape),
        f"shape '[{', '.join(map(str, shown))}]' is invalid for input of size {array.size}",
    )
    return array.reshape(shape)


def torchs_name(array: np.ndarray) -> str:
    """Return torch's name of an array's dtype."""
    name = array.dtype.name
    return _NAMES.get(name, name.replace("uint", "UInt").replace("float8", "Float8"))
