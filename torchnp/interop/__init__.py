"""Everything that joins torchnp to torch itself: conversion on shared memory, and the mode that runs torch on it."""

try:
    from torchnp.interop.convert import to_torch
    from torchnp.interop.elsewhere import to_numpy
    from torchnp.interop.mode import CrossCheckError, MissingKernelError, NumpyMode
except ModuleNotFoundError as error:
    from torchnp.extras import explained

    raise explained(error, "torchnp.interop", "torch", "torch") from None

__all__ = ["CrossCheckError", "MissingKernelError", "NumpyMode", "to_numpy", "to_torch"]
