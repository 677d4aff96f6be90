"""Convert torch tensors to NumPy arrays and back, on the same memory.

The dtypes that NumPy lacks (bfloat16, complex32 and the float8s) are converted to ml_dtypes' dtypes by bit views.
The functions here are for CPU tensors. The public `torchnp.interop.to_numpy`, which also reads tensors of a device, is
in `tensor_memory`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from torchnp import dtypes
from torchnp.core.registry import TOO_LARGE
from torchnp.interop._private import is_zero
from torchnp.kernels.lu import LinAlgError
from torchnp.layout.stride_rules import has_strides

TORCH_DTYPE: dict[np.dtype, torch.dtype] = {
    dt: getattr(torch, str(dt)) for dt in dtypes.STORED if hasattr(torch, str(dt))
}
NUMPY_DTYPE: dict[torch.dtype, np.dtype] = {t: dt for dt, t in TORCH_DTYPE.items()}
# torch's operators return a dtype as its integer code
DTYPE_CODE: dict[np.dtype, int] = {dt: torch.ops.aten.promote_types.default(t, t) for dt, t in TORCH_DTYPE.items()}

# Dtypes that NumPy lacks are passed as integers of the same size.
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}
_TO_BITS = {t: (_BITS[dt.itemsize], dt) for t, dt in NUMPY_DTYPE.items() if dt.type.__module__ != "numpy"}
_FROM_BITS = {dt: (NUMPY_DTYPE[bits], t) for t, (bits, dt) in _TO_BITS.items()}
NATIVE = {dt: t for dt, t in TORCH_DTYPE.items() if dt not in _FROM_BITS}

# The names below implement `kernel_runner.Memory` for the CPU.
DEVICE = "cpu"
SPOKEN = "the CPU"


def check_index(device: torch.device) -> None:
    """Accept any index, because torch does so for the CPU."""


PLAIN_TENSORS = {torch.Tensor, torch.nn.Parameter, torch.nn.Buffer}
_numpy = torch.Tensor.numpy
_view = torch.Tensor.view
_from_numpy = torch.from_numpy


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """Do what `torchnp.interop.to_numpy` does, for CPU tensors only."""
    if type(tensor) not in PLAIN_TENSORS:
        tensor = _plain(tensor)
    try:
        return share(tensor)
    except (TypeError, RuntimeError):
        return share(_readable(tensor))


def share(tensor: torch.Tensor) -> np.ndarray:
    if tensor.requires_grad:
        tensor = tensor.detach()
    bits = _TO_BITS.get(tensor.dtype)
    array = _numpy(tensor) if bits is None else _numpy(_view(tensor, bits[0])).view(bits[1])
    if not array.size:  # torch gives empty arrays strides of 0; keep the tensor's
        strides = [s * array.itemsize for s in tensor.stride()]
        return np.ndarray(array.shape, array.dtype, array, strides=strides)
    return array


def _plain(tensor: Any) -> torch.Tensor:
    """Return a plain tensor for a subclass that only decorates one; refuse one that handles its own operators."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"to_numpy expects a torch.Tensor, got {type(tensor).__name__}")
    if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        raise TypeError(
            f"to_numpy: {type(tensor).__name__} is a tensor subclass that handles its own operators and has no plain "
            "memory to share; convert it to a torch.Tensor first"
        )
    with torch.DisableTorchFunctionSubclass():
        return tensor.as_subclass(torch.Tensor)


