"""`numpy.fft` on tensors: NumPy's own code, which calls torch's one-dimensional transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchnp.np.arrays import on_arrays
from torchnp.np.axes import normal_axis
from torchnp.np.dtypes import cast, numpy_dtype, result_dtype, torch_dtype
from torchnp.np.rebind_numpy_functions import OVERRIDES, rebound_row
from torchnp.np.ufunc import write

_NORMS = {None: "backward", "backward": "backward", "ortho": "ortho", "forward": "forward"}
_SWAPPED = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
UNDONE = "fft-of-integers no-half-fft fft-out-kind fft-out-exact fft-out-sized fft-of-nothing"


def raw_fft(
    a: Tensor, n: int, axis: int, is_real: bool, is_forward: bool, norm: Any, out: Tensor | None = None
) -> Tensor:
    """Do what NumPy's private function of this name does: transform ``n`` points along an axis."""
    if n < 1:
        raise ValueError(f"Invalid number of FFT data points ({n}) specified.")
    if norm not in _NORMS:
        raise ValueError(f'Invalid norm value {norm}; should be "backward","ortho" or "forward".')
    place = normal_axis(axis, a.dim())
    sizes = n // 2 + 1 if is_real and is_forward else n
    shape = (*a.shape[:place], sizes, *a.shape[place + 1 :])
    if out is not None and (out.dim() != a.dim() or out.shape[place] != sizes):
        raise ValueError("output array has wrong shape.")
    if is_real and is_forward and a.is_complex():
        name = "rfft_n_even" if n % 2 == 0 else "rfft_n_odd"
        raise TypeError(f"ufunc '{name}' did not contain a loop with signature matching types {numpy_dtype(a.dtype)!r}")
    if out is not None:
        _check_out(a, out, n, sizes, is_real, is_forward)
        if tuple(out.shape) != shape:
            raise ValueError("operands could not be broadcast together with remapped shapes")
    function = (
        (torch.fft.rfft if is_forward else torch.fft.irfft)
        if is_real
        else (torch.fft.fft if is_forward else torch.fft.ifft)
    )
    found = function(_ready(a, is_real and is_forward), n, place, _NORMS[norm]) if a.numel() else torch.zeros(
        shape, dtype=_result(a, is_real and not is_forward), device=a.device)  # fmt: skip
    if is_real and not is_forward and a.dtype == torch.float16:
        found = found.to(torch.float16)  # NumPy's result has the real dtype of the argument
    if out is None:
        return found
    return write(out, found)


def _check_out(a: Tensor, out: Tensor, n: int, sizes: int, is_real: bool, is_forward: bool) -> None:
    """Raise NumPy's error for an ``out=`` that cannot hold the result's dtype, by running NumPy on one row."""
    found = _result(a, is_real and not is_forward)
    if not np.can_cast(numpy_dtype(found), numpy_dtype(out.dtype), "same_kind"):
        numpys = getattr(np.fft, ("i" * (not is_forward)) + ("rfft" if is_real else "fft"))
        numpys(np.zeros(n, numpy_dtype(a.dtype)), n, out=np.zeros(sizes, numpy_dtype(out.dtype)))


def _result(a: Tensor, real: bool) -> torch.dtype:
    found = result_dtype(a.dtype, complex)
    return torch.float32 if real and found == torch.complex64 else torch.float64 if real else found


def _ready(a: Tensor, real: bool) -> Tensor:
    """Convert integers to float64 and half types to float32."""
    return cast(
        a,
        torch_dtype(
            np.result_type(np.float32 if a.dtype in (torch.float16,) else numpy_dtype(a.dtype), 1.0 if real else 1j)
        ),
    )


OVERRIDES["_raw_fft"] = on_arrays(raw_fft)

rebound_row("fft.fft fft.ifft", f"{UNDONE} fft-normalization")
rebound_row("fft.rfft fft.irfft", f"{UNDONE} fft-out-casts")
rebound_row("fft.hfft fft.ihfft", f"{UNDONE} fft-out-ignored")
rebound_row("fft.fftn fft.ifftn fft.rfftn", f"{UNDONE} fft-dims-unique")
rebound_row("fft.irfftn", f"{UNDONE} irfft-minus-1")
rebound_row("fft.fft2 fft.ifft2 fft.rfft2 fft.irfft2", UNDONE)
rebound_row("fft.fftfreq fft.rfftfreq", "fftfreq-of-nothing fftfreq-no-spacing default-dtype")
rebound_row("fft.fftshift fft.ifftshift")
