"""dtypes of NumPy and torch, and NumPy's promotion (NEP 50): NumPy itself chooses the dtypes of each ufunc loop."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch import Tensor

NUMPY_OF: dict[torch.dtype, np.dtype] = {
    torch.bool: np.dtype(bool),
    **{getattr(torch, n): np.dtype(n) for n in ("int8", "int16", "int32", "int64")},
    **{getattr(torch, n): np.dtype(n) for n in ("uint8", "uint16", "uint32", "uint64")},
    **{getattr(torch, n): np.dtype(n) for n in ("float16", "float32", "float64", "complex64", "complex128")},
    torch.bfloat16: np.dtype(ml_dtypes.bfloat16),
}
TORCH_OF = {n: t for t, n in NUMPY_OF.items()}
HALVES = (torch.float16, torch.bfloat16)
WIDE_UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)  # torch registers few kernels for these


def numpy_dtype(dtype: Any) -> np.dtype:
    """Return NumPy's dtype; ``dtype`` is torch's, NumPy's, or anything that `numpy.dtype` takes."""
    if isinstance(dtype, torch.dtype):
        if dtype not in NUMPY_OF:
            raise TypeError(f"NumPy has no {dtype}")
        return NUMPY_OF[dtype]
    if isinstance(dtype, type) and issubclass(dtype, np.dtype):  # a class such as numpy.dtypes.Float64DType
        return dtype()  # type: ignore[call-overload]
    return np.dtype(dtype)


def torch_dtype(dtype: Any) -> torch.dtype:
    """Return torch's dtype; raise a TypeError for dtypes that tensors don't have (``longdouble``, ``object``)."""
    if isinstance(dtype, torch.dtype):
        return dtype
    return _torch_dtype(numpy_dtype(dtype))


@functools.cache
def _torch_dtype(dtype: np.dtype) -> torch.dtype:
    known = np.dtype(f"{dtype.kind}{dtype.itemsize}") if dtype.kind in "iu" else dtype
    found = TORCH_OF.get(known.newbyteorder("="))
    if found is None:
        raise TypeError(f"tensors have no dtype {dtype}")
    return found


def kind(dtype: torch.dtype) -> str:
    """Return NumPy's letter for a dtype's kind: b, i, u, f or c."""
    if dtype in HALVES:
        return "f"
    return numpy_dtype(dtype).kind


def is_weak(x: Any) -> bool:
    """Return whether a value is a Python number, which adopts the dtype of the arrays (NEP 50)."""
    return type(x) in (int, float, complex)


def operand_key(x: Any) -> Any:
    """Return the part of an operand that promotion depends on: its dtype, or the type of a Python number."""
    return x.dtype if isinstance(x, Tensor) else type(x)


def _as_numpy(key: Any) -> Any:
    return NUMPY_OF.get(key, key) if isinstance(key, torch.dtype) else key


@torch.compiler.assume_constant_result
def loop_dtypes(
    ufunc: str,
    operands: tuple[Any, ...],
    outs: tuple[Any, ...],
    dtype: torch.dtype | None = None,
    casting: str = "same_kind",
    reduction: bool = False,
) -> tuple[torch.dtype, ...]:
    """Return the dtypes of inputs and outputs of the loop that NumPy runs, or raise NumPy's own error.

    Parameters
    ----------
    ufunc : str
        The public name, ``"add"`` or ``"linalg.vecdot"``.
    operands : tuple of torch.dtype or type
        A dtype, or ``int``, ``float`` or ``complex`` for a Python number.
    outs : tuple of torch.dtype or None
        The dtypes of ``out=``.
    dtype : torch.dtype, optional
        The dtype of the loop that the caller requests.
    casting : str
        NumPy's casting rule.
    reduction : bool
        Whether the loop is that of ``ufunc.reduce``.
    """
    return _loop(ufunc, operands, outs, dtype, casting, reduction)


@functools.cache
def _loop(ufunc: str, operands: Any, outs: Any, dtype: Any, casting: str, reduction: bool) -> tuple[torch.dtype, ...]:
    function: Any = np
    for part in ufunc.split("."):
        function = getattr(function, part)
    wanted = None if dtype is None else (*(None,) * function.nin, *(NUMPY_OF[dtype],) * function.nout)
    if reduction and wanted is not None:
        wanted = (wanted[-1], None, None)
    given = tuple(None if o is None else _as_numpy(o) for o in (*operands, *outs))
    asked = {} if wanted is None else {"signature": wanted}
    found = function.resolve_dtypes(given, casting=casting, reduction=reduction, **asked)
    return tuple(torch_dtype(d) for d in found)