def _readable(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor that can be read as an array: resolve its bits, or a zero tensor.

    Raise an error if there is none.
    """
    if tensor.is_quantized:
        raise TypeError(f"to_numpy: a quantized tensor ({tensor.dtype}) has no array form; call dequantize() first")
    if tensor.is_nested:
        raise TypeError("to_numpy: a nested tensor has no array form; convert its unbind() parts, or pad it first")
    if tensor.layout != torch.strided:
        raise TypeError(f"to_numpy: a tensor of layout {tensor.layout} has no array form; call to_dense() first")
    if tensor.device.type != "cpu":
        hint = "a meta tensor has no data" if tensor.is_meta else "move it with cpu() first"
        raise RuntimeError(f"to_numpy: the tensor is on device {tensor.device}, not in CPU memory: {hint}")
    if tensor.dtype not in NUMPY_DTYPE:
        raise TypeError(f"to_numpy: no NumPy or ml_dtypes type for {tensor.dtype}")
    if torch.func.debug_unwrap(tensor, recurse=False) is not tensor:
        raise RuntimeError("to_numpy: a tensor inside a torch.func transform (vmap, grad) has no memory of its own")
    tensor = tensor.detach()
    if is_zero(tensor):
        return torch.zeros(tensor.shape, dtype=tensor.dtype)
    if tensor.is_conj() and tensor.dtype == torch.complex32:  # torch cannot resolve a conjugate of complex32
        pairs = torch.view_as_real(tensor.conj()).clone()
        pairs.view(torch.int16)[..., 1] ^= -0x8000  # flip the sign bit of the imaginary parts
        return torch.view_as_complex(pairs)
    return tensor.resolve_conj().resolve_neg()


def to_torch(array: np.ndarray | np.generic) -> torch.Tensor:
    """Return a tensor on the array's memory, with the same shape and strides.

    The memory is shared if torch can represent the array. These arrays are copied, without a warning: read-only arrays
    (torch tensors are always writable), negative strides, strides or addresses that are not multiples of the item size,
    byte order other than the machine's, and NumPy scalars.

    Parameters
    ----------
    array : numpy.ndarray or NumPy scalar
        An array of any dtype that torch has, including ml_dtypes' bfloat16, complex32 and float8s.

    Returns
    -------
    torch.Tensor
        A CPU tensor that does not require grad; 0-d for a 0-d array or a scalar.

    Raises
    ------
    TypeError
        The argument is not an array, or torch has no such dtype.
    """
    if not isinstance(array, np.ndarray):
        if not isinstance(array, np.generic):
            raise TypeError(f"to_torch expects a numpy.ndarray or a NumPy scalar, got {type(array).__name__}")
        array = np.array(array)
    dtype = array.dtype
    if dtype not in TORCH_DTYPE:
        if dtype.newbyteorder("=") not in TORCH_DTYPE:
            raise TypeError(f"to_torch: torch has no dtype for {dtype}")
        array = array.astype(dtype.newbyteorder("="))
    array = array.view(NUMPY_DTYPE[TORCH_DTYPE[array.dtype]])  # NumPy has a second int64 dtype, for C's long long
    if not array.flags.writeable or not array.flags.aligned or any(_awkward(s, array.itemsize) for s in array.strides):
        array = array.copy()
    if not array.size:
        strides = [s // array.itemsize for s in array.strides]
        return torch.empty_strided(array.shape, strides, dtype=TORCH_DTYPE[array.dtype])
    return wrap(array)


def _awkward(stride: int, itemsize: int) -> bool:
    return stride < 0 or stride % itemsize != 0


def wrap(array: np.ndarray) -> torch.Tensor:
    """Return a tensor on an array's memory.

    The array must be writable and have no negative strides: this is the fast path of `to_torch`.
    """
    if not array.size:
        dtype = TORCH_DTYPE[array.dtype]
        if not has_strides(array):
            return torch.empty(array.shape, dtype=dtype)
        return torch.empty_strided(array.shape, [s // array.itemsize for s in array.strides], dtype=dtype)
    bits = _FROM_BITS.get(array.dtype)
    if bits is None:
        return _from_numpy(array)
    if bits[1] is torch.complex32:
        warn_of_complex_halves()
    return _view(_from_numpy(array.view(bits[0])), bits[1])


def warn_of_complex_halves() -> None:
    """Trigger torch's warning about complex32 tensors, which torch issues once per process."""
    torch.empty(0, dtype=torch.complex32)


def address(array: np.ndarray) -> int:
    """Return the address of a non-empty array."""
    if array.flags.writeable and array.dtype in NATIVE:
        return _from_numpy(array).data_ptr()  # takes half the time of NumPy's interface
    return array.__array_interface__["data"][0]


def as_torchs(error: Exception) -> Exception:
    """Return a kernel's error as torch's own exception class, with torch's words."""
    if isinstance(error, MemoryError):  # callers of torch recognize an out-of-memory error by these words
        return RuntimeError(f"DefaultCPUAllocator: can't allocate memory: {error}")
    if type(error) is ValueError and str(error).startswith(TOO_LARGE):
        return RuntimeError("Storage size calculation overflowed")
    return torch.linalg.LinAlgError(str(error)) if isinstance(error, LinAlgError) else error
