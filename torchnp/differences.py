"""The form of a difference between NumPy and torch, and how it is run; the rows are in `torchnp.catalogue`.

A `Difference` holds one expression for torch, one for NumPy and one for the kernel of this package, and the values
that the first two gave when it was written down. `run` evaluates them again; the tests check that both values still
hold, that they differ, and that the kernel gives torch's.

Expressions see ``torch``, ``np``, ``scipy``, ``aten`` (`torchnp.aten`) and ``table`` (`torchnp.table`).
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
        Python expressions of the same intent.
    torch_value, numpy_value : str
        What the first two give, as `show` prints it.
    why : str
        What to do when moving code from one to the other.
    in_numpy, in_torch : str
        Expressions of NumPy that give torch's value, and of torch that give NumPy's; ``""`` where there is no short one.
    array_api : str
        The array API standard's spelling of the operation, ``""`` where it has none; ``xp`` is the namespace.
    where : str
        The versions of a library that differ, as in ``"numpy<2.5"``; in others its value is torch's. ``""`` is all.
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
        """Whether the library that is installed is one of those that differ."""
        if not self.where:
            return True
        library, since, version = re.split("(>=|<)", self.where)
        first, second, *_ = importlib.import_module(library).__version__.split(".")
        return ((int(first), int(second)) < tuple(map(int, version.split(".")))) == (since == "<")


def show(value: Any) -> str:
    """A result as text, alike for tensors, arrays and numbers: ``float32[2] [1, 2.5]``."""
    if isinstance(value, Exception):
        words = str(value).partition("\n")[0]
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
    # ufunc type errors and AxisError are private subclasses of public ones
    return next((c.__name__ for c in cls.__mro__ if c.__module__ == "builtins"), cls.__name__)


def _numbers(values: Any, digits: int) -> str:
    if isinstance(values, list):
        return "[" + ", ".join(_numbers(v, digits) for v in values) + "]"
    if isinstance(values, bool):
        return str(values)
    return f"{values:.{digits}g}" if isinstance(values, (float, complex)) else str(values)


def evaluate(expression: str, **names: Any) -> str:
    """The value of an expression as `show` prints it; an exception counts as a value."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return show(eval(expression, dict(names)))
        except FAILURES as error:
            return show(error)


# What a refusal of dtypes speaks of, in any of torch's wordings.
_OF_DTYPES = re.compile(
    r"(?i)d?types?\b|not implemented for|floating|complex|bool|integ|\b(long|float|double|half|byte)\b"
)
# Of these NumPy refuses some calls and computes others: an axis of a 0-d array, a number out of range.
_NUMPY_VARIES = ("zero-dim-axis", "number-wraps", "fill-overflow")


def shows(difference: Difference, torch_value: str, numpy_value: str) -> bool:
    """Whether two values part in the manner of a difference: both raise where its own do, and for a reason of its kind."""
    refused = ["Error:" in v for v in (torch_value, numpy_value)]
    own = ["Error:" in v for v in (difference.torch_value, difference.numpy_value)]
    if refused[0] != own[0] or (refused[1] != own[1] and difference.id not in _NUMPY_VARIES):
        return False
    words = [value.partition(":")[2] for value in (difference.torch_value, torch_value)]
    of_shapes_too = difference.id == "prims-no-promotion"
    if own[0] and _OF_DTYPES.search(words[0]) and not _OF_DTYPES.search(words[1]) and not of_shapes_too:
        return False
    # A tuple of one array beside that array shows how results are packed, and nothing else.
    packed = re.fullmatch(r"\((.*)\)", torch_value)
    return not (packed and packed[1] == numpy_value and difference.torch_value[:1] != "(")


def run(difference: Difference, which: Iterable[str] = ("torch", "numpy", "kernel")) -> dict[str, str]:
    """Evaluate a difference's expressions, by their fields' names; without torch's ``which`` needs no torch."""
    import torchnp

    names: dict[str, Any] = {"np": np, "aten": torchnp.aten, "table": torchnp.table, "torchnp": torchnp}
    with contextlib.suppress(ImportError):
        import ml_dtypes

        names["ml_dtypes"] = ml_dtypes
    with contextlib.suppress(ImportError):
        import scipy

        names["scipy"] = scipy  # its modules are loaded when an expression names them
    if {"torch", "in_torch"} & {*which}:
        import torch

        names["torch"] = torch
    return {side: evaluate(getattr(difference, side), **names) for side in which}
