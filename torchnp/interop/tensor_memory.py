"""The public `to_numpy`: the memory of tensors as arrays, on the CPU or on a device with memory in this process."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from torchnp.interop import convert

READERS: dict[str, Callable[[torch.Tensor], np.ndarray]] = {}
"""Functions that return a tensor's memory as an array, by device type; a device adds its function."""


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """Return the tensor's memory as an array of the same shape and strides.

    Nothing is copied, so a write on either side is visible on the other. Expanded tensors give arrays with a stride of
    0, which are writable as in torch. There are two exceptions, which are copied: tensors whose conjugate or negative
    bit is set (as in ``z.conj()`` and ``z.conj().imag``), and the zero tensors of forward-mode AD.

    Parameters
    ----------
    tensor : torch.Tensor
        A dense tensor of any shape, on the CPU or on the device ``np``. It may require grad; the array takes no part in
        autograd.

    Returns
    -------
    numpy.ndarray
        Always an array (0-d for a 0-d tensor). bfloat16, complex32 and float8 dtypes become ml_dtypes' types.

    Raises
    ------
    TypeError
        ``tensor`` is not a tensor, is a tensor subclass that handles its own operators, is sparse, quantized or nested,
        or has a dtype that NumPy and ml_dtypes lack.
    RuntimeError
        The data is not in CPU memory (other devices, ``meta``, tensors inside ``vmap`` or ``grad``).
    """
    if type(tensor) in convert.PLAIN_TENSORS and tensor.layout is torch.strided:
        reader = READERS.get(tensor.device.type)
        if reader is not None:
            return reader(tensor)
    return convert.to_numpy(tensor)