@torch.compiler.assume_constant_result
def result_dtype(*operands: Any) -> torch.dtype:
    """Return `numpy.result_type` of dtypes and types of Python numbers, as torch's dtype."""
    return _result(operands)


@functools.cache
def _result(operands: tuple[Any, ...]) -> torch.dtype:
    return torch_dtype(np.result_type(*(o(0) if o in (int, float, complex) else _as_numpy(o) for o in operands)))


@torch.compiler.assume_constant_result
def can_cast(source: torch.dtype, target: torch.dtype, casting: str) -> bool:
    """Return `numpy.can_cast`."""
    return bool(np.can_cast(numpy_dtype(source), numpy_dtype(target), casting))  # type: ignore[arg-type]


# ---------------------------------------------------------------- values as tensors


def as_tensor(x: Any, dtype: Any = None, like: Tensor | None = None) -> Tensor:
    """Return a value as a tensor with the dtype that NumPy gives it: 0.5 is float64, 1 is int64.

    Parameters
    ----------
    x : Tensor, ndarray, number or nested sequence of them
        A tensor is returned itself unless ``dtype`` differs from its dtype.
    dtype : dtype, optional
        torch's or NumPy's.
    like : Tensor, optional
        A new tensor is on the device of this tensor.
    """
    if isinstance(x, Tensor):
        return x if dtype is None else cast(x, torch_dtype(dtype))
    if isinstance(x, (list, tuple)) and _holds_tensors(x):
        parts = [as_tensor(part, like=like) for part in x]
        common = torch_dtype(dtype) if dtype is not None else result_dtype(*(p.dtype for p in parts))
        return torch.stack([cast(p, common) for p in parts])
    if type(x) in (bool, int, float, complex):
        natural = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}[type(x)]
        if type(x) is int and (dtype is not None or not -(2**63) <= x < 2**63):
            return number(x, torch_dtype(dtype) if dtype is not None else torch_dtype(np.asarray(x).dtype), like)
        return torch.tensor(x, dtype=torch_dtype(dtype) if dtype is not None else natural, device=_device(like))
    array = np.asarray(x, None if dtype is None else numpy_dtype(dtype))
    torch_dtype(array.dtype)
    native = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    return from_array(native, like)


def from_array(array: np.ndarray, like: Tensor | None = None) -> Tensor:
    """Return an array as a tensor, on the same memory unless a stride is negative."""
    if array.dtype.kind in "iu":  # `long long` and `long` are different dtypes, and torch knows only one of them
        array = array.view(f"{array.dtype.kind}{array.dtype.itemsize}")
    if array.dtype == NUMPY_OF[torch.bfloat16]:
        found = torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    elif any(s < 0 or s % array.itemsize for s in array.strides) or not array.flags.writeable:
        found = torch.from_numpy(array.copy())
    else:
        found = torch.from_numpy(array)
    device = _NEW_BUFFERS.device if like is None else _device(like)
    return found if device is None else found.to(device)


def _device(like: Tensor | None) -> torch.device | None:
    return None if like is None or is_remote(like) else like.device


class _NewBuffers(threading.local):
    session: Any = None
    device: torch.device | None = None


_NEW_BUFFERS = _NewBuffers()


@contextlib.contextmanager
def created_beside(arguments: Any) -> Iterator[None]:
    """Inside this context, put new buffers of NumPy's own code where the tensors in the arguments are.

    That is the server of a handle, or a device. Without tensors in the arguments, an outer context stays in force.
    """
    tensors = list(_tensors(arguments))
    before = _NEW_BUFFERS.session, _NEW_BUFFERS.device
    if tensors:
        _NEW_BUFFERS.session = next((x._session for x in tensors if is_remote(x)), None)  # type: ignore[attr-defined]
        elsewhere = (x.device for x in tensors if not is_remote(x) and x.device.type not in ("cpu", "meta"))
        _NEW_BUFFERS.device = next(elsewhere, None)
    try:
        with _NEW_BUFFERS.device or contextlib.nullcontext():
            yield
    finally:
        _NEW_BUFFERS.session, _NEW_BUFFERS.device = before


