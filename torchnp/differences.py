"""The class `Difference` and the function `run`; the rows are in `torchnp.difference_catalogue`.

A `Difference` has an expression for torch, one for NumPy and one for this package's kernel, and the recorded values of
the first two. `run` evaluates the expressions again. The tests check that both values are still right, that they
differ, and that the kernel's value is torch's.

Expressions can use ``torch``, ``np``, ``scipy``, ``ml_dtypes``, ``torchnp``, ``aten`` and ``table``.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from torchnp.core.registry import FAILURES
from torchnp.core.target import since


@dataclass(frozen=True)
class Difference:
    """One way in which NumPy and torch disagree.

    Attributes
    ----------
    id : str
        Kebab-case name; kernels list it in ``differs=``.
    title : str
        torch's behaviour in one line.
    torch, numpy, kernel : str
        Python expressions for the same computation.
    torch_value, numpy_value : str
        The values of ``torch`` and ``numpy``, as `show` prints them.
    why : str
        Advice for moving code from one library to the other.
    in_numpy, in_torch : str
        A NumPy expression with torch's value, and a torch expression with NumPy's; ``""`` if there is no short one.
    array_api : str
        The array API standard's expression for the computation, in which ``xp`` is the namespace; ``""`` if there is
        none.
    where : str
        The versions that differ, as in ``"numpy<2.5"`` or ``"torch<2.14"``; with others, both libraries give the other
        library's value. ``""`` means all.
    """

    id: str
    title: str
    torch: str
    torch_value: str
    numpy: str
    numpy_value: str
    kernel: str
    why: str = ""
    array_api: str = ""
    where: str = ""
    in_numpy: str = ""
    in_torch: str = ""

    def __str__(self) -> str:
        return (
            f"{self.id}: {self.title}\n"
            f"  torch  {self.torch}\n         -> {self.torch_value}\n"
            f"  numpy  {self.numpy}\n         -> {self.numpy_value}"
            + (f"  ({self.where})" if self.where else "")
            + (f"\n  array API  {self.array_api}" if self.array_api else "")
        )

    def holds(self) -> bool:
        """Return whether the installed version of NumPy or SciPy, or the target version of torch, is one that differs."""
        if not self.where:
            return True
        library, sign, version = re.split("(>=|<)", self.where)
        if library == "torch":
            return since(version) == (sign == ">=")
        first, second, *_ = importlib.import_module(library).__version__.split(".")
        return ((int(first), int(second)) < tuple(map(int, version.split(".")))) == (sign == "<")

    @property
    def of_torch(self) -> bool:
        """Whether the difference depends on torch's version; versions without it give NumPy's value."""
        return self.where.startswith("torch")


# Parts of Python's own messages that only some versions have; the groups are the parts that all versions have.
_OF_PYTHON = re.compile(r"^float (division by zero)$|(?<=too many values to unpack \(expected )(\d+), got \d+(?=\))")


def show(value: Any) -> str:
    """Return a result as text, in one format for tensors and arrays: ``float32[2] [1, 2.5]``."""
    if isinstance(value, Exception):
        words = _OF_PYTHON.sub(lambda m: m[1] or m[2], str(value).partition("\n")[0])
        return f"{_public(type(value))}: {words}"
    if isinstance(value, (tuple, list)):
        return "(" + ", ".join(map(show, value)) + ")"
    if hasattr(value, "detach"):
        dtype = str(value.dtype).removeprefix("torch.")
        shape, values = tuple(value.shape), value.tolist()
    elif isinstance(value, (np.ndarray, np.generic)):
        dtype, shape = str(value.dtype), value.shape
        values = value.astype(np.float32).tolist() if value.dtype.kind == "V" else value.tolist()
    else:
        return repr(value)
    text = _numbers(values, 16 if dtype in ("float64", "complex128", "int64") else 7)
    return f"{dtype}[{', '.join(map(str, shape))}] {text}"


def _public(cls: type) -> str:
    # TypeErrors of ufuncs and AxisError are private subclasses of public classes
    return next((c.__name__ for c in cls.__mro__ if c.__module__ == "builtins"), cls.__name__)


def _numbers(values: Any, digits: int) -> str:
    if isinstance(values, list):
        return "[" + ", ".join(_numbers(v, digits) for v in values) + "]"
    if isinstance(values, bool):
        return str(values)
    return f"{values:.{digits}g}" if isinstance(values, (float, complex)) else str(values)


def evaluate(expression: str, **names: Any) -> str:
    """Evaluate an expression and return its value as `show` prints it; an exception counts as a value."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return show(eval(expression, dict(names)))
        except FAILURES as error:
            return show(error)


# Words that mark an error message as one about dtypes, in any of torch's wordings.
_OF_DTYPES = re.compile(
    r"(?i)d?types?\b|not implemented for|floating|complex|bool|integ|\b(long|float|double|half|byte)\b"
)
# Differences in which NumPy refuses some calls and computes others: an axis of a 0-d array, a number out of range.
_NUMPY_VARIES = ("zero-dim-axis", "number-wraps", "fill-overflow")


def shows(difference: Difference, torch_value: str, numpy_value: str) -> bool:
    """Return whether two values show this difference.

    Each side must raise if it does in the catalogue, and for a similar reason.
    """
    refused = ["Error:" in v for v in (torch_value, numpy_value)]
    own = ["Error:" in v for v in (difference.torch_value, difference.numpy_value)]
    if refused[0] != own[0] or (refused[1] != own[1] and difference.id not in _NUMPY_VARIES):
        return False
    words = [value.partition(":")[2] for value in (difference.torch_value, torch_value)]
    of_shapes_too = difference.id == "prims-no-promotion"
    if own[0] and _OF_DTYPES.search(words[0]) and not _OF_DTYPES.search(words[1]) and not of_shapes_too:
        return False
    # If one value is an array and the other a tuple of that array, only the packing of results differs.
    packed = re.fullmatch(r"\((.*)\)", torch_value)
    return not (packed and packed[1] == numpy_value and difference.torch_value[:1] != "(")


def run(difference: Difference, which: Iterable[str] = ("torch", "numpy", "kernel")) -> dict[str, str]:
    """Evaluate a difference's expressions, by field name.

    torch is needed only if ``which`` includes torch expressions.
    """
    import torchnp

    names: dict[str, Any] = {"np": np, "aten": torchnp.aten, "table": torchnp.table, "torchnp": torchnp}
    with contextlib.suppress(ImportError):
        import ml_dtypes

        names["ml_dtypes"] = ml_dtypes
    with contextlib.suppress(ImportError):
        import scipy

        names["scipy"] = scipy  # submodules are loaded when an expression names them
    if {"torch", "in_torch"} & {*which}:
        import torch

        names["torch"] = torch
    return {side: evaluate(getattr(difference, side), **names) for side in which}
