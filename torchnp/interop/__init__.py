"""The bridge to torch: conversion on shared memory, and the mode that runs torch programs on torchnp."""

try:
    from torchnp.interop.convert import to_torch
    from torchnp.interop.mode import CrossCheckError, MissingKernelError, NumpyMode
    from torchnp.interop.tensor_memory import to_numpy
except ModuleNotFoundError as error:
    from torchnp.core.optional_deps import explained

    raise explained(error, "torchnp.interop", "torch", "torch") from None

__all__ = ["CrossCheckError", "MissingKernelError", "NumpyMode", "to_numpy", "to_torch"]