def _tensors(x: Any) -> Iterator[Tensor]:
    if isinstance(x, Tensor):
        yield x
    elif isinstance(x, (list, tuple, dict)):
        for part in x.values() if isinstance(x, dict) else x:
            yield from _tensors(part)


def beside(x: Tensor) -> Tensor:
    """Send a new buffer to the server that `created_beside` has set; without a server, return it unchanged."""
    return x if _NEW_BUFFERS.session is None else _NEW_BUFFERS.session.send(x)


def is_remote(x: Tensor) -> bool:
    """Return whether a tensor is a handle, whose values are on a server; handles and plain tensors can be combined."""
    return hasattr(x, "publish")


def _holds_tensors(x: Any) -> bool:
    return any(isinstance(part, Tensor) or (isinstance(part, (list, tuple)) and _holds_tensors(part)) for part in x)


def number(x: Any, dtype: torch.dtype, like: Tensor | None = None) -> Tensor:
    """Return a Python number as a 0-d tensor of a loop's dtype; raise NumPy's error for an integer out of range."""
    if type(x) is int and kind(dtype) in "iu":
        bounds = np.iinfo(numpy_dtype(dtype))
        if not bounds.min <= x <= bounds.max:
            raise OverflowError(f"Python integer {x} out of bounds for {numpy_dtype(dtype)}")
        if dtype == torch.uint64:
            return torch.tensor(x - 2**64 if x >= 2**63 else x, device=_device(like)).view(torch.uint64)
    return torch.tensor(x, dtype=dtype, device=_device(like))


def cast(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Cast as C and `ndarray.astype` do; a complex number's imaginary part is dropped without a warning."""
    if x.dtype == dtype:
        return x
    if x.dtype.is_complex and not dtype.is_complex:
        return (x != 0) if dtype == torch.bool else torch.real(x).to(dtype)
    if x.dtype in (torch.float16, torch.float32, torch.float64) and dtype in WIDE_UNSIGNED:
        # Negative numbers wrap by a conversion through int64, as compilers do it. Only uint64 can hold larger numbers.
        if dtype != torch.uint64:
            return x.to(torch.int64).to(dtype)
        big = x >= 2.0**63
        wrapped = torch.where(big, x.double() - 2.0**63, x.double()).to(torch.int64)
        return torch.where(big, wrapped ^ torch.iinfo(torch.int64).min, wrapped).view(torch.uint64)
    return x.to(dtype)


# ---------------------------------------------------------------- uint16, uint32 and uint64 in int64

_SIGN = torch.iinfo(torch.int64).min


def carried(x: Tensor) -> Tensor:
    """Return a tensor in a dtype for which torch has kernels: uint16 and uint32 as int64, uint64 as int64's bits."""
    if x.dtype == torch.uint64:
        return x.view(torch.int64) if x.dim() or not x.requires_grad else x.to(torch.int64)
    return x.to(torch.int64) if x.dtype in WIDE_UNSIGNED else x


def carried_ordered(x: Tensor) -> Tensor:
    """Do what `carried` does, but keep the order of the values: flip the highest bit of uint64."""
    return carried(x) ^ _SIGN if x.dtype == torch.uint64 else carried(x)


def uncarried(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert a result on `carried` tensors back to its dtype, modulo the dtype's range; return others unchanged."""
    if x.dtype != torch.int64 or dtype not in WIDE_UNSIGNED:
        return x
    return x.view(torch.uint64) if dtype == torch.uint64 else x.to(dtype)


def uncarried_ordered(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert a result on `carried_ordered` tensors back to its dtype."""
    return uncarried(x ^ _SIGN, dtype) if dtype == torch.uint64 and x.dtype == torch.int64 else uncarried(x, dtype)


def values_are_here(*tensors: Any) -> bool:
    """Return whether values may be read: not under torch.compile, and not those of handles, fake or batched tensors."""
    if torch.compiler.is_compiling():
        return False
    return all(
        type(t) in (Tensor, torch.nn.Parameter) and t.device.type != "meta" for t in tensors if isinstance(t, Tensor)
    )
