"""What torchvision refuses, in its words."""

from __future__ import annotations

import numpy as np

FLOATS = ("float32", "float64")
HALF_TOO = (*FLOATS, "float16")
_NAMES = {
    "bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long",
    "float16": "Half", "bfloat16": "BFloat16", "complex32": "ComplexHalf", "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}  # fmt: skip


def check_that(holds: bool, what: str) -> None:
    """Refuse what torchvision refuses without words of its own."""
    more = "(Could this error message be improved?  If so, please report an enhancement request to PyTorch.)"
    check(holds, f"Expected {what} to be true, but got false.  {more}")


def check(holds: bool, words: str) -> None:
    """Refuse what does not hold, as torchvision's own checks do."""
    if not holds:
        raise RuntimeError(words)


def check_dtype(array: np.ndarray, kernel: str, names: tuple[str, ...]) -> None:
    """Refuse a dtype that torchvision's kernel is not compiled for."""
    name = array.dtype.name
    if name not in names:
        torchs = _NAMES.get(name, name.replace("uint", "UInt").replace("float8", "Float8"))
        raise NotImplementedError(f'"{kernel}" not implemented for {torchs!r}')


def check_rois(input: np.ndarray, rois: np.ndarray, kernel: str) -> None:
    """Refuse boxes that are not rows of an image's number and four coordinates, or of another dtype than the images."""
    words = "Tensor rois should have" if kernel.startswith("ps_") else "rois must have"
    check(rois.ndim == 2 and rois.shape[1] == 5, f"{words} shape as Tensor[K, 5]")
    torchs = {"float16": "Half", "float32": "Float", "float64": "Double"}
    check(
        input.dtype == rois.dtype,
        "Expected tensor for argument #1 'input' to have the same type as tensor for argument #2 'rois'; but type "
        f"torch.{torchs.get(input.dtype.name, input.dtype.name)}Tensor does not equal "
        f"torch.{torchs.get(rois.dtype.name, rois.dtype.name)}Tensor (while checking arguments for {kernel})",
    )
    if input.ndim != 4:
        raise IndexError(f"Dimension out of range: input has {input.ndim} dimensions, and needs 4")
